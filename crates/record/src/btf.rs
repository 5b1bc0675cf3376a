//! The parameters of the kernel's functions, by BTF (`Documentation/bpf/btf.rst`, `include/uapi/linux/btf.h`).
//!
//! ```text
//! magic (2) · version, flags (1 each) · bytes of this header (4) · types: where, bytes (4 each) · names: the same
//!     type: name (4) · number of parts in bits 0 to 15, kind in bits 24 to 28 (4) · size, or another type (4) · parts
//!     name: up to a zero
//! ```
//!
//! Places are counted from the end of the header. Types are numbered from 1; those of a module go on where those of vmlinux
//! end, and so do the places of its names.

use crate::bytes::{u16_at, u32_at};
use std::fs;
use std::path::Path;

/// Of the kernel, and of the module that has KVM's tracepoints, where KVM is one.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const KVM: &str = "/sys/kernel/btf/kvm";

const MAGIC: u16 = 0xeb9f;
/// Bytes of a type without its parts.
const TYPE: usize = 12;
/// Types that stand for another, at most, before the one with a size.
const MAX_DEPTH: usize = 16;

/// `BTF_KIND_*`: those that are looked at.
const INT: u32 = 1;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const ENUM64: u32 = 19;

/// What a kernel says of its functions.
#[derive(Debug, Default)]
pub struct Btf {
    /// All types, one behind the other, and where each begins; of type 0, which has no bytes, nothing.
    types: Vec<u8>,
    places: Vec<usize>,
    names: Vec<u8>,
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its bytes, if it is a number.
    pub size: Option<usize>,
}

impl Btf {
    /// That of the kernel which runs; `None` if it has none that we may and can read.
    pub fn of_this_kernel() -> Option<Btf> {
        let mut btf = Btf::default();
        btf.add(&fs::read(KERNEL).ok()?)?;
        if Path::new(KVM).exists() {
            btf.add(&fs::read(KVM).ok()?)?;
        }
        Some(btf)
    }

    /// Adds what vmlinux says, or, after that, a module; `None` if it cannot be understood.
    pub fn add(&mut self, bytes: &[u8]) -> Option<()> {
        if u16_at(bytes, 0) != MAGIC {
            return None;
        }
        let number = |at| u32_at(bytes, at) as usize;
        let body = bytes.get(number(4)..)?;
        let part = |at| body.get(number(at)..)?.get(..number(at + 4));
        let (types, names) = (part(8)?, part(16)?);
        let mut at = 0;
        while at < types.len() {
            self.places.push(self.types.len() + at);
            at += TYPE + bytes_of_parts(u32_at(types, at + 4))?;
        }
        self.types.extend_from_slice(types);
        self.names.extend_from_slice(names);
        Some(())
    }

