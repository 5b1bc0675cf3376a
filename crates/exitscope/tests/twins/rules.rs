//! Traces for the rules that are modules: each what a host with the trouble records, a healthy host of the same guests, and one where
//! that advice would do harm or nothing.

use super::{IO, MISCONFIG, Trace, USER_IO, USER_MMIO, made};
use std::fmt::Write;

/// Recordings of one rule.
pub struct RuleTwins {
    /// The id of what it advises.
    pub advises: &'static str,
    /// What has it.
    pub what: &'static str,
    pub has_it: Trace,
    pub healthy: Trace,
    /// What looks alike, and why the advice is none for it.
    pub alike: Trace,
    pub because: &'static str,
}

pub fn all() -> Vec<RuleTwins> {
    vec![
        doorbell(),
        replaced_device(),
        crowded(),
        too_many_vcpus(),
        longer_polls(),
        shorter_polls(),
        guest_polls_itself(),
        successful_polls(),
        guest_that_polls(),
        idle_states(),
        virtual_cores(),
        virtual_cores_on_subcores(),
        counted_virtual_cores(),
        lock_holders(),
        spinning_in_vain(),
        split_locks(),
        bus_locks(),
    ]
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A thread, as the scheduler's events name it.
#[derive(Clone, Copy)]
pub struct Thread {
    name: &'static str,
    tid: u32,
}

const fn thread(name: &'static str, tid: u32) -> Thread {
    Thread { name, tid }
}

pub const VCPU_0: Thread = thread("CPU 0/KVM", 4_101);
const VCPU_1: Thread = thread("CPU 1/KVM", 4_102);
pub const MAKE: Thread = thread("make", 77);
pub const IDLE: Thread = thread("swapper", 0);

/// A trace of a PC with so many CPUs, as ftrace prints it.
pub struct Lines {
    cpus: u32,
    /// Each with its time in nanoseconds.
    lines: Vec<(u64, String)>,
}

impl Lines {
    pub fn of(cpus: u32) -> Lines {
        Lines { cpus, lines: Vec::new() }
    }

    fn event(&mut self, at: u64, thread: Thread, cpu: u32, says: &str) {
        let Thread { name, tid } = thread;
        let (seconds, nanos) = (100 + at / 1_000_000_000, at % 1_000_000_000);
        self.lines.push((at, format!("{name:>16}-{tid}  [{cpu:03}] d.... {seconds:>5}.{nanos:09}: {says}")));
    }

    /// vCPU 0 of a thread's VM leaves its guest.
    pub fn exit(&mut self, at: u64, thread: Thread, cpu: u32, reason: &str) {
        let words = "rip 0xffffffff81000000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";
        self.event(at, thread, cpu, &format!("kvm_exit: vcpu {} reason {reason} {words}", number(thread)));
    }

    pub fn enter(&mut self, at: u64, thread: Thread, cpu: u32) {
        self.event(at, thread, cpu, &format!("kvm_entry: vcpu {}, rip 0xffffffff81000000", number(thread)));
    }

    pub fn switch(&mut self, at: u64, cpu: u32, (from, state): (Thread, char), to: Thread) {
        let says = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120",
            from.name, from.tid, to.name, to.tid
        );
        self.event(at, from, cpu, &says);
    }

    fn wake(&mut self, at: u64, by: (Thread, u32), thread: Thread, cpu: u32) {
        let says = format!("sched_wakeup: comm={} pid={} prio=120 target_cpu={cpu:03}", thread.name, thread.tid);
        self.event(at, by.0, by.1, &says);
    }

    pub fn text(mut self) -> Trace {
        self.lines.sort_by_key(|line| line.0);
        let count = self.lines.len();
        let mut text =
            format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {count}/{count}   #P:{}\n#\n", self.cpus);
        self.lines.iter().for_each(|(_, line)| writeln!(text, "{line}").unwrap());
        Trace::Text(text)
    }
}

