//! What is in force on this host: who runs its guests, with which parameters, on what kind of machine.
//!
//! ```text
//! /sys/module/{kvm, kvm_amd, …, haltpoll}/parameters/* · the files of knobs · clock source, governor, SMT, idle driver
//! · files that the caller names
//! ```

use exitscope_model::{BOOT_ID, HostSetting};
use exitscope_policy::{Knob, KnobLocation, all_knobs};
use flate2::read::GzDecoder;
use std::fs;
use std::io::Read;
use std::path::Path;

/// The modules that KVM's back end may be in.
const BACK_ENDS: [&str; 5] = ["kvm_intel", "kvm_amd", "kvm_pvm", "kvm_hv", "kvm_pr"];

/// The modules of every back end and of the guest's own polling.
const OTHERS: [&str; 3] = ["kvm", "haltpoll", "cpuidle_haltpoll"];

/// What the machine is doing, by the name under which it is recorded.
const FILES: [(&str, &str); 7] = [
    (BOOT_ID, "/proc/sys/kernel/random/boot_id"),
    (CLOCK_SOURCE, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    (GOVERNOR, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("smt", "/sys/devices/system/cpu/smt/control"),
    ("cpus_online", "/sys/devices/system/cpu/online"),
    ("cpuidle_driver", "/sys/devices/system/cpu/cpuidle/current_driver"),
    ("cpuidle_governor", "/sys/devices/system/cpu/cpuidle/current_governor"),
];

/// Of `host`: the clock source, the frequency governor of the first CPU, and the module that the back end is in.
pub const CLOCK_SOURCE: &str = "clock_source";
/// See [`CLOCK_SOURCE`].
pub const GOVERNOR: &str = "governor";
/// See [`CLOCK_SOURCE`].
pub const BACK_END: &str = "back_end";

/// Who accounts for the time of guests, as the kernel was built: at each exit and entry, or at the tick. `None`: its
/// configuration cannot be read.
pub fn time_accounting() -> Option<String> {
    let config = kernel_config()?;
    let nohz_full = fs::read_to_string("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    accounting_of(&config, nohz_full.trim())
}

/// `CONFIG_VIRT_CPU_ACCOUNTING_GEN` accounts on CPUs whose context is tracked alone: those of nohz_full=
/// (vtime_accounting_enabled_this_cpu() of include/linux/vtime.h, Linux 6.12).
fn accounting_of(config: &str, nohz_full: &str) -> Option<String> {
    let is_set = |option: &str| config.lines().any(|line| line.strip_suffix("=y") == Some(option));
    let list = Some(nohz_full).filter(|list| !list.is_empty() && *list != "(null)");
    if is_set("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE") {
        return Some("at each exit and entry (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE)".to_string());
    }
    if is_set("CONFIG_VIRT_CPU_ACCOUNTING_GEN") {
        return Some(match list {
            Some(cpus) => format!("at each exit and entry on CPUs {cpus} (nohz_full), at the tick on others"),
            None => "at the tick (CONFIG_VIRT_CPU_ACCOUNTING_GEN, no CPU in nohz_full)".to_string(),
        });
    }
    is_set("CONFIG_TICK_CPU_ACCOUNTING").then(|| "at the tick (CONFIG_TICK_CPU_ACCOUNTING)".to_string())
}

/// The running kernel's configuration, where it is kept.
fn kernel_config() -> Option<String> {
    let packed = || {
        let mut text = String::new();
        GzDecoder::new(fs::File::open("/proc/config.gz").ok()?).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let release = read("/proc/sys/kernel/osrelease")?;
    let plain = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    packed().or_else(|| plain.iter().find_map(|path| fs::read_to_string(path).ok()))
}

/// Everything that is in force and may be read, that of one module side by side: `host`, then modules. `others` are further files of
/// the host's, by name.
pub fn settings<'a>(others: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<HostSetting> {
    let mut settings = vec![HostSetting::new("host", BACK_END, back_end())];
    let others = others.filter(|(name, _)| FILES.iter().all(|file| file.0 != *name));
    for (name, path) in FILES.into_iter().chain(others) {
        settings.extend(read(path).map(|value| HostSetting::new("host", name, value)));
    }
    for knob in
        all_knobs().filter(|knob| matches!(knob.location, KnobLocation::File(_) | KnobLocation::FileAndBoot(..)))
    {
        settings.extend(value_of(knob).map(|value| HostSetting::new("host", knob.name, value)));
    }
    for module in OTHERS.into_iter().chain(BACK_ENDS) {
        let Ok(files) = fs::read_dir(Path::new("/sys/module").join(module).join("parameters")) else { continue };
        let mut names: Vec<String> = files.flatten().filter_map(|file| file.file_name().into_string().ok()).collect();
        names.sort_unstable();
        for name in names {
            let value = read(&format!("/sys/module/{module}/parameters/{name}"));
            settings.extend(value.map(|value| HostSetting::new(module, &name, value)));
        }
    }
    settings
}

/// What /proc/cpuinfo says of the first CPU under this name, like `model name`; empty if it does not.
pub fn of_cpu(name: &str) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim() == name).map_or(String::new(), |(_, value)| value.trim().to_string())
}

/// What the machine is doing, by a name of `host`; `None` if this machine does not say.
pub fn of_machine(name: &str) -> Option<String> {
    FILES.iter().find(|file| file.0 == name).and_then(|file| read(file.1))
}

/// What a knob is set to; `None` if it has no file here.
pub fn value_of(knob: &Knob) -> Option<String> {
    read(&knob.file()?.to_string())
}

/// The module that KVM's back end is in. One that is built in has a directory only if it has parameters.
pub fn back_end() -> String {
    let there = |module: &&str| Path::new("/sys/module").join(module).exists();
    let found: Vec<&str> = BACK_ENDS.into_iter().filter(there).collect();
    if found.is_empty() { "unknown".to_string() } else { found.join(", ") }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_accounts_for_time_is_read_off_the_configuration() {
        let tick = "CONFIG_TICK_CPU_ACCOUNTING=y\n# CONFIG_VIRT_CPU_ACCOUNTING_GEN is not set\n";
        assert!(accounting_of(tick, "").unwrap().starts_with("at the tick (CONFIG_TICK"));
        let general = "CONFIG_VIRT_CPU_ACCOUNTING=y\nCONFIG_VIRT_CPU_ACCOUNTING_GEN=y\n";
        assert!(accounting_of(general, "(null)").unwrap().starts_with("at the tick"));
        assert!(accounting_of(general, "2-3").unwrap().contains("on CPUs 2-3"));
        assert!(accounting_of("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE=y", "").unwrap().starts_with("at each exit"));
        assert_eq!(accounting_of("# CONFIG_TICK_CPU_ACCOUNTING is not set", "1"), None);
    }

    #[test]
    fn settings_of_one_thing_stand_together_and_are_what_the_files_say() {
        let version = fs::read_to_string("/proc/version").unwrap().trim().to_string();
        let others = [("kernel", "/proc/version"), (CLOCK_SOURCE, "/proc/version"), ("none", "/proc/no such file")];
        let settings = settings(others.into_iter());
        let named = |name: &str| -> Vec<String> {
            let of_host = settings.iter().filter(|of| of.of == "host" && of.name == name);
            of_host.map(|of| of.value.clone()).collect()
        };
        assert_eq!(named("kernel"), [version]);
        assert_eq!(named(CLOCK_SOURCE), of_machine(CLOCK_SOURCE).into_iter().collect::<Vec<_>>());
        assert_eq!(named("none"), Vec::<String>::new());
        let groups: Vec<&str> = settings.chunk_by(|a, b| a.of == b.of).map(|group| group[0].of.as_str()).collect();
        let mut once = groups.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(groups.len(), once.len(), "{groups:?}");
        assert_eq!((settings[0].of.as_str(), settings[0].name.as_str()), ("host", BACK_END));
        for setting in settings.iter().filter(|setting| setting.of != "host") {
            let path = format!("/sys/module/{}/parameters/{}", setting.of, setting.name);
            assert_eq!(fs::read_to_string(&path).unwrap().trim(), setting.value, "{path}");
        }
    }
}
