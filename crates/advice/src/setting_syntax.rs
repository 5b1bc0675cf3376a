//! How QEMU and libvirt spell what advice names: tests hold every setting against it.
//!
//! QEMU: properties of processors, machines and devices are those that `qemu-system-x86_64 -device host-x86_64-cpu,help`,
//! `-machine pc,help`, `-machine q35,help` and `-device virtio-blk-pci,help` of QEMU 7.2 list (target/i386/cpu.c: feature
//! words and x86_cpu_properties; hw/i386/pc.c: pc_machine_class_init), options those of qemu-options.hx.
//! libvirt: elements and attributes are those of docs/formatdomain.rst, sections "Hypervisor features", "Time keeping",
//! "CPU model and topology", "CPU Tuning", "Memory Backing", "Hard drives", "Console", "Video devices"; `ps2` is from libvirt 10.7 on; names of
//! processor features are those of src/cpu_map/x86_features.xml.

use super::setting::AdviceSetting;
use exitscope_model::is_qemu_word;

/// Words of options that only advice has; those that it also looks for are [`is_qemu_word`]'s.
const ONLY_OFFERED: &[(&str, &str)] =
    &[("-machine", "memory-backend"), ("-machine", "mem-merge"), ("-overcommit", "mem-lock")];

const DEVICES: &[&str] = &["virtio-serial-pci", "virtconsole", "virtio-gpu-pci", "virtio-blk-pci", "isa-debugcon"];

/// Options whose value is somebody's own, or has none.
const OTHERS: &[&str] = &["-chardev", "-drive", "-nodefaults", "-object", "-smp", "-vga none"];

/// Elements below `<domain>`, and their attributes.
const LIBVIRT: &[(&str, &[&str])] = &[
    ("clock/timer", &["name", "present"]),
    ("cpu/feature", &["policy", "name"]),
    ("cpu/topology", &["sockets", "cores", "threads"]),
    ("cputune/vcpupin", &["vcpu", "cpuset"]),
    ("devices/console", &["type"]),
    ("devices/console/target", &["type"]),
    ("devices/disk", &[]),
    ("devices/disk/target", &["dev", "bus"]),
    ("devices/video", &[]),
    ("devices/video/model", &["type"]),
    ("features/apic", &["eoi"]),
    ("features/hyperv/avic", &["state"]),
    ("features/hyperv/ipi", &["state"]),
    ("features/hyperv/stimer", &["state"]),
    ("features/hyperv/stimer/direct", &["state"]),
    ("features/hyperv/synic", &["state"]),
    ("features/hyperv/tlbflush", &["state"]),
    ("features/hyperv/vpindex", &["state"]),
    ("features/ioapic", &["driver"]),
    ("features/kvm/poll-control", &["state"]),
    ("features/kvm/pv-ipi", &["state"]),
    ("features/pmu", &["state"]),
    ("features/ps2", &["state"]),
    ("features/pvspinlock", &["state"]),
    ("features/vmport", &["state"]),
    ("memoryBacking/allocation", &["mode"]),
    ("memoryBacking/hugepages", &[]),
    ("memoryBacking/locked", &[]),
    ("memoryBacking/nosharepages", &[]),
];

/// Values of attributes that take one of a list.
const VALUES: &[(&str, &[&str])] = &[
    ("state", &["on", "off"]),
    ("eoi", &["on", "off"]),
    ("present", &["yes", "no"]),
    ("policy", &["require"]),
    ("driver", &["kvm", "qemu"]),
    ("ioeventfd", &["on"]),
    ("mode", &["immediate"]),
    ("bus", &["virtio"]),
];

/// Names of timers and of processor features.
const NAMES: &[&str] = &["hpet", "hypervclock", "ibrs-all", "invtsc", "kvmclock", "x2apic"];

