//! Which configuration of a sweep is best, if any is: only where no other interval meets its own.

use crate::headline::Headline;
use crate::metric_row::value_text;
use crate::names::{plural, thousands};
use crate::sweep::{AxisRow, SweepMetric, SweepRow};
use exitscope_stats::Estimate;

/// Configurations that the details name.
const NAMED: usize = 5;

/// `halt_poll_ns=50us, seed=2`.
pub(crate) fn settings(vary: &[AxisRow], row: &SweepRow) -> String {
    let list = vary.iter().zip(&row.labels).map(|(axis, value)| format!("{}={value}", axis.key));
    list.collect::<Vec<_>>().join(", ")
}

/// The verdict on these rows, of which the best are marked.
pub(crate) fn verdict(vary: &[AxisRow], metrics: &[SweepMetric], rows: &[SweepRow], replicates: u32) -> Headline {
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    let mut doubts = Vec::new();
    if failed > 0 {
        let runs = plural(failed as u64, "configuration");
        doubts.push(format!("{} {runs} did not run to the end, and may be better", thousands(failed as u64)));
    }
    let is_doubtful = failed > 0;
    let Some(metric) = metrics.first() else { return Headline { state: "cannot_tell".into(), ..Headline::default() } };
    let found = Found::new(vary, metric, rows);
    let (state, text, details) = found.judged(replicates);
    Headline { state: state.to_string(), text, details, is_doubtful, doubts }
}

struct Found<'a> {
    vary: &'a [AxisRow],
    metric: &'a SweepMetric,
    /// Those that have the figure, the best first.
    rows: Vec<(&'a SweepRow, Estimate)>,
}

impl<'a> Found<'a> {
    fn new(vary: &'a [AxisRow], metric: &'a SweepMetric, rows: &'a [SweepRow]) -> Found<'a> {
        let figure = |row: &'a SweepRow| Some((row, row.estimates.first().copied().flatten()?));
        let mut rows: Vec<_> = rows.iter().filter_map(figure).collect();
        let merit = |estimate: &Estimate| metric.merit(estimate.mean).unwrap_or(0.0);
        rows.sort_by(|a, b| merit(&b.1).total_cmp(&merit(&a.1)));
        Found { vary, metric, rows }
    }

    fn value(&self, value: f64) -> String {
        value_text(value, self.metric.measure)
    }

    /// `halt_poll_ns=50us: 8,240/s (8,211/s to 8,270/s)`.
    fn named(&self, (row, estimate): &(&SweepRow, Estimate)) -> String {
        let interval = estimate.interval.filter(|(low, high)| low < high);
        let interval = interval.map(|(low, high)| format!(" ({} to {})", self.value(low), self.value(high)));
        format!("{}: {}{}", settings(self.vary, row), self.value(estimate.mean), interval.unwrap_or_default())
    }

    fn judged(&self, replicates: u32) -> (&'static str, String, Vec<String>) {
        let name = &self.metric.name;
        let most = if self.metric.higher_is_better == Some(true) { "highest" } else { "lowest" };
        let all = self.rows.len();
        let cannot = |why: String| ("cannot_tell", format!("Doubtful which is best: {why}"), Vec::new());
        let means = || self.rows.iter().map(|row| row.1.mean);
        let (least, greatest) = (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
        let range = || format!("means of {name} from {} to {}", self.value(least), self.value(greatest));
        let best: Vec<_> = self.rows.iter().filter(|(row, _)| row.best).collect();
        match (all, best.len()) {
            (0, _) => cannot(format!("{name} was measured in no configuration")),
            _ if self.metric.higher_is_better.is_none() => {
                cannot(format!("neither more nor less {name} is better (--best +{name} or -{name})"))
            }
            (1, _) => cannot("only one configuration ran".to_string()),
            _ if replicates < 2 => {
                let (state, text, _) =
                    cannot("one run each, so chance may have ordered them (--replicates)".to_string());
                (state, text, vec![range()])
            }
            (_, 0) if least.total_cmp(&greatest).is_eq() => {
                ("tie", format!("All {} configurations tie: {name} is the same in all", count(all)), Vec::new())
            }
            (_, 0) => (
                "tie",
                format!("All {} configurations tie for the {most} {name}: no difference is clear", count(all)),
                vec![format!("{}; all intervals overlap that of the {most}", range())],
            ),
            (_, 1) => {
                let mut details = vec![format!("{name}: {}", self.named(best[0]))];
                details.extend(self.rows.get(1).map(|next| format!("next is {}", self.named(next))));
                let text = format!("Best: {}, with the {most} {name}", settings(self.vary, best[0].0));
                ("best", text, details)
            }
            (_, several) => {
                let text = format!(
                    "No single best: {} of {} configurations tie for the {most} {name}, ahead of the others",
                    count(several),
                    count(all)
                );
                let named = best.iter().take(NAMED).map(|row| self.named(row));
                let more = (several > NAMED).then(|| format!("and {} more", count(several - NAMED)));
                ("ahead", text, named.chain(more).collect())
            }
        }
    }
}

fn count(many: usize) -> String {
    thousands(many as u64)
}
