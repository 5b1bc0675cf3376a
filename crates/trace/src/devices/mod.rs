//! What is at a VM's ports and addresses, by what its user has at hand: a table, or the text of QEMU's monitor or of its guest.
//!
//! ```text
//! port 0x3f8-0x3ff serial ttyS0                                              a table's line
//!   febfb000-febfbfff : 0000:00:03.0                                         /proc/iomem, /proc/ioports
//!   00000000fe003000-00000000fe003fff (prio 0, i/o): virtio-pci-notify-…     info mtree -f
//!       BAR4: 64 bit prefetchable memory at 0xfe000000 [0xfe003fff].         info pci
//! ```
//!
//! Each line is known by its shape, so that all of these may stand in one file. What is more exact is believed first: lines of a
//! table, then QEMU's regions, then what the guest says, then BARs.

mod guest;
mod monitor;
mod table;

use exitscope_model::{GivenByVm, GivenNames, TraceInfo};
use exitscope_units::VmId;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use table::TableLine;

/// Bytes of a line at most.
const LINE: u64 = 4096;

/// Ranges at most: a large VM has some thousand.
const MOST: usize = 1 << 16;

/// Characters of a name at most.
const LONGEST_NAME: usize = 120;

/// What is where, of all VMs or of single ones.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    of_all: VmRanges,
    /// By the VM's name or number.
    of_vm: BTreeMap<String, VmRanges>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum NoDevices {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line says nothing that can be used.
    #[error("line {line}: {why}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// There are more than any VM has.
    #[error("more than {MOST} ranges")]
    TooMany,
    /// Addresses are hidden from who read them.
    #[error("all addresses are zero: read /proc/iomem and /proc/ioports as root, in the guest")]
    Hidden,
    /// It names nothing.
    #[error("nothing in it names a port or an address")]
    Empty,
}

/// Ports, or addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Port,
    Memory,
}

/// A range that is called something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    space: Space,
    first: u64,
    last: u64,
    name: String,
    line: u64,
}

/// Ranges of which none overlaps another, by where they begin.
#[derive(Clone, Debug, Default)]
struct Layer(BTreeMap<(Space, u64), Range>);

/// What was said of a VM, from the least exact to the most.
#[derive(Clone, Debug, Default)]
struct VmRanges {
    bars: Layer,
    /// The ids of the devices that have those.
    ids: Layer,
    /// What the guest says, as a tree; then all of it, what is within something after that.
    outermost: Layer,
    resources: Vec<Range>,
    regions: Layer,
    table: Layer,
    linux: Option<(u32, u32)>,
}

impl Devices {
    /// Reads such a file.
    pub fn read(mut text: impl BufRead) -> Result<Devices, NoDevices> {
        let (mut devices, mut vm) = (Devices::default(), None::<String>);
        let (mut guest, mut monitor) = (guest::ResourceReader::default(), monitor::MonitorReader::default());
        let (mut bytes, mut line, mut ranges) = (Vec::new(), 0, 0);
        loop {
            bytes.clear();
            line += 1;
            if text.by_ref().take(LINE).read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let wrong = |why: String| NoDevices::Line { line, why };
            if bytes.len() as u64 == LINE && !bytes.ends_with(b"\n") {
                return Err(wrong(format!("longer than {LINE} bytes")));
            }
            let words = std::str::from_utf8(&bytes).map_err(|_| wrong("not text".to_string()))?.trim_end();
            let said = match &vm {
                Some(vm) => devices.of_vm.entry(vm.clone()).or_default(),
                None => &mut devices.of_all,
            };
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            let told = match table::read(words).map_err(wrong)? {
                Some(TableLine::Vm(name)) => {
                    if guest.is_hidden() {
                        return Err(NoDevices::Hidden);
                    }
                    vm = name;
                    (guest, monitor) = Default::default();
                    continue;
                }
                Some(TableLine::Linux(version)) => {
                    said.linux = Some(version);
                    continue;
                }
                Some(TableLine::Range(range)) => said.table.add(Range { line, ..range }),
                None => match guest.read(words) {
                    Some(found) => guest::add(said, found, line),
                    None => match monitor.read(words).map_err(wrong)? {
                        true => monitor.add(said, line),
                        false => Err(neither(words)),
                    },
                },
            };
            ranges += usize::from(told.map_err(wrong)?);
            if ranges > MOST {
                return Err(NoDevices::TooMany);
            }
        }
        if guest.is_hidden() {
            return Err(NoDevices::Hidden);
        }
        let is_empty = devices.of_vm.values().chain([&devices.of_all]).all(VmRanges::is_empty);
        if is_empty { Err(NoDevices::Empty) } else { Ok(devices) }
    }

