//! What QEMU was told of a virtual machine, as far as rules ask: a few words of its command line, and no others.
//!
//! ```text
//! qemu-system-x86_64 -cpu host,hv-time -drive file=… ─► "vm 4711": "-cpu" host · "-cpu hv-time" on ─► a recording's settings
//! ```
//!
//! Spelling and defaults are QEMU's: qemu-options.hx; target/i386/cpu.c (feature words, x86_cpu_properties),
//! target/i386/kvm/kvm-cpu.c (kvm_default_props, kvm_cpu_max_instance_init); hw/i386/pc.c (pc_machine_class_init);
//! hw/virtio/virtio-pci.c (virtio_pci_properties).

use crate::HostSetting;
use exitscope_units::VmId;
use std::collections::BTreeMap;
use std::path::Path;

/// Words of options that rules look at or offer.
const WORDS: &[(&str, &[&str])] = &[
    (
        CPU,
        &[
            "hv-apicv",
            "hv-ipi",
            HV_ALL,
            "hv-stimer",
            "hv-stimer-direct",
            "hv-synic",
            "hv-time",
            "hv-tlbflush",
            "hv-vpindex",
            "invtsc",
            "kvm-poll-control",
            "kvm-pv-eoi",
            "kvm-pv-ipi",
            "kvm-pv-sched-yield",
            "kvm-pv-tlb-flush",
            "kvm-pv-unhalt",
            "kvmclock",
            "migratable",
            "pmu",
            "x2apic",
        ],
    ),
    ("-machine", &["hpet", "i8042", "kernel-irqchip", "vmport"]),
    ("-overcommit", &["cpu-pm"]),
    ("-smp", &["threads"]),
    ("-device", &["ioeventfd"]),
];

/// Options that are kept with their one value.
const WHOLE: &[&str] = &["-nodefaults", "-vga"];

/// Other spellings of options.
const SPELT: &[(&str, &str)] = &[("-M", "-machine"), ("-accel", "-machine")];

const CPU: &str = "-cpu";

/// Turns on all of Hyper-V's that the host has.
const HV_ALL: &str = "hv-passthrough";

/// What every model of a processor has with KVM unless told otherwise (`kvm_default_props`).
const OF_EVERY_MODEL: &[&str] = &["kvmclock", "kvm-pv-eoi", "x2apic"];

/// The most that is kept of a value.
const LONGEST: usize = 32;

/// Whether QEMU's option `name` has a word `word` that [`QemuOptions`] keeps; `_` is `-`.
pub fn is_qemu_word(name: &str, word: &str) -> bool {
    let word = word.replace('_', "-");
    WORDS.iter().any(|(option, words)| *option == name && words.contains(&word.as_str()))
}

/// QEMU's options in force, by what rules call them: `-cpu` (the model), `-cpu hv-time`, `-machine hpet`. Nothing is in it if
/// nobody said what the command line is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QemuOptions(BTreeMap<String, String>);

impl QemuOptions {
    /// Those of a command line, which is QEMU's: a program's name says so.
    pub fn of_command(command: &[String]) -> Option<QemuOptions> {
        let program = Path::new(command.first()?).file_name()?.to_str()?;
        if !is_qemu(program) {
            return None;
        }
        let mut options = QemuOptions(BTreeMap::from([(CPU.to_string(), "default".to_string())]));
        for (at, word) in command.iter().enumerate().filter(|(_, word)| word.starts_with('-')) {
            // Every option may have two dashes (`lookup_opt` in softmmu/vl.c).
            let word = format!("-{}", word.trim_start_matches('-'));
            let value = command.get(at + 1).filter(|value| !value.starts_with('-')).map_or("", String::as_str);
            let name = SPELT.iter().find(|row| row.0 == word).map_or(word.as_str(), |row| row.1);
            if WHOLE.contains(&name) {
                options.keep(name, if value.is_empty() || name == "-nodefaults" { "on" } else { value });
            } else if name == "-no-hpet" {
                options.keep("-machine hpet", "off");
            } else {
                options.keep_words(name, value);
            }
        }
        Some(options)
    }

