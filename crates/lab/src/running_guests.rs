//! `lab guests`: guests that run a program without end, whose settings are files below a directory, as the kernel's are below
//! `/sys` and `/proc`. `exitscope try --root` compares their values there.
//!
//! ```text
//! DIR/sys/module/kvm/parameters/halt_poll_ns ─┐            ┌─► KVM_CAP_HALT_POLL of the VM
//! DIR/sys/module/haltpoll/parameters/… ───────┼─► keeper ──┼─► the guest's knobs, which it loads in each round
//! DIR/proc/sys/kernel/spin_retry, DIR/yield ──┤  (4 ms)    └─► the worker's delay
//! DIR/worker_delay_ns ────────────────────────┘     └─ counter ─► DIR/throughput
//! ```
//!
//! The keeper reads the files rather than being told of changes: the few system calls take about 1 % of a CPU, and nothing
//! escapes it, whatever file system DIR is on.

use crate::abi::{self, ProgramStep, WAKE_VECTOR, machine as flag, op};
use crate::compile::{draw, generator};
use crate::compute_speed::ComputeSpeed;
use crate::dispatcher::{Config, dispatch};
use crate::haltpoll::kvm_polls;
use crate::loaded_vm::{LoadedVm, repeat};
use crate::machine::name_vcpu_thread;
use crate::placement::keep_on;
use crate::run_loop::{OutboundSink, Setup, parkers, serve};
use crate::setting_file::{SettingFile, create_folder};
use crate::yielding::{HELD_NS, SLICE, THREADS, VCPUS, WaiterCall};
use crate::{LabError, LabMachine, LabVm, Payload, PrivilegeRing, VmConfig, Watch, step};
use exitscope_policy::{Knob, KnobLocation, KnobMachines, KnobUnit, Policies, knob};
use exitscope_scenario::TimeDistribution;
use exitscope_signals::signalled;
use exitscope_units::Picos;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often the settings are looked at, and the counter is written.
const LOOK: Duration = Duration::from_millis(4);

/// How often the worker, without requests, looks whether the run is over.
const WORKER_LOOK: Duration = Duration::from_millis(10);

/// The guest's counter of work done.
const DONE: usize = 0;

/// Random times that a vCPU computes between requests, which it goes through in random order.
const TIMES: usize = 4_096;

/// Who tells the hypervisor what while it waits for a lock, by its place in the list of words.
const CALLS: [WaiterCall; 4] = [WaiterCall::Nothing, WaiterCall::Diag44, WaiterCall::Diag9c, WaiterCall::Diag9cSensing];

/// Settings of the lab's own, with files as if they were the kernel's.
static WORKER_DELAY: Knob = Knob {
    name: "worker_delay_ns",
    unit: KnobUnit::Nanos,
    default: 50_000,
    min: 0,
    max: 1_000_000_000,
    location: KnobLocation::File("/worker_delay_ns"),
    machines: KnobMachines::All,
    about: "How long the disk's worker waits before it answers a request",
};
static YIELD: Knob = Knob {
    name: "yield",
    unit: KnobUnit::Choice(&["none", "x44", "x9c", "x9c-sensing"]),
    default: 2,
    min: 0,
    max: 3,
    location: KnobLocation::File("/yield"),
    machines: KnobMachines::All,
    about: "Which yield a waiter for a lock makes",
};

/// What the guests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestProgram {
    /// Pairs of vCPUs play ping-pong and halt between.
    PingPong,
    /// vCPUs contend for a spinlock, under the lab's dispatcher.
    Locks,
    /// vCPUs send requests to a disk, each at random times, and halt until the answer.
    Io,
}

impl GuestProgram {
    /// What the file `throughput` counts.
    pub fn counts(self) -> &'static str {
        match self {
            GuestProgram::PingPong => "round trips",
            GuestProgram::Locks => "locks",
            GuestProgram::Io => "requests",
        }
    }

    /// vCPUs, if nobody says how many.
    pub fn vcpus(self) -> u32 {
        match self {
            GuestProgram::PingPong => 2,
            GuestProgram::Locks => VCPUS,
            GuestProgram::Io => 1,
        }
    }

    /// The names of its settings.
    fn settings(self) -> Vec<&'static str> {
        const HALTS: [&str; 6] = [
            "halt_poll_ns",
            "guest_halt_poll_ns",
            "guest_halt_poll_shrink",
            "guest_halt_poll_grow",
            "guest_halt_poll_grow_start",
            "guest_halt_poll_allow_shrink",
        ];
        match self {
            GuestProgram::PingPong => HALTS.to_vec(),
            GuestProgram::Locks => vec!["spin_retry", YIELD.name],
            GuestProgram::Io => [&HALTS[..], &[WORKER_DELAY.name]].concat(),
        }
    }
}

