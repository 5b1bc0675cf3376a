//! What somebody says is at a VM's ports and addresses.

use exitscope_units::VmId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of one 4 KiB page that are told; of further ones only how many there are.
const MOST_OF_PAGE: usize = 3;

/// Ranges of ports or of addresses that have names. None overlaps another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedRanges {
    /// By first: last, and what is there.
    ranges: BTreeMap<u64, (u64, Arc<str>)>,
}

impl NamedRanges {
    /// Names what is from `first` to `last`, whatever was called there before; does nothing if there is nothing between them.
    pub fn name(&mut self, first: u64, last: u64, name: &str) {
        if first > last {
            return;
        }
        let before: Vec<_> =
            self.overlapping(first, last).map(|(first, last, name)| (first, last, name.clone())).collect();
        for (start, end, old) in before {
            self.ranges.remove(&start);
            if let Some(end) = first.checked_sub(1).filter(|end| start <= *end) {
                self.ranges.insert(start, (end, old.clone()));
            }
            if let Some(start) = last.checked_add(1).filter(|start| *start <= end) {
                self.ranges.insert(start, (end, old));
            }
        }
        self.ranges.insert(first, (last, name.into()));
    }

    /// The ranges of which a part is from `first` to `last`: first, last, name.
    pub fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64, &Arc<str>)> {
        let before = self.ranges.range(..first).next_back().filter(move |(_, (end, _))| *end >= first);
        let within = (first <= last).then(|| self.ranges.range(first..=last)).into_iter().flatten();
        before.into_iter().chain(within).map(|(start, (end, name))| (*start, *end, name))
    }

    /// Whether nothing has a name.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// What is from `first` to `last` called, one after the other.
    pub(crate) fn of(&self, first: u64, last: u64) -> Option<Arc<str>> {
        let mut names: Vec<&Arc<str>> = Vec::new();
        for (_, _, name) in self.overlapping(first, last) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        match names[..] {
            [] => None,
            [one] => Some(one.clone()),
            _ => {
                let told = names.iter().take(MOST_OF_PAGE).map(|name| &***name).collect::<Vec<_>>().join(", ");
                let further = names.len().saturating_sub(MOST_OF_PAGE);
                let more = if further > 0 { format!(" and {further} more") } else { String::new() };
                Some(format!("{told}{more}").into())
            }
        }
    }
}

/// What somebody said of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenNames {
    /// What is at its ports.
    pub ports: NamedRanges,
    /// What is at its guest-physical addresses.
    pub memory: NamedRanges,
    /// The version of Linux that is its guest's kernel.
    pub linux: Option<(u32, u32)>,
}

/// What somebody said of all VMs of a recording, and of single ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenByVm {
    /// Of all.
    pub all: GivenNames,
    /// Of single ones.
    pub of_vm: BTreeMap<VmId, GivenNames>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Ranges and what each is called, later ones over earlier ones.
    pub fn ranges(of: &[(u64, u64, &str)]) -> NamedRanges {
        let mut ranges = NamedRanges::default();
        of.iter().for_each(|&(first, last, name)| ranges.name(first, last, name));
        ranges
    }

    fn all(of: &NamedRanges) -> Vec<(u64, u64, &str)> {
        of.overlapping(0, u64::MAX).map(|(first, last, name)| (first, last, &**name)).collect()
    }

    #[test]
    fn a_name_takes_the_place_of_those_below_it_and_leaves_the_rest() {
        let outer = (0x100, 0x1ff, "outer");
        for (inner, left) in [
            ((0x120, 0x12f, "in"), vec![(0x100, 0x11f, "outer"), (0x120, 0x12f, "in"), (0x130, 0x1ff, "outer")]),
            ((0x100, 0x10f, "in"), vec![(0x100, 0x10f, "in"), (0x110, 0x1ff, "outer")]),
            ((0x1f0, 0x2ff, "in"), vec![(0x100, 0x1ef, "outer"), (0x1f0, 0x2ff, "in")]),
            ((0, u64::MAX, "in"), vec![(0, u64::MAX, "in")]),
            ((0x80, 0x90, "in"), vec![(0x80, 0x90, "in"), (0x100, 0x1ff, "outer")]),
            ((0x200, 0x1, "in"), vec![(0x100, 0x1ff, "outer")]),
        ] {
            assert_eq!(all(&ranges(&[outer, inner])), left);
        }
        assert_eq!(all(&ranges(&[(0, u64::MAX, "a"), (u64::MAX, u64::MAX, "b")])).len(), 2);
        assert_eq!(all(&ranges(&[(0, u64::MAX, "a"), (0, 0, "b")])), [(0, 0, "b"), (1, u64::MAX, "a")]);
    }

    #[test]
    fn a_page_with_many_devices_names_the_first_of_them() {
        let many: Vec<String> = (0..7).map(|n| format!("virtio {n}")).collect();
        let ranges_of: Vec<_> =
            (0..).zip(&many).map(|(n, name)| (n * 0x200, n * 0x200 + 0x1ff, name.as_str())).collect();
        let page = ranges(&ranges_of).of(0, 0xfff);
        assert_eq!(page.as_deref(), Some("virtio 0, virtio 1, virtio 2 and 4 more"));
    }
}
