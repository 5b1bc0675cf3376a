//! Exits grouped by every dimension, and by several.

mod common;

use common::plain;
use exitscope_analysis::{Dimension, DimensionValue, ExitGroups, SubjectKey};
use exitscope_model::*;
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

const MSR_READ: ExitCode = ExitCode::new(CodeList::Vmx, 31);

/// An exit at that moment, of 10 ns.
fn exit(at: u64) -> Exit {
    Exit {
        at: Moment::from_nanos(at),
        who: VcpuIdentity { vm: VmId(4), vcpu: VcpuId(1), tid: Tid(41) },
        cpu: PcpuId(3),
        code: MSR_READ,
        rip: 0xffff_8000,
        handler: Handler::Userspace(2),
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(10)),
        ..plain()
    }
}

fn about(kind: SubjectKind, key: u64) -> Exit {
    let detail = Subject { kind, write: true, form: PortAccessForm::NonString, size: 4, key, value: 0 };
    Exit { subject: Some(detail), ..exit(5_000) }
}

fn group(dims: &[Dimension], exits: &[Exit]) -> ExitGroups {
    let mut group = ExitGroups::by(dims);
    exits.iter().for_each(|exit| group.absorb(exit));
    group
}

/// Keys and how many exits each has.
fn counts(group: &ExitGroups) -> Vec<(Vec<DimensionValue>, u64)> {
    group.cells().into_iter().map(|(key, cell)| (key.to_vec(), cell.count)).collect()
}

#[test]
fn every_dimension_has_its_name_and_its_place_for_an_exit() {
    let detail = |kind, key| Some(DimensionValue::Detail(SubjectKey { kind, key, write: true }));
    let subject = |of: Option<(SubjectKind, u64)>| {
        Some(DimensionValue::Subject(of.map(|(kind, key)| SubjectKey { kind, key, write: true })))
    };
    use SubjectKind::{Cpuid, Diag, Hypercall, Mmio, Msr, Port};
    let msr = about(Msr, 0x6e0);
    let mut unnamed = exit(5_000);
    unnamed.who.vcpu = VcpuId::UNKNOWN;
    let (mut of_nobody, mut of_xen) = (exit(5_000), exit(5_000));
    of_nobody.who.vm = VmId::UNKNOWN;
    of_xen.who = VcpuIdentity { vm: VmId::UNKNOWN, vcpu: VcpuId(1), tid: Tid(0) };
    for (name, dim, exit, part) in [
        ("vm", Dimension::Vm, msr, Some(DimensionValue::Vm(VmId(4)))),
        ("vcpu", Dimension::Vcpu, msr, Some(DimensionValue::Vcpu(VcpuId(1)))),
        ("vcpu", Dimension::Vcpu, unnamed, Some(DimensionValue::Thread(Tid(41)))),
        ("vcpu", Dimension::Vcpu, of_nobody, Some(DimensionValue::Thread(Tid(41)))),
        ("vcpu", Dimension::Vcpu, of_xen, Some(DimensionValue::Vcpu(VcpuId(1)))),
        ("reason", Dimension::Reason, msr, Some(DimensionValue::Reason(MSR_READ))),
        ("subject", Dimension::Subject, about(Mmio, 0xfee0_00b0), subject(Some((Mmio, 0xfee0_0000)))),
        ("subject", Dimension::Subject, exit(1), subject(None)),
        ("handler", Dimension::Handler, msr, Some(DimensionValue::Handler(Handler::Userspace(2)))),
        ("port", Dimension::Port, msr, None),
        ("port", Dimension::Port, about(Port, 0x3f8), detail(Port, 0x3f8)),
        ("mmio", Dimension::Mmio, about(Mmio, 0xfee0_00b0), detail(Mmio, 0xfee0_0000)),
        ("mmio", Dimension::Mmio, about(Port, 0x3f8), None),
        ("msr", Dimension::Msr, msr, detail(Msr, 0x6e0)),
        ("msr", Dimension::Msr, about(Mmio, 0x6e0), None),
        ("hypercall", Dimension::Hypercall, about(Hypercall, 11), detail(Hypercall, 11)),
        ("hypercall", Dimension::Hypercall, about(Diag, 0x44), detail(Diag, 0x44)),
        ("hypercall", Dimension::Hypercall, msr, None),
        ("cpuid", Dimension::Cpuid, about(Cpuid, 7), detail(Cpuid, 7)),
        ("cpuid", Dimension::Cpuid, exit(1), None),
        ("rip", Dimension::Rip, msr, Some(DimensionValue::Rip(0xffff_8000))),
        ("rip", Dimension::Rip, Exit { rip: 0, ..msr }, None),
        ("cpu", Dimension::Cpu, msr, Some(DimensionValue::Cpu(PcpuId(3)))),
        ("time", Dimension::Time(Some(Nanos(2_000))), msr, Some(DimensionValue::Time(Moment::from_nanos(4_000)))),
    ] {
        let group = group(&[dim], &[exit]);
        let found: Vec<_> = counts(&group).into_iter().map(|(key, count)| (key[0], count)).collect();
        assert_eq!(found, part.map(|part| (part, 1)).into_iter().collect::<Vec<_>>(), "{name}");
        assert_eq!((group.elsewhere, group.dims()), (u64::from(part.is_none()), &[dim][..]), "{name}");
        assert_eq!(dim.name(), name);
        assert_eq!(Dimension::parse(name).map(Dimension::name), Some(name));
    }
    assert_eq!((Dimension::parse("ports"), Dimension::ALL.len()), (None, 13));
}

