use exitscope_trace::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut s = open(a[1].as_ref()).unwrap();
    let (mut ev, mut l) = (Vec::new(), exitscope_model::Ledger::default());
    while s.read(&mut ev, &mut l).unwrap() {}
    let i = s.info();
    let arch = a.get(3).map_or(i.arch.as_str(), |x| x);
    let h = PerfHead {
        arch,
        cpuid: "AuthenticAMD,23,1,2",
        hostname: &i.hostname,
        release: &i.release,
        cpus: 2,
        command: &a,
        names: &i.names,
    };
    let mut w = PerfWriter::create(a[2].as_ref(), &h).unwrap();
    for (t, n) in &i.comms {
        w.thread(Default::default(), exitscope_units::VmId(*t), exitscope_units::Tid(*t), n).unwrap();
    }
    let t = std::time::Instant::now();
    for e in &ev {
        w.event(e).unwrap();
    }
    println!("{:?} {:?}", w.finish().unwrap(), t.elapsed());
}
