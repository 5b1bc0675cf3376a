//! What the simulator says of accesses on other ways, for advice about recordings that have none to compare with.
//!
//! ```text
//! one vCPU: compute, access, compute, access, …  ─► time of an access      by user space
//! the same, with a device in the kernel, an ioeventfd, a coalesced zone ─► the share that each spares
//! ```

use crate::AdviceError;
use exitscope_advice::{InKernelPath, RecordedHost};
use exitscope_model::SubjectKind;
use exitscope_scenario::{Assumption, Scenario, ScenarioDocument, assumptions};
use exitscope_sim::{Limits, Unseen, latin_hypercube};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Cost models of x86 hosts under KVM. Of other hosts, the simulator has no costs of these ways.
const MODELS: [&str; 4] = ["default", "small-packet-2019", "broadwell-2016", "ivy-bridge-2016"];

/// Accesses, and where they go: what a step says, and what a registration does.
const ACCESSES: [(SubjectKind, &str, &str); 2] = [
    (SubjectKind::Port, "port_out = 0xc000", "port = 0xc000"),
    (SubjectKind::Mmio, "mmio_write = 0xfeb00000", "address = 0xfeb00000"),
];

/// What was found out since the program began: the same for every machine that has such costs, so that a page that is made
/// each second does not simulate each time.
static FOUND: Mutex<BTreeMap<(SubjectKind, InKernelPath), Vec<f64>>> = Mutex::new(BTreeMap::new());

/// Simulations that were asked for.
pub struct Simulations<'a> {
    host: &'a RecordedHost,
    failed: RefCell<Option<AdviceError>>,
}

impl Simulations<'_> {
    /// Of such machines; none yet.
    pub fn of(host: &RecordedHost) -> Simulations<'_> {
        Simulations { host, failed: RefCell::default() }
    }

    /// The share of an access that a way spares, on each cost model, as it is and with its assumed costs drawn anew; nothing for a machine
    /// that they are not of.
    pub fn shares(&self, kind: SubjectKind, way: InKernelPath) -> Vec<f64> {
        if self.host.xen || !self.host.arch.starts_with("x86") {
            return Vec::new();
        }
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shares) = found.get(&(kind, way)) {
            return shares.clone();
        }
        match simulate(kind, way) {
            Ok(shares) => found.entry((kind, way)).or_insert(shares).clone(),
            Err(error) => {
                self.failed.replace(Some(error));
                Vec::new()
            }
        }
    }

    /// Errors: that a simulation failed.
    pub fn check(self) -> Result<(), AdviceError> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}

/// How often the assumed costs of a model are drawn anew, all at once, within the ranges of docs/scenario.md.
const DRAWS: usize = 12;

fn simulate(kind: SubjectKind, way: InKernelPath) -> Result<Vec<f64>, AdviceError> {
    let Some(access) = ACCESSES.iter().find(|access| access.0 == kind) else { return Ok(Vec::new()) };
    let mut shares = Vec::new();
    for model in MODELS {
        let ways = Ways::of(model, access, way)?;
        shares.push(ways.share(|_| {})?);
        for point in latin_hypercube(DRAWS, ways.assumed.len(), 1) {
            let set = |scenario: &mut Scenario| {
                ways.assumed.iter().zip(&point).for_each(|(assumption, at)| assumption.set(scenario, *at));
            };
            shares.push(ways.share(set)?);
        }
    }
    Ok(shares)
}

/// An access by user space and the same on another way, on one cost model.
struct Ways {
    scenarios: [Scenario; 2],
    /// What of their costs is assumed.
    assumed: Vec<Assumption>,
}

impl Ways {
    fn of(model: &str, (_, step, place): &(SubjectKind, &str, &str), way: InKernelPath) -> Result<Ways, AdviceError> {
        let name = match way {
            InKernelPath::Device => "kernel",
            InKernelPath::Ioeventfd => "ioeventfd",
        };
        let register = format!("register = [{{ kind = '{name}', {place} }}]");
        let read = |register: &str| {
            let text = format!(
                "name = 'ways'\nwarmup = '100us'\nduration = '2ms'\n[host]\ncores = 1\n[costs]\nmodel = '{model}'\n\
                 [[vm]]\nname = 'guest'\n{register}\n\
                 [[vm.program]]\nsteps = [{{ forever = [{{ compute = '10us' }}, {{ {step} }}, 'count'] }}]\n"
            );
            ScenarioDocument::parse("ways", &text)?.scenario()
        };
        let scenarios = [read("")?, read(&register)?];
        let assumed = assumptions(&scenarios[0]);
        Ok(Ways { scenarios, assumed })
    }

    /// The share of the access that the other way spares, with costs as `set` makes them.
    fn share(&self, set: impl Fn(&mut Scenario)) -> Result<f64, AdviceError> {
        let time = |scenario: &Scenario| {
            let mut scenario = scenario.clone();
            set(&mut scenario);
            time(&scenario)
        };
        Ok(1.0 - time(&self.scenarios[1])? / time(&self.scenarios[0])?)
    }
}

/// Time of an access, outside the guest, in nanoseconds.
fn time(scenario: &Scenario) -> Result<f64, AdviceError> {
    let (outcome, _) = exitscope_sim::run(scenario, Unseen, Limits::default())?;
    let vm = &outcome.vms[0];
    let time = vm.time.kernel.0 + vm.time.user.0;
    Ok(time as f64 / vm.work.count.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_spares_something_and_none_all_of_it() {
        let host = RecordedHost { arch: "x86_64".to_string(), ..RecordedHost::default() };
        let simulations = Simulations::of(&host);
        for (kind, ..) in ACCESSES {
            for way in [InKernelPath::Device, InKernelPath::Ioeventfd] {
                let shares = simulations.shares(kind, way);
                assert_eq!(shares.len(), MODELS.len() * (1 + DRAWS));
                assert!(shares.iter().all(|share| 0.0 < *share && *share < 1.0), "{kind:?} {way:?}: {shares:?}");
                assert_eq!(simulations.shares(kind, way), shares, "the second time, too");
            }
        }
        simulations.check().unwrap();
        let powerpc = RecordedHost { arch: "ppc64le".to_string(), ..RecordedHost::default() };
        assert!(Simulations::of(&powerpc).shares(SubjectKind::Port, InKernelPath::Device).is_empty());
    }

    /// What the reason of such a gain says: crates/advice/src/rules/simulated_gain.rs.
    #[test]
    fn what_is_said_to_move_the_shares_most_does() {
        for access in &ACCESSES {
            for way in [InKernelPath::Device, InKernelPath::Ioeventfd] {
                let ways = Ways::of("default", access, way).unwrap();
                let moved = |assumption: &Assumption| {
                    let [low, high] = [0.0, 1.0].map(|at| ways.share(|scenario| assumption.set(scenario, at)).unwrap());
                    (high - low).abs()
                };
                let most = ways.assumed.iter().max_by(|one, other| moved(one).total_cmp(&moved(other))).unwrap();
                let said = if way == InKernelPath::Device { "costs.device" } else { "costs.eventfd" };
                assert_eq!(most.key, said, "{:?} {way:?}", access.0);
            }
        }
    }
}