#[test]
fn groups_of_several_dimensions_are_of_all_of_them_together() {
    let (mut other, port) = (exit(1), about(SubjectKind::Port, 0x80));
    other.cpu = PcpuId(0);
    let group = group(&[Dimension::Cpu, Dimension::Reason], &[exit(1), other, exit(2), port, other, port]);
    let key = |cpu| vec![DimensionValue::Cpu(PcpuId(cpu)), DimensionValue::Reason(MSR_READ)];
    assert_eq!(counts(&group), [(key(0), 2), (key(3), 4)]);
    assert_eq!((group.bucket(), group.elsewhere), (None, 0));
}

#[test]
fn buckets_of_time_are_as_wide_as_forty_of_them_need_or_as_asked() {
    let at = |nanos| DimensionValue::Time(Moment::from_nanos(nanos));
    // 40 buckets of 1 us, from 10 us to 49 us, fit; a moment in the 41st makes them 2 us wide, one at 110 us 10 us.
    let exits = [10_500, 49_999].map(exit);
    let fits = group(&[Dimension::Time(None)], &exits);
    assert_eq!(
        (fits.bucket(), counts(&fits)),
        (Some(Nanos(1_000)), vec![(vec![at(10_000)], 1), (vec![at(49_000)], 1)])
    );
    let wider = group(&[Dimension::Time(None)], &[exits[0], exits[1], exit(50_000), exit(11_000)]);
    let expected = vec![(vec![at(10_000)], 2), (vec![at(48_000)], 1), (vec![at(50_000)], 1)];
    assert_eq!((wider.bucket(), counts(&wider)), (Some(Nanos(2_000)), expected));
    let widest = group(&[Dimension::Time(None)], &[exit(110_000), exits[0], exits[1]]);
    let expected = vec![(vec![at(10_000)], 1), (vec![at(40_000)], 1), (vec![at(110_000)], 1)];
    assert_eq!((widest.bucket(), counts(&widest)), (Some(Nanos(10_000)), expected));
    // Merged, both ways, the wider width is that of both; and if both together are too long, a wider one.
    for (left, right) in [(&fits, &widest), (&widest, &fits)] {
        let mut both = left.clone();
        both.merge(right);
        let expected = vec![(vec![at(10_000)], 2), (vec![at(40_000)], 2), (vec![at(110_000)], 1)];
        assert_eq!((both.bucket(), counts(&both)), (Some(Nanos(10_000)), expected));
    }
    let mut apart = group(&[Dimension::Time(None)], &[exit(10_500)]);
    apart.merge(&group(&[Dimension::Time(None)], &[exit(50_000)]));
    assert_eq!((apart.width(), counts(&apart)), (Nanos(2_000), vec![(vec![at(10_000)], 1), (vec![at(50_000)], 1)]));
    // As asked, however many.
    let asked = group(&[Dimension::Time(Some(Nanos(500)))], &[exit(10_500), exit(900_999)]);
    assert_eq!((asked.width(), counts(&asked)), (Nanos(500), vec![(vec![at(10_500)], 1), (vec![at(900_500)], 1)]));
    assert_eq!(group(&[Dimension::Time(Some(Nanos(0)))], &[]).width(), Nanos(1));
}

#[test]
fn threads_are_named_as_vcpus_where_their_vm_is_known() {
    let (mut unnamed, mut of_nobody) = (exit(1), exit(1));
    unnamed.who.vcpu = VcpuId::UNKNOWN;
    of_nobody.who = VcpuIdentity { vm: VmId::UNKNOWN, vcpu: VcpuId::UNKNOWN, tid: Tid(41) };
    let mut group = group(&[Dimension::Vm, Dimension::Vcpu], &[unnamed, exit(1), of_nobody, unnamed]);
    group.complete(&FxHashMap::from_iter([(Tid(41), VcpuId(1))]));
    assert_eq!(
        counts(&group),
        [
            (vec![DimensionValue::Vm(VmId::UNKNOWN), DimensionValue::Thread(Tid(41))], 1),
            (vec![DimensionValue::Vm(VmId(4)), DimensionValue::Vcpu(VcpuId(1))], 3)
        ]
    );
    // What comes after goes to the same groups.
    group.absorb(&exit(9));
    assert_eq!(counts(&group)[1].1, 4);
}

#[test]
fn instruction_pointers_are_put_together_by_function() {
    let at = |rip| Exit { rip, ..exit(1) };
    let mut group =
        group(&[Dimension::Rip, Dimension::Cpu], &[at(0x1004), at(0x1008), at(0x2000), at(0x9000), at(0x1004)]);
    assert_eq!(group.rips().collect::<Vec<_>>(), [0x1004, 0x1008, 0x2000, 0x9000]);
    group.by_function(|rip| (rip < 0x3000).then_some(rip >> 12 << 12));
    let key = |rip| vec![DimensionValue::Rip(rip), DimensionValue::Cpu(PcpuId(3))];
    assert_eq!(counts(&group), [(key(0x1000), 3), (key(0x2000), 1), (key(0x9000), 1)]);
}

#[test]
fn groups_beyond_the_most_are_one() {
    let mut group = ExitGroups::by(&[Dimension::Rip]);
    for rip in 1..=exitscope_analysis::MAX_KEYS as u64 + 3 {
        group.absorb(&Exit { rip, ..exit(1) });
    }
    assert_eq!((group.cells().len(), group.other.count), (exitscope_analysis::MAX_KEYS, 3));
    let mut twice = ExitGroups::by(&[Dimension::Rip]);
    twice.merge(&group);
    twice.merge(&group);
    assert_eq!(
        (twice.cells().len(), twice.other.count, twice.cells()[5].1.count),
        (exitscope_analysis::MAX_KEYS, 6, 2)
    );
}
