//! From a row of the table of tracepoints to the layout of its records.
//!
//! ```text
//! row: "unsigned int exit_reason" Code ─► format text, place of 4 bytes at 8 that carries Code
//! ```
//!
//! Records are laid out as the kernel lays them out: common fields, then each field at its natural alignment.

use crate::tracefs::Format;
use crate::tracepoints::{FieldContent, ROWS, to_write};
use exitscope_model::codes::tables as t;

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct WriteFieldPlace {
    pub offset: usize,
    pub size: usize,
    pub carries: FieldContent,
}

/// How the records of one tracepoint are laid out.
#[derive(Clone, Debug)]
pub struct Layout {
    pub system: String,
    /// The `format` text.
    pub text: String,
    /// The fields that carry something.
    pub places: Vec<WriteFieldPlace>,
    /// Bytes of a record.
    pub size: usize,
}

/// Fields that all records have.
const COMMON: &[(&str, FieldContent)] = &[
    ("unsigned short common_type", FieldContent::Ignored),
    ("unsigned char common_flags", FieldContent::Ignored),
    ("unsigned char common_preempt_count", FieldContent::Ignored),
    ("int common_pid", FieldContent::Ignored),
];

/// What a tracepoint has of which nothing is known: perf wants one field at least.
const UNKNOWN: &[(&str, FieldContent)] = &[("u32 not_kept", FieldContent::Ignored)];

impl Layout {
    /// The layout that a host's own `format` text gives, with records that will bear `id`; `None` if it cannot be read.
    pub fn of_format(system: &str, text: &str, id: u16) -> Option<Layout> {
        let format = Format::parse(text)?;
        let size = format.fields.iter().map(|field| field.offset + field.size).max()?;
        let line = |line: &str| if line.starts_with("ID:") { format!("ID: {id}\n") } else { format!("{line}\n") };
        Some(Layout { system: system.into(), text: text.lines().map(line).collect(), places: Vec::new(), size })
    }

    /// The layout of `name` (`system:event`) on `arch`, whose records will bear `id`. A tracepoint that is not in the
    /// table has nothing to say.
    pub fn new(arch: &str, name: &str, id: u16) -> Layout {
        let (fields, print) = to_write(arch, name).map_or((UNKNOWN, "\"\""), |row| (row.fields, row.print));
        let (system, event) = name.split_once(':').unwrap_or(("unknown", name));
        let mut text = format!("name: {}\nID: {id}\nformat:\n", plain(event));
        let mut places = Vec::new();
        let mut at = 0usize;
        for (number, &(declared, carries)) in COMMON.iter().chain(fields).enumerate() {
            let declared = declared.split('|').next().unwrap_or(declared);
            let (size, align, signed) = shape(declared);
            at = at.next_multiple_of(align);
            if number == COMMON.len() {
                text.push('\n');
            }
            text += &format!("\tfield:{declared};\toffset:{at};\tsize:{size};\tsigned:{};\n", u8::from(signed));
            match carries {
                FieldContent::Ignored => {}
                // Of a system call's arguments, an ioctl's command is the second.
                _ if size > align && !carries.is_name() => {
                    places.push(WriteFieldPlace { offset: at + align, size: align, carries })
                }
                _ => places.push(WriteFieldPlace { offset: at, size, carries }),
            }
            at += size;
        }
        text += &format!("\nprint fmt: {}\n", with_symbols(print));
        Layout { system: plain(system), text, places, size: at }
    }
}

/// Each form of each tracepoint that is read: `system:name`, and its `format` text as this writes it.
pub fn known_formats() -> impl Iterator<Item = (&'static str, String)> {
    ROWS.iter().map(|row| (row.event, Layout::new(row.arch, row.event, 1).text))
}

/// A name as names of tracepoints are, whatever trace it is from: perf refuses a file with any other.
fn plain(name: &str) -> String {
    let text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if text.is_empty() { "unknown".to_string() } else { text }
}

/// Size, alignment and signedness of what C declares so, on a 64-bit host.
fn shape(declared: &str) -> (usize, usize, bool) {
    let (kind, name) = declared.rsplit_once(' ').unwrap_or(("", declared));
    let (size, signed) = match kind {
        "bool" | "u8" | "__u8" | "unsigned char" => (1, false),
        "char" => (1, true),
        "u16" | "__u16" | "unsigned short" => (2, false),
        "u32" | "__u32" | "unsigned int" | "unsigned" => (4, false),
        "int" | "pid_t" => (4, true),
        "long" => (8, true),
        _ => (8, false),
    };
    let elements = name.split_once('[').and_then(|(_, rest)| rest.trim_end_matches(']').parse().ok()).unwrap_or(1);
    (size * elements, size, signed)
}

/// A print format with the symbols of its tables.
fn with_symbols(print: &str) -> String {
    /// What stands for a table, the table, what its names begin with.
    type Table = (&'static str, &'static [(u64, &'static str)], &'static str);
    const TABLES: &[Table] = &[
        ("@VMX", t::VMX, ""),
        ("@SVM", t::SVM, ""),
        ("@ARM64_EXIT", t::ARM64_EXIT, ""),
        ("@ARM64_EC", t::ARM64_EC, ""),
        ("@S390_ICPT", t::S390_ICPT, ""),
        ("@S390_DIAG", t::S390_DIAG, ""),
        ("@S390_SIGP", t::S390_SIGP, ""),
        ("@S390_PROG", t::S390_PROG, ""),
        ("@PPC_TRAP", t::PPC_TRAP, ""),
        ("@PPC_BOOKE", t::PPC_BOOKE, ""),
        ("@PPC_HCALL", t::PPC_HCALL, ""),
        ("@LOONGARCH", t::LOONGARCH, ""),
        ("@KVM_EXIT", t::KVM_EXIT, "KVM_EXIT_"),
    ];
    let mut print = print.to_string();
    for (mark, table, prefix) in TABLES {
        if print.contains(mark) {
            let symbols = table.iter().map(|(number, name)| format!("{{ {number:#x}, \"{prefix}{name}\" }}"));
            print = print.replace(mark, &symbols.collect::<Vec<_>>().join(", "));
        }
    }
    print
}
