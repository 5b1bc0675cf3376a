//! What a Linux guest says is where: its `/proc/iomem` and `/proc/ioports`.
//!
//! `r_show` of `kernel/resource.c`: two spaces for each level, addresses of at least eight digits, of four if the tree ends below
//! 0x10000, as that of ports does; zeros for who may not see them.

use super::{Range, Space, VmRanges, check_name};

/// What names no device: what others are in, and memory.
const CONTAINERS: [&str; 9] = [
    "PCI Bus",
    "System RAM",
    "Reserved",
    "reserved",
    "Kernel ",
    "Crash kernel",
    "ACPI Tables",
    "ACPI Non-volatile Storage",
    "RAM buffer",
];

/// A line.
#[derive(Debug)]
pub(super) struct Found {
    depth: usize,
    space: Space,
    first: u64,
    last: u64,
    name: String,
    /// The PCI device that it is a part of.
    device: Option<String>,
}

/// Reads lines one after the other.
#[derive(Debug, Default)]
pub(super) struct ResourceReader {
    /// The names of what the next line may be in.
    within: Vec<String>,
    shown: usize,
    zeros: usize,
}

impl ResourceReader {
    /// What a line says, if it is one.
    pub(super) fn read(&mut self, words: &str) -> Option<Found> {
        let inner = words.trim_start_matches(' ');
        let (range, name) = inner.split_once(" : ")?;
        let (from, to) = range.split_once('-')?;
        let is_hex = |text: &str| text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex(from) || !is_hex(to) {
            return None;
        }
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (first, last) = (number(from)?, number(to)?);
        let depth = ((words.len() - inner.len()) / 2).min(self.within.len());
        self.within.truncate(depth);
        let device = self.within.iter().rev().find(|name| is_pci_address(name)).cloned();
        self.within.push(name.to_string());
        match (first, last) {
            (0, 0) => self.zeros += 1,
            _ => self.shown += 1,
        }
        let space = if from.len() == 4 { Space::Port } else { Space::Memory };
        Some(Found { depth, space, first, last, name: name.to_string(), device })
    }

    /// Whether whoever read it might not see addresses.
    pub(super) fn is_hidden(&self) -> bool {
        self.zeros > 0 && self.shown == 0
    }
}

/// Adds what a line says. Within a listing nothing overlaps but what is in something else.
pub(super) fn add(said: &mut VmRanges, found: Found, line: u64) -> Result<bool, String> {
    let Found { depth, space, first, last, name, device } = found;
    if (first, last) == (0, 0) || CONTAINERS.iter().any(|container| name.starts_with(container)) {
        return Ok(false);
    }
    check_name(&name)?;
    if first > last {
        return Err("it ends before it begins".to_string());
    }
    let name = device.map_or(name.clone(), |device| format!("{name} {device}"));
    let range = Range { space, first, last, name, line };
    if depth == 0 && !said.outermost.add(range.clone())? {
        return Ok(false);
    }
    said.resources.push(range);
    Ok(true)
}

/// `0000:00:03.0`.
fn is_pci_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    parts.len() == 4 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