    fn keep(&mut self, name: &str, value: &str) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if value.len() <= LONGEST && value.chars().all(is_plain) {
            self.0.insert(name.to_string(), value.to_string());
        }
    }

    fn keep_words(&mut self, name: &str, value: &str) {
        let is_json = value.starts_with('{');
        for (place, word) in value.trim_matches(['{', '}']).split(',').enumerate() {
            let word = word.replace('"', "");
            let (key, value) = match word.split_once(if is_json { ':' } else { '=' }) {
                Some((key, value)) => (key.trim().to_string(), value.trim().to_string()),
                None => match (word.strip_prefix('+'), word.strip_prefix('-')) {
                    (Some(key), _) => (key.to_string(), "on".to_string()),
                    (_, Some(key)) => (key.to_string(), "off".to_string()),
                    _ if name == CPU && place == 0 => {
                        self.keep(CPU, &word);
                        continue;
                    }
                    _ => (word.clone(), "on".to_string()),
                },
            };
            let value = match value.as_str() {
                "yes" | "true" | "y" => "on",
                "no" | "false" | "n" => "off",
                other => other,
            };
            let key = key.replace('_', "-");
            // Of devices there are many: that one of them has it off is what counts.
            let is_kept = is_qemu_word(name, &key) && (name != "-device" || value == "off");
            if is_kept {
                self.keep(&format!("{name} {key}"), value);
            }
        }
    }

    /// Those that the settings of a recording have.
    pub fn of_settings(settings: &[HostSetting], vm: VmId) -> QemuOptions {
        let of = of_vm(vm);
        let rows = settings.iter().filter(|setting| setting.of == of);
        QemuOptions(rows.map(|setting| (setting.name.clone(), setting.value.clone())).collect())
    }

    /// As settings of a recording.
    pub fn settings(&self, vm: VmId) -> impl Iterator<Item = HostSetting> {
        let of = of_vm(vm);
        self.0.iter().map(move |(name, value)| HostSetting::new(&of, name, value))
    }

    /// Whether the command line is known.
    pub fn are_known(&self) -> bool {
        self.0.contains_key(CPU)
    }

    /// Whether what an advice would have added is in force, all of it: `-cpu …,hv-time,kvm-pv-unhalt=on`. `None` if nobody said
    /// so, or it has words that are not kept.
    pub fn have(&self, offered: &str) -> Option<bool> {
        if !self.are_known() {
            return None;
        }
        let options = offered.trim_start_matches('-').split(" -");
        options.map(|option| self.has_option(&format!("-{option}"))).try_fold(true, |all, one| Some(all && one?))
    }

    fn has_option(&self, option: &str) -> Option<bool> {
        let (name, value) = option.split_once(' ').unwrap_or((option, ""));
        if WHOLE.contains(&name) {
            let wanted = if value.is_empty() { "on" } else { value };
            return Some(self.0.get(name).is_some_and(|value| value == wanted));
        }
        if !WORDS.iter().any(|row| row.0 == name) {
            return None;
        }
        // What stands for a model, for a number of CPUs or for a kind of device.
        let words = value.split(',').filter(|word| !word.contains('…'));
        words.map(|word| self.has(name, word)).try_fold(true, |all, one| Some(all && one?))
    }

    fn has(&self, name: &str, word: &str) -> Option<bool> {
        let (key, wanted) = word.split_once('=').unwrap_or((word, "on"));
        let key = key.replace('_', "-");
        if !is_qemu_word(name, &key) {
            return None;
        }
        let said = self.0.get(&format!("{name} {key}")).map(String::as_str);
        Some(said.or_else(|| self.untold(name, &key)) == Some(wanted))
    }

    /// What is in force where the command line does not say.
    fn untold(&self, name: &str, key: &str) -> Option<&str> {
        // A processor "host" or "max" has all of KVM's that the host offers, but for hints.
        let has_all = matches!(self.0.get(CPU).map(String::as_str), Some("host" | "max"));
        let is_on = match name {
            CPU if OF_EVERY_MODEL.contains(&key) => true,
            CPU if key.starts_with("kvm-") => has_all,
            CPU if key.starts_with("hv-") => self.0.get(&format!("{CPU} {HV_ALL}")).is_some_and(|value| value == "on"),
            "-device" => true,
            _ => false,
        };
        is_on.then_some("on")
    }
}

/// Whether a program of this name is QEMU; Debian calls it kvm, too.
pub fn is_qemu(program: &str) -> bool {
    program.contains("qemu") || program == "kvm"
}

