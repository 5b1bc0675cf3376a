//! What the simulator says that a cheaper way of an access spares, where the recording has no such access to compare with.
//!
//! ```text
//! each cost model:  one access after the other, to user space ─► time   ┐
//!                   the same, served in the kernel ───────────► time   ┴─► share that is spared ─► least, most
//! ```
//!
//! The simulator is run by whoever asks for advice; this is what it said.

use exitscope_model::DetailKind;

/// A way on which an access does not leave the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// A device in the kernel answers.
    Device,
    /// An event descriptor takes the write.
    Ioeventfd,
    /// The ring of coalesced writes takes it.
    Coalesced,
}

/// Shares of the time of accesses that other ways spare.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    rows: Vec<(DetailKind, Way, f64)>,
}

impl Simulated {
    /// What the shares are of.
    pub const SOURCE: &'static str = "on the simulator's x86 hosts such a way spares a part of each access; from the \
        least part of their median length, to the largest of all their time";

    /// Notes what one cost model says: of the time of accesses of this kind, this way spares this share, 0 to 1.
    pub fn note(&mut self, kind: DetailKind, way: Way, share: f64) {
        self.rows.push((kind, way, share.clamp(0.0, 1.0)));
    }

    /// The least and the most that this way spares.
    pub(super) fn spared(&self, kind: DetailKind, way: Way) -> Option<(f64, f64)> {
        let shares = self.rows.iter().filter(|row| (row.0, row.1) == (kind, way)).map(|row| row.2);
        shares.fold(None, |range, share| {
            let (least, most) = range.unwrap_or((share, share));
            Some((f64::min(least, share), f64::max(most, share)))
        })
    }
}
