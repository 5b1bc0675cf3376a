//! How long a vCPU may loop on PAUSE before it exits: the window of x86's pause-loop exiting.
//!
//! ```text
//!                 PAUSE exit: grow, then OnSpin
//!   base ────────────────────────────────────────► larger … at most max
//!    ▲                                                │ scheduled out and in again: shrink
//!    └────────────────────────────────────────────────┘ (by default straight back to base)
//! ```
//!
//! Neither happens for a VM whose PAUSE is not intercepted; the caller then leaves the window alone.
//!
//! Sources: Linux arch/x86/kvm/x86.h (__grow_ple_window, __shrink_ple_window), vmx/vmx.c, svm/svm.c.

use super::Params;

/// A window that was adjusted: the fields of the tracepoint `kvm:kvm_ple_window_update`, which is silent if both are
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PleChange {
    /// The window before.
    pub old: u32,
    /// The window from now on.
    pub new: u32,
}

/// The window of one vCPU: cycles on VMX, PAUSEs on SVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PleWindow {
    window: u32,
    base: u32,
    grow: u32,
    shrink: u32,
    max: u32,
}

impl PleWindow {
    /// A new vCPU's on VMX.
    pub const fn vmx(params: &Params) -> PleWindow {
        let Params { ple_window: base, ple_window_grow: grow, ple_window_shrink: shrink, .. } = *params;
        PleWindow { window: base, base, grow, shrink, max: params.ple_window_max }
    }

    /// A new vCPU's on SVM.
    pub const fn svm(params: &Params) -> PleWindow {
        let Params { pause_filter_count: base, pause_filter_count_grow: grow, .. } = *params;
        let (shrink, max) = (params.pause_filter_count_shrink, params.pause_filter_count_max);
        PleWindow { window: base, base, grow, shrink, max }
    }

    /// The window now.
    pub const fn get(&self) -> u32 {
        self.window
    }

    /// A PAUSE loop exited.
    pub fn grow(&mut self) -> PleChange {
        let old = u64::from(self.window);
        let grown = match u64::from(self.grow) {
            0 => return self.becomes(self.base),
            grow if self.grow < self.base => old * grow,
            grow => old + grow,
        };
        self.becomes(grown.min(u64::from(self.max)) as u32)
    }

    /// The vCPU is loaded again after it was scheduled out.
    pub fn shrink(&mut self) -> PleChange {
        let shrunk = match self.shrink {
            0 => self.base,
            shrink if shrink < self.base => self.window / shrink,
            // The kernel's subtraction wraps, too: a summand larger than the window gives a very long one.
            shrink => self.window.wrapping_sub(shrink),
        };
        self.becomes(shrunk.max(self.base))
    }

    fn becomes(&mut self, new: u32) -> PleChange {
        let old = core::mem::replace(&mut self.window, new);
        PleChange { old, new }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_default_it_doubles_and_is_reset() {
        let mut window = PleWindow::vmx(&Params::default());
        assert_eq!(window.grow(), PleChange { old: 4_096, new: 8_192 });
        assert_eq!(window.grow(), PleChange { old: 8_192, new: 16_384 });
        assert_eq!(window.shrink(), PleChange { old: 16_384, new: 4_096 });
        let mut window = PleWindow::svm(&Params::default());
        for new in [6_000, 12_000, 24_000, 48_000, 65_535, 65_535] {
            assert_eq!(window.grow().new, new);
        }
        assert_eq!(window.shrink().new, 3_000);
    }

    #[test]
    fn a_modifier_is_a_factor_below_the_base_and_a_summand_above() {
        let params = Params { ple_window_grow: 5_000, ple_window_shrink: 5_000, ..Params::default() };
        let mut window = PleWindow::vmx(&params);
        assert_eq!(window.grow().new, 9_096);
        assert_eq!(window.grow().new, 14_096);
        assert_eq!(window.shrink().new, 9_096);
        assert_eq!(window.shrink().new, 4_096);
        assert_eq!(window.shrink().new, 4_096u32.wrapping_sub(5_000));
        let params = Params { ple_window_grow: 0, ple_window_shrink: 2, ..Params::default() };
        let mut window = PleWindow { window: 20_000, ..PleWindow::vmx(&params) };
        assert_eq!(window.shrink().new, 10_000);
        assert_eq!(window.shrink().new, 5_000);
        assert_eq!(window.shrink().new, 4_096);
        assert_eq!(PleWindow { window: 20_000, ..window }.grow().new, 4_096);
    }

    proptest! {
        #[test]
        fn the_window_stays_between_base_and_max_while_modifiers_are_factors(
            base in 8u32..10_000, grow in 1u32..8, shrink in 0u32..8, more in 0u32..1 << 20,
            grows in prop::collection::vec(any::<bool>(), 1..60)
        ) {
            let max = base + more;
            let params = Params {
                ple_window: base, ple_window_grow: grow, ple_window_shrink: shrink, ple_window_max: max, ..Params::default()
            };
            let mut window = PleWindow::vmx(&params);
            for grows in grows {
                let PleChange { old, new } = if grows { window.grow() } else { window.shrink() };
                prop_assert!(base <= new && new <= max);
                let (least, most) = if grows { (old, new) } else { (new, old) };
                prop_assert!(least <= most);
            }
        }
    }
}
