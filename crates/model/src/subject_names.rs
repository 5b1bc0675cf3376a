//! What subjects are called: as somebody said of this recording's VMs, or else as all machines of a kind have it.
//!
//! ```text
//! a table of devices (--devices) ─► GivenNames ─┐
//! host's release, architecture ─► TraceInfo ────┴─► SubjectNames ─► "virtio-blk vda notify", or nothing
//! ```

use crate::codes::{
    HostVectorKind, REGION_BITS, detail_name, has_known_vectors, host_vector_kind, is_of_pcs, vector_name,
};
use crate::given_names::{GivenByVm, GivenNames};
use crate::{Exit, SubjectKind, TraceInfo, version};
use exitscope_units::VmId;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// What a subject is called.
#[derive(Clone, Debug)]
pub enum SubjectName {
    /// By a table that holds for all machines.
    Known(&'static str),
    /// By what somebody said.
    Given(Arc<str>),
}

impl Deref for SubjectName {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            SubjectName::Known(name) => name,
            SubjectName::Given(name) => name,
        }
    }
}

impl From<&str> for SubjectName {
    fn from(name: &str) -> SubjectName {
        SubjectName::Given(name.into())
    }
}

impl PartialEq for SubjectName {
    fn eq(&self, other: &SubjectName) -> bool {
        **self == **other
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for SubjectName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl JsonSchema for SubjectName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        str::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        str::json_schema(generator)
    }
}

/// Of Xen's own guests the MSR that takes their hypercall page (`cpuid_hypervisor_leaves` of xen/arch/x86/traps.c says so by leaf
/// 0x40000002), of those with viridian=1 `HV_X64_MSR_GUEST_OS_ID`.
const XEN_OR_HYPERV_MSR: u64 = 0x4000_0000;

/// Leaves that say something else to Xen's own guests: its version (1), its MSRs (2), time (3).
const HYPERVISOR_LEAVES: std::ops::RangeInclusive<u64> = 0x4000_0001..=0x4000_0005;

/// What the subjects of a recording are called. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SubjectNames {
    /// Whether it says that the machine is none of those that have PCs' ports and addresses.
    is_no_pc: bool,
    /// Whether it is of Xen, where what Hyper-V calls its own may be Xen's.
    is_xen: bool,
    /// The version of the host's Linux, if that is what it is and its vectors are known.
    host: Option<(u32, u32)>,
    given: Arc<GivenByVm>,
    /// Of the host's interrupts, by IRQ, what their handlers are called.
    irqs: Arc<BTreeMap<u32, String>>,
}

impl SubjectNames {
    /// Those of a recording.
    pub fn of(info: &TraceInfo) -> SubjectNames {
        let is_linux = !info.by_vcpu && !info.release.starts_with("Xen ");
        SubjectNames {
            is_no_pc: !is_of_pcs(&info.arch),
            is_xen: !is_linux,
            host: version(&info.release).filter(|version| is_linux && has_known_vectors(*version)),
            given: info.given.clone(),
            irqs: info.irqs.clone().into(),
        }
    }

    /// What exactly this is called, of one VM.
    pub fn exact(&self, vm: VmId, kind: SubjectKind, key: u64) -> Option<SubjectName> {
        self.spanning(&[vm], kind, key, key)
    }

    /// What the subject of an exit is called. What was said of a VM is not of its nested guests.
    pub fn of_exit(&self, exit: &Exit) -> Option<SubjectName> {
        let of = exit.subject?;
        match exit.code.nested && !of.kind.is_of_host() {
            true => self.known(of.kind, of.key).map(SubjectName::Known),
            false => self.exact(exit.who.vm, of.kind, of.key),
        }
    }

    /// The same of a key that tables have: of emulated memory that is the first address of a 4 KiB page.
    pub fn of_key(&self, vms: &[VmId], kind: SubjectKind, key: u64) -> Option<SubjectName> {
        let last = if kind == SubjectKind::Mmio { key | ((1 << REGION_BITS) - 1) } else { key };
        self.spanning(vms, kind, key, last)
    }

