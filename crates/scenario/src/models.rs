//! The cost models of named machines: a file each in `models/`, and the default one.

use crate::{CostModel, text};

/// The name of the model that every other one builds on.
pub(crate) const DEFAULT: &str = "default";

/// Each file's name and text.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("power8-kvm", include_str!("../models/power8-kvm.toml")),
    ("nehalem-xen-3.3", include_str!("../models/nehalem-xen-3.3.toml")),
    ("small-packet-2019", include_str!("../models/small-packet-2019.toml")),
    ("z990-zvm-5.3", include_str!("../models/z990-zvm-5.3.toml")),
    ("z9-zvm-5.3", include_str!("../models/z9-zvm-5.3.toml")),
    ("s390-2016", include_str!("../models/s390-2016.toml")),
    ("broadwell-2016", include_str!("../models/broadwell-2016.toml")),
    ("ivy-bridge-2016", include_str!("../models/ivy-bridge-2016.toml")),
];

/// Every named cost model, the default one first.
pub fn models() -> Result<Vec<CostModel>, text::ScenarioError> {
    let read = |(name, file): &(&str, &str)| text::cost_model(name, file);
    std::iter::once(Ok(CostModel::default())).chain(FILES.iter().map(read)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_can_be_read_and_says_what_it_is() {
        let models = models().unwrap();
        assert_eq!(models.len(), FILES.len() + 1);
        for model in models {
            assert!(model.description.len() > 10 && model.clock_hz > 0, "{}", model.name);
            for (name, _) in CostModel::ROWS {
                assert!(!model.get(name).unwrap().source.is_empty(), "{}: {name}", model.name);
            }
        }
    }
}
