//! A run of the simulator, or of the lab's guests, as a perf.data file: what a recording of such a host would hold.

use exitscope_model::{Event, EventNames, HostSetting, SIMULATED};
use exitscope_policy::Knob;
use exitscope_policy::host_halt_poll::Params as HaltPoll;
use exitscope_scenario::{Arch, Scenario};
use exitscope_sim::{Observer, event_names, processes};
use exitscope_trace::{PerfHead, PerfWriter, WrittenTrace};
use exitscope_units::{Moment, Tid, VcpuId, VmId};
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io;

/// Writes the events of the lab's guests, which are in the order of time, and says what was written.
pub fn write_events(to: &File, head: &PerfHead, events: &[Event]) -> io::Result<WrittenTrace> {
    let mut named = FxHashSet::default();
    let mut writer = PerfWriter::new(to, head)?;
    for event in events {
        if event.vm != VmId::UNKNOWN && named.insert(event.tid) {
            writer.thread(event.at, event.vm, Tid(event.vm.0), "exitscope lab")?;
            writer.thread(event.at, event.vm, event.tid, &format!("CPU {}/KVM", event.vcpu.0))?;
        }
        writer.event(event)?;
    }
    writer.finish()
}

/// Writes events from the end of the warm-up on.
pub struct SimTraceWriter<'a> {
    writer: PerfWriter<&'a File>,
    from: Moment,
    /// vCPU threads that have their names.
    named: FxHashSet<Tid>,
    /// What went wrong; nothing is written from then on.
    error: Option<io::Error>,
}

impl<'a> SimTraceWriter<'a> {
    /// Begins a file.
    pub fn new(to: &'a File, scenario: &Scenario) -> io::Result<SimTraceWriter<'a>> {
        // The processor tells `perf kvm stat` whose exit codes these are.
        let (arch, cpuid) = match scenario.host.arch {
            Arch::Vmx => ("x86_64", "GenuineIntel,6,85,7"),
            Arch::Svm => ("x86_64", "AuthenticAMD,23,49,0"),
            Arch::Powerpc => ("ppc64le", "004d0200"),
            Arch::S390 => ("s390x", "IBM,3906,704,M04"),
        };
        let names: EventNames = event_names();
        // As a recorder of a host does: advice speaks of polling only where it is said what was in force.
        let polling = scenario.policies.host_halt_poll;
        let setting =
            |knob: &Knob| Some(HostSetting::new("kvm", knob.name, knob.text(polling.get(knob.name)?).to_string()));
        let settings: Vec<HostSetting> = HaltPoll::KNOBS.iter().filter_map(setting).collect();
        let command = ["exitscope", "sim", &scenario.name].map(String::from);
        let head = PerfHead {
            arch,
            cpuid,
            cpu: SIMULATED,
            settings: &settings,
            hostname: SIMULATED,
            release: SIMULATED,
            cpus: scenario.host.cpus(scenario.policies.vcore.subcores_per_core),
            command: &command,
            names: &names,
            compressed: false,
        };
        let from = Moment::from_nanos(scenario.warmup.as_nanos());
        let mut writer = PerfWriter::new(to, &head)?;
        for (vm, name) in processes(scenario) {
            writer.thread(from, vm, Tid(vm.0), &name)?;
        }
        Ok(SimTraceWriter { writer, from, named: FxHashSet::default(), error: None })
    }

    /// Writes the end of the file, and says what was written.
    pub fn finish(self) -> io::Result<WrittenTrace> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        // The runner of a ganged core tells of all its vCPUs; only a thread of its own has a vCPU's name.
        if event.vm != VmId::UNKNOWN && event.vcpu != VcpuId::UNKNOWN && self.named.insert(event.tid) {
            self.writer.thread(event.at, event.vm, event.tid, &format!("CPU {}/KVM", event.vcpu.0))?;
        }
        self.writer.event(event)
    }
}

impl Observer for SimTraceWriter<'_> {
    const WANTED: bool = true;

    fn event(&mut self, event: Event) {
        if event.at >= self.from && self.error.is_none() {
            self.error = self.write(&event).err();
        }
    }
}
