//! What QEMU says is where: the text of `info mtree -f` and of `info pci` in its monitor.
//!
//! `mtree_print_flatview` of `system/memory.c` prints each view once, with all address spaces that have it, `hmp_info_pci_device` of
//! `hw/pci/pci-hmp-cmds.c` each device, its id last.

use super::{Range, Space, VmRanges, check_name};

/// Vendor of virtio's devices (`docs/specs/pci-ids.rst` of QEMU).
const VIRTIO: &str = "1af4:";

/// virtio's devices by PCI's number: those before 1.0, then 0x1040 and the type (`include/standard-headers/linux/virtio_ids.h`).
const VIRTIO_DEVICES: &[(u32, &str)] = &[
    (0x1000, "virtio-net"),
    (0x1001, "virtio-blk"),
    (0x1002, "virtio-balloon"),
    (0x1003, "virtio-serial"),
    (0x1004, "virtio-scsi"),
    (0x1005, "virtio-rng"),
    (0x1009, "virtio-9p"),
    (0x1041, "virtio-net"),
    (0x1042, "virtio-blk"),
    (0x1043, "virtio-serial"),
    (0x1044, "virtio-rng"),
    (0x1045, "virtio-balloon"),
    (0x1048, "virtio-scsi"),
    (0x1049, "virtio-9p"),
    (0x1050, "virtio-gpu"),
    (0x1052, "virtio-input"),
    (0x1053, "virtio-vsock"),
    (0x1054, "virtio-crypto"),
    (0x1057, "virtio-iommu"),
    (0x1058, "virtio-mem"),
    (0x105a, "virtio-fs"),
    (0x105b, "virtio-pmem"),
];

/// How lines begin that say nothing of where something is.
const BESIDE: [&str; 15] = [
    "(qemu)",
    "QEMU ",
    "No rendered FlatView",
    "PCI subsystem",
    "IRQ ",
    "BUS ",
    "secondary bus",
    "subordinate bus",
    "IO range",
    "memory range",
    "prefetchable memory range",
    "Root memory region:",
    "AS \"",
    "FlatView #",
    "qemu-system-",
];

/// Reads lines one after the other.
#[derive(Debug, Default)]
pub(super) struct MonitorReader {
    /// Of `info mtree -f`: what the view in hand is of, and what the root of it is called, where nothing is.
    spaces: Vec<Space>,
    root: String,
    /// Of `info pci`: where the device in hand is, and what it is.
    address: String,
    device: String,
    bars: Vec<Range>,
    /// What the last line gave.
    found: Vec<Found>,
}

#[derive(Debug)]
enum Found {
    Region(Range),
    Bars { bars: Vec<Range>, id: String },
}

impl MonitorReader {
    /// Whether it is a line of the monitor.
    pub(super) fn read(&mut self, words: &str) -> Result<bool, String> {
        let inner = words.trim_start();
        if inner.contains('\u{1b}') {
            // What the line editor shows while a command is typed, in a log of the terminal.
            return Ok(true);
        }
        if inner.starts_with("address-space:") || inner.starts_with("memory-region:") {
            return Err("this is of `info mtree`: only `info mtree -f` says what is where in the end".to_string());
        }
        if inner.starts_with("FlatView #") {
            self.spaces.clear();
        } else if let Some(name) = inner.strip_prefix("AS \"") {
            match name.split('"').next() {
                Some("memory") => self.spaces.push(Space::Memory),
                Some("I/O") => self.spaces.push(Space::Port),
                _ => {}
            }
        } else if let Some(root) = inner.strip_prefix("Root memory region: ") {
            self.root = root.to_string();
        } else if let Some(bus) = inner.strip_prefix("Bus ") {
            return Ok(self.begin_device(bus));
        } else if let Some((what, ids)) = inner.split_once(": PCI device ") {
            self.device = virtio_name(ids).unwrap_or(what).to_string();
            return Ok(true);
        } else if inner.starts_with("BAR") {
            return Ok(self.bar(inner).is_some());
        } else if let Some(id) = inner.strip_prefix("id \"").and_then(|id| id.strip_suffix('"')) {
            let bars = std::mem::take(&mut self.bars);
            self.found.push(Found::Bars { bars, id: id.to_string() });
            return Ok(true);
        }
        if BESIDE.iter().any(|begin| inner.starts_with(begin)) {
            return Ok(true);
        }
        self.region(inner)
    }

