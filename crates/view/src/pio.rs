//! Accesses to ports and to emulated memory as plain data.

use crate::halt::DurationStatsRow;
use crate::names;
use exitscope_analysis::{AccessKey, AccessStats, ExitStats, Facts, SIZES};
use exitscope_model::{SubjectKind, SubjectName, SubjectNames, TimePart};
use exitscope_units::{Nanos, VmId};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Accesses to ports and to emulated memory: who served them, how long that took, and what cheaper ways would save.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PioRows {
    /// Accesses to ports, all together; each is *outside* if user space or Xen's device model served it.
    pub ports: PioSum,
    /// Accesses to emulated memory, all together.
    pub mmio: PioSum,
    /// By port or page, direction and who served them, most costly first.
    pub rows: Vec<PioRow>,
    /// What the emulation of an instruction typically takes: how much later a string access is handed over than a plain one
    /// of the same direction, by the medians. Absent if the recording lacks either.
    pub emulation_ns: Option<u64>,
    /// Whether the recording tells who served accesses: it has kvm_userspace_exit, or Xen's scheduler records. If not,
    /// `outside` means nothing.
    pub has_handlers: bool,
    /// Whether the host is Xen, where a device model in another domain serves what Xen does not.
    pub xen: bool,
}

/// Accesses of one kind, all together.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PioSum {
    /// Exits for accesses of this kind.
    pub exits: u64,
    /// Accesses whose data are in a register, so that what the exit says is enough to serve them (Xen's quick path).
    pub non_string: u64,
    /// Accesses whose data are in memory (INS, OUTS), so that the instruction has to be emulated.
    pub string: u64,
    /// Accesses that user space served (on Xen, the device model).
    pub user_space_exits: u64,
    /// What these cost: kernel plus user space.
    pub user_space_cost_ns: u64,
    /// What a read typically takes that the kernel serves, the median; absent if there is none. Where there is no read, a
    /// write.
    pub read_in_kernel_ns: Option<u64>,
    /// The median of writes that the kernel serves; absent if there is none. Where there is no write, that of reads.
    pub write_in_kernel_ns: Option<u64>,
}

/// Accesses to one port or page in one direction, served by the same.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PioRow {
    /// `port`, or `mmio` for a page of emulated memory.
    pub subject_kind: &'static str,
    /// The port, or the first address of the 4 KiB page.
    pub subject_key: u64,
    /// What it is called, where it has a name.
    pub subject_name: Option<SubjectName>,
    /// `in` or `out` of a port, `read` or `write` of memory; absent if the recording does not show it.
    pub direction: Option<&'static str>,
    /// Whether user space served them (on Xen, the device model).
    pub in_user_space: bool,
    /// Exits for accesses of this kind.
    pub exits: u64,
    /// Whether their data are in memory (INS, OUTS).
    pub string: bool,
    /// Accesses of which the trace says that their data are in a register.
    pub non_string: u64,
    /// Ports: accesses by size in bytes, as far as the trace says it.
    pub sizes: BTreeMap<u16, u64>,
    /// From exit to entry, everything included.
    pub exit_time: DurationStatsRow,
    /// From the exit until somebody outside was told: `kvm_userspace_exit`; on Xen, the device model's vCPU was woken on
    /// the same physical CPU, or this one stopped running.
    pub to_handover: DurationStatsRow,
    /// From the exit until it was served there: `KVM_RUN` was called again; on Xen, the vCPU was runnable again, or was woken
    /// while it still ran.
    pub to_completion: DurationStatsRow,
    /// Time in the kernel, all accesses together.
    pub kernel_ns: u64,
    /// Time in user space (on Xen, at the device model), all accesses together.
    pub user_space_ns: u64,
    /// Steal during these accesses, all together: runnable, without a CPU.
    pub steal_ns: u64,
    /// The lowest and the highest address that was accessed; of a port, the port.
    pub address_range: Option<[u64; 2]>,
    /// The smallest and the largest value that was written, unless the data are in memory.
    pub value_range: Option<[u64; 2]>,
    /// What serving them without leaving the kernel would save at most: their cost, less what those typically take that the
    /// kernel serves in this recording. Absent if it has none, or these are served there already.
    pub gain_ns: Option<u64>,
    /// For a person.
    #[serde(skip)]
    pub label: String,
}

