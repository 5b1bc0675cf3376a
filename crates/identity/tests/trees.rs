//! Identities out of made trees, laid out as each system writes them.

use exitscope_identity::HostTree;
use exitscope_model::{IdentityField, IdentitySource, VmIdentity, VmManager};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A host's files in a folder.
struct Host(tempfile::TempDir);

/// The process of the VM on every made host.
const PID: u32 = 4711;

const UUID: &str = "30ad89ac-5906-49ca-8d52-3c6343c598f6";
const POD_UID: &str = "b39963e8-cc41-4d44-912a-ed5394b6d4d5";

impl Host {
    fn new() -> Host {
        Host(tempfile::tempdir().unwrap())
    }

    /// Writes a file, with the folders to it.
    fn file(self, path: &str, contents: impl AsRef<[u8]>) -> Host {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    /// Writes a process: its command line by words, its parent, its cgroup.
    fn process(self, pid: u32, command: &[&str], parent: u32, cgroup: &str) -> Host {
        let line: String = command.iter().map(|word| format!("{word}\0")).collect();
        let status = format!("Name:\tx\nPid:\t{pid}\nPPid:\t{parent}\nNSpid:\t{pid}\n");
        self.file(&format!("proc/{pid}/cmdline"), line)
            .file(&format!("proc/{pid}/stat"), stat(pid, 1_000))
            .file(&format!("proc/{pid}/status"), status)
            .file(&format!("proc/{pid}/cgroup"), format!("0::{cgroup}\n"))
            .file(&format!("proc/{pid}/task/{pid}/comm"), "x\n")
    }

    /// The VM's process.
    fn vm(self, command: &str, cgroup: &str) -> Host {
        self.process(PID, &command.split_whitespace().collect::<Vec<_>>(), 1, cgroup)
    }

    fn identity(&self) -> VmIdentity {
        HostTree::below(self.0.path()).identity(PID)
    }
}

/// A line of `/proc/PID/stat`, with a name that looks like its end; the process began at this tick.
fn stat(pid: u32, began: u32) -> String {
    format!("{pid} (a) S 0) S 1 {} {began} 0\n", "0 ".repeat(17).trim_end())
}

/// What is known, as `manager; field=value (source); …`.
fn told(identity: &VmIdentity) -> String {
    let manager = identity.manager.map_or("nobody", VmManager::id).to_string();
    let parts = identity.parts().map(|(field, value, source)| format!("{}={value} ({})", field.id(), source.id()));
    [manager].into_iter().chain(parts).collect::<Vec<_>>().join("; ")
}

/// A command line of libvirt's (tests/qemuxmlconfdata of libvirt, with a name).
fn libvirts(name: &str) -> String {
    let key = format!(
        r#"{{"qom-type":"secret","id":"masterKey0","format":"raw","file":"/var/lib/libvirt/qemu/domain-1-{name}/master-key.aes"}}"#
    );
    format!(
        "/usr/bin/qemu-system-x86_64 -name guest={name},debug-threads=on -S -object {key} -m size=219136k -uuid {UUID} -display none"
    )
}

/// libvirt's file of a domain.
fn state(pid: u32, name: &str, metadata: &str) -> String {
    format!(
        "<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE. <name>x</name>\n  virsh edit {name}\n-->\n\n\
         <domstatus state='running' reason='booted' pid='{pid}'>\n  <monitor path='/m' type='unix'/>\n  <vcpus>\n    \
         <vcpu id='0' pid='1'/>\n  </vcpus>\n  <domain type='kvm' id='1'>\n    <name>{name}</name>\n    <uuid>{UUID}</uuid>\n    \
         <metadata>{metadata}</metadata>\n    <devices><disk><name>other</name></disk></devices>\n  </domain>\n</domstatus>\n"
    )
}

const LIBVIRT_SCOPE: &str = r"/machine.slice/machine-qemu\x2d1\x2dweb01.scope/libvirt/emulator";

#[test]
fn a_domain_of_libvirt_has_its_name_and_its_uuid_with_and_without_libvirts_file() {
    let host = Host::new().vm(&libvirts("web01"), LIBVIRT_SCOPE);
    assert_eq!(told(&host.identity()), format!("libvirt; name=web01 (command line); uuid={UUID} (command line)"));
    let host = host.file("run/libvirt/qemu/web01.xml", state(PID, "web01", ""));
    assert_eq!(told(&host.identity()), format!("libvirt; name=web01 (command line); uuid={UUID} (libvirt state file)"));
    // Without systemd, and by the key alone.
    let plain = "/usr/libexec/qemu-kvm -name guest=db";
    let by_cgroup = Host::new().vm(plain, "/machine/db.libvirt-qemu/emulator").identity();
    assert_eq!(told(&by_cgroup), "libvirt; name=db (command line)");
    assert_eq!(Host::new().vm(&libvirts("web01"), "/").identity().manager, Some(VmManager::Libvirt));
    assert_eq!(told(&Host::new().vm(plain, "/user.slice/x.scope").identity()), "qemu; name=db (command line)");
}

#[test]
fn a_file_of_another_process_or_name_says_nothing_of_this_one() {
    let nova = "<nova:instance><nova:name>mine</nova:name></nova:instance>";
    for (pid, name) in [(PID + 1, "web01"), (PID, "web02")] {
        let host = Host::new().vm(&libvirts("web01"), "/");
        let identity = host.file("run/libvirt/qemu/web01.xml", state(pid, name, nova)).identity();
        assert_eq!(identity.get(IdentityField::DisplayName), None, "{pid} {name}");
    }
    // In a container, libvirt has another number for it.
    let host = Host::new().vm(&libvirts("web01"), "/").file("run/libvirt/qemu/web01.xml", state(87, "web01", nova));
    let host = host.file(&format!("proc/{PID}/status"), format!("Name:\tx\nPPid:\t1\nNSpid:\t{PID}\t9\t87\n"));
    let identity = host.identity();
    assert_eq!(identity.get(IdentityField::DisplayName), Some("mine"));
    assert_eq!(identity.get(IdentityField::InnerPid), Some("87"));
}

#[test]
fn an_instance_of_openstack_has_the_name_that_its_user_gave_it() {
    let nova = "\n      <nova:instance xmlns:nova=\"http://openstack.org/xmlns/libvirt/nova/1.1\">\n        \
                <nova:package version=\"29.2.0\"/>\n        <nova:name>Web &amp; mail &lt;1&gt;</nova:name>\n        \
                <nova:owner><nova:project uuid=\"1\">shop</nova:project></nova:owner>\n      </nova:instance>\n    ";
    let host = Host::new().vm(&libvirts("instance-0000002a"), LIBVIRT_SCOPE);
    let host = host.file("run/libvirt/qemu/instance-0000002a.xml", state(PID, "instance-0000002a", nova));
    let expected = format!(
        "libvirt; name=instance-0000002a (command line); display_name=Web & mail <1> (libvirt state file); uuid={UUID} \
         (libvirt state file)"
    );
    assert_eq!(told(&host.identity()), expected);
    // What a user puts into comments and character data is no element.
    let hidden = "<!-- <nova:instance><nova:name>a</nova:name></nova:instance> --><x><![CDATA[<nova:instance><nova:name>b]]></x>";
    let host = host.file("run/libvirt/qemu/instance-0000002a.xml", state(PID, "instance-0000002a", hidden));
    assert_eq!(host.identity().get(IdentityField::DisplayName), None);
}

#[test]
fn a_vm_of_proxmox_has_its_number() {
    let command = format!(
        "/usr/bin/kvm -id 100 -name shop,debug-threads=on -no-shutdown -chardev \
         socket,id=qmp,path=/var/run/qemu-server/100.qmp,server=on,wait=off -pidfile /var/run/qemu-server/100.pid -daemonize \
         -smbios type=1,uuid={UUID} -uuid 00000000-0000-0000-0000-000000000100"
    );
    let host = Host::new().vm(&command, "/qemu.slice/100.scope");
    let expected = format!("proxmox; name=shop (command line); uuid={UUID} (command line); vmid=100 (cgroup)");
    assert_eq!(told(&host.identity()), expected);
    let unreadable = Host::new().vm(&command, "/");
    assert_eq!(told(&unreadable.identity()), expected.replace("(cgroup)", "(command line)"));
    let other = Host::new().vm("/usr/bin/kvm -name shop", "/other.slice/100.scope");
    assert_eq!(told(&other.identity()), "qemu; name=shop (command line)");
}

/// A pod of KubeVirt: the monitor, the launcher, libvirt's daemon and QEMU.
fn kubevirt(domain: &str, environment: &str) -> Host {
    let cgroup = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-12da3d97.scope",
        POD_UID.replace('-', "_")
    );
    let of_launcher = ["--qemu-timeout", "246s", "--name", "web", "--uid", "1234", "--namespace", "shop"];
    let launcher = |program| [&[program][..], &of_launcher[..]].concat();
    Host::new()
        .process(4700, &launcher("/usr/bin/virt-launcher-monitor"), 1, &cgroup)
        .process(4701, &launcher("/usr/bin/virt-launcher"), 4700, &cgroup)
        .process(4705, &["/usr/sbin/virtqemud", "-f", "/var/run/libvirt/virtqemud.conf"], 4701, &cgroup)
        .file("proc/4700/environ", environment)
        .file("proc/4701/environ", environment)
        .process(PID, &libvirts(domain).split(' ').collect::<Vec<_>>(), 4705, &cgroup)
}