    /// Adds what the last line gave.
    pub(super) fn add(&mut self, said: &mut VmRanges, line: u64) -> Result<bool, String> {
        let mut is_new = false;
        for found in self.found.drain(..) {
            match found {
                Found::Region(range) => is_new |= said.regions.add(Range { line, ..range })?,
                Found::Bars { bars, id } => {
                    for bar in bars {
                        let bar = Range { line, ..bar };
                        let id = Range { name: id.clone(), ..bar.clone() };
                        is_new |= said.bars.add(bar)?;
                        if !id.name.is_empty() {
                            said.ids.add(id)?;
                        }
                    }
                }
            }
        }
        Ok(is_new)
    }

    /// `  Bus  0, device   3, function 0:`.
    fn begin_device(&mut self, words: &str) -> bool {
        let parts = words.trim_end_matches(':').split(", ");
        let numbers: Option<Vec<u32>> = parts.map(|part| part.rsplit(' ').next()?.parse().ok()).collect();
        let Some([bus, device, function]) = numbers.as_deref() else {
            // `BUS 0.` of a bridge is another line.
            return false;
        };
        self.address = format!("{bus:02x}:{device:02x}.{function:x}");
        self.device.clear();
        self.bars.clear();
        true
    }

    /// `BAR4: 64 bit prefetchable memory at 0xfe000000 [0xfe003fff].`, `BAR0: I/O at 0xc000 [0xc07f].`; one that is not set up has
    /// no place.
    fn bar(&mut self, words: &str) -> Option<()> {
        let (bar, rest) = words.split_once(": ")?;
        if rest.ends_with("(not configured)") {
            return Some(());
        }
        let (what, place) = rest.split_once(" at ")?;
        let (first, last) = place.trim_end_matches('.').strip_suffix(']')?.split_once(" [")?;
        let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let (first, last) = (number(first)?, number(last)?);
        let space = if what == "I/O" { Space::Port } else { Space::Memory };
        if first <= last {
            let name = format!("{} {} {bar}", self.device, self.address);
            self.bars.push(Range { space, first, last, name, line: 0 });
        }
        Some(())
    }

    /// `00000000fe003000-00000000fe003fff (prio 0, i/o): virtio-pci-notify-virtio-blk`.
    fn region(&mut self, words: &str) -> Result<bool, String> {
        let parts = words.split_once(" (prio ").and_then(|(range, rest)| {
            let (kind, name) = rest.split_once("): ")?;
            let (first, last) = range.split_once('-')?;
            let number = |text: &str| if text.len() == 16 { u64::from_str_radix(text, 16).ok() } else { None };
            Some((number(first)?, number(last)?, kind.rsplit(", ").next()?, name))
        });
        let Some((first, last, kind, name)) = parts else { return Ok(false) };
        let name = region_name(name);
        // RAM is nobody's device, and what is of the root itself is nobody's at all.
        if kind == "ram" || name == self.root || first > last {
            return Ok(true);
        }
        check_name(name)?;
        let region =
            |space: &Space| Found::Region(Range { space: *space, first, last, name: name.to_string(), line: 0 });
        self.found.extend(self.spaces.iter().map(region));
        Ok(true)
    }
}

/// The name of a region, without where in it this part of it begins, whose it is (`-o`), and that KVM has it.
fn region_name(text: &str) -> &str {
    let ends = [" @0", " owner:", " parent:", " KVM"].iter().filter_map(|end| text.find(end));
    &text[..ends.min().unwrap_or(text.len())]
}

/// `1af4:1001` is virtio-blk.
fn virtio_name(ids: &str) -> Option<&'static str> {
    let number = u32::from_str_radix(ids.trim().strip_prefix(VIRTIO)?, 16).ok()?;
    VIRTIO_DEVICES.iter().find(|row| row.0 == number).map(|row| row.1)
}
