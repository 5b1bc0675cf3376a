//! What the lab's run loop adds to each exit, against a bare C loop of KVM_RUN on the same vCPU: for `cargo xtask bench
//! --only lab`, which compiles the loop (bench/kvm-run/loop.c) into a shared object and gives its path.
//!
//! ```text
//! overhead loop.so ROUNDS EXITS ─► a line for each round: ns for each exit in C, and in the lab
//! ```

use exitscope_lab::abi::{ProgramStep, op};
use exitscope_lab::device_model::Device;
use exitscope_lab::run_loop::{Setup, parkers, serve};
use exitscope_lab::{IoAddress, LabMachine, LabVm, Payload, VmConfig, Watch, next_exit, step};
use exitscope_policy::Policies;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

type Loop = extern "C" fn(i32, i64) -> i64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [object, rounds, exits] = &arguments[..] else { return Err("overhead LOOP.SO ROUNDS EXITS".into()) };
    let (rounds, exits): (u32, u64) = (rounds.parse()?, exits.parse()?);
    let c_loop = load(object)?;
    let machine = LabMachine::new()?;
    let config = VmConfig { irqchip: false, ..VmConfig::new(1, machine.ring()) };
    let (vm, mut vcpus) = LabVm::new(&machine.kvm, config)?;
    let mut payload = Payload::new(&vm, &machine, &Policies::default(), 0);
    let out = ProgramStep { op: op::PORT_OUT, a: 1, b: 0x10, c: 1 };
    let steps = [ProgramStep { b: exits, ..step(op::REPEAT) }, out, step(op::AGAIN)];
    let devices = [Device::new(IoAddress::Port(0x10), IoAddress::Port(0x10), 0)];
    let parkers = parkers(1);
    let setup = Setup { devices: &devices, ..Setup::new(&machine, &parkers) };
    let mut turn = |in_c: bool| -> Result<f64, Box<dyn std::error::Error>> {
        payload.reset();
        payload.unload();
        payload.load(0, &steps, 1)?;
        let vcpu = &mut vcpus[0];
        vm.restart(vcpu)?;
        let watch = Watch::new(Duration::from_secs(60));
        let began = Instant::now();
        if in_c {
            let done = c_loop(vcpu.fd().as_raw_fd(), exits as i64);
            let took = began.elapsed();
            assert_eq!(done as u64, exits, "KVM_RUN failed");
            next_exit(vcpu, &watch)?;
            return Ok(took.as_nanos() as f64 / exits as f64);
        }
        serve(vcpu, &setup, &watch)?;
        // The end of the program is an exit more.
        Ok(began.elapsed().as_nanos() as f64 / (exits + 1) as f64)
    };
    turn(true)?;
    turn(false)?;
    for round in 0..rounds {
        let c_first = round % 2 == 0;
        let (first, second) = (turn(c_first)?, turn(!c_first)?);
        let (c, lab) = if c_first { (first, second) } else { (second, first) };
        println!("{c} {lab}");
    }
    Ok(())
}

fn load(object: &str) -> Result<Loop, Box<dyn std::error::Error>> {
    let path = CString::new(object)?;
    // SAFETY: the object is the compiled loop, which does nothing when it is loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err(format!("{object} cannot be loaded").into());
    }
    // SAFETY: the handle is open, and the name is a C string.
    let symbol = unsafe { libc::dlsym(handle, c"run".as_ptr()) };
    if symbol.is_null() {
        return Err(format!("{object} has no run()").into());
    }
    // SAFETY: `long run(int, long)` of loop.c is that on every 64-bit Linux.
    Ok(unsafe { std::mem::transmute::<*mut libc::c_void, Loop>(symbol) })
}