    /// What is from `first` to `last` called, of several VMs together. Where it is called differently by what was said of each,
    /// it has the name that all machines have.
    pub fn spanning(&self, vms: &[VmId], kind: SubjectKind, first: u64, last: u64) -> Option<SubjectName> {
        if kind == SubjectKind::HostIrq {
            return u32::try_from(first).ok().and_then(|irq| self.irqs.get(&irq)).map(|name| name.as_str().into());
        }
        let known = || self.known(kind, first).map(SubjectName::Known);
        if !matches!(kind, SubjectKind::Port | SubjectKind::Mmio | SubjectKind::EoiVector | SubjectKind::IncompleteIpi)
        {
            return known();
        }
        let GivenByVm { all, of_vm } = &*self.given;
        let of = |vm: Option<&VmId>| {
            let own = vm.and_then(|vm| of_vm.get(vm));
            own.and_then(|own| given(own, kind, first, last)).or_else(|| given(all, kind, first, last))
        };
        let name = of(vms.first()).or_else(known);
        let is_of_all = of_vm.is_empty() || vms.iter().all(|vm| of(Some(vm)).or_else(known) == name);
        if is_of_all { name } else { known() }
    }

    /// What a vector is called that guests of these VMs are interrupted with, where somebody said which Linux they are.
    pub fn guest_vector(&self, vms: &[VmId], vector: u32) -> Option<SubjectName> {
        self.of_key(vms, SubjectKind::EoiVector, vector.into())
    }

    /// What a vector of the host's is for, where it is a Linux of which a table says so.
    pub fn host_vector(&self, vector: u64) -> Option<HostVectorKind> {
        let kind = || host_vector_kind(self.known(SubjectKind::HostVector, vector), vector);
        if self.is_xen || self.is_no_pc { None } else { kind() }
    }

    fn known(&self, kind: SubjectKind, key: u64) -> Option<&'static str> {
        match (kind, self.host) {
            (SubjectKind::Port | SubjectKind::Mmio, _) if self.is_no_pc => None,
            (SubjectKind::Msr, _) if self.is_xen && key == XEN_OR_HYPERV_MSR => {
                Some("hypercall page of Xen or OS of Hyper-V")
            }
            (SubjectKind::Cpuid, _) if self.is_xen && HYPERVISOR_LEAVES.contains(&key) => None,
            (SubjectKind::HostVector, Some(version)) => vector_name(version, key),
            _ => detail_name(kind, key),
        }
    }
}

impl TraceInfo {
    /// What subjects are called.
    pub fn subject_names(&self) -> SubjectNames {
        SubjectNames::of(self)
    }
}

