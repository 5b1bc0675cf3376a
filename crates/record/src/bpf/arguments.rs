//! What a tracepoint itself is given, before a record is made of it. A program that looks at that is cheaper: the kernel
//! makes no record for it, and does none of perf's bookkeeping around it.
//!
//! ```text
//! trace_kvm_pio(rw, port, size, count, data) ─┬─► a raw tracepoint's program: 5 words of 8 bytes
//!                                             └─► perf: a record of 28 bytes ─► a tracepoint's program
//! ```
//!
//! Nothing that the kernel promises says what is which argument, so BTF has to: else the program looks at the record.

use crate::Tracepoint;
use crate::btf::Btf;
use exitscope_trace::tracefs::{ByteOrder, CountRole, FieldLocation, Format};

/// Bytes of each argument, whatever its type.
const WORD: usize = 8;

/// The fields of records that are arguments of the same name as they are (`TP_PROTO` and `TP_fast_assign` of
/// `arch/x86/kvm/trace.h`, `include/trace/events/kvm.h`). Each tracepoint that is counted by fields has a row; a program looks at
/// the record where the row has none. `kvm_exit` is given the vCPU, and asks the back end for the reason when it makes its
/// record; of the others without arguments, nothing here says which fields are.
const ARGUMENTS: &[(&str, &[&str])] = &[
    ("kvm_fpu", &["load"]),
    ("kvm_userspace_exit", &["reason", "errno"]),
    ("kvm_pio", &["rw", "port"]),
    ("kvm_mmio", &["type", "len", "gpa"]),
    ("kvm_msr", &["write", "ecx"]),
    ("kvm_cr", &["rw", "cr"]),
    ("kvm_apic", &["rw", "reg"]),
    ("kvm_vcpu_wakeup", &["ns", "waited", "valid"]),
    ("kvm_exit", &[]),
    ("kvm_s390_sie_exit", &[]),
    ("kvm_fast_mmio", &[]),
    ("kvm_cpuid", &[]),
    ("kvm_hypercall", &[]),
    ("kvm_hv_hypercall", &[]),
    ("kvm_xen_hypercall", &[]),
    ("kvm_page_fault", &[]),
    ("kvm_vmgexit_enter", &[]),
    ("kvm_halt_poll_ns", &[]),
    ("kvm_guest_fault", &[]),
    ("kvm_hvc_arm64", &[]),
    ("kvm_handle_sys_reg", &[]),
    ("kvm_s390_handle_diag", &[]),
    ("kvm_s390_intercept_prog", &[]),
    ("kvm_s390_handle_sigp", &[]),
    ("kvm_s390_handle_sigp_pei", &[]),
    ("kvm_iocsr", &[]),
];