    /// The parameters of a function; `None` if there is none of this name.
    pub fn parameters(&self, function: &str) -> Option<Vec<Parameter<'_>>> {
        let is_it = |&&at: &&usize| self.kind(at) == FUNC && self.name(at) == Some(function);
        let prototype = self.place(u32_at(&self.types, self.places.iter().find(is_it)? + 8))?;
        if self.kind(prototype) != FUNC_PROTO {
            return None;
        }
        let parts = (0..parts(u32_at(&self.types, prototype + 4))).map(|part| prototype + TYPE + 8 * part);
        parts.map(|at| Some(Parameter { name: self.name(at)?, size: self.size(at + 4) })).collect()
    }

    /// Bytes of a number, by the place that has the number of its type; `None` of what is none.
    fn size(&self, mut at: usize) -> Option<usize> {
        for _ in 0..MAX_DEPTH {
            let of = self.place(u32_at(&self.types, at))?;
            match self.kind(of) {
                INT | ENUM | ENUM64 => return Some(u32_at(&self.types, of + 8) as usize),
                TYPEDEF | CONST | VOLATILE => at = of + 8,
                _ => return None,
            }
        }
        None
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.places.get((number as usize).checked_sub(1)?).copied()
    }

    fn kind(&self, at: usize) -> u32 {
        kind(u32_at(&self.types, at + 4))
    }

    /// The name of what is at this place.
    fn name(&self, at: usize) -> Option<&str> {
        let from = self.names.get(u32_at(&self.types, at) as usize..)?;
        std::str::from_utf8(from.split(|&byte| byte == 0).next()?).ok()
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn parts(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// What a type has behind it; `None` of a kind that came later than this.
fn bytes_of_parts(info: u32) -> Option<usize> {
    Some(match kind(info) {
        // Pointers, names for other types, functions; floats.
        2 | 7 | TYPEDEF..=FUNC | 16 | 18 => 0,
        // A number's encoding; a variable's linkage; the index of a declaration's tag.
        INT | 14 | 17 => 4,
        // An array.
        3 => 12,
        // Structures, unions, sections; wide enumerations.
        4 | 5 | 15 | ENUM64 => 12 * parts(info),
        ENUM | FUNC_PROTO => 8 * parts(info),
        _ => return None,
    })
}

/// BTF that is made by hand.
#[cfg(test)]
pub mod made {
    use super::*;

    /// Types and names, and how many of both are elsewhere.
    #[derive(Default)]
    pub struct Made {
        types: Vec<u8>,
        names: Vec<u8>,
        count: u32,
        before: (u32, u32),
    }

    impl Made {
        /// What goes on where `base` ends.
        pub fn behind(base: &Made) -> Made {
            Made { before: (base.before.0 + base.count, base.before.1 + base.names.len() as u32), ..Made::default() }
        }

        fn named(&mut self, name: &str) -> u32 {
            let at = self.before.1 + self.names.len() as u32;
            self.names.extend(name.bytes().chain([0]));
            at
        }

        fn add(&mut self, name: &str, info: u32, value: u32, parts: &[u32]) -> u32 {
            let name = self.named(name);
            let words = [name, info, value].into_iter().chain(parts.iter().copied());
            self.types.extend(words.flat_map(u32::to_ne_bytes));
            self.count += 1;
            self.before.0 + self.count
        }

        /// A number of so many bytes; its type.
        pub fn number(&mut self, size: u32) -> u32 {
            self.add("u", INT << 24, size, &[8 * size])
        }

        /// Another name of a type.
        pub fn typedef(&mut self, name: &str, of: u32) -> u32 {
            self.add(name, TYPEDEF << 24, of, &[])
        }

        /// `void *`.
        pub fn pointer(&mut self) -> u32 {
            self.add("", 2 << 24, 0, &[])
        }

        /// A structure with one member, which has to be passed over.
        pub fn structure(&mut self) -> u32 {
            self.add("kvm", 4 << 24 | 1, 8, &[0, 0, 0])
        }

        /// A function with these parameters.
        pub fn function(&mut self, name: &str, parameters: &[(&str, u32)]) {
            let parts: Vec<u32> = parameters.iter().flat_map(|&(name, of)| [self.named(name), of]).collect();
            let prototype = self.add("", FUNC_PROTO << 24 | parameters.len() as u32, 0, &parts);
            self.add(name, FUNC << 24, prototype, &[]);
        }

        pub fn bytes(&self) -> Vec<u8> {
            let (types, names) = (self.types.len() as u32, self.names.len() as u32);
            let version = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
            let header = [24, 0, types, types, names].map(u32::to_ne_bytes).concat();
            [version, header, self.types.clone(), self.names.clone()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made::Made;
    use super::*;
    use exitscope_skips::{Part, or_skip, skip};

    fn kernel() -> Made {
        let mut made = Made::default();
        made.structure();
        let (int, pointer) = (made.number(4), made.pointer());
        let u32 = made.typedef("u32", int);
        made.function("__bpf_trace_kvm_fpu", &[("__data", pointer), ("load", u32)]);
        made
    }

    #[test]
    fn parameters_of_a_function_have_their_names_and_what_are_numbers_their_bytes() {
        let mut btf = Btf::default();
        btf.add(&kernel().bytes()).expect("BTF");
        let said = btf.parameters("__bpf_trace_kvm_fpu");
        let expected = [("__data", None), ("load", Some(4))].map(|(name, size)| Parameter { name, size });
        assert_eq!(said, Some(expected.to_vec()));
        // A type that is no function.
        assert_eq!((btf.parameters("u32"), btf.parameters("__bpf_trace_kvm_pio")), (None, None));
    }

    #[test]
    fn a_module_goes_on_where_the_kernel_ends() {
        let base = kernel();
        let mut module = Made::behind(&base);
        let wide = module.number(8);
        // The pointer is the kernel's.
        module.function("__bpf_trace_kvm_mmio", &[("__data", 3), ("gpa", wide)]);
        let mut btf = Btf::default();
        btf.add(&base.bytes()).and_then(|()| btf.add(&module.bytes())).expect("BTF");
        let expected = [("__data", None), ("gpa", Some(8))].map(|(name, size)| Parameter { name, size });
        assert_eq!(btf.parameters("__bpf_trace_kvm_mmio"), Some(expected.to_vec()));
        assert_eq!(btf.parameters("__bpf_trace_kvm_fpu").map(|all| all.len()), Some(2));
    }

    #[test]
    fn what_is_damaged_is_refused_or_says_less() {
        let whole = kernel().bytes();
        for at in 0..whole.len() {
            let mut btf = Btf::default();
            if btf.add(&whole[..at]).is_some() {
                btf.parameters("__bpf_trace_kvm_fpu");
            }
            for byte in [0, 0x7f, 0xff] {
                let (mut bytes, mut btf) = (whole.clone(), Btf::default());
                bytes[at] = byte;
                if btf.add(&bytes).is_some() {
                    btf.parameters("__bpf_trace_kvm_fpu");
                }
            }
        }
        // A type that stands for itself has no size.
        let mut made = Made::default();
        made.typedef("endless", 1);
        made.function("f", &[("x", 1)]);
        let mut btf = Btf::default();
        btf.add(&made.bytes()).expect("BTF");
        assert_eq!(btf.parameters("f"), Some(vec![Parameter { name: "x", size: None }]));
    }

    #[test]
    fn this_kernel_names_the_arguments_of_its_tracepoints() {
        let btf = or_skip!(Btf::of_this_kernel().ok_or_else(|| skip(Part::Btf, format!("no {KERNEL}"))));
        let parameters = btf.parameters("__bpf_trace_sched_switch").expect("the scheduler's own");
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
        assert_eq!(names[..4], ["__data", "preempt", "prev", "next"]);
    }
}