/// The vCPU that a thread runs, which QEMU names it for.
fn number(thread: Thread) -> u32 {
    thread.name.split([' ', '/']).nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Rows that each VM's device writes: queues 0 and 1 of a virtio device, as a legacy one's doorbell takes them.
fn doorbell() -> RuleTwins {
    let rings = made(IO, &["kvm_pio: pio_write at 0xc050 size 2 count 1 val 0x0", USER_IO]);
    let state = made(IO, &["kvm_pio: pio_write at 0xc050 size 2 count 1 val 0x{n}", USER_IO]);
    RuleTwins {
        advises: "doorbell",
        what: "a doorbell that user space answers",
        has_it: rings.trace(),
        healthy: rings.seldom().trace(),
        alike: state.trace(),
        because: "each write has another value: an index that the device keeps, which an ioeventfd would lose",
    }
}

fn replaced_device() -> RuleTwins {
    let reads = made(MISCONFIG, &["kvm_mmio: mmio read len 4 gpa 0xfebc0008 val 0x{n}", USER_MMIO]);
    let answered = made(MISCONFIG, &["kvm_mmio: mmio read len 4 gpa 0xfebc0008 val 0x{n}"]);
    RuleTwins {
        advises: "replace_device",
        what: "registers that no table lists, answered by user space",
        has_it: reads.trace(),
        healthy: reads.seldom().trace(),
        alike: answered.trace(),
        because: "KVM answers these itself",
    }
}

/// Two vCPUs, each with a CPU of four; every millisecond another has it for so long, and is taken off it in this state.
fn preempted(cpus: u32, by: Thread, waits: u64) -> Lines {
    let mut lines = Lines::of(cpus);
    for (vcpu, cpu) in [(VCPU_0, 1), (VCPU_1, 2)] {
        for at in (1..=600).map(|number| number * MS + u64::from(cpu) * 100) {
            lines.exit(at, vcpu, cpu, "EXTERNAL_INTERRUPT");
            lines.switch(at + US, cpu, (vcpu, 'R'), by);
            lines.switch(at + US + waits, cpu, (by, 'R'), vcpu);
            lines.enter(at + 2 * US + waits, vcpu, cpu);
        }
    }
    lines
}

fn crowded() -> RuleTwins {
    RuleTwins {
        advises: "steal",
        what: "another task takes the vCPUs' CPUs",
        has_it: preempted(4, MAKE, 250 * US).text(),
        healthy: preempted(4, MAKE, 5 * US).text(),
        alike: preempted(4, IDLE, 250 * US).text(),
        because: "their CPUs are left idle, as under a quota: pinning, or other tasks elsewhere, would not help",
    }
}

/// Two VMs of one vCPU each want all of a CPU. They take turns on one, or have one each.
fn turns(cpus: u32, turn: u64, share: bool) -> Trace {
    const OTHER: Thread = thread("CPU 0/KVM", 5_101);
    let mut lines = Lines::of(cpus);
    for number in 0..600_u64 {
        let at = number * turn + MS;
        let (runs, waits) = if number % 2 == 0 { (VCPU_0, OTHER) } else { (OTHER, VCPU_0) };
        match share {
            true => {
                lines.exit(at, waits, 0, "EXTERNAL_INTERRUPT");
                lines.switch(at + US, 0, (waits, 'R'), runs);
                lines.enter(at + 2 * US, runs, 0);
            }
            false => {
                for (vcpu, cpu) in [(VCPU_0, 0), (OTHER, 1)] {
                    lines.exit(at, vcpu, cpu, "EXTERNAL_INTERRUPT");
                    lines.switch(at + US, cpu, (vcpu, 'R'), MAKE);
                    lines.switch(at + 5 * US, cpu, (MAKE, 'S'), vcpu);
                    lines.enter(at + 6 * US, vcpu, cpu);
                }
            }
        }
    }
    lines.text()
}

fn too_many_vcpus() -> RuleTwins {
    RuleTwins {
        advises: "steal",
        what: "more vCPUs want CPUs than the host has",
        has_it: turns(1, MS, true),
        healthy: turns(2, MS, false),
        alike: turns(4, MS, true),
        because: "the host has CPUs left, which these vCPUs do not get: fewer VMs are not the cure",
    }
}

/// Two vCPUs that wait for one another, on such a host, with what is beside them.
fn ping_pong(host: &str, beside: &str) -> Trace {
    Trace::Scenario(format!(
        "[host]\n{host}\n[costs]\nwake_latency = '20us'\n[[channel]]\nname = 'pipe'\nlatency = '10us'\ndoorbell = 'memory'\n\
         [[vm]]\nname = 'pair'\nvcpus = 2\n[[vm.program]]\nvcpus = [0]\nlibrary = 'ping_pong'\nrole = 'client'\n\
         [[vm.program]]\nvcpus = [1]\nlibrary = 'ping_pong'\nrole = 'server'\n{beside}"
    ))
}

/// A vCPU that sleeps for one of two times, the second so many times as often, under such a limit of KVM's polls.
fn sleeper(poll: &str, short: &str, long: &str, often: u32) -> Trace {
    Trace::Scenario(format!(
        "duration = '1100ms'\n[host]\ncores = 2\n[policies]\nhalt_poll_ns = '{poll}'\nhalt_poll_ns_shrink = 1\n\
         [[vm]]\nname = 'sleeper'\n[[vm.program]]\nsteps = [{{ forever = [{{ pick = [{{ steps = [{{ sleep = '{short}' }}] }}, \
         {{ weight = {often}, steps = [{{ sleep = '{long}' }}] }}] }}, {{ compute = '20us' }}] }}]\n[costs]\n\
         timer_set = '100ns'\n"
    ))
}

const SPINNERS: &str = "[[vm]]\nname = 'busy'\ncopies = 2\nvcpus = 2\n[[vm.program]]\nlibrary = 'spin'\n";

fn longer_polls() -> RuleTwins {
    RuleTwins {
        advises: "host_halt_poll",
        what: "halts that a longer poll would end, on a host that does not poll",
        has_it: ping_pong("cores = 2\n[policies]\nhalt_poll_ns = 0", ""),
        healthy: sleeper("0", "9ms", "11ms", 1),
        alike: ping_pong("cores = 2\n[policies]\nhalt_poll_ns = 0", SPINNERS),
        because: "vCPUs wait for CPUs: KVM does not poll while another task wants its CPU",
    }
}

fn shorter_polls() -> RuleTwins {
    RuleTwins {
        advises: "host_halt_poll",
        what: "polls most of which fail",
        has_it: sleeper("10us", "8us", "40us", 9),
        healthy: sleeper("10us", "9ms", "11ms", 1),
        alike: sleeper("100us", "30us", "50us", 9),
        because: "nearly all of them succeed: the guest would be answered later without them",
    }
}

fn guest_polls_itself() -> RuleTwins {
    RuleTwins {
        advises: "guest_halt_poll",
        what: "halts that the guest could poll through",
        has_it: ping_pong("cores = 4\n[policies]\nhalt_poll_ns = 0", ""),
        healthy: sleeper("0", "9ms", "11ms", 1),
        alike: ping_pong("cores = 4\n[policies]\nhalt_poll_ns = 0", &SPINNERS.replace("copies = 2", "copies = 3")),
        because: "vCPUs wait for CPUs: a guest that polls would take them from others",
    }
}

/// A vCPU halts every 200 us, and something ends that so much later; KVM polls until then, or has the thread sleep.
fn halting(ends: u64, polls: bool) -> Trace {
    let mut lines = Lines::of(4);
    lines.switch(10, 3, (MAKE, 'S'), IDLE);
    for at in (1..=3_000).map(|number| number * 200 * US) {
        lines.exit(at, VCPU_0, 1, "HLT");
        if !polls {
            lines.switch(at + US, 1, (VCPU_0, 'S'), IDLE);
            lines.wake(at + ends - 4 * US, (IDLE, 2), VCPU_0, 1);
            lines.switch(at + ends - US, 1, (IDLE, 'R'), VCPU_0);
        }
        let how = if polls { "poll" } else { "wait" };
        lines.event(at + ends, VCPU_0, 1, &format!("kvm_vcpu_wakeup: {how} time {} ns, polling valid", ends - 2 * US));
        lines.enter(at + ends + US, VCPU_0, 1);
    }
    lines.text()
}

fn successful_polls() -> RuleTwins {
    RuleTwins {
        advises: "host_halt_poll",
        what: "polls that succeed and keep a CPU busy",
        has_it: halting(150 * US, true),
        healthy: halting(8 * US, true),
        alike: halting(150 * US, false),
        because: "KVM does not poll: the thread sleeps through its halts",
    }
}

/// A guest on one CPU that says whether it polls before it halts, and halts every millisecond; when it is woken, another task has the
/// CPU for so long.
fn polling_guest(polls: bool, waits: u64) -> Trace {
    let mut lines = Lines::of(2);
    lines.enter(0, VCPU_0, 1);
    lines.exit(10 * US, VCPU_0, 1, "MSR_WRITE");
    lines.event(12 * US, VCPU_0, 1, &format!("kvm_msr: msr_write 4b564d05 = {:#x}", u64::from(!polls)));
    lines.enter(14 * US, VCPU_0, 1);
    for at in (1..=600).map(|number| number * MS) {
        lines.exit(at, VCPU_0, 1, "HLT");
        lines.switch(at + 5 * US, 1, (VCPU_0, 'S'), MAKE);
        lines.wake(at + 600 * US, (MAKE, 1), VCPU_0, 1);
        lines.switch(at + 600 * US + waits, 1, (MAKE, 'R'), VCPU_0);
        lines.enter(at + 605 * US + waits, VCPU_0, 1);
    }
    lines.text()
}

fn guest_that_polls() -> RuleTwins {
    RuleTwins {
        advises: "no_guest_halt_poll",
        what: "a guest that polls while vCPUs wait for CPUs",
        has_it: polling_guest(true, 150 * US),
        healthy: polling_guest(true, 3 * US),
        alike: polling_guest(false, 150 * US),
        because: "the guest does not poll: what it does before its halts is work",
    }
}

/// A vCPU sleeps for 40 us and for 5 ms in turn, and is back so long after either; meanwhile this one has its CPU.
fn sleeps(after_short: u64, after_long: u64, meanwhile: Thread) -> Trace {
    let mut lines = Lines::of(4);
    let mut at = MS;
    for (sleeps, late) in (0..400).flat_map(|_| [(40 * US, after_short), (5_000 * US, after_long)]) {
        lines.exit(at, VCPU_0, 1, "HLT");
        lines.switch(at + US, 1, (VCPU_0, 'S'), meanwhile);
        lines.wake(at + sleeps, (IDLE, 2), VCPU_0, 1);
        lines.switch(at + sleeps + late, 1, (meanwhile, 'R'), VCPU_0);
        at += sleeps + late + US;
        lines.event(at, VCPU_0, 1, &format!("kvm_vcpu_wakeup: wait time {} ns, polling valid", sleeps + late - US));
        lines.enter(at + US, VCPU_0, 1);
        at += 60 * US;
    }
    lines.text()
}

fn idle_states() -> RuleTwins {
    RuleTwins {
        advises: "idle_states",
        what: "vCPUs that come back late from long sleeps",
        has_it: sleeps(5 * US, 250 * US, IDLE),
        healthy: sleeps(5 * US, 8 * US, IDLE),
        alike: sleeps(5 * US, 250 * US, MAKE),
        because: "another task has the CPU until then: it was not idle",
    }
}

/// What ganged exits are made of: two threads of a core that send pings as fast as they can.
const FLOOD: &str = "library = \"ping_flood\"\ndevice = \"network\"\ncount = false";

/// The scenario of the same name, on so many cores, with so many VMs of it, virtual cores of so many threads, and this in place of the
/// pings.
fn ping_flood(cores: u32, vms: u32, threads: u32, library: &str) -> Trace {
    let text = include_str!("../../../../scenarios/ping-flood.toml");
    let text = text.replace("cores = 1\n", &format!("cores = {cores}\n")).replace(FLOOD, library);
    let text = text.replace("smt_mode = 4", &format!("smt_mode = {threads}"));
    let (_, text) = text.split_once("description").unwrap();
    let (host, vm) = text.split_once("[[vm]]").unwrap();
    let (_, host) = host.split_once('\n').unwrap();
    let vms: String = (0..vms)
        .map(|number| format!("[[vm]]{}", vm.replace("name = \"guest\"", &format!("name = \"guest{number}\""))))
        .collect();
    Trace::Scenario(format!("duration = '200ms'\n{host}{vms}"))
}

fn virtual_cores() -> RuleTwins {
    RuleTwins {
        advises: "virtual_cores",
        what: "threads that others' exits force out",
        has_it: ping_flood(4, 1, 4, FLOOD),
        healthy: ping_flood(4, 1, 4, "library = \"ebizzy\""),
        alike: ping_flood(4, 1, 1, FLOOD),
        because: "each virtual core has one thread, whose exits take nobody along: there are none narrower",
    }
}

fn virtual_cores_on_subcores() -> RuleTwins {
    RuleTwins {
        advises: "virtual_cores",
        what: "threads that others' exits force out, on a host with fewer cores than narrower virtual cores want",
        has_it: ping_flood(1, 1, 4, FLOOD),
        healthy: ping_flood(1, 1, 4, "library = \"ebizzy\""),
        alike: ping_flood(1, 4, 4, FLOOD),
        because: "four such VMs on one core: on its subcores, too, narrower virtual cores would wait for one another",
    }
}

/// Runs of a virtual core of four threads as the script of 2015 has them recorded, without entries: each thread leaves for this trap.
fn core_runs(traps: [&str; 4]) -> Trace {
    let mut lines = Lines::of(8);
    let runner = VCPU_0;
    for run in 0..1_000 {
        let at = run * 200 * US;
        let active = traps.iter().filter(|trap| !trap.is_empty()).count();
        let core = |what| format!("kvmppc_run_core: {what} runner_vcpu==0 runnable={active} tgid=4100");
        lines.event(at, runner, 1, &core("Enter"));
        for (vcpu, trap) in (0..).zip(traps).filter(|(_, trap)| !trap.is_empty()) {
            let left = at + 150 * US + vcpu * US;
            let exit = format!("kvm_guest_exit: VCPU {vcpu}: trap={trap} pc=0x2120 msr=0x8000000000009000, ceded=0");
            lines.event(left, runner, 1, &exit);
        }
        lines.event(at + 160 * US, runner, 1, &core("Exit"));
    }
    lines.text()
}

fn counted_virtual_cores() -> RuleTwins {
    const FORCED: &str = "0xe80";
    RuleTwins {
        advises: "virtual_cores",
        what: "core runs that were counted, without entries, of which one thread ends each for all",
        has_it: core_runs(["SYSCALL", FORCED, FORCED, FORCED]),
        healthy: core_runs(["SYSCALL", "", "", ""]),
        alike: core_runs(["SYSCALL"; 4]),
        because: "each thread leaves for a call of its own: no other one forced it, so narrower virtual cores spare none of the exits",
    }
}

/// Four vCPUs that take a lock for so long, on so many cores.
fn locks(cores: u32, vcpus: u32, outside: &str, inside: &str) -> Trace {
    Trace::Scenario(format!(
        "duration = '300ms'\n[host]\ncores = {cores}\n[policies]\nple_window_grow = 1\n[[thread]]\nname = 'cron'\n\
         steps = [{{ forever = [{{ sleep = '2ms' }}, {{ compute = '20us' }}] }}]\n[[vm]]\nname = 'web'\nvcpus = {vcpus}\nlocks = ['l']\n\
         [[vm.program]]\nsteps = [{{ forever = [{{ compute = {{ exponential = '{outside}' }} }}, {{ lock = 'l' }}, \
         {{ compute = '{inside}' }}, {{ unlock = 'l' }}] }}]\n"
    ))
}

fn lock_holders() -> RuleTwins {
    RuleTwins {
        advises: "lock_holders",
        what: "vCPUs that spin while the lock's holder waits for a CPU",
        has_it: locks(2, 4, "5us", "5us"),
        healthy: locks(8, 4, "50us", "1us"),
        alike: locks(8, 6, "5us", "60us"),
        because: "each vCPU has a CPU, and the holder runs: pinning and paravirtual locks would keep nobody running",
    }
}

fn spinning_in_vain() -> RuleTwins {
    RuleTwins {
        advises: "spin_longer",
        what: "vCPUs that spin while all of them run",
        has_it: locks(8, 6, "5us", "60us"),
        healthy: locks(8, 6, "50us", "1us"),
        alike: locks(2, 4, "5us", "5us"),
        because: "siblings that lost their CPU wait: a vCPU that spins has to make way",
    }
}

/// #AC, whose vector is 17.
const AC: &str = "EXCEPTION_NMI rip 0x1000 info1 0x0 info2 0x0 intr_info 0x80000b11 error_code 0x00000000";
const BUS_LOCK: &str = "BUS_LOCK rip 0x1000 info1 0x0 info2 0x0 intr_info 0x00000000 error_code 0x00000000";

fn split_locks() -> RuleTwins {
    let slept = super::Made { apart: 25_000, takes: 10_400, ..made(AC, &[]) };
    RuleTwins {
        advises: "split_locks",
        what: "split locks at which the host has the vCPU sleep",
        has_it: slept.trace(),
        healthy: super::Made { apart: 2_500_000, ..slept }.trace(),
        alike: made(AC, &[]).trace(),
        because: "too short for the host's sleep: the guest may check its alignment itself",
    }
}

fn bus_locks() -> RuleTwins {
    let user = made(BUS_LOCK, &["kvm_userspace_exit: reason KVM_EXIT_X86_BUS_LOCK (33)"]);
    RuleTwins {
        advises: "split_locks",
        what: "bus locks that the VMM limits",
        has_it: user.trace(),
        healthy: user.seldom().trace(),
        alike: made("NOTIFY rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0", &[]).trace(),
        because: "a guest that took no interrupt for too long: no lock",
    }
}