/// What runs, and until when.
#[derive(Clone, Debug)]
pub struct GuestsPlan {
    /// What the guests do.
    pub program: GuestProgram,
    /// The directory with the files.
    pub root: PathBuf,
    /// vCPUs, all of one VM.
    pub vcpus: u32,
    /// How long a vCPU computes between two pieces of work, in nanoseconds; on the mean, for [`GuestProgram::Io`].
    pub gap_ns: u64,
    /// Whether each vCPU is kept on a CPU.
    pub pin: bool,
    /// How long they run; `None`: until a signal.
    pub length: Option<Duration>,
    /// Whether they end at the end of standard input.
    pub until_eof: bool,
}

/// What a run was.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuestsRun {
    /// Work done.
    pub done: u64,
    /// How long it ran.
    pub elapsed: Duration,
    /// How often KVM polled before a halt, and how often that paid. `None`: this KVM does not count it.
    pub polls: Option<[u64; 2]>,
    /// The same of the guest.
    pub guest_polls: [u64; 2],
}

/// Guests that are ready to run, and their files.
#[derive(Debug)]
pub struct RunningGuests<'a> {
    machine: &'a LabMachine,
    plan: GuestsPlan,
    guests: LoadedVm,
    settings: Vec<SettingFile>,
    throughput: CounterFile,
}

