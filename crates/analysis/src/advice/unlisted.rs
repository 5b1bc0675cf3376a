//! Rules about what guests ask for and no table lists: doorbells, and devices that only user space knows.
//!
//! ```text
//! only writes, all to one place ─► a doorbell: an ioeventfd can take it
//! anything else ────────────────► a device: another one needs fewer exits
//! ```

use super::FactId;
use super::cures::{NOBODY, by_hand, libvirt, qemu};
use super::judgement::Judgement;
use super::sources::{Account, Vm, Words, medians};
use crate::{Cell, DetailKey};
use exitscope_model::DetailKind;

/// Of a doorbell, one access in so many may be something else.
const ELSE: u64 = 100;

const RANGE: &str = "from their time beyond the kernel, to all their time";

impl Vm<'_> {
    /// Something that is not in the table.
    pub(super) fn unknown(
        &self,
        key: DetailKey,
        name: &str,
        account: &Account,
        facts: &[FactId],
        judgement: &mut Judgement,
    ) {
        let cell = &account.all;
        match key.kind {
            DetailKind::Msr => {
                let change = format!("let the guest ask for {name} less often: KVM handles each access by an exit");
                let how =
                    by_hand("the rip of the exits says whose code it is: `perf record -e kvm:kvm_exit -e kvm:kvm_msr`");
                let words = Words { change, risk: "none", payer: NOBODY };
                let range = "from their median length times their number, to all their time";
                self.advise(words, vec![how], (medians(cell), cell.cost().0, range), facts, judgement);
            }
            _ if !self.is_beyond_kernel(cell) => {
                judgement.leave(facts[0], &facts[1..], format!("{name}: {}", self.in_kernel()));
            }
            _ if self.is_doorbell(key, account) => self.doorbell(key, name, cell, facts, judgement),
            _ => self.device(name, account, facts, judgement),
        }
    }

    /// Whether the guest only ever writes there, always in the same way: then the write itself is the message.
    fn is_doorbell(&self, key: DetailKey, account: &Account) -> bool {
        let one_place = key.kind == DetailKind::Port
            || self.material.spot(self.id, DetailKey { write: true, ..key }).is_some_and(|spot| spot.only);
        let reads = account.all.count - account.writes.count;
        key.write && one_place && reads * ELSE <= account.writes.count
    }

    fn doorbell(&self, key: DetailKey, name: &str, cell: &Cell, facts: &[FactId], judgement: &mut Judgement) {
        let spot = self.material.spot(self.id, key);
        let at = spot.map_or(name.to_string(), |spot| format!("{:#x}, {} bytes", spot.address, spot.size));
        let settings = match self.machine.xen {
            true => vec![by_hand("use PV drivers, whose doorbells are event channels")],
            false => vec![
                libvirt("devices", "<driver … ioeventfd='on'/>"),
                qemu("-device virtio-…-pci,…,ioeventfd=on"),
                by_hand(
                    "in a VMM of your own: KVM_IOEVENTFD on the address, or KVM_REGISTER_COALESCED_MMIO if the writes \
                        may wait",
                ),
            ],
        };
        let words = Words {
            change: format!(
                "{}the guest only ever writes to {at}, and each write goes on to {}: let an ioeventfd take it, as for a \
                 virtio queue, or vhost",
                self.idle_words(),
                self.beyond()
            ),
            risk: "an ioeventfd throws the value away: right for a doorbell, wrong for a register whose value counts",
            payer: "the thread that the eventfd wakes: the device's work moves there",
        };
        let range = (cell.user, cell.cost().0, RANGE);
        self.advise(words, settings, range, facts, judgement);
    }

    fn device(&self, name: &str, account: &Account, facts: &[FactId], judgement: &mut Judgement) {
        let cell = &account.all;
        let does = match (account.writes.count, cell.count) {
            (0, _) => "reads",
            (writes, all) if writes == all => "writes",
            _ => "reads and writes",
        };
        let settings = match self.machine.xen {
            true => vec![by_hand("use PV drivers instead of the emulated device")],
            false => vec![
                by_hand(
                    "whose it is: `lspci -v` or /proc/ioports and /proc/iomem in the guest, `info mtree` in QEMU's \
                        monitor",
                ),
                by_hand(
                    "then: virtio instead of an emulated device, vhost behind it (<driver name='vhost'/>), or a \
                        device in the kernel",
                ),
            ],
        };
        let words = Words {
            change: format!(
                "{}the guest {does} {name}, and {} answers each access: replace the device by one that needs \
                 fewer exits",
                self.idle_words(),
                self.beyond()
            ),
            risk: "the guest needs a driver for the other device",
            payer: "a thread of the host, for the device's work",
        };
        let range = (cell.user, cell.cost().0, RANGE);
        self.advise(words, settings, range, facts, judgement);
    }

    fn beyond(&self) -> &'static str {
        if self.machine.xen { "the device model" } else { "user space" }
    }
}
