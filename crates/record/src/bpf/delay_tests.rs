//! The kernel takes the programs; and run by `BPF_PROG_TEST_RUN`, as if this process had exits, they keep their bounds.

use super::super::delay_program::{BUDGET, WINDOW};
use super::*;
use exitscope_skips::{Part, Skipped, or_skip, skip};

/// `reason` and `errno` as arguments.
const LEAVE: CountRole =
    CountRole::UserspaceExit([FieldLocation { offset: 0, size: 4 }, FieldLocation { offset: 8, size: 4 }]);
const IO: u32 = 2;
const INTR: u32 = 10;
const SECOND: u64 = 1_000_000_000;

/// A program that is attached to nothing.
struct Loose {
    maps: DelayMaps,
    program: OwnedFd,
    cpus: usize,
}

impl Loose {
    /// For exits of this process.
    fn new(process: u32, reason: Option<u32>) -> Result<Loose, Skipped> {
        let maps = match maps() {
            Ok(maps) => maps,
            Err(NoBpf::Forbidden(error)) => return Err(skip(Part::Bpf, error)),
            Err(NoBpf::Trouble(error)) => panic!("{error}"),
        };
        let of = DelayedBy { process, reason: reason.map(|reason| (LEAVE, reason)) };
        let program = sys::load(&delay_program(of, &maps), ProgramKind::RawTracepoint);
        let program = program.unwrap_or_else(|(error, log)| panic!("{error}: {log}"));
        Ok(Loose { maps, program, cpus: possible_cpus().expect("CPUs") as usize })
    }

    fn of_this_process() -> Result<Loose, Skipped> {
        Loose::new(std::process::id(), None)
    }

    fn exit(&self, reason: u32, errno: i32) {
        let words = [u64::from(reason), errno as u32 as u64].map(u64::to_ne_bytes).concat();
        sys::test_run(&self.program, &words).expect("a run");
    }

    /// What that many exits more are counted as.
    fn exits(&self, many: u32) -> DelayCounts {
        let before = self.counts();
        (0..many).for_each(|_| self.exit(IO, 0));
        self.counts().since(&before)
    }

    fn set(&self, delay: u64) {
        self.set_until(delay, sys::now() + 60 * SECOND);
    }

    fn set_until(&self, delay: u64, until: u64) {
        control(&self.maps, delay, until).expect("a map");
    }

    fn counts(&self) -> DelayCounts {
        counts(&self.maps, self.cpus).expect("maps")
    }

    /// The shortest delay of a few, which nothing else has made longer.
    fn shortest(&self) -> u64 {
        let delays = (0..1_000_000).map(|_| self.exits(1)).filter(|counts| counts.delayed == 1);
        delays.take(30).map(|counts| counts.spun.0).min().expect("a delay")
    }
}

#[test]
fn an_exit_is_delayed_by_what_was_asked_for_and_hardly_more() {
    let loose = or_skip!(Loose::of_this_process());
    for delay in [200, 1_000, 5_000] {
        loose.set(delay);
        let shortest = loose.shortest();
        assert!((delay..delay + 2_000).contains(&shortest), "{delay}: {shortest}");
    }
}

#[test]
fn no_delay_in_the_map_is_longer_than_the_program_allows() {
    let loose = or_skip!(Loose::of_this_process());
    for delay in [MAX_DELAY + 1, SECOND, u64::MAX] {
        loose.set(delay);
        let shortest = loose.shortest();
        assert!((MAX_DELAY..2 * MAX_DELAY).contains(&shortest), "{delay}: {shortest}");
    }
}

#[test]
fn a_thread_is_delayed_by_no_more_than_its_share_of_the_time() {
    let loose = or_skip!(Loose::of_this_process());
    loose.set(MAX_DELAY);
    let (began, mut windows) = (sys::now(), 0);
    while windows < 20 {
        loose.exits(200);
        windows = (sys::now() - began) / WINDOW;
    }
    let counts = loose.counts();
    // The last delay of a window may end beyond the budget, as what interrupts a delay counts.
    let most = (windows + 2) * (BUDGET + counts.longest.0);
    assert!(counts.spun.0 <= most, "{counts:?} in {windows} windows");
    assert!(counts.skipped > 0 && counts.delayed > 0, "{counts:?}");
    assert_eq!((counts.exits, counts.lost), (counts.delayed + counts.skipped, 0));
    assert_eq!(BUDGET * 100 / WINDOW, ExitDelay::MAX_SHARE);
}

#[test]
fn nothing_is_delayed_or_counted_without_a_lease() {
    let loose = or_skip!(Loose::of_this_process());
    assert_eq!(loose.exits(10), DelayCounts::default(), "no lease was given");
    loose.set(1_000);
    assert_eq!(loose.exits(10).exits, 10);
    let longest = loose.counts().longest;
    loose.set_until(1_000, sys::now() - 1);
    assert_eq!(loose.exits(10), DelayCounts { longest, ..DelayCounts::default() }, "it has run out");
}