impl<'a> RunningGuests<'a> {
    /// Makes the files and the VM.
    pub fn new(machine: &'a LabMachine, plan: GuestsPlan) -> Result<RunningGuests<'a>, LabError> {
        let (program, vcpus) = (plan.program, plan.vcpus);
        if program == GuestProgram::PingPong && !vcpus.is_multiple_of(2) {
            return Err(LabError::CannotDo(format!("ping-pong takes pairs of vCPUs, and {vcpus} are none")));
        }
        prepare_root(&plan.root)?;
        let throughput = CounterFile::new(plan.root.join("throughput"))?;
        let settings = program.settings().into_iter().map(|name| {
            let knob = setting(name);
            SettingFile::new(&plan.root, knob, default(knob))
        });
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        let config = match program {
            GuestProgram::Locks => VmConfig { irqchip: false, ..VmConfig::new(vcpus, PrivilegeRing::Three) },
            GuestProgram::PingPong | GuestProgram::Io => {
                VmConfig { irqchip: true, ..VmConfig::new(vcpus, machine.ring()) }
            }
        };
        let guests = LoadedVm::new(machine, config)?;
        let mut all = RunningGuests { machine, plan, guests, settings, throughput };
        all.load()?;
        Ok(all)
    }

    /// The settings: file, and value in force.
    pub fn settings(&self) -> impl Iterator<Item = (&Path, String)> {
        self.settings.iter().map(|file| (file.path.as_path(), file.knob.text(file.in_force).to_string()))
    }

    /// The file with the counter of work done.
    pub fn throughput(&self) -> &Path {
        &self.throughput.path
    }

    /// Gives each vCPU its program.
    fn load(&mut self) -> Result<(), LabError> {
        let speed = ComputeSpeed::measure(self.machine)?;
        let (policies, flags) = knobs(&self.settings);
        let payload = &mut self.guests.payload;
        *payload = Payload::new(&self.guests.vm, self.machine, &policies, flags);
        for vcpu in 0..self.plan.vcpus {
            let body = match self.plan.program {
                GuestProgram::PingPong => ping_pong(vcpu, speed.step(self.plan.gap_ns)),
                GuestProgram::Locks => locks(speed.step(HELD_NS), speed.step(self.plan.gap_ns)),
                GuestProgram::Io => io(vcpu, random_compute(payload, &speed, self.plan.gap_ns, vcpu)?),
            };
            payload.load(vcpu, &repeat(0, &body), u64::from(vcpu) + 1)?;
        }
        Ok(())
    }

    /// Runs them until they are to end. When it returns, no thread of theirs is left.
    pub fn run(&mut self) -> Result<GuestsRun, LabError> {
        let (machine, plan) = (self.machine, &self.plan);
        let before = kvm_polls(&mut self.guests.vcpus);
        let LoadedVm { vcpus, payload, vm } = &mut self.guests;
        let (payload, vm) = (&*payload, &*vm);
        let (watch, delay) = (Watch::new(Duration::MAX), AtomicU64::new(0));
        let polling = self.settings.iter().find(|file| file.knob.name == HALT_POLL_NS);
        let has_cap = polling.is_some_and(|file| file.in_force != default(file.knob));
        let (settings, file) = (&mut self.settings, &self.throughput);
        let mut keeper = Keeper { machine, plan, payload, vm, delay: &delay, settings, has_cap, file };
        keeper.apply()?;
        let (port, requests) = port();
        let began = Instant::now();
        thread::scope(|scope| {
            let watch = &watch;
            let keeper = scope.spawn(move || ended_by(watch, || keeper.keep(watch, began)));
            let worker = Worker { requests, payload, vm, delay: &delay };
            let worker =
                (plan.program == GuestProgram::Io).then(|| scope.spawn(move || ended_by(watch, || worker.work(watch))));
            let ran = ended_by(watch, || match plan.program {
                GuestProgram::Locks => {
                    let threads = THREADS.min(machine.cpus.len());
                    let config = Config {
                        threads,
                        slice: SLICE,
                        stop_after: None,
                        events: false,
                        name_threads: true,
                        pin: false,
                    };
                    dispatch(machine, payload, vcpus, config, watch).map(drop)
                }
                GuestProgram::PingPong | GuestProgram::Io => {
                    let parkers = parkers(plan.vcpus);
                    let halts_in = (vm.config().ring == PrivilegeRing::Three).then_some(vm);
                    let setup = Setup { halts_in, outside: Some(&port), ..Setup::new(machine, &parkers) };
                    let run = |vcpu: &mut crate::LabVcpu, watch: &Watch| {
                        name_vcpu_thread(vcpu.index());
                        if plan.pin {
                            keep_on(&[machine.cpus[vcpu.index() as usize % machine.cpus.len()]]);
                        }
                        serve(vcpu, &setup, watch).map(drop)
                    };
                    watch.run(vcpus, run).map(drop)
                }
            });
            let threads = [keeper].into_iter().chain(worker).map(|thread| thread.join());
            let ended = threads.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ended.collect::<Vec<_>>().into_iter().chain([ran]).collect::<Result<(), LabError>>()
        })?;
        let elapsed = began.elapsed();
        let done = self.guests.payload.counter(DONE).load(Ordering::SeqCst);
        let polls =
            kvm_polls(&mut self.guests.vcpus).zip(before).map(|(now, then)| [0, 1].map(|at| now[at] - then[at]));
        let pages = (0..self.plan.vcpus).map(|vcpu| self.guests.payload.page(vcpu));
        let guest_polls = pages.fold([0; 2], |sum, page| [sum[0] + page.polls, sum[1] + page.polls_paid]);
        Ok(GuestsRun { done, elapsed, polls, guest_polls })
    }
}

/// Does a part of a run, whose end is the end of all. That it was stopped is no error.
fn ended_by(watch: &Watch, part: impl FnOnce() -> Result<(), LabError>) -> Result<(), LabError> {
    let ended = part();
    watch.stop();
    match ended {
        Err(LabError::Stopped | LabError::Signal(_)) => Ok(()),
        ended => ended,
    }
}

/// KVM's own polls.
const HALT_POLL_NS: &str = "halt_poll_ns";

/// A setting of the lab's own, or a knob.
fn setting(name: &str) -> &'static Knob {
    let own = [&WORKER_DELAY, &YIELD].into_iter().find(|knob| knob.name == name);
    own.or_else(|| knob(name)).expect("settings are rows")
}

/// The value that a setting begins with: this host's for KVM's own polls, and no polls in the guest, which would leave those
/// of KVM nothing to do.
fn default(knob: &'static Knob) -> u64 {
    match knob.name {
        "guest_halt_poll_ns" => 0,
        HALT_POLL_NS => {
            let text = knob.file().and_then(|file| fs::read_to_string(file.to_string()).ok());
            text.and_then(|text| knob.parse(&text).ok()).unwrap_or(knob.default)
        }
        _ => knob.default,
    }
}