fn of_vm(vm: VmId) -> String {
    format!("vm {}", vm.0)
}

/// Whether a setting is one of a virtual machine's command line.
pub fn is_of_vm(setting: &HostSetting) -> bool {
    setting.of.starts_with("vm ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(command: &str) -> QemuOptions {
        let command: Vec<String> = command.split(' ').map(str::to_string).collect();
        QemuOptions::of_command(&command).unwrap_or_default()
    }

    #[test]
    fn of_a_command_line_the_words_that_rules_ask_for_are_kept_and_no_others() {
        let found = options(
            "/usr/bin/qemu-system-x86_64 -name guest=secret -M q35,hpet=off,kernel_irqchip=split,dump-guest-core=off -accel kvm \
             -cpu Skylake-Server,hv_time,+kvm-pv-unhalt,-x2apic,foo=bar -smp 8,cores=4,threads=2 -m 4G --overcommit cpu-pm=on \
             -drive file=/srv/disk -nodefaults -vga none \
             -device {\"driver\":\"virtio-blk-pci\",\"ioeventfd\":false,\"drive\":\"x\"} -device virtio-net-pci,ioeventfd=on",
        );
        let rows: Vec<String> = found.0.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            rows,
            [
                "-cpu: Skylake-Server",
                "-cpu hv-time: on",
                "-cpu kvm-pv-unhalt: on",
                "-cpu x2apic: off",
                "-device ioeventfd: off",
                "-machine hpet: off",
                "-machine kernel-irqchip: split",
                "-nodefaults: on",
                "-overcommit cpu-pm: on",
                "-smp threads: 2",
                "-vga: none",
            ]
        );
        let settings: Vec<HostSetting> = found.settings(VmId(7)).collect();
        assert!(settings.iter().all(is_of_vm));
        assert_eq!(QemuOptions::of_settings(&settings, VmId(7)), found);
        assert_eq!(QemuOptions::of_settings(&settings, VmId(8)), QemuOptions::default());
    }

    #[test]
    fn what_the_command_line_leaves_to_qemu_is_what_qemu_does() {
        let cases = [
            ("qemu-system-x86_64 -cpu host", "-cpu …,kvm-pv-unhalt=on,kvm-pv-sched-yield=on", Some(true)),
            ("qemu-system-x86_64 -cpu host,kvm-pv-unhalt=off", "-cpu …,kvm-pv-unhalt=on", Some(false)),
            ("kvm -m 1G", "-cpu …,kvm-pv-unhalt=on", Some(false)),
            ("kvm -m 1G", "-cpu …,kvmclock=on", Some(true)),
            ("kvm -m 1G", "-cpu …,kvmclock=on,hv-time=on", Some(false)),
            ("kvm -cpu max,hv-passthrough", "-cpu …,hv-time,hv-synic", Some(true)),
            ("kvm -no-hpet", "-machine hpet=off", Some(true)),
            ("kvm -machine q35", "-machine kernel_irqchip=on", Some(false)),
            ("kvm -accel kvm,kernel-irqchip=on", "-machine kernel_irqchip=on", Some(true)),
            ("kvm -smp 8,threads=2", "-smp …,threads=2", Some(true)),
            ("kvm -smp 8,threads=2", "-smp …,threads=4", Some(false)),
            ("kvm -device virtio-blk-pci,drive=a", "-device virtio-…-pci,…,ioeventfd=on", Some(true)),
            ("kvm -device virtio-blk-pci,ioeventfd=off", "-device virtio-…-pci,…,ioeventfd=on", Some(false)),
            ("kvm -vga none", "-vga none", Some(true)),
            ("kvm -vga std", "-vga none", Some(false)),
            ("kvm -vga none", "-vga none -device virtio-gpu-pci", None),
            ("kvm -nodefaults -m 1G", "-nodefaults", Some(true)),
            ("kvm", "-drive file=…", None),
            ("kvm", "-machine memory-backend=mem", None),
            ("firecracker -cpu host", "-cpu …,kvm-pv-unhalt=on", None),
            ("", "-cpu …,kvm-pv-unhalt=on", None),
        ];
        for (command, offered, expected) in cases {
            assert_eq!(options(command).have(offered), expected, "{command}: {offered}");
        }
    }
}
