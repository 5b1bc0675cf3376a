//! What the simulator says that a cheaper way of an access spares, where the recording has no such access to compare with.
//!
//! ```text
//! each cost model:  one access after the other, to user space ─► time ┐
//!                   the same, served in the kernel ────────────► time ┴─► share that is spared ─► least, most
//! ```
//!
//! The simulator is run by whoever asks for advice, and only when a rule wants to know.

use exitscope_model::SubjectKind;

/// A way on which an access does not leave the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InKernelPath {
    /// A device in the kernel answers.
    Device,
    /// An event descriptor takes the write.
    Ioeventfd,
}

/// What the simulator says: of the time of accesses of this kind, the shares that this way spares, 0 to 1, on each cost model and with
/// its assumed costs otherwise; nothing where it has no costs of such a machine.
pub type Simulate<'a> = dyn Fn(SubjectKind, InKernelPath) -> Vec<f64> + 'a;

/// What the shares are of.
pub(crate) const fn how_simulated(way: InKernelPath) -> &'static str {
    match way {
        InKernelPath::Device => {
            "what an answer in the kernel saves of each access, as simulated for several x86 hosts, with assumed costs drawn within their \
             ranges, of which the device model's own work moves it most: at least the smallest share, with no exit counted longer than \
             the median; at most the largest share of all their time"
        }
        InKernelPath::Ioeventfd => {
            "what an ioeventfd saves of each access, as simulated for several x86 hosts, with assumed costs drawn within their ranges, of \
             which that of signalling an eventfd moves it most: at least the smallest share, with no exit counted longer than the \
             median; at most the largest share of all their time"
        }
    }
}

/// The least and the most that this way spares.
pub(crate) fn spared(simulate: &Simulate<'_>, kind: SubjectKind, way: InKernelPath) -> Option<(f64, f64)> {
    simulate(kind, way).into_iter().map(|share| share.clamp(0.0, 1.0)).fold(None, |range, share| {
        let (least, most) = range.unwrap_or((share, share));
        Some((f64::min(least, share), f64::max(most, share)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_and_the_most_of_all_models_is_spared() {
        for (shares, range) in [
            (&[][..], None),
            (&[0.4], Some((0.4, 0.4))),
            (&[0.5, 0.2, 0.9, 0.3], Some((0.2, 0.9))),
            (&[-0.5, 1.75], Some((0.0, 1.0))),
        ] {
            let simulate = |kind, way| match (kind, way) {
                (SubjectKind::Mmio, InKernelPath::Ioeventfd) => shares.to_vec(),
                _ => vec![0.123],
            };
            assert_eq!(spared(&simulate, SubjectKind::Mmio, InKernelPath::Ioeventfd), range, "{shares:?}");
        }
    }
}