/// The knobs of the guest and the flags of its machine, as the settings say.
fn knobs(settings: &[SettingFile]) -> (Policies, u32) {
    let value = |name| settings.iter().find(|file| file.knob.name == name).map(|file| file.in_force);
    if let Some((call, spin_retry)) = value(YIELD.name).zip(value("spin_retry")) {
        return CALLS[call as usize].policy(spin_retry as u32);
    }
    let mut policies = Policies::default();
    for file in settings {
        // The lab's own are no policy's.
        let _ = policies.set(file.knob.name, file.in_force);
    }
    (policies, flag::HALTPOLL)
}

/// One of a pair: the vCPU of the even number serves.
fn ping_pong(vcpu: u32, work: ProgramStep) -> Vec<ProgramStep> {
    let receive = ProgramStep { a: abi::ipi_box(vcpu), ..step(op::RECEIVE) };
    let send = ProgramStep { a: abi::ipi_box(vcpu ^ 1), ..step(op::SEND) };
    match vcpu % 2 {
        0 => vec![step(op::LOAD_KNOBS), work, send, receive, count()],
        _ => vec![step(op::LOAD_KNOBS), receive, work, send],
    }
}

fn locks(held: ProgramStep, gap: ProgramStep) -> Vec<ProgramStep> {
    vec![step(op::LOAD_KNOBS), step(op::LOCK), held, count(), step(op::UNLOCK), gap]
}

fn io(vcpu: u32, compute: ProgramStep) -> Vec<ProgramStep> {
    let wait = ProgramStep { a: abi::disk_box(vcpu), ..step(op::RECEIVE) };
    vec![step(op::LOAD_KNOBS), compute, step(op::SUBMIT), wait, count()]
}

fn count() -> ProgramStep {
    ProgramStep { a: DONE as u32, ..step(op::ADD) }
}

/// Computes for times of an exponential distribution.
fn random_compute(
    payload: &mut Payload,
    speed: &ComputeSpeed,
    mean_ns: u64,
    vcpu: u32,
) -> Result<ProgramStep, LabError> {
    let mut random = generator(1, vcpu.into());
    let mut passes = || {
        let ns = draw(TimeDistribution::Exponential(Picos(mean_ns.saturating_mul(1_000))), &mut random) / 1e3;
        u32::try_from(speed.step(ns as u64).b).unwrap_or(u32::MAX)
    };
    let times: Vec<u32> = (0..TIMES).map(|_| passes()).collect();
    Ok(ProgramStep { a: TIMES as u32, b: payload.table(&times)?, ..step(op::COMPUTE_TABLE) })
}

/// Makes the directory. One whose `/sys` or `/proc` are file systems of their own is a host's: what is written there would be
/// the host's settings.
fn prepare_root(root: &Path) -> Result<(), LabError> {
    create_folder(root)?;
    let device = |path: &Path| fs::metadata(path).map(|about| about.dev());
    let own = device(root).map_err(LabError::file(root))?;
    for name in ["sys", "proc"] {
        if device(&root.join(name)).is_ok_and(|device| device != own) {
            let root = root.display();
            return Err(LabError::CannotDo(format!(
                "{root} is the root of a host, whose settings are in its /{name}: name a directory of its own with --root"
            )));
        }
    }
    link_machine(root)
}

/// What the kernel says of this machine itself, at which a trial looks, too.
const OF_THE_MACHINE: [&str; 4] = ["proc/stat", "proc/loadavg", "proc/pressure", "proc/sys/kernel/hostname"];

