//! What a tracepoint itself is given, before a record is made of it. A program that looks at that is cheaper: the kernel
//! makes no record for it, and does none of perf's bookkeeping around it.
//!
//! ```text
//! trace_kvm_pio(rw, port, size, count, data) ─┬─► a raw tracepoint's program: 5 words of 8 bytes
//!                                             └─► perf: a record of 28 bytes ─► a tracepoint's program
//! ```

use crate::Tracepoint;
use exitscope_trace::tracefs::{Format, Order, Place, Role};

/// Bytes of each argument, whatever its type.
const WORD: usize = 8;

/// The fields of records that are arguments as they are, in the order of arguments (`TP_PROTO` of
/// `arch/x86/kvm/trace.h`, `include/trace/events/kvm.h`); the rest of each list is left out. They have been the same since
/// there are raw tracepoints (Linux 4.17). `kvm_exit` is given the vCPU, and asks the back end for the reason when it
/// makes its record.
const ARGUMENTS: [(&str, &[&str]); 8] = [
    ("kvm_fpu", &["load"]),
    ("kvm_userspace_exit", &["reason", "errno"]),
    ("kvm_pio", &["rw", "port"]),
    ("kvm_mmio", &["type", "len", "gpa"]),
    ("kvm_msr", &["write", "ecx"]),
    ("kvm_cr", &["rw", "cr"]),
    ("kvm_apic", &["rw", "reg"]),
    ("kvm_vcpu_wakeup", &["ns", "waited", "valid"]),
];

/// The same role and the same place of the virtual CPU's number, in arguments instead of records; `None` if one of the
/// fields is no argument. Fields of no bytes are none that have to be there.
pub fn among_arguments(tracepoint: &Tracepoint, role: Role, vcpu: Place) -> Option<(Role, Place)> {
    if tracepoint.system != "kvm" {
        return None;
    }
    let known = ARGUMENTS.iter().find(|(name, _)| *name == tracepoint.name);
    let arguments = known.map_or(&[][..], |(_, arguments)| arguments);
    let format = Format::parse(&tracepoint.format)?;
    let place = |place: Place| {
        if place.size == 0 {
            return Some(place);
        }
        let field = format.fields.iter().find(|field| field.offset == place.offset)?;
        let at = arguments.iter().position(|name| *name == field.name)?;
        // A number is the low bytes of its word.
        let before = match Order::NATIVE {
            Order::Little => 0,
            Order::Big => WORD - place.size,
        };
        Some(Place { offset: at * WORD + before, size: place.size })
    };
    Some((role.moved(place)?, place(vcpu)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_trace::tracefs::Write;

    const NOWHERE: Place = Place { offset: 0, size: 0 };

    fn tracepoint(system: &str, name: &str, fields: &str) -> Tracepoint {
        let text = format!("name: {name}\nID: 7\nformat:\n{fields}\nprint fmt: \"\"\n");
        Tracepoint::parse(system, &text).expect("a format")
    }

    #[test]
    fn what_a_role_looks_at_is_found_among_the_arguments_or_the_record_is_made() {
        let fields = "\tfield:u32 type;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:u32 len;\toffset:12;\tsize:4;\tsigned:0;\n\
                      \tfield:u64 gpa;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:u64 val;\toffset:24;\tsize:8;\tsigned:0;";
        let at = |offset, size| Place { offset, size };
        let about = |key, kind| Role::About { kind: exitscope_model::DetailKind::Mmio, key, write: Write::Is(kind, 2) };
        let mmio = tracepoint("kvm", "kvm_mmio", fields);
        let low = if Order::NATIVE == Order::Big { 4 } else { 0 };
        let moved = among_arguments(&mmio, about(at(16, 8), at(8, 4)), NOWHERE);
        assert_eq!(moved, Some((about(at(16, 8), at(low, 4)), NOWHERE)));
        // `val` is a pointer there.
        assert_eq!(among_arguments(&mmio, about(at(24, 8), at(8, 4)), NOWHERE), None);
        assert_eq!(
            among_arguments(&mmio, about(at(16, 8), at(8, 4)), at(12, 4)).map(|found| found.1.offset),
            Some(8 + low)
        );
        let other = tracepoint("kvm_hv", "kvm_mmio", fields);
        assert_eq!(among_arguments(&other, about(at(16, 8), at(8, 4)), NOWHERE), None);
        // An entry needs no field, but for the number of the virtual CPU.
        let entry = tracepoint("kvm", "kvm_entry", "\tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!(among_arguments(&entry, Role::Enter, NOWHERE), Some((Role::Enter, NOWHERE)));
        assert_eq!(among_arguments(&entry, Role::Enter, at(8, 4)), None);
    }
}
