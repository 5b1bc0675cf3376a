//! What command lines of VMMs say.

use exitscope_model::is_qemu;
use std::path::Path;

/// A program that runs VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VmmProgram {
    Qemu,
    Firecracker,
    CloudHypervisor,
    Crosvm,
    Dragonball,
}

/// What the command line of a VMM says of its VM.
#[derive(Debug)]
pub(crate) struct VmmCommand {
    pub vmm: VmmProgram,
    pub name: Option<String>,
    pub uuid: Option<String>,
    /// Proxmox' number.
    pub vmid: Option<String>,
    pub is_of_libvirt: bool,
    pub is_of_kata: bool,
}

impl VmmCommand {
    /// Of a command line, if its program is a VMM.
    pub fn of(command: &[String]) -> Option<VmmCommand> {
        let program = Path::new(command.first()?).file_name()?.to_str()?;
        if is_qemu(program) {
            Some(of_qemu(command))
        } else if program.contains("firecracker") {
            // The jailer passes its own `--id` on (docs/jailer.md of Firecracker), so the path of the jail tells no more.
            Some(VmmCommand { name: value(command, "--id"), ..VmmCommand::nameless(VmmProgram::Firecracker) })
        } else if program.contains("cloud-hypervisor") {
            Some(of_cloud_hypervisor(command))
        } else if program.contains("crosvm") {
            Some(VmmCommand { name: value(command, "--name"), ..VmmCommand::nameless(VmmProgram::Crosvm) })
        } else if program == SHIM {
            let name = value(command, "-id");
            Some(VmmCommand { name, is_of_kata: true, ..VmmCommand::nameless(VmmProgram::Dragonball) })
        } else {
            None
        }
    }

    fn nameless(vmm: VmmProgram) -> VmmCommand {
        VmmCommand { vmm, name: None, uuid: None, vmid: None, is_of_libvirt: false, is_of_kata: false }
    }
}

/// QEMU's, also as libvirt (qemuBuildNameCommandLine and others of src/qemu/qemu_command.c), Proxmox (config_to_command of
/// src/PVE/QemuServer.pm: `-id VMID -name NAME`, `-smbios type=1,uuid=…`) and Kata (src/runtime/virtcontainers/qemu.go:
/// `-name sandbox-ID`) start it.
fn of_qemu(command: &[String]) -> VmmCommand {
    let names = values(command, "-name").filter_map(guest_name);
    let uuids = values(command, "-uuid").map(str::to_string);
    let smbios = values(command, "-smbios").map(options).filter(|of| of.iter().any(|option| option == "type=1"));
    let of_smbios =
        smbios.filter_map(|of| of.iter().find_map(|option| option.strip_prefix("uuid=").map(str::to_string)));
    // Upstream has no such option: it is of Proxmox' own patches.
    let vmid =
        values(command, "-id").last().filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()));
    let name = names.last();
    // libvirt writes each domain's key below its own folder (qemuDomainGetMasterKeyFilePath).
    let is_masters = |word: &String| word.contains("/libvirt/qemu/") && word.contains("/master-key.aes");
    let sandbox = name.as_deref().and_then(|name| name.strip_prefix("sandbox-")).filter(|id| !id.is_empty());
    VmmCommand {
        // Proxmox also passes `-uuid`, for the sake of a vGPU's driver: that one need not be the VM's.
        uuid: if vmid.is_some() { of_smbios.last() } else { uuids.last().or_else(|| of_smbios.last()) }
            .filter(|uuid| is_uuid(uuid)),
        vmid: vmid.map(str::to_string),
        is_of_libvirt: command.iter().any(is_masters),
        is_of_kata: sandbox.is_some_and(|id| command.iter().any(|word| is_in_folder_of_kata(word, id))),
        name,
        ..VmmCommand::nameless(VmmProgram::Qemu)
    }
}

/// Where Kata keeps the sockets of a sandbox's VM: `BuildSocketPath(VMStorePath, …)` of its runtime in Go, KATA_PATH of the one in
/// Rust.
const KATA: [&str; 2] = ["/run/vc/vm", "/run/kata"];