/// Links what the kernel says of this machine below `root`; what is there already stays.
fn link_machine(root: &Path) -> Result<(), LabError> {
    for file in OF_THE_MACHINE {
        let link = root.join(file);
        let folder = link.parent().unwrap_or(root);
        create_folder(folder)?;
        match symlink(Path::new("/").join(file), &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(LabError::file(&link)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// A file with a counter, for one process at a time. Gone when it is dropped.
#[derive(Debug)]
struct CounterFile {
    path: PathBuf,
    file: File,
}

impl CounterFile {
    fn new(path: PathBuf) -> Result<CounterFile, LabError> {
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.map_err(LabError::file(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LabError::CannotDo(format!("{}: other guests count there already", path.display())));
            }
            Err(TryLockError::Error(error)) => return Err(LabError::file(&path)(error)),
        }
        let counter = CounterFile { path, file };
        counter.write(0)?;
        Ok(counter)
    }

    /// Writes the count as always the same number of digits, at once: whoever reads finds the old one or the new one.
    fn write(&self, count: u64) -> Result<(), LabError> {
        self.file.write_all_at(format!("{count:020}\n").as_bytes(), 0).map_err(LabError::file(&self.path))
    }
}

impl Drop for CounterFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Brings settings from their files into force, and writes the counter.
struct Keeper<'a> {
    machine: &'a LabMachine,
    plan: &'a GuestsPlan,
    payload: &'a Payload,
    vm: &'a LabVm,
    delay: &'a AtomicU64,
    settings: &'a mut [SettingFile],
    /// Whether the VM has a cap of its own. Until its file has another value than the host's, it follows the host's.
    has_cap: bool,
    file: &'a CounterFile,
}

impl Keeper<'_> {
    /// Until the run is to end.
    fn keep(&mut self, watch: &Watch, began: Instant) -> Result<(), LabError> {
        while !watch.is_over() && signalled().is_none() {
            let mut changed = false;
            for file in &mut *self.settings {
                let is_new = file.look()?.is_some();
                changed |= is_new;
                self.has_cap |= is_new && file.knob.name == HALT_POLL_NS;
            }
            if changed {
                self.apply()?;
            }
            self.file.write(self.payload.counter(DONE).load(Ordering::Relaxed))?;
            let left = self.plan.length.map_or(LOOK, |length| length.saturating_sub(began.elapsed()));
            if left == Duration::ZERO || (self.plan.until_eof && input_has_ended(left.min(LOOK))) {
                return Ok(());
            }
            if !self.plan.until_eof {
                thread::sleep(left.min(LOOK));
            }
        }
        Ok(())
    }

    fn apply(&self) -> Result<(), LabError> {
        for file in &*self.settings {
            match file.knob.name {
                HALT_POLL_NS if self.has_cap => self.vm.cap_halt_polling(file.in_force as u32)?,
                name if name == WORKER_DELAY.name => self.delay.store(file.in_force, Ordering::Relaxed),
                _ => {}
            }
        }
        let (policies, flags) = knobs(self.settings);
        self.payload.change_knobs(self.machine, &policies, flags);
        Ok(())
    }
}

/// Waits so long for standard input, throws away what comes, and says whether it has ended.
fn input_has_ended(wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as libc::c_int;
        let mut input = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        // SAFETY: the kernel reads and writes the one `pollfd`.
        if unsafe { libc::poll(&mut input, 1, left) } != 1 {
            // Nothing came, or a signal, which the keeper sees.
            return false;
        }
        let mut bytes = [0u8; 4096];
        // SAFETY: the kernel writes at most so many bytes.
        let read = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
        if read <= 0 {
            return true;
        }
    }
}

/// The vCPUs' end of the way to the worker.
struct RequestPort(Sender<u32>);

fn port() -> (RequestPort, Receiver<u32>) {
    let (send, requests) = channel();
    (RequestPort(send), requests)
}

impl OutboundSink for RequestPort {
    fn reply(&self, _: u32, _: u32) {}

    fn submit(&self, number: u32, _: u32) {
        // Nobody listens any more at the end of a run.
        let _ = self.0.send(number);
    }
}

/// The disk: one thread, one request at a time, each answered after the delay.
struct Worker<'a> {
    requests: Receiver<u32>,
    payload: &'a Payload,
    vm: &'a LabVm,
    delay: &'a AtomicU64,
}

impl Worker<'_> {
    fn work(self, watch: &Watch) -> Result<(), LabError> {
        // Otherwise the kernel may let a sleep last 50 us longer.
        // SAFETY: takes a number, and concerns this thread only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        while !watch.is_over() {
            match self.requests.recv_timeout(WORKER_LOOK) {
                Ok(number) => self.answer(number)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(WORKER_LOOK),
            }
        }
        Ok(())
    }

    fn answer(&self, number: u32) -> Result<(), LabError> {
        let delay = self.delay.load(Ordering::Relaxed);
        if delay > 0 {
            thread::sleep(Duration::from_nanos(delay));
        }
        match self.payload.send(abi::disk_box(number), number) {
            Some(halted) if self.vm.config().ring == PrivilegeRing::Zero => self.vm.interrupt(halted, WAKE_VECTOR),
            Some(halted) => self.vm.wake(halted),
            None => Ok(()),
        }
    }
}
