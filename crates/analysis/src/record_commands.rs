//! How to record what a trace lacks: the commands that views, replays and advice name; or why no recording would have it.
//!
//! ```text
//! what is missed ─► not recorded ────────────────────────► "Record with `exitscope record --for 10s` …"
//!                └► recorded, and did not come ──────────► says that
//!                └► this KVM never fires it ─────────────► says that
//!                └► `exitscope record` made the recording ► says that it took all there is
//! any text ─► its commands that record what is there ─────► `exitscope events`
//! ```

use crate::Facts;
use exitscope_model::{Architecture, EventNames, TraceInfo};
use std::borrow::Cow;

/// What is missed in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missed {
    /// Exits, or some that show this or that.
    Exits,
    /// What exits are about: ports, MSRs, CPUID leaves.
    Subjects,
    /// Entries into the guest.
    Entries,
    /// Exits that go on in user space.
    UserExits,
    /// What became of halts.
    HaltEnds,
    /// Which exits are a nested guest's.
    Nested,
    /// Which of those were handed to the nested guest's hypervisor.
    Reflected,
    /// Who had the CPUs.
    Scheduler,
    /// What user space does.
    Calls,
    /// What inhibits APICv and AVIC.
    ApicvChanges,
}

impl Missed {
    const ALL: [Missed; 10] = [
        Missed::Exits,
        Missed::Subjects,
        Missed::Entries,
        Missed::UserExits,
        Missed::HaltEnds,
        Missed::Nested,
        Missed::Reflected,
        Missed::Scheduler,
        Missed::Calls,
        Missed::ApicvChanges,
    ];

    /// What makes up an account of a vCPU's time.
    pub const OF_TIME: &'static [Missed] =
        &[Missed::Exits, Missed::Entries, Missed::UserExits, Missed::HaltEnds, Missed::Scheduler];

    /// The tracepoints of which one had to be recorded.
    pub fn tracepoints(self) -> &'static [&'static str] {
        match self {
            Missed::Exits => &["kvm:kvm_exit", "kvm_hv:kvm_guest_exit", "kvm:kvm_s390_sie_exit"],
            Missed::Subjects => &["kvm:kvm_pio"],
            Missed::Entries => &["kvm:kvm_entry", "kvm_hv:kvm_guest_enter", "kvm:kvm_s390_sie_enter", "kvm:kvm_enter"],
            Missed::UserExits => &["kvm:kvm_userspace_exit"],
            Missed::HaltEnds => &["kvm:kvm_vcpu_wakeup", "kvm_hv:kvmppc_vcore_wakeup"],
            Missed::Nested => &["kvm:kvm_nested_vmexit"],
            Missed::Reflected => &["kvm:kvm_nested_vmexit_inject"],
            Missed::Scheduler => &["sched:sched_switch"],
            Missed::ApicvChanges => &["kvm:kvm_apicv_inhibit_changed"],
            Missed::Calls => &["raw_syscalls:sys_enter", "syscalls:sys_enter_ioctl"],
        }
    }

    /// Whether it is of exits themselves, and not of what vCPUs do meanwhile.
    fn is_of_exits(self) -> bool {
        matches!(self, Missed::Exits | Missed::Entries | Missed::Subjects)
    }

    /// Whether `exitscope record` takes it only if asked to.
    fn is_optional(self) -> bool {
        matches!(self, Missed::Scheduler | Missed::Calls)
    }
}

/// Of a host without kvm_exit.
const NEVER_FIRES: &str = "this KVM fires no kvm_exit (it is a back end in software, or PVM), and no recording \
    separates its guests' time from the kernel's";

/// Of what `exitscope record` made.
const ALL_RECORDED: &str = "`exitscope record` made this recording, and took all that this kernel has: was a guest running, and for long \
     enough?";

/// Of a log of Xen's with run states.
const RUN_STATES: &str = "the log already has run states, and another such log would not show more";

const RECORDED: &str = "the missing events were enabled, but never fired";