/// Whether a word names a file of this sandbox.
fn is_in_folder_of_kata(word: &str, id: &str) -> bool {
    KATA.iter().any(|folder| word.contains(&format!("{folder}/{id}/")))
}

/// Kata's own shim, in which its VMM runs if that is Dragonball: `containerd-shim-kata-v2 … -id ID`.
const SHIM: &str = "containerd-shim-kata-v2";

/// Cloud Hypervisor has no name for a VM; the socket has one: libvirt's `NAME-socket` (virCHMonitorNew of src/ch/ch_monitor.c),
/// Kata's `/run/vc/vm/ID/clh-api.sock` (clh.go), or what somebody chose. `fd=N` tells nothing.
fn of_cloud_hypervisor(command: &[String]) -> VmmCommand {
    let mut found = VmmCommand::nameless(VmmProgram::CloudHypervisor);
    let platform = value(command, "--platform").map(|of| options(&of)).unwrap_or_default();
    // The older spelling is `uuid` (vmm/src/config.rs of version 50 and later).
    let uuid = ["system_uuid=", "uuid="].iter().find_map(|key| platform.iter().find_map(|of| of.strip_prefix(key)));
    found.uuid = uuid.map(str::to_string).filter(|uuid| is_uuid(uuid));
    let Some(socket) = value(command, "--api-socket") else { return found };
    let options = options(&socket);
    if options.iter().any(|option| option.starts_with("fd=")) {
        return found;
    }
    let path = options.iter().find_map(|option| option.strip_prefix("path=")).unwrap_or(&socket);
    let (folder, stem) = (Path::new(path).parent(), Path::new(path).file_stem().and_then(|stem| stem.to_str()));
    let of_libvirt =
        folder.filter(|folder| folder.ends_with("libvirt/ch")).and(stem).and_then(|stem| stem.strip_suffix("-socket"));
    let sandbox = folder.filter(|folder| KATA.iter().any(|of| folder.parent() == Some(Path::new(of))));
    found.is_of_libvirt = of_libvirt.is_some();
    found.is_of_kata = sandbox.is_some();
    let sandbox = sandbox.and_then(|sandbox| sandbox.file_name()?.to_str());
    found.name = of_libvirt.or(sandbox).or(stem).filter(|name| !name.is_empty()).map(str::to_string);
    found
}

/// The guest's name of QEMU's `-name`, whose first word is `guest` if it has no key (qemu_name_opts of system/vl.c).
fn guest_name(value: &str) -> Option<String> {
    let words = options(value);
    let keyed = words.iter().rev().find_map(|word| word.strip_prefix("guest="));
    let name = keyed.or_else(|| words.first().map(String::as_str).filter(|word| !word.contains('=')))?;
    (!name.is_empty()).then(|| name.to_string())
}

/// The words between commas; two commas are one of a word (get_opt_value of util/qemu-option.c).
fn options(value: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ',' if letters.next_if_eq(&',').is_none() => words.push(String::new()),
            letter => words.last_mut().expect("there is one from the beginning").push(letter),
        }
    }
    words
}

/// The values of an option of QEMU, which may have two dashes (lookup_opt of system/vl.c).
fn values<'a>(command: &'a [String], option: &'static str) -> impl Iterator<Item = &'a str> {
    let is_option = move |word: &String| word == option || word.strip_prefix('-') == Some(option);
    command.windows(2).filter(move |pair| is_option(&pair[0])).map(|pair| pair[1].as_str())
}

/// The value of a flag: `--id VALUE`, `--id=VALUE`.
pub(crate) fn value(command: &[String], flag: &str) -> Option<String> {
    let joined = format!("{flag}=");
    let at = command.iter().position(|word| word == flag || word.starts_with(&joined))?;
    let value = command[at].strip_prefix(&joined).or_else(|| command.get(at + 1).map(String::as_str))?;
    (!value.is_empty()).then(|| value.to_string())
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
