//! Whether `lab run` and the experiments on single mechanisms measure the same of the same programs: in turns, on this machine.
//!
//! ```text
//! haltpoll, yield, gang, pio: a turn ─┐
//!                                     ├─► the logarithm of their ratio, round by round ─► Student's t, Holm over all pairs
//! lab run of the same programs ───────┘
//! ```
//!
//! Every second round begins with the other side. Of polling, what it gains is compared, too: a ratio within each side, of which the
//! sign decides what is advised.

use crate::dispatcher::Dispatched;
use crate::exits::Timed;
use crate::gang::{self, GangCase, GangGuest, SiblingLoad};
use crate::haltpoll::{Played, PollMode, player};
use crate::loaded_vm::repeated;
use crate::measure::MeasurePlan;
use crate::pio;
use crate::run::{self, RunOptions};
use crate::session::LabSession;
use crate::yielding::{Contention, ContentionCase, ContentionRun, THREADS, VCPUS, WaiterCall, contender};
use crate::{LabError, LabMachine};
use exitscope_policy::port_path::{DeviceModel, Direction, PortRegistration};
use exitscope_scenario::findings::{Findings, Unit};
use exitscope_scenario::{HandlerSpec, HostSpec, Op, RegistrationKind, Scenario, VmSpec};
use exitscope_stats::{MeanChange, holm};
use exitscope_units::Nanos;

/// Sides that differ by less than this factor for certain are said to agree.
pub const ALIKE: f64 = 1.1;

/// At this level a difference is certain, corrected for the number of pairs.
const LEVEL: f64 = 0.05;

/// For how long guests poll that do, and how long vCPUs compute between balls: once within a poll's reach, once beyond.
const POLL_NS: u64 = 200_000;
const GAPS_NS: [u64; 2] = [20_000, 300_000];

/// One thing that both sides measured.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The experiment.
    pub experiment: &'static str,
    /// What it ran.
    pub setting: String,
    /// What both figures count.
    pub unit: Unit,
    /// Of each round: the experiment's figure, and that of `lab run`.
    pub rounds: Vec<(f64, f64)>,
}

/// What rounds say of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgreementVerdict {
    /// The interval of their ratio is within [`ALIKE`].
    Agree,
    /// Chance does not make such a difference, of so many pairs.
    Differ,
    /// Neither.
    Open,
}

impl Agreement {
    fn change(&self) -> Option<MeanChange> {
        let logs = self.rounds.iter().map(|(own, run)| (own.ln(), run.ln()));
        MeanChange::paired(&logs.filter(|(own, run)| own.is_finite() && run.is_finite()).collect::<Vec<_>>())
    }

    /// How many times as much as the experiment `lab run` has: the geometric mean, and its 95 % interval.
    pub fn ratio(&self) -> Option<(f64, (f64, f64))> {
        let change = self.change()?;
        let (low, high) = change.interval(LEVEL);
        Some((change.by.exp(), (low.exp(), high.exp())))
    }

    /// Both sides' geometric means.
    pub fn means(&self) -> (f64, f64) {
        let mean = |of: fn(&(f64, f64)) -> f64| {
            (self.rounds.iter().map(|round| of(round).ln()).sum::<f64>() / self.rounds.len().max(1) as f64).exp()
        };
        (mean(|round| round.0), mean(|round| round.1))
    }
}

/// What rounds say of each pair, all of them together.
pub fn verdicts(all: &[Agreement]) -> Vec<AgreementVerdict> {
    let p_values: Vec<Option<f64>> = all.iter().map(|of| Some(of.change()?.p_value())).collect();
    let of = |(pair, differs): (&Agreement, bool)| match pair.ratio() {
        Some((_, (low, high))) if low > 1.0 / ALIKE && high < ALIKE => AgreementVerdict::Agree,
        Some(_) if differs => AgreementVerdict::Differ,
        _ => AgreementVerdict::Open,
    };
    all.iter().zip(holm(&p_values, LEVEL)).map(of).collect()
}

/// Makes an experiment's figure in a turn.
type OwnTurn<'a> = Box<dyn FnMut(&mut LabSession) -> Result<f64, LabError> + 'a>;

/// One pair to be measured.
struct Pair<'a> {
    experiment: &'static str,
    setting: String,
    unit: Unit,
    own: OwnTurn<'a>,
    scenario: Scenario,
    /// The figure of the scenario's VM that is compared, as `lab run` names it.
    figure: &'static str,
}