impl PioRows {
    /// The accesses of these facts, of these VMs, if there are any.
    pub fn of(facts: &Facts, xen: bool, names: &SubjectNames, vms: &[VmId]) -> Option<PioRows> {
        let mut cells = facts.accesses.cells();
        if cells.is_empty() {
            return None;
        }
        // A guest that never needs user space is rare; a recording without that event is not.
        let servers_told = match xen {
            true => facts.has_run_states(),
            false => facts.phases.cells().iter().any(|(key, _)| key.outside),
        };
        cells.sort_by_key(|(key, access)| (std::cmp::Reverse((access.stats.cost(), access.stats.count)), *key));
        let typical = facts.accesses.typical();
        let [ports, mmio] = [SubjectKind::Port, SubjectKind::Mmio].map(|kind| {
            let mut sum = PioSum::default();
            cells.iter().filter(|(key, _)| key.at.kind == kind).for_each(|(key, access)| sum.add(key, access));
            let in_kernel = |write| typical.in_kernel(kind, write).filter(|_| servers_told).map(|length| length.0);
            PioSum { read_in_kernel_ns: in_kernel(false), write_in_kernel_ns: in_kernel(true), ..sum }
        });
        let row = |(key, stats): (AccessKey, &AccessStats)| {
            let sum = if key.at.kind == SubjectKind::Port { &ports } else { &mmio };
            // Of a page, only what of it was accessed.
            let (first, last) = stats.addresses.unwrap_or((key.at.key, key.at.key));
            PioRow::of(key, stats, sum, names.spanning(vms, key.at.kind, first, last))
        };
        let emulation_ns = typical.emulation.map(|length| length.0);
        Some(PioRows {
            rows: cells.into_iter().map(row).collect(),
            ports,
            mmio,
            emulation_ns,
            has_handlers: servers_told,
            xen,
        })
    }
}

impl PioSum {
    fn add(&mut self, key: &AccessKey, access: &AccessStats) {
        let stats = &access.stats;
        self.exits += stats.count;
        self.non_string += access.plain;
        self.string += if key.string { stats.count } else { 0 };
        if key.outside {
            self.user_space_exits += stats.count;
            self.user_space_cost_ns = self.user_space_cost_ns.saturating_add(stats.cost().0);
        }
    }
}

impl PioRow {
    fn of(key: AccessKey, access: &AccessStats, sum: &PioSum, name: Option<SubjectName>) -> PioRow {
        let AccessKey { at, outside, string } = key;
        let stats = &access.stats;
        let then = if at.write { sum.write_in_kernel_ns } else { sum.read_in_kernel_ns };
        PioRow {
            subject_kind: at.kind.name(),
            subject_key: at.key,
            label: names::detail(name.as_deref(), at.kind, at.key, at.write) + if string { " (string)" } else { "" },
            subject_name: name,
            direction: at.kind.direction(at.write),
            in_user_space: outside,
            exits: stats.count,
            string,
            non_string: access.plain,
            sizes: sizes(at.kind, access),
            exit_time: lengths(stats),
            to_handover: DurationStatsRow::of(&access.handed),
            to_completion: DurationStatsRow::of(&access.answered),
            kernel_ns: stats.part(TimePart::Kernel).0,
            user_space_ns: stats.part(TimePart::User).0,
            steal_ns: stats.part(TimePart::Steal).0,
            address_range: access.addresses.map(|(low, high)| [low, high]),
            value_range: access.written.map(|(low, high)| [low, high]),
            gain_ns: then.filter(|_| outside && stats.timed > 0).map(|then| access.saving(Nanos(then)).0),
        }
    }
}

/// Accesses by size, of ports.
fn sizes(kind: SubjectKind, access: &AccessStats) -> BTreeMap<u16, u64> {
    let of_ports = SIZES.iter().zip(access.sizes).filter(|(_, count)| kind == SubjectKind::Port && *count > 0);
    of_ports.map(|(size, count)| (*size, count)).collect()
}

fn lengths(stats: &ExitStats) -> DurationStatsRow {
    let rank = |per_10_000| stats.quantile(per_10_000).map(|length| length.0);
    DurationStatsRow {
        count: stats.timed,
        sum_ns: stats.total().0,
        mean_ns: stats.mean().map(|mean| mean.0),
        p50_ns: rank(5_000),
        p90_ns: rank(9_000),
        p99_ns: rank(9_900),
        max_ns: (stats.timed > 0).then_some(stats.max),
    }
}
