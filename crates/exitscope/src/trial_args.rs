//! The flags of `exitscope try`.

use clap::{Args, ValueEnum};
use exitscope_measure::MetricScale;
use exitscope_record::ExitDelay;
use exitscope_trial::{Better, MAX_SETTINGS};
use exitscope_units::Nanos;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct TryArgs {
    /// The setting and the values to try, like thp_enabled=always or halt_poll_ns=0,50us: a knob of docs/knobs.md that can be
    /// written, or a setting of docs/settings.md
    #[arg(value_name = "NAME=VALUE[,VALUE...]", required_unless_present_any = ["history", "delay"])]
    pub setting: Option<String>,
    /// Instead of a setting, slow one VM down on purpose: add these delays to each of its exits, and find what 100 ns
    /// less in each exit is worth. 200ns..5us is three delays, or name up to four, like 500ns,2us; at most 20us. Needs
    /// --vm and a metric
    #[arg(long, value_name = "LOW..HIGH", value_parser = Delays::parse, requires = "vm",
          conflicts_with_all = ["setting", "history", "keep", "cgroup", "guest"])]
    pub delay: Option<Delays>,
    /// Delay only exits of this reason, like io, mmio or hlt
    #[arg(long, value_name = "REASON", requires = "delay")]
    pub reason: Option<String>,
    /// Show the trials that were made on this host, and how good their predictions were
    #[arg(long, conflicts_with_all = ["setting", "keep", "metric", "metric_file", "metric_query", "dry_run"])]
    pub history: bool,
    /// The VM, by name or process id: affinity and nice set its vCPU threads, worker_affinity and worker_nice the
    /// threads of its devices, and its exits are counted
    #[arg(short = 'p', long, visible_alias = "pid", value_name = "NAME|PID")]
    pub vm: Option<String>,
    /// The control group whose quota is set, by its path below /sys/fs/cgroup
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// The command that reaches a guest, like 'ssh vm1', to set one of guest_halt_poll_* there. It is given a line of
    /// shell as its last argument
    #[arg(long, value_name = "COMMAND", conflicts_with = "cgroup")]
    pub guest: Option<String>,
    /// The metric to improve: a command that prints a number as its last line. It is run by `sh -c` once in each turn,
    /// as soon as the setting has settled; the command may take up to four times the turn's length, and at least two
    /// seconds [default: exit cost, the share of vCPU time in exits, for the settings that docs/settings.md marks so]
    #[arg(long, value_name = "COMMAND", group = "number")]
    pub metric: Option<String>,
    /// The metric to improve: a file with a counter, whose rate per second over each turn is compared
    #[arg(long, value_name = "FILE", conflicts_with = "metric")]
    pub metric_file: Option<PathBuf>,
    /// The metric to improve: an instant query to a Prometheus server at the end of each turn, whose answer is one
    /// number. $__range in it is replaced by the turn's length, as in rate(requests_total[$__range])
    #[arg(long, value_name = "PROMQL", group = "number", requires = "prometheus", conflicts_with = "metric_file")]
    pub metric_query: Option<String>,
    /// The Prometheus server of --metric-query, like http://localhost:9090
    #[arg(long, value_name = "URL", requires = "metric_query")]
    pub prometheus: Option<String>,
    /// Unit of the number of --metric or --metric-query: ns, us, ms, s, % or /s
    #[arg(long, value_name = "UNIT", requires = "number", value_parser = MetricScale::parse)]
    pub unit: Option<MetricScale>,
    /// Whether lower or higher values of the metric are better; needed where it is neither a time nor a rate [default:
    /// higher for --metric-file and --unit /s, lower for times]
    #[arg(long, value_enum, value_name = "WHICH", overrides_with = "better")]
    pub better: Option<BetterWhich>,
    /// How long the trial takes: it ends as soon as the result is certain, and begins no block after this time
    #[arg(long = "for", value_name = "LENGTH", default_value = "10m", value_parser = parse_length)]
    pub length: Nanos,
    /// How long each turn is measured
    #[arg(long, value_name = "LENGTH", default_value = "10s", value_parser = parse_length)]
    pub turn: Nanos,
    /// How long a value settles before it is measured
    #[arg(long, value_name = "LENGTH", default_value = "1s", value_parser = parse_length)]
    pub settle: Nanos,
    /// The smallest change of the metric that matters
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent)]
    pub matters: f64,
    /// The chance of a false alarm in the whole trial, at most
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    pub alpha: f64,
    /// End the trial if a metric is beyond this limit in a turn, like 'metric>5ms' or 'steal>30%'; may be given several times.
    /// Metrics: metric (of --metric, --metric-file or --metric-query); of exits cost, steal, polling, halted, wakeup, exits; of others
    /// cpu_busy, other_vms_steal. Of the host, at any time: host_steal, host_load, host_cpu_pressure, host_memory_pressure, host_io_pressure [default:
    /// host_memory_pressure>10%]
    #[arg(long, value_name = "LIMIT")]
    pub abort_on: Vec<String>,
    /// Keep a value that is certainly better by a metric of the workload; `exitscope advise --undo` restores the old
    /// one
    #[arg(long)]
    pub keep: bool,
    /// Restore the value in force at the end, whatever was found; this is the default
    #[arg(long, conflicts_with = "keep")]
    pub revert: bool,
    /// Seed of the random order of the turns [default: the time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Show the plan, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Do not count exits
    #[arg(long)]
    pub no_count: bool,
    /// Do not record before the trial to predict what it will find (of the knobs of halt polling)
    #[arg(long)]
    pub no_predict: bool,
    /// Score what this file of `advise --predictions` predicts of the values: what is measured is compared, and added to the file.
    /// Nothing is recorded before the trial then
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delay", "history", "no_count"])]
    pub against: Option<PathBuf>,
    /// Root of the host's /sys and /proc, if not /
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub root: PathBuf,
    /// The state file of `advise --apply`; a trial has its own beside it, tried.json [default: exitscope/applied.json below
    /// $XDG_STATE_HOME, or /var/lib/exitscope/applied.json]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Also write the trial as one HTML page to this file; with --history, all trials, instead of text
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub html: Option<PathBuf>,
    /// Also add the trial to this store; `exitscope sql` has it in the table trials
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "history"])]
    pub store: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TryFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TryFormat {
    /// For reading
    Text,
    /// The plan and the verdict as JSON (docs/try.schema.json)
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BetterWhich {
    /// Small values: of latency, of cost
    Lower,
    /// Large values: of throughput
    Higher,
}

impl From<BetterWhich> for Better {
    fn from(which: BetterWhich) -> Better {
        match which {
            BetterWhich::Lower => Better::Lower,
            BetterWhich::Higher => Better::Higher,
        }
    }
}

/// Delays of exits, shortest first, none of them 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays(pub Vec<Nanos>);

/// Delays at most, as many as a trial has settings beside none.
const MOST_DELAYS: usize = MAX_SETTINGS - 1;

impl Delays {
    /// Reads `200ns..5us`, which is both and what is in the geometric middle, or `200ns,1us`.
    fn parse(text: &str) -> Result<Delays, String> {
        let length = |text: &str| Nanos::parse(text).ok_or(format!("{text:?} is no length, like 200ns or 5us"));
        let mut delays = match text.split_once("..") {
            Some((low, high)) => {
                let (low, high) = (length(low)?, length(high)?);
                if low >= high {
                    return Err(format!("{low} is not shorter than {high}"));
                }
                vec![low, middle(low, high), high]
            }
            None => text.split(',').map(length).collect::<Result<Vec<Nanos>, String>>()?,
        };
        delays.sort_unstable();
        match delays.iter().max() {
            _ if delays.contains(&Nanos::ZERO) => Err("0 is compared with anyway; name delays above it".to_string()),
            Some(&most) if most > ExitDelay::MAX_DELAY => {
                Err(format!("{most} is too long: a single exit is delayed by at most {}", ExitDelay::MAX_DELAY))
            }
            _ if delays.len() > MOST_DELAYS => Err(format!("{} delays; at most {MOST_DELAYS}", delays.len())),
            _ => Ok(Delays(delays)),
        }
    }
}

/// The geometric middle, rounded to two digits.
fn middle(low: Nanos, high: Nanos) -> Nanos {
    let middle = (low.0 as f64 * high.0 as f64).sqrt();
    let unit = 10f64.powf(middle.max(1.0).log10().floor() - 1.0).max(1.0);
    Nanos(((middle / unit).round() * unit) as u64)
}

/// A length; minutes, too.
fn parse_length(text: &str) -> Result<Nanos, String> {
    Nanos::parse_long(text).ok_or("a length is a number and us, ms, s, m or h, like 10s".to_string())
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    percent.filter(|percent| (0.0..100.0).contains(percent)).ok_or("from 0% to below 100%".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_shares_are_read_as_people_write_them() {
        assert_eq!((parse_length("10m"), parse_length("0s")), (Ok(Nanos(600_000_000_000)), Ok(Nanos::ZERO)));
        assert!(parse_length("ten").is_err());
        assert_eq!((parse_percent("5%"), parse_percent("0.5")), (Ok(5.0), Ok(0.5)));
        assert!(parse_percent("100%").is_err() && parse_percent("-1%").is_err());
    }

    #[test]
    fn delays_are_a_range_or_a_list_and_none_is_beyond_the_bound() {
        let of = |text| Delays::parse(text).map(|delays| delays.0.iter().map(|delay| delay.0).collect::<Vec<u64>>());
        assert_eq!(of("200ns..5us"), Ok(vec![200, 1_000, 5_000]));
        assert_eq!(of("300ns..20us"), Ok(vec![300, 2_400, 20_000]));
        assert_eq!(of("2us,500ns"), Ok(vec![500, 2_000]));
        assert_eq!(of("1us"), Ok(vec![1_000]));
        for (text, says) in [
            ("5us..200ns", "not shorter"),
            ("200ns..21us", "21.0us is too long: a single exit is delayed by at most 20.0us"),
            ("0ns..5us", "0 is compared with anyway"),
            ("1us,2us,3us,4us,5us", "5 delays; at most 4"),
            ("5", "no length"),
        ] {
            assert!(of(text).is_err_and(|error| error.contains(says)), "{text}");
        }
    }
}