/// Whose settings say that this is so.
const RECORDER: &str = "exitscope";

/// What a recording says of how it was made, as far as that decides whether another would have more.
#[derive(Clone, Debug, Default)]
pub struct HowToRecord {
    arch: String,
    xen: bool,
    by_exitscope: bool,
    recorded: Vec<Missed>,
    /// Names of events of which the recording has all.
    events: EventNames,
    /// Its KVM is the one for guests without hardware's help, which has no `kvm_exit`.
    is_pvm: bool,
    never_fires: bool,
    has_run_states: bool,
}

impl HowToRecord {
    /// What is said of a recording. Only a perf.data lists what was recorded and did not come.
    pub fn of(info: &TraceInfo) -> HowToRecord {
        let lists = info.format.starts_with("perf.data");
        let is_listed = |of: &Missed| lists && of.tracepoints().iter().any(|name| info.names.has(name));
        HowToRecord {
            arch: info.arch.clone(),
            xen: info.by_vcpu,
            by_exitscope: info.settings.iter().any(|setting| setting.of == RECORDER),
            recorded: Missed::ALL.into_iter().filter(is_listed).collect(),
            // A trace.dat names every event of its kernel, whether or not it was recorded; a text, those that came.
            events: if info.format.starts_with("trace.dat") { EventNames::default() } else { info.names.clone() },
            is_pvm: info.setting("host", "back_end") == Some("kvm_pvm"),
            never_fires: false,
            has_run_states: false,
        }
    }

    /// The same, knowing what came.
    pub fn with(&self, facts: &Facts) -> HowToRecord {
        HowToRecord {
            never_fires: (self.is_pvm || self.was_recorded(Missed::Exits)) && facts.has_no_kvm_exit(),
            has_run_states: facts.has_run_states(),
            ..self.clone()
        }
    }

    /// The same on a host of this architecture, or under Xen.
    pub fn on(self, arch: &str, xen: bool) -> HowToRecord {
        HowToRecord { arch: arch.into(), xen, ..self }
    }

    /// Whether it was recorded, whether or not any came.
    pub fn was_recorded(&self, of: Missed) -> bool {
        self.recorded.contains(&of)
    }

    /// The command that records more of this; or why no recording would have it.
    pub fn command(&self, missed: &[Missed]) -> Result<&'static str, &'static str> {
        let lacks = |of: &Missed| !self.was_recorded(*of);
        match () {
            _ if self.xen && self.has_run_states && !missed.iter().all(|of| of.is_of_exits()) => Err(RUN_STATES),
            _ if self.xen => Ok(self.again()),
            _ if self.never_fires && missed.contains(&Missed::Exits) => Err(NEVER_FIRES),
            _ if !missed.iter().any(lacks) => Err(RECORDED),
            _ if self.by_exitscope && !missed.iter().any(|of| lacks(of) && of.is_optional()) => Err(ALL_RECORDED),
            _ if missed.contains(&Missed::Calls) => Ok(WITH_CALLS),
            _ => Ok(self.again()),
        }
    }

