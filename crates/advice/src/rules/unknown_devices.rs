//! Rules about what guests ask for and no table lists: doorbells, and devices that only user space knows. Which writes may wait
//! in a ring (coalescing) only the device says: a network card's ring index, which varies, must not (`e1000_mmio_setup` of QEMU's
//! hw/net/e1000.c leaves it out), so that it is never advised.
//!
//! ```text
//! data in memory (INS, OUTS) ─────────────────► a device: its instruction is emulated, nothing in the kernel takes it
//! only writes, one place, few values ─────────► perhaps a doorbell: then an ioeventfd can take it
//! anything else ──────────────────────────────► a device: another one needs fewer exits
//! ```

use super::device_rules::{AdviceText, GainRange, JudgedVm, Thing, VmSubjectExits};
use super::simulated_gain::InKernelPath;
use crate::CitedFactId;
use crate::cures::cure::{Acts, REPLACES, by_hand, qemu};
use crate::evidence::subject_stats::SubjectStats;
use crate::judgement::{AdviceId, CitedValue, GainMethod, Judgement, Rule, Topic};
use crate::setting::AdviceSetting;
use exitscope_analysis::SubjectKey;
use exitscope_model::codes::is_of_pcs;

/// Let an event descriptor take writes to the subject.
pub(crate) const DOORBELL: Rule = Rule::new("doorbell");

/// Replace the device behind the subject.
pub(crate) const REPLACE_DEVICE: Rule = Rule::new("replace_device");

/// Of a doorbell, one access in so many may be something else.
const ELSE: u64 = 100;

/// Doorbells of virtio and of NVMe are of two or four bytes; what takes one is a register of an older device's.
const LEAST_BYTES: u16 = 2;

/// A doorbell says which queue it is for, and VIRTIO's devices of QEMU have no more (VIRTIO_QUEUE_MAX of
/// include/hw/virtio/virtio.h). What takes many values, or larger ones, is an index, data or a device's state.
const MOST_QUEUES: u64 = 1_024;

