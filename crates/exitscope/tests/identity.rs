//! Recordings that say what their VMs are called by those who run them.

mod common;

use common::{report, run, stderr, stdout};
use exitscope_model::{
    CodeList, Event, EventKind, EventNames, ExitCode, HostSetting, IdentityField, IdentitySource, SubjectWord,
    VmIdentity, VmManager,
};
use exitscope_trace::{PerfHead, PerfWriter};
use exitscope_units::{Moment, PcpuId, Tid, VcpuId, VmId};
use std::fs::File;
use std::path::{Path, PathBuf};

const UUID: &str = "30ad89ac-5906-49ca-8d52-3c6343c598f6";

/// What nobody else may see, and what would act on a terminal.
const HOSTILE: &str = "secret \u{1b}[2J\u{202e}<b>";

/// The processes of two VMs; each is the other's number at Proxmox.
const WEB: VmId = VmId(100);
const MAIL: VmId = VmId(4711);

fn identities() -> [(VmId, VmIdentity); 2] {
    let known = |parts: &[(IdentityField, &str)]| {
        let mut identity = VmIdentity::managed_by(VmManager::Proxmox);
        parts.iter().for_each(|(field, value)| identity.set(*field, value, IdentitySource::CommandLine));
        identity
    };
    let web = [(IdentityField::Name, "web"), (IdentityField::VmId, "4711"), (IdentityField::Uuid, UUID)];
    let mail = [(IdentityField::Name, "mail"), (IdentityField::VmId, "101"), (IdentityField::DisplayName, HOSTILE)];
    [(WEB, known(&web)), (MAIL, known(&mail))]
}

/// A recording of both, with one exit each.
fn recording(folder: &Path) -> PathBuf {
    let path = folder.join("perf.data");
    let settings: Vec<HostSetting> = identities().iter().flat_map(|(vm, identity)| identity.settings(*vm)).collect();
    let mut names = EventNames::default();
    let [exit, entry] = ["kvm:kvm_exit", "kvm:kvm_entry"].map(|name| names.intern(name));
    let head = PerfHead {
        arch: "x86_64",
        cpuid: "GenuineIntel,6,85,7",
        cpu: "",
        settings: &settings,
        hostname: "host",
        release: "6.1.0",
        cpus: 4,
        command: &[],
        names: &names,
        compressed: false,
    };
    let mut writer = PerfWriter::new(File::create(&path).unwrap(), &head).unwrap();
    let code = ExitCode::new(CodeList::Vmx, 10);
    let left = EventKind::Exit { code, idle: false, words: SubjectWord::NONE, rip: 0 };
    for (vm, comm) in [(WEB, "kvm"), (MAIL, "kvm")] {
        writer.thread(Moment::default(), vm, Tid(vm.0), comm).unwrap();
        writer.thread(Moment::default(), vm, Tid(vm.0 + 1), "CPU 0/KVM").unwrap();
    }
    for (at, vm, name, kind) in [
        (1_000, WEB, exit, left),
        (1_100, MAIL, exit, left),
        (2_000, WEB, entry, EventKind::Enter),
        (2_100, MAIL, entry, EventKind::Enter),
    ] {
        let at = Moment::from_nanos(at);
        let (tid, vcpu, cpu) = (Tid(vm.0 + 1), VcpuId(0), PcpuId(u32::from(vm == MAIL)));
        writer.event(&Event { at, tid, vm, vcpu, cpu, name, kind }).unwrap();
    }
    assert_eq!(writer.finish().unwrap().left_out, 0);
    path
}

#[test]
fn a_report_says_who_the_vms_are_and_where_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = recording(folder.path());
    let json = report(&[&data], &[]);
    let expected = serde_json::json!([
        {
            "vm": 100, "manager": "proxmox", "name": "web", "uuid": UUID, "vmid": "4711",
            "sources": {"name": "command line", "uuid": "command line", "vmid": "command line"},
        },
        {
            "vm": 4711, "manager": "proxmox", "name": "mail", "display_name": HOSTILE, "vmid": "101",
            "sources": {"name": "command line", "display_name": "command line", "vmid": "command line"},
        },
    ]);
    assert_eq!(json["traces"][0]["vms"], expected);
    assert_eq!(
        json["traces"][0]["settings"].as_array().unwrap().iter().filter(|row| row["component"] != "exitscope").count(),
        0
    );
    let text = stdout(&run(&["report", data.to_str().unwrap(), "--all"]));
    let table = text.split("VMs, by who runs them").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("proxmox")).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows[0].contains("web 100") && rows[0].contains("4711"), "{table}");
    assert!(rows[1].contains("mail 4711") && rows[1].contains("101"), "{table}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
}

#[test]
fn a_vm_is_selected_by_whatever_it_is_called_and_a_number_is_first_a_process() {
    let folder = tempfile::tempdir().unwrap();
    let data = recording(folder.path());
    for (wanted, vms) in [
        ("web", vec![100]),
        (&*UUID.to_uppercase(), vec![100]),
        ("4711", vec![4711]),
        ("101", vec![4711]),
        ("100", vec![100]),
        (HOSTILE, vec![4711]),
        ("kvm", vec![100, 4711]),
    ] {
        let json = report(&[&data], &["--vm", wanted]);
        assert_eq!(json["selection"]["vms"], serde_json::json!(vms), "{wanted}");
        assert_eq!(json["total"]["count"], vms.len(), "{wanted}");
    }
    let output = run(&["report", data.to_str().unwrap(), "--vm", "102"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there are 100 (kvm), 4711 (kvm)"), "{}", stderr(&output));
}

#[test]
fn metrics_of_a_recording_have_a_row_of_info_for_each_vm() {
    let folder = tempfile::tempdir().unwrap();
    let data = recording(folder.path());
    let metrics = stdout(&run(&["export", data.to_str().unwrap(), "--format", "openmetrics"]));
    let row = format!(r#"exitscope_vm_info{{vm="kvm 100",manager="proxmox",uuid="{UUID}",vmid="4711","#);
    assert_eq!(metrics.matches(&row).count(), 1, "{metrics}");
    assert!(!metrics.contains(['\u{1b}', '\u{202e}']), "{metrics}");
}

#[test]
fn a_bundle_has_no_name_of_a_vm() {
    let folder = tempfile::tempdir().unwrap();
    let data = recording(folder.path());
    let bundle = folder.path().join("bundle.data");
    let output = run(&["report", data.to_str().unwrap(), "--bundle", bundle.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(report(&[&bundle], &[])["traces"][0].get("vms").is_none());
    let bytes = std::fs::read(bundle).unwrap();
    for name in ["secret", "web", "mail", UUID, "proxmox"] {
        assert!(!bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
    }
}