    /// The command that records all but system calls, for another time or another length.
    pub fn again(&self) -> &'static str {
        match () {
            _ if self.xen => XEN,
            _ if Architecture::or_x86(&self.arch).row().has_kvm_hv => POWERPC,
            _ => KVM,
        }
    }

    /// The same as a sentence; `meanwhile` is when it comes, if not always: `while guests are idle`.
    pub fn sentence(&self, missed: &[Missed], meanwhile: &str) -> String {
        let blank = if meanwhile.is_empty() { "" } else { " " };
        match self.command(missed) {
            Ok(command) => format!("Record with {command}{blank}{meanwhile}."),
            Err(RECORDED) if !meanwhile.is_empty() => {
                format!("The missing events were enabled, but never fired. Record again {meanwhile}.")
            }
            Err(RECORDED) => "The missing events were enabled, but never fired.".to_string(),
            Err(why) => format!("Recording more would not help: {why}"),
        }
    }

    /// A text whose commands do not record what the recording has already: `exitscope events` shows it.
    pub fn worded<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut worded = Cow::Borrowed(text);
        // Every second part is between backticks.
        for command in text.split('`').skip(1).step_by(2).filter(|command| self.has_all_of(command)) {
            worded = worded.replace(&format!("`{command}`"), HAS_IT).into();
        }
        worded
    }

    /// Whether a command records events of which the recording has all; those that it samples with call chains are others.
    pub fn has_all_of(&self, command: &str) -> bool {
        let Some(arguments) = command.strip_prefix("perf record ") else { return false };
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let events: Vec<&str> = words.windows(2).filter(|pair| pair[0] == "-e").map(|pair| pair[1]).collect();
        !words.contains(&"-g") && !events.is_empty() && events.iter().all(|name| self.events.has(name))
    }

    /// The same after other words.
    pub fn clause(&self, missed: &[Missed]) -> String {
        self.command(missed).map_or_else(str::to_string, |command| format!("record with {command}"))
    }
}

/// What shows the events of a recording.
const HAS_IT: &str = "`exitscope events`";

/// Exits, what they are about, halts, yields and the scheduler.
const KVM: &str = "`exitscope record --for 10s` (or `perf record -e 'kvm:*' -e sched:sched_switch -e sched:sched_wakeup -a -- sleep 10`)";

/// The same on powerpc.
const POWERPC: &str = "`exitscope record --for 10s` (or `perf record -e 'kvm_hv:*' -e 'kvm:*' -e sched:sched_switch -e \
    sched:sched_wakeup -a -- sleep 10`)";

/// The same, and the system calls of user space.
const WITH_CALLS: &str = "`exitscope record --for 10s --for-view phases` (or `perf record -e 'kvm:*' -e sched:sched_switch -e \
    sched:sched_wakeup -e raw_syscalls:sys_enter -e raw_syscalls:sys_exit -a -- sleep 10`)";

/// Core runs of POWER7 and POWER8.
pub const CORE_RUNS: &str = "`exitscope record --for 10s` (or `perf record -e 'kvm_hv:*' -a -- sleep 10`)";