impl JudgedVm<'_> {
    /// Something that is not in the table.
    pub(crate) fn unknown(
        &self,
        thing: Thing<'_>,
        key: SubjectKey,
        account: &VmSubjectExits,
        facts: &[CitedFactId],
        judgement: &mut Judgement,
    ) -> AdviceId {
        let name = thing.name;
        let written = self.written(key, account);
        let fact = written.map(|((low, high), _)| {
            let what = match low == high {
                true => format!("the value that is written to {name}, each time"),
                false => format!("the largest value that is written to {name}; the smallest is {low:#x}"),
            };
            judgement.cite(Some(self.id), Topic::Devices, what, CitedValue::Value(high))
        });
        let facts: Vec<CitedFactId> = facts.iter().copied().chain(fact).collect();
        match written {
            Some((values, is_few)) if is_few && values.1 < MOST_QUEUES || values.0 == values.1 => {
                self.doorbell(thing, key, &account.all, values, &facts, judgement)
            }
            _ => self.device(thing, account, &facts, judgement),
        }
    }

    /// The smallest and the largest value, and whether there are few, where the guest only ever writes, always in the same
    /// way, and not out of memory: then the write itself may be the message.
    fn written(&self, key: SubjectKey, account: &VmSubjectExits) -> Option<((u64, u64), bool)> {
        let (all, writes) = (&account.all, &account.writes);
        let reads = all.stats.count - writes.stats.count;
        let one_place = writes.address_spread.is_some_and(|spot| spot.only && spot.size >= LEAST_BYTES);
        let is_message = key.write && one_place && all.strings == 0 && reads.saturating_mul(ELSE) <= writes.stats.count;
        let values = writes.written.range.filter(|_| is_message)?;
        Some((values, writes.written.different().is_some()))
    }

    fn place(&self, name: &str, about: &SubjectStats) -> String {
        about.address_spread.map_or(name.to_string(), |spot| format!("{:#x}, {} bytes", spot.address, spot.size))
    }

    fn doorbell(
        &self,
        Thing { subject, name, .. }: Thing<'_>,
        key: SubjectKey,
        about: &SubjectStats,
        (low, high): (u64, u64),
        facts: &[CitedFactId],
        judgement: &mut Judgement,
    ) -> AdviceId {
        let kvm = match low == high {
            true => format!("in a VMM of your own: KVM_IOEVENTFD on the address, with a datamatch of {low:#x}"),
            false => {
                "in a VMM of your own: KVM_IOEVENTFD on the address, one for each value (datamatch) if it says which \
                queue, one for all if the device looks into memory anyway"
                    .to_string()
            }
        };
        let settings = match self.host.xen {
            true => vec![by_hand("use PV drivers, whose doorbells are event channels")],
            false => vec![
                by_hand("libvirt, in the device's <disk> or <interface>: <driver … ioeventfd='on'/>"),
                qemu("-device virtio-…-pci,…,ioeventfd=on"),
                AdviceSetting::ByHand(kvm.into()),
            ],
        };
        let words = AdviceText {
            rule: DOORBELL,
            subject,
            title: match self.host.xen {
                true => format!("Use a PV driver for the device behind {name}"),
                false => format!("Let an ioeventfd take the doorbell {name}"),
            }
            .into(),
            change: format!(
                "{}the guest only ever writes to {}, and each write goes on to {}: if it is a doorbell, as of a virtio queue, {}",
                self.idle_words(),
                self.place(name, about),
                self.beyond(),
                if self.host.xen {
                    "have a PV driver ring an event channel instead"
                } else {
                    "let an ioeventfd take it, or vhost"
                }
            ),
            risk: match low == high {
                _ if self.host.xen => "the guest needs PV drivers",
                true => "an ioeventfd passes one value on and leaves others to the device",
                false => {
                    "an ioeventfd throws the value away: right for a doorbell, wrong for a register whose value counts"
                }
            },
            payer: match self.host.xen {
                true => "the domain of the PV back end: the device's work moves there",
                false => "the thread that the eventfd wakes: the device's work moves there",
            },
            acts: Acts::AtStart,
        };
        self.advise(words, self.of_vmm(settings), self.moved_in(about, key, InKernelPath::Ioeventfd), facts, judgement)
    }

    fn device(
        &self,
        Thing { subject, name, .. }: Thing<'_>,
        account: &VmSubjectExits,
        facts: &[CitedFactId],
        judgement: &mut Judgement,
    ) -> AdviceId {
        let (all, stats) = (&account.all, &account.all.stats);
        let does = match (account.writes.stats.count, stats.count) {
            (0, _) => "reads",
            (writes, all) if writes == all => "writes",
            _ => "reads and writes",
        };
        let by = if all.strings * 2 > stats.count { " by string instructions (INS, OUTS)" } else { "" };
        let mut settings = match self.host.xen {
            true => vec![by_hand("use PV drivers instead of the emulated device")],
            false => vec![
                match is_of_pcs(&self.host.arch) {
                    true => by_hand(
                        "whose it is: `lspci -v` or /proc/ioports and /proc/iomem in the guest; of QEMU's VMs, `info mtree` in its \
                            monitor",
                    ),
                    false => by_hand(
                        "whose it is: `lspci -v` or /proc/iomem in the guest; of QEMU's VMs, `info mtree` in its monitor",
                    ),
                },
                by_hand(
                    "then, if there is one: virtio instead of an emulated device, vhost behind it, or a device in the \
                     kernel",
                ),
            ],
        };
        if !by.is_empty() {
            settings.push(by_hand(
                "an ioeventfd or the fast path is no help here: the data are in memory, so KVM emulates the instruction",
            ));
        }
        let words = AdviceText {
            rule: REPLACE_DEVICE,
            subject,
            title: format!("Replace the device behind {name}").into(),
            change: format!(
                "{}the guest {does} {name}{by}, and {} answers each access: replace the device by one that needs \
                 fewer exits",
                self.idle_words(),
                self.beyond()
            ),
            risk: "the guest needs a driver for the other device",
            payer: "a thread of the host, for the device's work",
            acts: Acts::AtStart,
        };
        let headline = self.usual_cost(stats);
        let range = GainRange { headline, low: 0, high: stats.cost().0, how: GainMethod::Counted(REPLACES) };
        self.advise(words, settings, range, facts, judgement)
    }

    fn beyond(&self) -> &'static str {
        if self.host.xen { "the device model" } else { "user space" }
    }
}