/// What of a setting is not spelled as QEMU or libvirt does.
pub(super) fn misspelt(setting: &AdviceSetting) -> Vec<String> {
    match setting.parts().0 {
        AdviceSetting::Qemu(options) => {
            options.trim_start_matches("(without) ").split(" -").filter_map(of_qemu).collect()
        }
        AdviceSetting::Libvirt { within, xml } => of_libvirt(within, xml),
        _ => Vec::new(),
    }
}

fn of_qemu(option: &str) -> Option<String> {
    let option = format!("-{}", option.trim_start_matches('-'));
    // `…` stands for the model that the VM has: another in its place would change what it can be migrated to.
    let is_known = |name: &str, word: &str| {
        let key = word.split('=').next().unwrap_or_default();
        word == "…" || is_qemu_word(name, key) || ONLY_OFFERED.contains(&(name, key))
    };
    let (name, value) = option.split_once(' ').unwrap_or((&option, ""));
    let known = match name {
        "-cpu" | "-machine" | "-overcommit" => value.split(',').all(|word| is_known(name, word)),
        // `virtio-…-pci` stands for whichever it is.
        "-device" => value.split(',').next().is_some_and(|device| device.contains('…') || DEVICES.contains(&device)),
        _ => OTHERS.contains(&name) || OTHERS.contains(&option.as_str()),
    };
    (!known).then_some(option)
}

fn of_libvirt(within: &str, xml: &str) -> Vec<String> {
    let mut path: Vec<&str> = within.split('/').collect();
    let mut wrong = Vec::new();
    for tag in xml.split('<').skip(1) {
        let (inside, _) = tag.split_once('>').unwrap_or((tag, ""));
        if let Some(ended) = inside.strip_prefix('/') {
            wrong.extend((path.pop() != Some(ended)).then(|| xml.to_string()));
            continue;
        }
        let name = inside.split([' ', '/']).next().unwrap_or_default();
        path.push(name);
        let element = path.join("/");
        let Some((_, attributes)) = LIBVIRT.iter().find(|row| row.0 == element) else {
            wrong.push(element);
            path.pop();
            continue;
        };
        for attribute in inside.split(' ').skip(1).map(|word| word.trim_end_matches('/')).filter(|word| *word != "…")
        {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let value = value.trim_matches('\'');
            let listed = VALUES.iter().filter(|row| row.0 == key).all(|row| row.1.contains(&value));
            if !attributes.contains(&key) || !listed || (key == "name" && !NAMES.contains(&value)) {
                wrong.push(format!("{element} {attribute}"));
            }
        }
        if inside.ends_with('/') {
            path.pop();
        }
    }
    if path.len() != within.split('/').count() {
        wrong.push(format!("{xml}: not closed"));
    }
    wrong
}

#[test]
fn what_is_misspelt_is_found() {
    for setting in [
        AdviceSetting::Qemu("-cpu …,hv_stimers".into()),
        AdviceSetting::Qemu("-cpu host,hv-time".into()),
        AdviceSetting::Qemu("-machine hpets=off".into()),
        AdviceSetting::Qemu("-device virtio-console".into()),
        AdviceSetting::Qemu("-no-hpet".into()),
        AdviceSetting::Libvirt { within: "features", xml: "<hpet state='off'/>".into() },
        AdviceSetting::Libvirt { within: "features/hyperv", xml: "<stimer state='on'><direct state='on'/>".into() },
        AdviceSetting::Libvirt { within: "features", xml: "<pmu state='no'/>".into() },
        AdviceSetting::Libvirt { within: "clock", xml: "<timer name='kvm-clock' present='yes'/>".into() },
        AdviceSetting::Libvirt { within: "cputune", xml: "<vcpupin vcpu='0' cpu='…'/>".into() },
        AdviceSetting::Libvirt { within: "cpu", xml: "<vcpupin vcpu='0' cpuset='…'/>".into() },
    ] {
        assert_ne!(misspelt(&setting), Vec::<String>::new(), "{setting:?}");
    }
}