const XEN: &str = "`xentrace -D -e 0x000af000 -T 10 FILE`";

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::HostSetting;

    #[test]
    fn exits_and_entries_of_each_architecture_are_missed_by_name() {
        for of in Architecture::ALL.iter().filter(|of| !of.row().exits.is_empty()) {
            for (missed, names) in [(Missed::Exits, of.row().exits), (Missed::Entries, of.row().entries)] {
                let is_listed = names.iter().any(|name| missed.tracepoints().contains(name));
                assert!(is_listed, "{missed:?} of {of:?}: {names:?}");
            }
        }
    }

    fn of(arch: &str, xen: bool) -> HowToRecord {
        HowToRecord::of(&TraceInfo { arch: arch.into(), by_vcpu: xen, ..TraceInfo::default() })
    }

    #[test]
    fn the_command_that_records_is_that_of_the_host() {
        let names = |text: &str| ["xentrace", "kvm_hv:*", "'kvm:*'", "raw_syscalls"].map(|name| text.contains(name));
        let (exits, calls) = (&[Missed::Exits][..], &[Missed::Exits, Missed::Calls][..]);
        for (what, how, missed, expected) in [
            ("x86", of("x86_64", false), exits, [false, false, true, false]),
            ("powerpc", of("ppc64le", false), exits, [false, true, true, false]),
            ("Xen", of("x86_64", true), exits, [true, false, false, false]),
            ("Xen, whatever the machine", of("ppc64le", true), exits, [true, false, false, false]),
            ("with system calls", of("x86_64", false), calls, [false, false, true, true]),
            ("Xen with system calls", of("x86_64", true), calls, [true, false, false, false]),
        ] {
            assert_eq!(names(how.command(missed).unwrap()), expected, "{what}");
        }
    }

    #[test]
    fn no_command_records_what_the_recording_has() {
        let mut info = TraceInfo { format: "perf.data".into(), ..TraceInfo::default() };
        ["kvm:kvm_exit", "kvm:kvm_msr"].iter().for_each(|name| _ = info.names.intern(name));
        let how = HowToRecord::of(&info);
        for (text, worded) in [
            ("its rip says (`perf record -e kvm:kvm_exit -e kvm:kvm_msr`)", "its rip says (`exitscope events`)"),
            ("`perf record -e kvm:kvm_exit -a -- sleep 1`, `top`", "`exitscope events`, `top`"),
            ("`perf record -e kvm:kvm_exit -e kvm:kvm_pio`", "`perf record -e kvm:kvm_exit -e kvm:kvm_pio`"),
            ("`perf record -g -e kvm:kvm_exit`", "`perf record -g -e kvm:kvm_exit`"),
            ("`perf record -e 'kvm:*'`", "`perf record -e 'kvm:*'`"),
            ("`perf record -a`", "`perf record -a`"),
            ("perf record -e kvm:kvm_exit", "perf record -e kvm:kvm_exit"),
        ] {
            assert_eq!(how.worded(text), worded);
        }
        // A trace.dat names events that were not recorded.
        for (format, worded) in [("ftrace text", HAS_IT), ("trace.dat v7", "`perf record -e kvm:kvm_exit`")] {
            info.format = format.into();
            assert_eq!(HowToRecord::of(&info).worded("`perf record -e kvm:kvm_exit`"), worded, "{format}");
        }
    }

    /// No sentence sends anybody in a circle: what a recording has, or what its recorder would have taken, another would not add.
    #[test]
    fn nobody_is_told_to_record_again_what_was_recorded() {
        let mut info = TraceInfo { format: "perf.data".into(), arch: "x86_64".into(), ..TraceInfo::default() };
        info.names.intern("kvm:kvm_exit");
        info.names.intern("kvm:kvm_entry");
        let how = HowToRecord::of(&info);
        assert_eq!(how.command(&[Missed::Exits, Missed::Entries]), Err(RECORDED));
        assert_eq!(how.sentence(&[Missed::Exits], ""), "The missing events were enabled, but never fired.");
        assert!(
            how.sentence(&[Missed::Exits], "while guests are idle")
                .ends_with("never fired. Record again while guests are idle.")
        );
        assert!(how.command(&[Missed::Exits, Missed::Scheduler]).is_ok(), "a part of it was not");
        let silent = HowToRecord { never_fires: true, ..how.clone() };
        assert_eq!(silent.command(&[Missed::Exits, Missed::Scheduler]), Err(NEVER_FIRES));
        assert!(silent.command(&[Missed::Scheduler]).is_ok());
        info.settings.push(HostSetting::new(RECORDER, "events", "1"));
        let ours = HowToRecord::of(&info);
        assert_eq!(ours.command(&[Missed::HaltEnds]), Err(ALL_RECORDED), "this kernel has no such event");
        assert!(ours.sentence(&[Missed::HaltEnds], "while guests halt").ends_with("long enough?"));
        assert!(ours.command(&[Missed::Scheduler]).is_ok(), "--no-sched left it out");
        assert!(ours.command(&[Missed::Calls]).unwrap().contains("--for-view phases"));
        // Xen's run states are all that says what vCPUs do meanwhile.
        let xen = HowToRecord { has_run_states: true, ..of("x86_64", true) };
        assert_eq!(xen.command(Missed::OF_TIME), Err(RUN_STATES));
        assert!(xen.command(&[Missed::Exits, Missed::Entries]).is_ok());
        // What text lists is what came.
        let text = HowToRecord::of(&TraceInfo { format: "ftrace text".into(), ..info });
        assert_eq!(text.command(&[Missed::Exits]), Err(ALL_RECORDED));
        assert!(!text.was_recorded(Missed::Exits));
    }
}