/// Measures all pairs, and says of which machine they are: findings without tables.
pub fn run(machine: &LabMachine, plan: &MeasurePlan) -> Result<(Vec<Agreement>, Findings), LabError> {
    let mut session = LabSession::new(machine, plan, true)?;
    let mut pairs = haltpoll_pairs(&session)?;
    let polls = pairs.len();
    pairs.extend(yield_pairs(machine)?);
    pairs.extend(gang_pairs(machine)?);
    pairs.extend(pio_pairs(machine, plan)?);
    let of = |pair: &Pair| Agreement {
        experiment: pair.experiment,
        setting: pair.setting.clone(),
        unit: pair.unit,
        rounds: Vec::new(),
    };
    let mut all: Vec<Agreement> = pairs.iter().map(of).collect();
    session.take_turns(pairs.len(), |session, round, at| {
        let pair = &mut pairs[at];
        let run_first = round.is_some_and(|round| round % 2 == 1);
        let before = if run_first { Some(by_run(machine, plan, pair)?) } else { None };
        // As `lab run` does before its turn, by which the threads of a turn may get less of a busy CPU (docs/lab-agreement.md).
        session.measure_speed()?;
        let own = (pair.own)(session)?;
        let run = match before {
            Some(run) => run,
            None => by_run(machine, plan, pair)?,
        };
        if round.is_some() {
            all[at].rounds.push((own, run));
        }
        Ok(())
    })?;
    let gains: Vec<Agreement> = all[..polls].chunks(2).zip(GAPS_NS).map(|(two, gap)| gain(two, gap)).collect();
    all.splice(polls..polls, gains);
    Ok((all, session.findings("agree", "")?))
}

/// What polling gains, by each side: how many times as many round trips as without.
fn gain(two: &[Agreement], gap_ns: u64) -> Agreement {
    let rounds = two[0].rounds.iter().zip(&two[1].rounds);
    Agreement {
        experiment: "haltpoll",
        setting: format!("{} of work: what {} of polling gain", Nanos(gap_ns), Nanos(POLL_NS)),
        unit: Unit::Count,
        rounds: rounds.map(|(none, polls)| (polls.0 / none.0, polls.1 / none.1)).collect(),
    }
}

/// The figure of `lab run`, as it prints it.
fn by_run(machine: &LabMachine, plan: &MeasurePlan, pair: &Pair) -> Result<f64, LabError> {
    let (findings, _) = run::run(machine, &pair.scenario, RunOptions::of_turn(plan))?;
    let figure = findings.tables.first().and_then(|table| table.rows.first()?.figure(pair.figure));
    figure.map(|figure| figure.value).ok_or_else(|| LabError::CannotDo(format!("lab run has no {}", pair.figure)))
}

/// A scenario of one VM.
fn of_vm(machine: &LabMachine, vm: VmSpec) -> Scenario {
    let mut scenario = Scenario::new(&vm.name.clone(), HostSpec::new(machine.cpus.len() as u32));
    scenario.vms.push(vm);
    scenario
}

fn haltpoll_pairs<'a>(session: &LabSession) -> Result<Vec<Pair<'a>>, LabError> {
    let mut pairs = Vec::new();
    for gap_ns in GAPS_NS {
        for poll_ns in [0, POLL_NS] {
            let (polls, said) = match poll_ns {
                0 => (PollMode::RunLoop(0), "nobody polls".to_string()),
                ns => (PollMode::GuestInRunLoop(ns), format!("the guest polls {}", Nanos(ns))),
            };
            let mut played = Played::new(session, polls, gap_ns)?.map_err(LabError::CannotDo)?;
            let mut vm = [0, 1]
                .into_iter()
                .fold(VmSpec::new("ping-pong", 2), |vm, vcpu| vm.running_on(vcpu, repeated(0, player(vcpu, gap_ns))));
            vm.cpuidle_haltpoll = poll_ns > 0;
            vm.policies.guest_halt_poll.guest_halt_poll_ns = Nanos(poll_ns);
            vm.policies.host_halt_poll.halt_poll_ns = Nanos(0);
            pairs.push(Pair {
                experiment: "haltpoll",
                setting: format!("{} of work between balls, {said}: round trips", Nanos(gap_ns)),
                unit: Unit::PerSecond,
                own: Box::new(move |session| {
                    played.turn(session, Some(0), false)?;
                    Ok(played.last_rate())
                }),
                scenario: of_vm(session.machine(), vm),
                figure: "rate",
            });
        }
    }
    Ok(pairs)
}

