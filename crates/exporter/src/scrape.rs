//! The samples of one scrape, and how they become text.

use crate::families::{FAMILIES, Family, MetricKind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// The samples of one scrape.
#[derive(Debug, Default)]
pub struct Scrape {
    /// Those of each of [`FAMILIES`].
    samples: Vec<Vec<Sample>>,
}

#[derive(Debug)]
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: SampleValue,
}

/// What a sample says.
#[derive(Debug)]
pub enum SampleValue {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a counter or a gauge, exactly.
    Count(u64),
    /// Of an info.
    Info,
    /// Of a histogram.
    Histogram {
        /// All of them together.
        sum: f64,
        /// Upper bounds and how many were up to there and beyond the bound before; the last bound is infinite.
        buckets: Vec<(f64, u64)>,
    },
}

impl Scrape {
    /// Adds a sample of `family`, with values for its labels.
    pub fn add<const N: usize>(&mut self, family: &'static Family, labels: [&str; N], value: SampleValue) {
        assert_eq!(N, family.labels.len(), "{} has other labels", family.name);
        let place = FAMILIES.iter().position(|other| *other == family).expect("every family is in the list");
        self.samples.resize_with(FAMILIES.len(), Vec::new);
        let labels = family.labels.iter().zip(labels).map(|(name, value)| (*name, value.to_string()));
        self.samples[place].push(Sample { labels: labels.collect(), value });
    }

    /// As OpenMetrics text.
    pub fn open_metrics(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry).expect("a String takes everything");
        text
    }

    /// As text of the format before OpenMetrics, version 0.0.4: a metric is called there as its samples are, an info is a
    /// gauge, there are no units, and the end is not said.
    pub fn plain(self) -> String {
        let text = self.open_metrics();
        let mut plain = String::with_capacity(text.len());
        for line in text.lines().filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
            let about = ["# HELP ", "# TYPE "].into_iter().find_map(|what| Some((what, line.strip_prefix(what)?)));
            match about.and_then(|(what, rest)| Some((what, rest.split_once(' ')?))) {
                Some((what, (name, rest))) => {
                    let kind = FAMILIES.iter().find(|family| family.full_name() == name).map(|family| family.kind);
                    let (suffix, is_info) = match kind {
                        Some(MetricKind::Counter) => ("_total", false),
                        Some(MetricKind::Info) => ("_info", true),
                        _ => ("", false),
                    };
                    let rest = if is_info && what == "# TYPE " { "gauge" } else { rest };
                    plain.extend([what, name, suffix, " ", rest]);
                }
                None => plain.push_str(line),
            }
            plain.push('\n');
        }
        plain
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (family, samples) in FAMILIES.iter().zip(&self.samples).filter(|(_, samples)| !samples.is_empty()) {
            let unit = family.unit.map(|unit| if unit == "bytes" { Unit::Bytes } else { Unit::Seconds });
            let kind = match family.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
                MetricKind::Info => MetricType::Info,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
            for sample in samples {
                sample.encode(family.kind, &mut metric)?;
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, kind: MetricKind, metric: &mut MetricEncoder) -> fmt::Result {
        if matches!(self.value, SampleValue::Info) {
            return metric.encode_info(&self.labels);
        }
        if self.labels.is_empty() {
            return self.encode_value(kind, metric);
        }
        self.encode_value(kind, &mut metric.encode_family(&self.labels)?)
    }

    fn encode_value(&self, kind: MetricKind, metric: &mut MetricEncoder) -> fmt::Result {
        match (&self.value, kind) {
            (SampleValue::Number(number), MetricKind::Counter) => {
                metric.encode_counter::<NoLabelSet, _, f64>(number, None)
            }
            (SampleValue::Number(number), _) => metric.encode_gauge(number),
            (SampleValue::Count(count), MetricKind::Counter) => {
                metric.encode_counter::<NoLabelSet, _, f64>(count, None)
            }
            (SampleValue::Count(count), _) => metric.encode_gauge(count),
            (SampleValue::Histogram { sum, buckets }, _) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
            (SampleValue::Info, _) => Ok(()),
        }
    }
}