#[test]
fn exits_are_counted_and_not_delayed_by_a_delay_of_0() {
    let loose = or_skip!(Loose::of_this_process());
    loose.set(0);
    assert_eq!(loose.exits(10), DelayCounts { exits: 10, ..DelayCounts::default() });
    assert_eq!(loose.counts().mean_delay(), Some(0.0));
}

#[test]
fn only_the_wanted_process_and_the_wanted_reason_are_delayed() {
    let other = or_skip!(Loose::new(1, None));
    other.set(1_000);
    assert_eq!(other.exits(10), DelayCounts::default());
    // Reason, error, and whether it is one of IO, one of INTR.
    for (reason, errno, is_io, is_intr) in
        [(IO, 0, 1, 0), (6, 0, 0, 0), (IO, -4, 0, 1), (INTR, -4, 0, 1), (INTR, 0, 0, 1), (IO, 1, 1, 0)]
    {
        for (wanted, counted) in [(IO, is_io), (INTR, is_intr), (0x8000_0002, 0)] {
            let loose = Loose::new(std::process::id(), Some(wanted)).unwrap();
            loose.set(200);
            loose.exit(reason, errno);
            assert_eq!(loose.counts().delayed, counted, "{reason} with {errno}, where {wanted} is wanted");
        }
    }
}

#[test]
fn exits_of_threads_without_room_are_counted_as_lost() {
    let mut loose = or_skip!(Loose::of_this_process());
    loose.maps.states = sys::map(sys::HASH, 8, STATE_SIZE as u32, 1, None).expect("a map");
    let of = DelayedBy { process: std::process::id(), reason: None };
    loose.program = sys::load(&delay_program(of, &loose.maps), ProgramKind::RawTracepoint).expect("a program");
    loose.set(1_000);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| loose.exits(5)).join().expect("exits");
        }
    });
    let counts = loose.counts();
    assert_eq!((counts.exits, counts.delayed + counts.skipped, counts.lost), (5, 5, 5));
    assert_eq!(counts.mean_delay(), Some(counts.spun.0 as f64 / 10.0));
}

#[test]
fn the_kernel_takes_the_program_at_each_tracepoint_with_a_reason_and_without() {
    let started = [DelayedExits::All, DelayedExits::ToUserSpace].map(|exits| {
        let maps = maps().map_err(refusal)?;
        // Also where kvm_exit does not fire, its program can be loaded.
        let found = find(&tracefs()?, &[&format!("kvm:{}", exits.tracepoint())])?.remove(0);
        let format = Format::parse(&found.format).expect("a format");
        let role = Decoder::new("kvm", &format, &mut EventNames::default()).role().expect("a role");
        let source = (found, role);
        for reason in [None, Some(IO), Some(INTR), Some(u32::MAX)] {
            load_program(&source, 1, reason, &maps).map_err(refusal)?;
            let of = DelayedBy { process: 1, reason: reason.map(|reason| (role, reason)) };
            load(&source.0, &delay_program(of, &maps), ProgramKind::Tracepoint).map_err(refusal)?;
        }
        Ok(())
    });
    match started.into_iter().find_map(Result::err) {
        None => {}
        Some(trouble @ (RecordError::Refused { .. } | RecordError::NoBoundedLoop)) => panic!("{trouble}"),
        Some(trouble) => or_skip!(Err(skip(Part::Bpf, trouble))),
    }
}

#[test]
fn what_is_asked_for_beyond_the_bound_is_refused() {
    let delay = DelayedExits::widest().and_then(|exits| ExitDelay::start(1, exits, None));
    let mut delay = or_skip!(delay.map_err(|error| skip(Part::Bpf, error)));
    assert!(matches!(delay.set(Nanos(MAX_DELAY + 1)), Err(RecordError::DelayTooLong { .. })));
    delay.set(Nanos(MAX_DELAY)).expect("a delay");
    delay.end_lease().expect("no delay");
    assert_eq!(delay.counts().expect("counts"), DelayCounts::default(), "process 1 has no exits");
    assert_eq!(
        refusal(NoBpf::Forbidden(io::Error::other("no"))).to_string().split(':').next(),
        Some("exits cannot be delayed")
    );
}

#[test]
fn a_clock_that_is_coarse_or_slow_to_read_is_told_from_a_fine_one() {
    let clock = |each: u64, step: u64| {
        let mut time = 0;
        shortest_step(move || {
            time += each;
            time / step * step
        })
    };
    assert_eq!((clock(20, 1), clock(20, 100), clock(10, 4_000_000), clock(3_000, 1)), (20, 100, 4_000_000, 3_000));
}
