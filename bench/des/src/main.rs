//! The models of `cargo xtask bench --only sim`, run once: prints `key value` lines.
//!
//! ```text
//! des network exitscope|nexosim <services>    a closed queueing network
//! des roundrobin exitscope|nexosim <events>   a preemptive scheduler, reduced to its queues
//! des machine <cpus> <vcpus> <milliseconds>   the same guests on exitscope's whole machine
//! des sweep <runs> <threads>                  so many runs of it, on threads
//! ```
//!
//! `../models.py` has the first two for SimPy.

mod machine;
mod network;
mod random;
mod roundrobin;

use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| usage());
    let start = Instant::now();
    let lines = match words[..] {
        ["network", "exitscope", services] => network::on_exitscope(number(services)),
        ["network", "nexosim", services] => network::on_nexosim(number(services)),
        ["roundrobin", "exitscope", events] => roundrobin::on_exitscope(number(events)),
        ["roundrobin", "nexosim", events] => roundrobin::on_nexosim(number(events)),
        ["machine", cpus, vcpus, millis] => machine::one(number(cpus) as u32, number(vcpus) as u32, number(millis)),
        ["sweep", runs, threads] => machine::sweep(number(runs), number(threads) as usize),
        _ => usage(),
    };
    println!("seconds {}", start.elapsed().as_secs_f64());
    lines.into_iter().for_each(|(key, value)| println!("{key} {value}"));
}

fn usage() -> ! {
    eprintln!("see the first lines of bench/des/src/main.rs");
    std::process::exit(2)
}

/// What a model prints.
type Lines = Vec<(&'static str, f64)>;
