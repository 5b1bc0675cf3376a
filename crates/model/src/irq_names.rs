//! What the handlers of the host's interrupts are called: of a line that devices share, each of its handlers is called in turn.
//!
//! ```text
//! irq=131 name=nvme0q3                        ─► 131: "nvme0q3"
//! irq=16 name=ehci_hcd, irq=16 name=i801_smbus ─► 16: "ehci_hcd, i801_smbus"
//! ```

use crate::IrqName;
use std::collections::BTreeMap;

/// Interrupts whose names are kept, and handlers of one; bounds memory.
const MOST_IRQS: usize = 1 << 14;
const MOST_HANDLERS: usize = 8;

/// The names that were met.
#[derive(Clone, Debug, Default)]
pub struct IrqNames(BTreeMap<u32, Vec<IrqName>>);

impl IrqNames {
    /// An interrupt has a handler of this name.
    pub fn note(&mut self, irq: u32, name: IrqName) {
        if !name.is_known() || self.0.len() >= MOST_IRQS && !self.0.contains_key(&irq) {
            return;
        }
        let names = self.0.entry(irq).or_default();
        if names.len() < MOST_HANDLERS && !names.contains(&name) {
            names.push(name);
        }
    }

    /// The same as texts, of an interrupt that has several handlers in the order in which they were met.
    pub fn texts(self) -> BTreeMap<u32, String> {
        let text = |names: Vec<IrqName>| {
            let texts: Vec<_> = names.iter().filter_map(|name| Some(name.text()?.into_owned())).collect();
            texts.join(", ")
        };
        self.0.into_iter().map(|(irq, names)| (irq, text(names))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_has_the_names_of_all_its_handlers_each_once() {
        let mut names = IrqNames::default();
        for (irq, name) in
            [(131, "nvme0q3"), (16, "ehci_hcd"), (16, "i801_smbus"), (131, "nvme0q3"), (16, "ehci_hcd"), (7, "")]
        {
            names.note(irq, IrqName::new(name.as_bytes()));
        }
        let texts = names.texts().into_iter().collect::<Vec<_>>();
        assert_eq!(texts, [(16, "ehci_hcd, i801_smbus".to_string()), (131, "nvme0q3".to_string())]);
    }
}