#[test]
fn a_vmi_of_kubevirt_has_its_namespace_and_its_pod() {
    let host = kubevirt("shop_web", "PATH=/bin\0POD_NAME=virt-launcher-web-x7k2p\0");
    let expected = format!(
        "kubevirt; name=shop_web (command line); uuid={UUID} (command line); namespace=shop (virt-launcher); \
         pod=virt-launcher-web-x7k2p (virt-launcher); pod_uid={POD_UID} (cgroup); vmi=web (virt-launcher)"
    );
    assert_eq!(told(&host.identity()), expected);
    // Without a right to the environment, the kubelet's folder has the pod.
    let host = kubevirt("shop_web", "").file(&format!("var/log/pods/shop_p-1_{POD_UID}/compute/0.log"), "");
    assert!(told(&host.identity()).contains("namespace=shop (pod log folder); pod=p-1 (pod log folder)"));
    // Another domain than the launcher's.
    let other = kubevirt("other", "POD_NAME=x\0").identity();
    assert_eq!((other.manager, other.get(IdentityField::Vmi)), (Some(VmManager::Libvirt), None));
}

#[test]
fn a_pod_is_found_under_either_driver_of_cgroups_and_named_by_the_kubelets_folders() {
    let hash = "0123456789abcdef0123456789abcdef";
    let underscored = POD_UID.replace('-', "_");
    for (cgroup, uid) in [
        (format!("/kubepods.slice/kubepods-pod{underscored}.slice/crio-1.scope"), Some(POD_UID)),
        (format!("/kubepods/besteffort/pod{POD_UID}/1"), Some(POD_UID)),
        (format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{underscored}.slice/x"), Some(POD_UID)),
        (format!("/../../kubepods/burstable/pod{hash}/1"), Some(hash)),
        (format!("/machine.slice/pod{POD_UID}/1"), None),
        ("/kubepods/podium/1".to_string(), None),
        (format!("/kubepods/pod{POD_UID}/pod{hash}"), None),
    ] {
        let host = Host::new().vm("/usr/bin/qemu-system-x86_64 -name a", &cgroup);
        let host = host.file(&format!("var/log/pods/shop_web-1_{POD_UID}/x/0.log"), "");
        let host = host.file(&format!("var/log/pods/other_web-2_{}/x/0.log", "f".repeat(36)), "");
        let identity = host.identity();
        assert_eq!(identity.get(IdentityField::PodUid), uid, "{cgroup}");
        let pod = (uid == Some(POD_UID)).then_some(("shop", "web-1"));
        assert_eq!(identity.get(IdentityField::Namespace).zip(identity.get(IdentityField::Pod)), pod, "{cgroup}");
        let manager = if uid.is_some() { VmManager::Kubernetes } else { VmManager::Qemu };
        assert_eq!((identity.manager, identity.get(IdentityField::Name)), (Some(manager), Some("a")), "{cgroup}");
    }
}

#[test]
fn a_sandbox_of_kata_is_called_as_its_pod_is() {
    let id = "12da3d97e9069757d06fa9862b9e3f8d8555ff62281877333326a205ff283b50";
    let qemu = format!(
        "/opt/kata/bin/qemu-system-x86_64 -name sandbox-{id},debug-threads=on -uuid {UUID} -qmp unix:/run/vc/vm/{id}/qmp.sock"
    );
    let clh = format!("/opt/kata/bin/cloud-hypervisor --api-socket /run/vc/vm/{id}/clh-api.sock");
    let shim = format!("/opt/kata/bin/containerd-shim-kata-v2 -namespace k8s.io -address /run/c.sock -id {id}");
    let pod = format!("/kubepods/burstable/pod{POD_UID}/kata_{id}");
    let folder = format!("var/log/pods/shop_web-1_{POD_UID}/x/0.log");
    for (command, name) in [(&qemu, format!("sandbox-{id}")), (&clh, id.to_string()), (&shim, id.to_string())] {
        let host = Host::new().vm(command, &pod).file(&folder, "");
        let identity = host.identity();
        assert_eq!((identity.manager, identity.get(IdentityField::Name)), (Some(VmManager::Kata), Some("shop/web-1")));
        // Only its vCPUs' threads are in the pod's cgroup.
        let host = host.file(&format!("proc/{PID}/cgroup"), format!("0::/kata_overhead/{id}\n"));
        let host = host.file(&format!("proc/{PID}/task/4712/cgroup"), format!("0::{pod}\n"));
        assert_eq!(host.identity(), identity, "{command}");
        // Nothing says which pod.
        let alone = Host::new().vm(command, "/x").identity();
        assert_eq!((alone.manager, alone.get(IdentityField::Name)), (Some(VmManager::Kata), Some(&*name)), "{command}");
    }
    // A VM that somebody calls so.
    let other = Host::new().vm("qemu-kvm -name sandbox-1", &format!("/kubepods/pod{POD_UID}/1")).file(&folder, "");
    assert_eq!(other.identity().get(IdentityField::Name), Some("sandbox-1"));
}

#[test]
fn every_vmm_has_its_own_way_to_name_a_vm() {
    use VmManager::{CloudHypervisor, Crosvm, Firecracker, Libvirt, Qemu};
    for (command, manager, name, uuid) in [
        ("/usr/bin/qemu-system-x86_64 -name guest=web01,debug-threads=on -m 4G", Some(Qemu), Some("web01"), None),
        ("qemu-kvm -m 1G -name db", Some(Qemu), Some("db"), None),
        ("qemu-kvm --name db -name late,process=x", Some(Qemu), Some("late"), None),
        ("qemu-kvm -name a,,b,guest=c,,d", Some(Qemu), Some("c,d"), None),
        ("qemu-kvm -name a,,b", Some(Qemu), Some("a,b"), None),
        ("qemu-system-x86_64 -name debug-threads=on", Some(Qemu), None, None),
        ("qemu-system-aarch64 -m 1G", Some(Qemu), None, None),
        ("qemu-system-x86_64 -name", Some(Qemu), None, None),
        (
            "qemu-kvm -uuid 30AD89AC-5906-49ca-8d52-3c6343c598f6",
            Some(Qemu),
            None,
            Some("30AD89AC-5906-49ca-8d52-3c6343c598f6"),
        ),
        ("qemu-kvm -uuid nonsense", Some(Qemu), None, None),
        ("/usr/bin/firecracker --api-sock /run/a.sock --id fn-7", Some(Firecracker), Some("fn-7"), None),
        ("firecracker --id=fn-8 --start-time-us=1", Some(Firecracker), Some("fn-8"), None),
        ("firecracker --api-sock /run/a.sock", Some(Firecracker), None, None),
        ("crosvm run --name box kernel", Some(Crosvm), Some("box"), None),
        (
            "cloud-hypervisor --api-socket path=/run/vms/mail.sock --cpus boot=2",
            Some(CloudHypervisor),
            Some("mail"),
            None,
        ),
        ("cloud-hypervisor --api-socket /run/vms/mail.sock", Some(CloudHypervisor), Some("mail"), None),
        (
            "cloud-hypervisor --api-socket fd=3 --platform num_pci_segments=2,uuid=30ad89ac-5906-49ca-8d52-3c6343c598f6",
            Some(CloudHypervisor),
            None,
            Some(UUID),
        ),
        ("cloud-hypervisor --api-socket /run/libvirt/ch/mail-socket", Some(Libvirt), Some("mail"), None),
        ("vim -name guest=x", None, None, None),
        ("", None, None, None),
    ] {
        let identity = Host::new().vm(command, "/x").identity();
        let found = (identity.manager, identity.get(IdentityField::Name), identity.get(IdentityField::Uuid));
        assert_eq!(found, (manager, name, uuid), "{command}");
    }
}

#[test]
fn several_vms_in_one_process_are_counted_by_kvms_folders() {
    let host = Host::new().vm("crosvm run --name box", "/");
    assert_eq!(host.identity().get(IdentityField::VmsOfProcess), None, "debugfs may not be read");
    let host = host.file(&format!("proc/{PID}/task/4712/comm"), "x");
    let host = host.file(&format!("sys/kernel/debug/kvm/{PID}-11/x"), "").file("sys/kernel/debug/kvm/4712-12/x", "");
    let host = host.file("sys/kernel/debug/kvm/47-13/x", "").file("sys/kernel/debug/kvm/halt_exits", "0");
    assert_eq!(host.identity().get(IdentityField::VmsOfProcess), Some("2"));
}

#[test]
fn names_that_attack_are_kept_as_data_and_lead_nowhere() {
    let secret = state(PID, "../../../secret", "");
    for name in ["\u{1b}[2J\u{202e}", "a\nb", "../../../secret", "../web01", "/etc/passwd", ".", "a\"b\\c'<>&"] {
        let host = Host::new().process(PID, &["qemu-kvm", "-name", name], 1, "/x");
        let host = host.file("secret.xml", &secret).file("run/libvirt/qemu/x", "");
        let identity = host.identity();
        assert_eq!((identity.manager, identity.get(IdentityField::Name)), (Some(VmManager::Qemu), Some(name)));
        assert!(identity.parts().all(|part| part.2 == IdentitySource::CommandLine), "{name}");
    }
    let long = "x".repeat(100_000);
    let identity = Host::new().process(PID, &["qemu-kvm", "-name", &long], 1, "/").identity();
    assert_eq!(identity.get(IdentityField::Name).map(str::len), Some(VmIdentity::LONGEST));
}

#[test]
fn huge_files_are_read_to_a_bound_and_what_was_cut_is_not_known() {
    let filler = "x".repeat(2 << 20);
    let early = Host::new().process(PID, &["qemu-kvm", "-name", "web", "-append", &filler], 1, "/");
    assert_eq!(early.identity().get(IdentityField::Name), Some("web"));
    let late = Host::new().process(PID, &["qemu-kvm", "-append", &filler, "-name", "web"], 1, "/");
    assert_eq!(told(&late.identity()), "qemu");
    let almost = "x".repeat((1 << 20) - "qemu-kvm -append  -name we".len());
    let cut = Host::new().process(PID, &["qemu-kvm", "-append", &almost, "-name", "web"], 1, "/");
    assert_eq!(told(&cut.identity()), "qemu", "a name that was cut is not the name");
    let nova = format!("<nova:instance><nova:name>n</nova:name></nova:instance>{filler}");
    let file = Host::new().vm(&libvirts("a"), "/").file("run/libvirt/qemu/a.xml", state(PID, "a", &nova));
    assert_eq!(file.identity().get(IdentityField::DisplayName), None);
    let deep = Host::new().vm(&libvirts("a"), "/");
    let deep = deep.file("run/libvirt/qemu/a.xml", format!("<domstatus pid='{PID}'>{}", "<a>".repeat(100_000)));
    assert_eq!(deep.identity().get(IdentityField::Name), Some("a"));
}

#[test]
fn a_process_that_goes_or_is_replaced_has_no_identity() {
    assert_eq!(told(&Host::new().identity()), "nobody");
    let half = Host::new().file(&format!("proc/{PID}/cmdline"), "qemu-kvm\0-name\0web\0");
    assert_eq!(told(&half.identity()), "nobody", "it was gone before its cgroup could be read");
    let bare = Host::new().file(&format!("proc/{PID}/stat"), stat(PID, 5)).file(&format!("proc/{PID}/cmdline"), "");
    assert_eq!(told(&bare.identity()), "nobody");
    // Who is its own ancestor.
    let circle = Host::new().process(PID, &["qemu-kvm", "-name", "web"], PID, "/");
    assert_eq!(told(&circle.identity()), "qemu; name=web (command line)");
}

#[test]
fn links_and_pipes_in_the_place_of_files_are_not_followed() {
    let host = Host::new().vm(&libvirts("web"), "/").file("elsewhere.xml", state(PID, "web", ""));
    let folder = host.0.path().join("run/libvirt/qemu");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("web.xml");
    let expected = format!("libvirt; name=web (command line); uuid={UUID} (command line)");
    for target in [file.as_path(), &host.0.path().join("elsewhere.xml"), Path::new("/dev/zero")] {
        symlink(target, &file).unwrap();
        assert_eq!(told(&host.identity()), expected, "{}", target.display());
        fs::remove_file(&file).unwrap();
    }
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.is_ok_and(|status| status.success()));
    assert_eq!(told(&host.identity()), expected);
}

#[test]
fn this_process_is_nobodys_vm() {
    let identity = HostTree::default().identity(std::process::id());
    assert_eq!((identity.manager, identity.get(IdentityField::Name)), (None, None));
}