fn yield_pairs<'a>(machine: &LabMachine) -> Result<Vec<Pair<'a>>, LabError> {
    let mut pairs = Vec::new();
    for (vcpus, said) in [(THREADS as u32, "a thread each"), (VCPUS, "the dispatcher against the kernel's scheduler")] {
        let mut contention = Contention::with(machine, vcpus)?;
        let case = ContentionCase { sleep_ns: 0, says: WaiterCall::Nothing, spin_retry: 0 };
        let mut vm = VmSpec::new("lock", vcpus).running(repeated(0, contender(0)));
        vm.locks = vec!["lock".to_string()];
        vm.policies.yielding = case.says.policy(case.spin_retry).0.yielding;
        pairs.push(Pair {
            experiment: "yield",
            setting: format!("{vcpus} vCPUs contend for a lock without any call, {said}: locks"),
            unit: Unit::PerSecond,
            own: Box::new(move |session| {
                let (machine, plan) = (session.machine(), session.plan());
                let run = ContentionRun { rounds: 0, length: plan.turn(), pin: plan.pin, events: false };
                let turn = session.possible("holders of the lock", |speed| {
                    let turn = contention.turn(machine, speed, case, run)?;
                    let computed = turn.computed;
                    Ok((turn, computed))
                })?;
                let Dispatched { span, counted, .. } = turn.dispatched;
                Ok(span.rate(counted))
            }),
            scenario: of_vm(machine, vm),
            figure: "rate",
        });
    }
    Ok(pairs)
}

fn gang_pairs<'a>(machine: &LabMachine) -> Result<Vec<Pair<'a>>, LabError> {
    let mut pairs = Vec::new();
    for beside in [SiblingLoad::Idle, SiblingLoad::Exits, SiblingLoad::Storm] {
        let mut group = GangGuest::new(machine)?;
        let program = |body: Vec<Op>| repeated(0, body);
        let vm = match beside.neighbour() {
            None => VmSpec::new("loop", 1).running(program(gang::computer())),
            Some(body) => VmSpec::new("loop", 2).running_on(0, program(gang::computer())).running_on(1, program(body)),
        };
        pairs.push(Pair {
            experiment: "gang",
            setting: format!("a compute loop beside {}, a virtual core each: rounds", beside.name()),
            unit: Unit::PerSecond,
            own: Box::new(move |session| {
                let (machine, plan) = (session.machine(), session.plan());
                let case = GangCase { width: 1, beside, pin: plan.pin, events: false };
                let turn = session.possible("the compute loop", |speed| {
                    let turn = group.turn(machine, speed, &case, 0, plan.turn())?;
                    let computed = turn.computed;
                    Ok((turn, computed))
                })?;
                Ok(turn.ganged.span.rate(turn.ganged.counted))
            }),
            scenario: of_vm(machine, vm),
            figure: "rate",
        });
    }
    Ok(pairs)
}

fn pio_pairs<'a>(machine: &'a LabMachine, plan: &'a MeasurePlan) -> Result<Vec<Pair<'a>>, LabError> {
    let mut pairs = Vec::new();
    for (access, registration, thread) in pio::WAYS {
        let op = Op::Port {
            port: access.port,
            size: access.size,
            write: access.direction == Direction::Out,
            string: access.string,
        };
        let mut vm = VmSpec::new("port", 1).running(repeated(0, vec![Op::Start, op, Op::Stop, Op::Count]));
        vm.policies.port_path.device_model = if thread { DeviceModel::Scheduled } else { DeviceModel::Inline };
        let (kind, len) = match registration {
            None => (None, 0),
            // KVM has no in-kernel device at a port that a scenario chooses.
            Some(PortRegistration::Device { .. }) => continue,
            Some(PortRegistration::Ioeventfd { len, .. }) => {
                (Some(RegistrationKind::Ioeventfd { size: len, datamatch: None }), 1)
            }
            Some(PortRegistration::Coalesced { len, .. }) => (Some(RegistrationKind::Coalesced), len),
        };
        let first = u64::from(access.port);
        let last = first + u64::from(len).saturating_sub(1);
        vm.registrations.extend(kind.map(|kind| HandlerSpec { port: true, first, last, kind }));
        let mut timed =
            Timed::new(machine, pio::spec(machine, access, registration, thread), plan)?.map_err(LabError::CannotDo)?;
        let labels = pio::labels(machine, access, registration, thread);
        pairs.push(Pair {
            experiment: "pio",
            setting: format!("{}, {}, {}: time", labels[0], labels[1], labels[2]),
            unit: Unit::Nanos,
            own: Box::new(move |_| {
                timed.turn(machine, plan, Some(0), false)?;
                let last = timed.series.rounds().last().copied();
                last.map(|ticks| machine.ns_in(ticks))
                    .ok_or_else(|| LabError::CannotDo("lab pio gave no samples".into()))
            }),
            scenario: of_vm(machine, vm),
            figure: "p50",
        });
    }
    Ok(pairs)
}
