//! What is known of this host: what a recording made on it says, and on which VMs a setting of it acts.

use exitscope_advice::{HaltPollScope, halt_poll_reach};
use exitscope_apply::{SETTINGS, SettingPlace};
use exitscope_lab::host;
use exitscope_model::{EventNames, HostSetting, TraceInfo};
use exitscope_trace::PerfHead;
use std::fs;
use std::path::Path;

/// This host, as it is now.
pub struct LiveHost {
    hostname: String,
    release: String,
    cpu: String,
    cpuid: String,
    command: Vec<String>,
    settings: Vec<HostSetting>,
}

impl LiveHost {
    /// Looks.
    pub fn new() -> LiveHost {
        let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        LiveHost {
            hostname: read("/proc/sys/kernel/hostname"),
            release: read("/proc/sys/kernel/osrelease"),
            cpu: host::of_cpu("model name"),
            // As perf spells it on x86.
            cpuid: ["vendor_id", "cpu family", "model", "stepping"].map(host::of_cpu).join(","),
            command: std::env::args().collect(),
            settings: host::settings(settings_in_files()),
        }
    }

    /// Adds what the recorder says of itself, whose values are known later; returns the place of the first.
    pub fn add(&mut self, settings: impl IntoIterator<Item = HostSetting>) -> usize {
        let place = self.settings.len();
        self.settings.extend(settings);
        place
    }

    /// What is known of what happens here, as if a recording said it.
    pub fn info(self) -> TraceInfo {
        TraceInfo {
            format: "live".to_string(),
            arch: std::env::consts::ARCH.to_string(),
            hostname: self.hostname,
            release: self.release,
            clock: "CLOCK_MONOTONIC".to_string(),
            cpus: cpus(),
            cpu: self.cpu,
            settings: self.settings,
            ..TraceInfo::default()
        }
    }

    /// The head of a recording of these tracepoints.
    pub fn head<'a>(&'a self, names: &'a EventNames, compressed: bool) -> PerfHead<'a> {
        PerfHead {
            arch: std::env::consts::ARCH,
            cpuid: &self.cpuid,
            cpu: &self.cpu,
            settings: &self.settings,
            hostname: &self.hostname,
            release: &self.release,
            cpus: cpus(),
            command: &self.command,
            names,
            compressed,
        }
    }
}

/// Settings that a file of the host's has, as [`SETTINGS`] calls them.
fn settings_in_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETTINGS.iter().filter_map(|of| match of.place {
        SettingPlace::File(path) => Some((of.name, path)),
        _ => None,
    })
}

/// CPUs that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, usize::from) as u32
}

/// On which VMs a new `halt_poll_ns` acts on the host below `root`.
pub fn halt_poll_scope(root: &Path) -> HaltPollScope {
    halt_poll_reach(fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::host_memory;

    #[test]
    fn what_rules_ask_of_the_hosts_memory_is_recorded_where_the_host_has_it() {
        let recorded = LiveHost::new().settings;
        for name in host_memory::ALL {
            let (_, path) = settings_in_files().find(|of| of.0 == name).unwrap();
            let value = fs::read_to_string(path).ok().map(|text| text.trim().to_string());
            let found = recorded.iter().find(|of| (of.of.as_str(), of.name.as_str()) == ("host", name));
            assert_eq!(found.map(|of| of.value.clone()), value, "{name}");
        }
    }
}
