//! All that is measured in the turns of a trial.

use crate::{CountedMetrics, HostCosts, MetricSource};
use exitscope_trial::{Better, TrialMetric};
use exitscope_view::TrialCauseRow;

/// What measures. Values come in the order of [`TurnMetrics::list`].
pub struct TurnMetrics {
    /// The user's own metric.
    pub user: Option<MetricSource>,
    /// Counted exits.
    pub counted: Option<CountedMetrics>,
    /// What others pay.
    pub host_costs: HostCosts,
}

impl TurnMetrics {
    /// The metrics, the one that decides first. `better` is said of the user's; `of_guard` comes behind it.
    pub fn list(&self, better: Option<Better>, of_guard: Option<TrialMetric>) -> Vec<TrialMetric> {
        let user = self.user.iter().map(|source| source.metric(better));
        let counted = self.counted.is_some().then(CountedMetrics::metrics).into_iter().flatten();
        user.chain(of_guard).chain(counted).chain(self.host_costs.metrics()).collect()
    }

    /// What decides, in words.
    pub fn decided_by(&self) -> String {
        self.user.as_ref().map_or("cost, the share of vCPU time in exits".to_string(), MetricSource::text)
    }

    /// What exits came to by reason; nothing if they are not counted.
    pub fn causes(&self) -> Vec<TrialCauseRow> {
        self.counted.as_ref().map(CountedMetrics::causes).unwrap_or_default()
    }
}