    /// What it says of the VMs of a recording, and the names of VMs of which the recording has none.
    pub fn of(&self, info: &TraceInfo) -> (GivenByVm, Vec<&str>) {
        let (mut given, mut unknown) = (GivenByVm::default(), Vec::new());
        self.of_all.give(&mut given.all);
        for (vm, said) in &self.of_vm {
            let named: Vec<VmId> = match vm.parse() {
                Ok(number) => vec![VmId::domain(number)],
                Err(_) => info.vms_called(vm).into_iter().collect(),
            };
            if named.is_empty() {
                unknown.push(vm.as_str());
            }
            for vm in named {
                said.give(given.of_vm.entry(vm).or_default());
            }
        }
        (given, unknown)
    }
}

impl VmRanges {
    fn is_empty(&self) -> bool {
        let layers = [&self.bars, &self.regions, &self.table];
        layers.into_iter().all(|layer| layer.0.is_empty()) && self.resources.is_empty() && self.linux.is_none()
    }

    /// Names all of it, the most exact last.
    fn give(&self, names: &mut GivenNames) {
        let mut name = |of: &Range, name: &str| match of.space {
            Space::Port => names.ports.name(of.first, of.last, name),
            Space::Memory => names.memory.name(of.first, of.last, name),
        };
        self.bars.0.values().chain(&self.resources).for_each(|of| name(of, &of.name));
        for of in self.regions.0.values() {
            // QEMU calls a region by the device's kind; which one it is the BAR says that it is in.
            match self.ids.around(of) {
                Some(id) => name(of, &format!("{} {}", of.name, id.name)),
                None => name(of, &of.name),
            }
        }
        self.table.0.values().for_each(|of| name(of, &of.name));
        names.linux = self.linux.or(names.linux);
    }
}

impl Layer {
    /// Adds a range; whether it is new.
    fn add(&mut self, new: Range) -> Result<bool, String> {
        let last = self.0.range(..=(new.space, new.last)).next_back().map(|(_, range)| range);
        match last.filter(|old| old.space == new.space && old.last >= new.first) {
            Some(old) if (old.first, old.last, &old.name) == (new.first, new.last, &new.name) => Ok(false),
            Some(old) => {
                let (of, at) = (span(new.first, new.last), span(old.first, old.last));
                Err(format!("{of} overlaps {at} of line {}, which is called {:?}", old.line, old.name))
            }
            None => {
                self.0.insert((new.space, new.first), new);
                Ok(true)
            }
        }
    }

    /// The range that holds this one.
    fn around(&self, of: &Range) -> Option<&Range> {
        let before = self.0.range(..=(of.space, of.first)).next_back().map(|(_, range)| range);
        before.filter(|range| range.space == of.space && of.last <= range.last)
    }
}

fn span(first: u64, last: u64) -> String {
    if first == last { format!("{first:#x}") } else { format!("{first:#x}-{last:#x}") }
}

/// Whether something may be called so.
fn check_name(name: &str) -> Result<(), String> {
    match name {
        "" => Err("no name".to_string()),
        _ if name.chars().count() > LONGEST_NAME => Err(format!("a name of more than {LONGEST_NAME} characters")),
        _ if name.chars().any(char::is_control) => Err("a name with a control character".to_string()),
        _ => Ok(()),
    }
}

fn neither(words: &str) -> String {
    let mut begin: String = words.trim_start().chars().take(40).collect();
    if begin.len() < words.trim_start().len() {
        begin.push('…');
    }
    format!(
        "{begin:?} is no line of a table of devices (`0xfebfb000-0xfebfbfff virtio-blk vda notify`, `port 0x3f8-0x3ff serial`, \
         `vm NAME`, `guest linux 6.8`), of /proc/iomem or /proc/ioports, or of QEMU's `info mtree -f` or `info pci`"
    )
}

#[cfg(test)]
mod tests;