/// The same role and the same place of the virtual CPU's number, in arguments instead of records; `None` if one of the
/// fields is no argument, or BTF does not say that it is. Fields of no bytes are none that have to be there.
pub fn among_arguments(
    tracepoint: &Tracepoint,
    role: CountRole,
    vcpu: FieldLocation,
    btf: Option<&Btf>,
) -> Option<(CountRole, FieldLocation)> {
    if tracepoint.system != "kvm" {
        return None;
    }
    let known = ARGUMENTS.iter().find(|(name, _)| *name == tracepoint.name);
    let arguments = known.map_or(&[][..], |(_, arguments)| arguments);
    let format = Format::parse(&tracepoint.format)?;
    // `include/trace/bpf_probe.h`, and since Linux 5.10 `include/linux/tracepoint.h`. Of the type `btf_trace_<name>`, by which
    // the kernel checks programs, parameters have no names.
    let functions = ["__bpf_trace_", "__traceiter_"].map(|prefix| format!("{prefix}{}", tracepoint.name));
    let parameters = btf.filter(|_| !arguments.is_empty());
    let parameters = parameters.and_then(|btf| functions.iter().find_map(|function| btf.parameters(function)));
    let place = |place: FieldLocation| {
        if place.size == 0 {
            return Some(place);
        }
        let field = format.fields.iter().find(|field| field.offset == place.offset)?;
        arguments.iter().find(|name| **name == field.name)?;
        // Before the arguments, the function is given what its caller registered.
        let (_, parameters) = parameters.as_ref()?.split_first()?;
        let at = parameters.iter().position(|parameter| parameter.name == field.name)?;
        parameters[at].size.filter(|&size| size == place.size)?;
        // A number is the low bytes of its word.
        let before = match ByteOrder::NATIVE {
            ByteOrder::Little => 0,
            ByteOrder::Big => WORD - place.size,
        };
        Some(FieldLocation { offset: at * WORD + before, size: place.size })
    };
    Some((role.moved(place)?, place(vcpu)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::made::Made;
    use exitscope_model::EventNames;
    use exitscope_trace::tracefs::{Decoder, WriteRule};
    use std::cell::RefCell;

    const NOWHERE: FieldLocation = FieldLocation { offset: 0, size: 0 };

    fn tracepoint(system: &str, name: &str, fields: &str) -> Tracepoint {
        let text = format!("name: {name}\nID: 7\nformat:\n{fields}\nprint fmt: \"\"\n");
        Tracepoint::parse(system, &text).expect("a format")
    }

    /// BTF in which kvm_mmio has these parameters: their names, and 4 or 8 bytes, or 0 for a pointer.
    fn btf(parameters: &[(&str, u32)]) -> Btf {
        let mut made = Made::default();
        let [pointer, int, long] = [made.pointer(), made.number(4), made.number(8)];
        let of = |size| match size {
            0 => pointer,
            4 => int,
            _ => long,
        };
        let parameters: Vec<(&str, u32)> = parameters.iter().map(|&(name, size)| (name, of(size))).collect();
        made.function("__bpf_trace_kvm_mmio", &[&[("__data", pointer)], &parameters[..]].concat());
        let mut btf = Btf::default();
        btf.add(&made.bytes()).expect("BTF");
        btf
    }

    const FIELDS: &str = "\tfield:u32 type;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:u32 len;\toffset:12;\tsize:4;\tsigned:0;\n\
                          \tfield:u64 gpa;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:u64 val;\toffset:24;\tsize:8;\tsigned:0;";

    fn at(offset: usize, size: usize) -> FieldLocation {
        FieldLocation { offset, size }
    }

    fn about(key: FieldLocation, kind: FieldLocation) -> CountRole {
        CountRole::About { kind: exitscope_model::SubjectKind::Mmio, key, write: WriteRule::Is(kind, 2) }
    }

    /// Where the low 4 bytes of a word are.
    const LOW: usize = if cfg!(target_endian = "big") { 4 } else { 0 };

    #[test]
    fn of_each_tracepoint_of_kvm_that_is_counted_it_is_said_which_fields_are_arguments() {
        let (mut counted, mut missing) = (Vec::new(), Vec::new());
        for (event, text) in exitscope_trace::known_formats().filter(|(event, _)| event.starts_with("kvm:")) {
            let format = Format::parse(&text).expect("a format");
            let decoder = Decoder::new("kvm", &format, &mut EventNames::default());
            let looked_at = RefCell::new(Vec::new());
            let note = |place: FieldLocation| {
                let of_place = format.fields.iter().filter(|field| place.size > 0 && field.offset == place.offset);
                looked_at.borrow_mut().extend(of_place.map(|field| field.name.clone()));
                Some(place)
            };
            if decoder.role().and_then(|role| role.moved(note)).is_none() || looked_at.borrow().is_empty() {
                continue;
            }
            counted.push(format.name.clone());
            let Some((_, arguments)) = ARGUMENTS.iter().find(|row| row.0 == format.name) else {
                missing.push(format!("{event} is counted: which of {:?} are arguments?", looked_at.borrow()));
                continue;
            };
            let are = looked_at.borrow().iter().all(|name| arguments.contains(&name.as_str()));
            assert!(
                are || arguments.is_empty(),
                "{event} has the arguments {arguments:?}, and counting looks at {looked_at:?}"
            );
        }
        assert_eq!(missing, [""; 0]);
        let unknown: Vec<_> = ARGUMENTS.iter().filter(|row| !counted.iter().any(|name| name == row.0)).collect();
        assert_eq!(unknown, Vec::<&(&str, &[&str])>::new(), "nothing counts these");
    }

    #[test]
    fn what_a_role_looks_at_is_found_among_the_arguments_or_the_record_is_made() {
        let btf = btf(&[("type", 4), ("len", 4), ("gpa", 8), ("val", 0)]);
        let among = |tracepoint: &Tracepoint, role, vcpu| among_arguments(tracepoint, role, vcpu, Some(&btf));
        let mmio = tracepoint("kvm", "kvm_mmio", FIELDS);
        let moved = among(&mmio, about(at(16, 8), at(8, 4)), NOWHERE);
        assert_eq!(moved, Some((about(at(16, 8), at(LOW, 4)), NOWHERE)));
        // `val` is a pointer there.
        assert_eq!(among(&mmio, about(at(24, 8), at(8, 4)), NOWHERE), None);
        let vcpu = among(&mmio, about(at(16, 8), at(8, 4)), at(12, 4)).map(|found| found.1.offset);
        assert_eq!(vcpu, Some(8 + LOW));
        let other = tracepoint("kvm_hv", "kvm_mmio", FIELDS);
        assert_eq!(among(&other, about(at(16, 8), at(8, 4)), NOWHERE), None);
        // An entry needs no field, but for the number of the virtual CPU.
        let entry = tracepoint("kvm", "kvm_entry", "\tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!(among(&entry, CountRole::Enter, NOWHERE), Some((CountRole::Enter, NOWHERE)));
        assert_eq!(among(&entry, CountRole::Enter, at(8, 4)), None);
    }

    #[test]
    fn arguments_are_where_this_kernel_has_them_and_where_it_does_not_say_the_record_is_made() {
        let mmio = tracepoint("kvm", "kvm_mmio", FIELDS);
        let among = |btf: Option<&Btf>| among_arguments(&mmio, about(at(16, 8), at(8, 4)), NOWHERE, btf);
        // One more than today, in front.
        let moved = btf(&[("vcpu", 0), ("type", 4), ("len", 4), ("gpa", 8), ("val", 0)]);
        assert_eq!(among(Some(&moved)), Some((about(at(24, 8), at(8 + LOW, 4)), NOWHERE)));
        let renamed = btf(&[("type", 4), ("len", 4), ("addr", 8), ("val", 0)]);
        let narrow = btf(&[("type", 4), ("len", 4), ("gpa", 4), ("val", 0)]);
        let pointer = btf(&[("type", 0), ("len", 4), ("gpa", 8), ("val", 0)]);
        let other = Btf::default();
        for btf in [Some(&renamed), Some(&narrow), Some(&pointer), Some(&other), None] {
            assert_eq!(among(btf), None, "{btf:?}");
        }
    }
}