fn given(names: &GivenNames, kind: SubjectKind, first: u64, last: u64) -> Option<SubjectName> {
    match kind {
        SubjectKind::Port => names.ports.of(first, last).map(SubjectName::Given),
        SubjectKind::Mmio => names.memory.of(first, last).map(SubjectName::Given),
        SubjectKind::EoiVector | SubjectKind::IncompleteIpi => {
            names.linux.and_then(|version| vector_name(version, first)).map(SubjectName::Known)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given_names::tests::ranges;

    /// Two VMs, of which the second has a disk where both have a console, and nothing is known of a third.
    fn names() -> SubjectNames {
        let memory = ranges(&[(0xfebf_b000, 0xfebf_b1ff, "blk vda"), (0xfebf_b200, 0xfebf_b3ff, "net eth0")]);
        let own = GivenNames { ports: ranges(&[(0x3f8, 0x3ff, "serial ttyS0")]), memory, linux: Some((6, 1)) };
        let other = GivenNames { ports: ranges(&[(0x3f8, 0x3ff, "disk")]), ..GivenNames::default() };
        let all = GivenNames { ports: ranges(&[(0x402, 0x402, "firmware")]), ..GivenNames::default() };
        let of_vm = [(VmId(5), own), (VmId(7), other)].into_iter().collect();
        SubjectNames::of(&TraceInfo { given: GivenByVm { all, of_vm }.into(), ..TraceInfo::default() })
    }

    #[test]
    fn what_was_said_of_a_vm_comes_before_what_was_said_of_all_and_that_before_what_pcs_have() {
        let exact = |vm, kind, key| names().exact(VmId(vm), kind, key).map(|name| name.to_string());
        for (vm, kind, key, name) in [
            (5, SubjectKind::Port, 0x3f9, Some("serial ttyS0")),
            (7, SubjectKind::Port, 0x3f8, Some("disk")),
            (11, SubjectKind::Port, 0x3f8, Some("COM1")),
            (5, SubjectKind::Port, 0x402, Some("firmware")),
            (5, SubjectKind::Port, 0x400, None),
            (5, SubjectKind::Mmio, 0xfebf_b1ff, Some("blk vda")),
            (5, SubjectKind::Mmio, 0xfebf_b200, Some("net eth0")),
            (7, SubjectKind::Mmio, 0xfebf_b200, None),
            (5, SubjectKind::Mmio, 0xfee0_00b0, Some("local APIC")),
            (5, SubjectKind::Msr, 0x6e0, Some("MSR_IA32_TSC_DEADLINE")),
            (5, SubjectKind::IncompleteIpi, 0xfd, Some("RESCHEDULE")),
            (7, SubjectKind::IncompleteIpi, 0xfd, None),
        ] {
            assert_eq!(exact(vm, kind, key).as_deref(), name, "{vm} {kind:?} {key:#x}");
        }
    }

    #[test]
    fn a_name_of_several_vms_is_that_of_all_of_them() {
        let of = |vms: &[u32], kind, key| {
            let vms: Vec<VmId> = vms.iter().copied().map(VmId).collect();
            names().of_key(&vms, kind, key).map(|name| name.to_string())
        };
        assert_eq!(of(&[5], SubjectKind::Port, 0x3f8).as_deref(), Some("serial ttyS0"));
        assert_eq!(of(&[5, 7], SubjectKind::Port, 0x3f8).as_deref(), Some("COM1"), "all PCs have a COM1 there");
        assert_eq!(of(&[5, 7], SubjectKind::Port, 0x402).as_deref(), Some("firmware"));
        assert_eq!(of(&[], SubjectKind::Port, 0x402).as_deref(), Some("firmware"));
        assert_eq!(
            of(&[5], SubjectKind::Mmio, 0xfebf_b000).as_deref(),
            Some("blk vda, net eth0"),
            "both are in the page"
        );
        assert_eq!(of(&[5, 7], SubjectKind::Mmio, 0xfebf_b000), None);
        assert_eq!(names().guest_vector(&[VmId(5)], 0xec).as_deref(), Some("LOCAL_TIMER"));
        assert!(names().guest_vector(&[VmId(5), VmId(7)], 0xec).is_none());
    }

    #[test]
    fn what_hyper_v_and_xen_number_alike_is_neithers_on_xen() {
        let of = |by_vcpu| {
            let names = SubjectNames::of(&TraceInfo { by_vcpu, ..TraceInfo::default() });
            let name = |kind, key| names.exact(VmId(1), kind, key).map(|name| name.to_string());
            [
                name(SubjectKind::Msr, 0x4000_0000),
                name(SubjectKind::Cpuid, 0x4000_0001),
                name(SubjectKind::Msr, 0x4000_0020),
            ]
        };
        let words = |name: &str| Some(name.to_string());
        let counter = words("HV_X64_MSR_TIME_REF_COUNT");
        assert_eq!(of(false), [words("HV_X64_MSR_GUEST_OS_ID"), words("hypervisor's features"), counter.clone()]);
        assert_eq!(of(true), [words("hypercall page of Xen or OS of Hyper-V"), None, counter]);
    }

    #[test]
    fn a_pcs_places_and_a_linux_hosts_vectors_are_named_only_where_there_are_such() {
        let of = |arch: &str, release: &str, by_vcpu| {
            let info = TraceInfo { arch: arch.into(), release: release.into(), by_vcpu, ..TraceInfo::default() };
            let name = |kind, key| SubjectNames::of(&info).exact(VmId(1), kind, key).map(|name| name.to_string());
            [name(SubjectKind::Mmio, 0xa_0000), name(SubjectKind::HostVector, 0xec)]
        };
        let [vga, timer, recent] =
            ["VGA", "LOCAL_TIMER", "LOCAL_TIMER, of recent Linux"].map(|of| Some(of.to_string()));
        assert_eq!(of("x86_64", "6.1.0-56-cloud-amd64", false), [vga.clone(), timer]);
        assert_eq!(of("x86_64", "4.18.0-553.el8_10.x86_64", false), [vga.clone(), recent.clone()]);
        assert_eq!(of("x86_64", "3.10.0-1160.el7.x86_64", false), [vga.clone(), None], "it was 0xef then");
        assert_eq!(of("", "", false), [vga.clone(), recent.clone()]);
        assert_eq!(of("x86_64", "Xen 4.17.5", true), [vga, recent.clone()]);
        assert_eq!(of("aarch64", "", false), [None, recent]);
    }
}
