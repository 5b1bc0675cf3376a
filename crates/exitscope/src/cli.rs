//! Every flag. Where `perf kvm stat` or `trace-cmd` have a flag for the same thing, ours has its name.

use crate::views::{EventsOnRequest, ViewArg, on_request};
use chrono::NaiveDate;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use exitscope_analysis::{ChangeLimit, Condition, Dimension, MomentSpec, Threshold};
use exitscope_top::TopColumn;
use exitscope_units::{Moment, Nanos};
use exitscope_view::{SortKey, VCPU_ROWS};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Confidence of intervals, in per cent, unless told otherwise.
pub const CONFIDENCE: f64 = 95.0;

/// Shows where virtual machines lose time in VM exits
#[derive(Debug, Parser)]
#[command(name = "exitscope", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 success; 1 limit exceeded or check failed (--fail-on, validate, store check); 2 error.\n\n\
    Environment: COLUMNS is the width that text is made to fit (else the terminal's); NO_COLOR switches colours off."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show where the time of VM exits went
    ///
    /// Reads perf.data, trace.dat, xentrace logs, ftrace text, and the text of `perf script` and `trace-cmd report`; also
    /// compressed with gzip, zstd or xz. Polling and blocking during a halt (HLT, WFI, s390 wait, H_CEDE) are not cost.
    #[command(visible_alias = "stat")]
    Report(ReportArgs),
    /// Record the VM exits of this host
    ///
    /// Uses BPF if permitted, otherwise perf events. On x86, events for the view of phases are included: two (kvm_fpu) for
    /// each return to user space, one (kvm_emulate_insn) for each instruction that KVM emulates.
    /// Needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH. Writes a perf.data file, which perf reads,
    /// too. Lost records are counted; guests are never blocked.
    Record(RecordArgs),
    /// Show this host's VM exits live, by cause and cost
    ///
    /// Exits are counted in the kernel by BPF if permitted, otherwise from perf events. `?` lists the keys.
    /// Needs what `record` needs.
    Top(TopArgs),
    /// Serve counts of this host's VM exits to Prometheus
    ///
    /// OpenMetrics at /metrics, counted in the kernel. docs/exporter.md lists the metrics. Needs what `record` needs.
    Exporter(ExporterArgs),
    /// Serve pages of recordings, of the running host or of a store to browsers
    ///
    /// The pages are those of `report --html`, and of `fleet report --html`. Access control: docs/serve.md. With --live it
    /// needs what `record` needs.
    Serve(ServeArgs),
    /// Print the decoded events of a trace, in time order
    Events(EventsArgs),
    /// Export the exits of a trace for another tool's viewer
    ///
    /// docs/export.md describes the formats. Several traces must share a clock and be given in order of
    /// time, except for sums (folded, openmetrics).
    Export(ExportArgs),
    /// Compare two sets of traces, reason by reason, with confidence intervals
    ///
    /// A verdict is given only where the bootstrap confidence interval of the change excludes zero. With one recording per
    /// side, intervals cover the variation within it; with several, also the variation from run to run.
    Diff(DiffArgs),
    /// Replay a policy over a recording with other settings
    ///
    /// The kernel's state machine runs over the recorded events once for each value. Where the kernel traced its decisions,
    /// the first lines give how many of them the replay reproduces.
    Replay(ReplayArgs),
    /// Recommend changes that reduce cost, wake-up latency and steal, with evidence
    ///
    /// Each change has a gain with its range and source, evidence from the recording, a risk, who pays, and how to undo it.
    /// `--apply` sets the knobs of the running host after showing them and asking; `--undo` restores the old values.
    Advise(AdviseArgs),
    /// Try values of a setting on the running host, and measure whether they pay
    ///
    /// The value in force and the others take turns on the host, in random order. The metrics of the turns are
    /// compared, with an interval that stays valid however often one looks at it. A watchdog process restores the value
    /// in force if the command ends in any way. With --delay, one VM's exits are made longer on purpose, to find what
    /// shorter ones are worth. docs/try.md shows trials. Exit status: 0 if the result is certain, also if it is that no
    /// difference matters; 2 if it is not judged, or the trial was aborted or not restored.
    Try(crate::trial_args::TryArgs),
    /// Count how good predictions were that were written down before anybody tried them
    ///
    /// `advise --predictions FILE` writes what each advice is predicted to come to, `sim --predictions FILE` what settings make of a
    /// scenario; `try --against FILE` and `lab run --against FILE` add what they measure of it.
    Predictions(PredictionsArgs),
    /// Keep exits of many recordings as Parquet files, by host and day
    ///
    /// DIR/exits, reason_stats, halts and gangs, in folders host=NAME/day=DATE, for any tool that reads Parquet.
    /// docs/store.md describes them.
    Store {
        #[command(subcommand)]
        what: StoreCommand,
    },
    /// Query a store in SQL
    ///
    /// Tables are exits, reason_stats, halts, gangs, recordings, hosts, knobs and advice; docs/sql.md lists columns and
    /// functions. Queries are read-only. Without a query, opens a prompt, or reads queries from standard input, each ended by a semicolon.
    Sql(SqlArgs),
    /// Compare the hosts, kernels or weeks of a store
    Fleet {
        #[command(subcommand)]
        what: FleetCommand,
    },
    /// Run a scheduler or an executor of a cluster for `sql`, `fleet` and `sweep`
    Cluster {
        #[command(subcommand)]
        what: ClusterCommand,
    },
    /// Simulate a scenario of hosts and guests
    ///
    /// Deterministic: the same scenario and seed give the same figures, bit for bit. Format: docs/scenario.md; examples:
    /// scenarios/.
    Sim(SimArgs),
    /// Simulate a scenario with every combination of values, and rank them
    ///
    /// Each configuration is run several times, with the same seeds as the others. Configurations whose intervals
    /// overlap that of the best are marked like it. Exit status 2 if any configuration failed.
    Sweep(SweepArgs),
    /// Compare the simulator with published measurements
    ///
    /// Calibrated rows were used to fit a number of the cost model; predicted rows were not. Exit status 1 if any row goes
    /// in the wrong direction.
    Validate(ValidateArgs),
    /// Measure the cost of exits, and of alternatives, on real KVM guests
    ///
    /// The guests are tiny built-in programs: no image, no QEMU, no root if /dev/kvm can be opened. Exit status 2
    /// without KVM.
    Lab {
        #[command(subcommand)]
        experiment: LabCommand,
    },
    /// Check what KVM and tracing can do on this machine
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one per command into a directory
    Man {
        /// Where to write `exitscope.1`, `exitscope-report.1`, …
        directory: Option<PathBuf>,
    },
    /// Print a generated document: JSON schemas, lines of coverage, knobs, causes, metrics, columns
    Docs {
        /// Which one
        what: GeneratedDocument,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum GeneratedDocument {
    /// JSON schema of `report --format json`
    ReportSchema,
    /// JSON schema of `diff --format json`
    DiffSchema,
    /// JSON schema of `report` and `advise --format json` of texts of counts
    CountsSchema,
    /// JSON schema of `diff --format json` of texts of counts
    CountsDiffSchema,
    /// JSON schema of a line of `events --format json`
    EventsSchema,
    /// JSON schema of a line of `top --format json`
    TopSchema,
    /// JSON schema of `replay --format json`
    ReplaySchema,
    /// JSON schema of `advise --format json`
    AdviseSchema,
    /// JSON schema of `try --format json`
    TrySchema,
    /// JSON schema of `predictions --format json`
    PredictionsSchema,
    /// JSON schema of `sim --format json`
    SimSchema,
    /// JSON schema of `sweep --format json`
    SweepSchema,
    /// JSON schema of `validate --format json`
    ValidateSchema,
    /// JSON schema of `lab … --format json`
    LabSchema,
    /// JSON schema of `fleet report --format json`
    FleetSchema,
    /// JSON schema of `doctor --format json`
    DoctorSchema,
    /// JSON schema of the data of a page (`--html`)
    PageSchema,
    /// Types of Python of the schemas of `report`, `advise` and `diff`
    PythonTypes,
    /// Lines of coverage: lost, not understood and unused events (Markdown)
    Losses,
    /// Texts of counts: what is read, the columns, the rules (Markdown)
    Counts,
    /// The knobs of every mechanism (Markdown)
    Knobs,
    /// The commands that show each item of the mechanisms (Markdown)
    Mechanisms,
    /// The settings that `try` sets beside knobs (Markdown)
    Settings,
    /// The causes that `advise` judges, with its answers (Markdown)
    Causes,
    /// The figures of a simulated run (Markdown)
    Figures,
    /// The cost models of named machines (Markdown)
    Models,
    /// The exporter's metrics (Markdown)
    Metrics,
    /// The columns of tables: of exits, of sums, of halts, of ganged exits (Markdown)
    Columns,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Traces to read; `-` is standard input [default: the first of perf.data.guest, perf.data.kvm, perf.data.host,
    /// perf.data, trace.dat that is here]
    pub files: Vec<PathBuf>,
    /// Traces to read, with the flag of perf and trace-cmd; may be given several times
    #[arg(short, long = "input", value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// Show the whole report as text, instead of 24 lines; implied by --by, --event, --top, --sort, --slowest, --hidden and
    /// --threads-per-core
    #[arg(long, conflicts_with_all = ["html", "bundle", "view"])]
    pub all: bool,
    /// Print the answer, the costliest causes, host, kernel and command as plain text of 72 columns, for a mailing list
    #[arg(long, conflicts_with_all = ["all", "html", "bundle", "view", "by", "event", "interval", "top", "sort", "slowest", "format", "hidden"])]
    pub mail: bool,
    /// Group exits by any of vm, vcpu, reason, subject, handler, port, mmio, msr, hypercall, cpuid, rip, cpu, time; several
    /// with commas. The subject is what an exit is about, of any kind; the handler is the kernel, or the reason for returning
    /// to user space; rip is the guest's instruction pointer [default: reason]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_dim)]
    pub by: Vec<Dimension>,
    /// What `perf kvm stat --event` groups by: vmexit, mmio, ioport, msr or hcall
    #[arg(long, value_name = "EVENT", conflicts_with = "by", value_parser = parse_perf_event)]
    pub event: Option<Dimension>,
    /// The guest's /proc/kallsyms, read there as root: --by rip then groups by function, and --html names functions
    #[arg(long, value_name = "FILE")]
    pub guestkallsyms: Option<PathBuf>,
    /// Width of a bucket of time for `--by time`, like 100ms [default: chosen so that there are at most 40]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub interval: Option<Nanos>,
    /// Show one mechanism instead of exits, as text; JSON always holds every view
    #[arg(long, value_enum, value_name = "VIEW", conflicts_with_all = ["by", "event", "guestkallsyms", "interval", "top", "sort"])]
    pub view: Option<ViewArg>,
    /// powerpc: how many consecutive vCPUs form a virtual core [default: those observed to run together]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub threads_per_core: Option<u32>,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub names: NameArgs,
    /// Groups that are shown at most; none: all.
    #[arg(long, value_name = "N", value_parser = parse_top, help = top_help())]
    pub top: Option<usize>,
    /// Order of the groups, largest first [default: cost; with `--by time`, time]; perf's names (sample, time,
    /// percent_sample, percent_time, mean_t, max_t, min_t) are accepted, too
    #[arg(short = 'k', long, visible_alias = "key", value_enum)]
    pub sort: Option<SortArg>,
    /// Show this many of the slowest single exits; 0 for none [default: 10]
    #[arg(long, value_name = "N")]
    pub slowest: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "event", "interval", "view", "top", "sort", "format"])]
    pub html: Option<PathBuf>,
    /// Write a shareable copy of the recording to this file instead: perf.data with names, process numbers and addresses
    /// replaced, and without values read and written (docs/bundle.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "event", "guestkallsyms", "interval", "view", "top", "sort", "format", "html", "hidden", "fail_on", "devices", "vms", "vcpus", "reasons", "from", "to", "longer_than", "condition"])]
    pub bundle: Option<PathBuf>,
    /// A run of `lab exits` on the same host, saved with --format json: bounds the part of guest time that no tracepoint
    /// covers around entry and exit. Text and JSON only
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "view"])]
    pub hidden: Option<PathBuf>,
    /// Exit with status 1 if a figure passes a limit: 'p99(io)>200us', 'rate(*)>50000', 'share(npf)>30%', 'lost>0'; may
    /// be given several times
    ///
    /// Figures: count, rate, exit_time, cost, share (of cost), user_space (share that user space answered); mean, p50,
    /// p90, p99, p99.9, max (from exit to entry; of all reasons together without halts); lost (everything that
    /// docs/losses.md calls a loss or an error). `*` or nothing in the parentheses stands for all reasons together.
    /// Exit status 2 if a limit cannot be judged: the recording is empty or cut, nothing is selected, or the figure was
    /// not recorded.
    #[arg(long, value_name = "LIMIT")]
    pub fail_on: Vec<Threshold>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ClockArgs {
    /// Ticks per second of the trace's clock, required if the trace counts ticks and does not record their rate; `report`
    /// then shows cycles beside times
    #[arg(long, visible_alias = "cpu-hz", value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    pub tsc_hz: Option<u64>,
    /// Read recordings that another user owns, too
    #[arg(short, long)]
    pub force: bool,
    /// Vendor of the exit codes; a xentrace log does not record it [default: detected]
    #[arg(long, value_enum, value_name = "VENDOR")]
    pub xen_mode: Option<Vendor>,
}

/// As xenalyze's --svm-mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Vendor {
    /// AMD
    Svm,
    /// Intel
    Vmx,
}

/// What subjects are called.
#[derive(Clone, Debug, Default, Args)]
pub struct NameArgs {
    /// Names of the VMs' ports and addresses: a table of ranges and names (docs/devices.md), QEMU's `info mtree -f` and
    /// `info pci`, or a guest's /proc/iomem and /proc/ioports, read there as root
    #[arg(long, value_name = "FILE")]
    pub devices: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SelectArgs {
    /// Only these VMs, by process id, Xen domain number, process name (all of that name), or, in recordings of `exitscope record`,
    /// UUID, Proxmox VMID, KubeVirt VMI or pod (docs/identity.md); several with commas
    #[arg(short = 'p', long = "vm", visible_alias = "pid", value_name = "NAME|PID", value_delimiter = ',')]
    pub vms: Vec<String>,
    /// Only these vCPUs, by number; several with commas
    #[arg(long = "vcpu", value_name = "N", value_delimiter = ',')]
    pub vcpus: Vec<u32>,
    /// Only these exit reasons, by the kernel's name (like io, EPT_VIOLATION) in any case, of Intel or of AMD; several with commas
    #[arg(long = "reason", value_name = "NAME", value_delimiter = ',')]
    pub reasons: Vec<String>,
    /// Only exits from this moment on: seconds on the trace's clock (like 30.163347), or +LENGTH after the trace's
    /// first event (like +1.5s, +200ms)
    #[arg(long, value_name = "MOMENT", value_parser = parse_when)]
    pub from: Option<MomentSpec>,
    /// Only exits up to this moment, given as for --from
    #[arg(long, value_name = "MOMENT", value_parser = parse_when)]
    pub to: Option<MomentSpec>,
    /// Only exits that took longer than this from exit to entry, halts included: a number and ns, us, ms or s,
    /// like 200us
    #[arg(long, visible_alias = "than", value_name = "LENGTH", value_parser = parse_length)]
    pub longer_than: Option<Nanos>,
    /// Only exits for which this condition holds, like 'reason = io and cost > 100us and subject ~ PCI'
    ///
    /// Comparisons joined by `and`, as in the query box of pages. Texts: vm, vcpu, reason, subject, handler, cpu, rip and, with
    /// --guestkallsyms, function: = (also the number at its end), != and ~ (contains), in any case. Lengths: cost, exit_time, and
    /// the parts of exits (kernel, user_space, polling, halted, halt_not_divided, waiting_for_memory, steal, stopped, unknown),
    /// by =, !=, <, <=, > and >=. An exit without a length meets no condition on lengths.
    #[arg(long = "where", value_name = "CONDITION", value_parser = str::parse::<Condition>)]
    pub condition: Option<Condition>,
    #[command(flatten)]
    pub clock: ClockArgs,
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Trace to read; `-` is standard input [default: the first of perf.data.guest, perf.data.kvm, perf.data.host,
    /// perf.data, trace.dat that is here]
    pub file: Option<PathBuf>,
    /// Trace to read, with the flag of perf and trace-cmd
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    pub input: Option<PathBuf>,
    /// Only events of this thread, and when others wake it or give way to it; may be given several times
    #[arg(long = "tid", value_name = "TID")]
    pub tids: Vec<u32>,
    /// Only events from this moment on: seconds on the trace's clock (like 30.163347), or +LENGTH after the trace's first event (like
    /// +1.5s, +200ms)
    #[arg(long, value_name = "MOMENT", value_parser = parse_when)]
    pub from: Option<MomentSpec>,
    /// Only events up to this moment, given as for --from
    #[arg(long, value_name = "MOMENT", value_parser = parse_when)]
    pub to: Option<MomentSpec>,
    #[command(flatten)]
    pub clock: ClockArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: EventsFormat,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Traces to read; `-` is standard input [default: the first of perf.data.guest, perf.data.kvm, perf.data.host,
    /// perf.data, trace.dat that is here]
    pub files: Vec<PathBuf>,
    /// Traces to read, with the flag of perf and trace-cmd; may be given several times
    #[arg(short, long = "input", value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// Write to this file; it appears only when complete, and an existing one is kept as FILE.old [default: standard
    /// output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With --format hdr: length of an interval of the log, like 1s [default: the whole recording]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub interval: Option<Nanos>,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub names: NameArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Perfetto's protobuf trace: a track for each vCPU, slices for exits and their parts (ui.perfetto.dev)
    Perfetto,
    /// A profile for the Firefox Profiler: exits as markers, what they cost as samples (profiler.firefox.com)
    Firefox,
    /// speedscope's JSON: exits and their parts as frames, a profile for each vCPU (speedscope.app)
    Speedscope,
    /// Collapsed stacks for flame graphs: VM;vCPU;reason;part and nanoseconds (flamegraph.pl, inferno)
    Folded,
    /// The exporter's metrics, counted over the recording (OpenMetrics text)
    Openmetrics,
    /// One row for each exit
    Csv,
    /// HdrHistogram interval log, a tag per reason
    Hdr,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Trace from before the change; more with --before [default: perf.data.old, as with perf diff]
    #[arg(requires = "b")]
    pub a: Option<PathBuf>,
    /// Trace from after the change; more with --after [default: perf.data]
    pub b: Option<PathBuf>,
    /// Traces from before the change
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub before: Vec<PathBuf>,
    /// Traces from after the change
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub after: Vec<PathBuf>,
    /// Make the recordings, too: so many of each side, in turns (a b, b a, a b, …), so that what drifts with time is no difference.
    /// Each is of `-- COMMAND`, from its beginning to its end
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(2..=100),
        requires_all = ["prepare_a", "prepare_b", "command"],
        conflicts_with_all = ["a", "b", "before", "after"],
    )]
    pub alternate: Option<u32>,
    /// With --alternate: what makes the host as it is before the change; run by sh before each of these recordings
    #[arg(long = "a", value_name = "COMMAND", requires = "alternate")]
    pub prepare_a: Option<String>,
    /// The same, for after the change. What ran last stays in force: after an even N that is --a's
    #[arg(long = "b", value_name = "COMMAND", requires = "alternate")]
    pub prepare_b: Option<String>,
    /// With --alternate: where a.1.data, b.1.data, … are written [default: the working directory]
    #[arg(long, value_name = "DIR", requires = "alternate")]
    pub into: Option<PathBuf>,
    /// With --alternate: what is run and recorded
    #[arg(last = true, value_name = "COMMAND", requires = "alternate")]
    pub command: Vec<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    /// Work that was done in each recording of either side, as in 120000,118000: requests, transactions; the verdict then takes what
    /// exits cost for each [default: the time that guests ran]
    #[arg(long, value_name = "BEFORE,AFTER", value_parser = parse_work)]
    pub work: Option<(f64, f64)>,
    /// Confidence in per cent, 50 to 99.9: of each interval; with several recordings a side, also of the verdict, and of all verdicts
    /// on the reasons' cost together
    #[arg(long, value_name = "PERCENT", default_value_t = CONFIDENCE, value_parser = parse_confidence)]
    pub confidence: f64,
    /// Show at most this many reasons, or `all` [default: in text 10 of those with 1 % of the cost or more, all in JSON]
    #[arg(long, value_name = "N", value_parser = parse_top)]
    pub top: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: DiffFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub html: Option<PathBuf>,
    /// Exit with status 1 if a change is beyond a limit: 'cost>+5%', 'p99(io)>+10%', 'rate(npf)<-50%'; may be given
    /// several times
    ///
    /// Figures: cost, rate, mean, p50, p99. A change is beyond a limit if its whole confidence interval is. `*` or
    /// nothing in the parentheses stands for all reasons together, without halts. Exit status 2 if a limit cannot be judged: too
    /// few exits for an interval, a reason that neither side has, a recording that is cut.
    #[arg(long, value_name = "LIMIT")]
    pub fail_on: Vec<ChangeLimit>,
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Add recordings and trials; those already in the store are left as they are
    ///
    /// A recording, or a file of trials, is added whole or not at all, even if this command is killed.
    Add(StoreAddArgs),
    /// List the recordings and trials
    List(StoreListArgs),
    /// Merge small files of a host and day, and remove leftovers of interrupted adds
    Compact {
        /// The store
        dir: PathBuf,
    },
    /// Drop the recordings and trials of days before one
    Drop {
        /// The store
        dir: PathBuf,
        /// The first day that is kept, like 2026-11-22
        #[arg(long, value_name = "DAY", value_parser = parse_day)]
        before: NaiveDate,
        /// Only those of this host
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
    /// Read every file and every entry of the log, and list damaged and foreign ones; exit status 1 if any is damaged
    Check {
        /// The store
        dir: PathBuf,
    },
    /// List the files of a table, one a line, for other readers of Parquet
    ///
    /// A folder of a store also has files that were merged or dropped: a reader that takes all of them counts exits twice.
    Files {
        /// The store
        dir: PathBuf,
        /// The table: exits, reason_stats, halts or gangs
        table: String,
        /// Do not compare the files with their hashes first
        #[arg(long)]
        no_verify: bool,
    },
}

#[derive(Debug, Args)]
pub struct StoreAddArgs {
    /// The store, a directory; created if missing
    pub dir: PathBuf,
    /// Recordings, or files of `try --format json` and of its history, trials.jsonl; `-` is a recording from standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Host of the recordings and trials [default: as recorded]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    /// Day of the recordings, like 2026-11-22 [default: the modification day of the file, in UTC]
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    pub day: Option<NaiveDate>,
    #[command(flatten)]
    pub clock: ClockArgs,
    #[command(flatten)]
    pub names: NameArgs,
}

#[derive(Debug, Args)]
pub struct StoreListArgs {
    /// The store
    pub dir: PathBuf,
    /// Output format; JSON has a line for each recording
    #[arg(long, value_enum, default_value = "text")]
    pub format: EventsFormat,
}

#[derive(Clone, Debug, Args)]
#[group(requires = "dir")]
pub struct QueryLimits {
    /// Memory for sorts, groups and joins, with M or G; the excess is spilled to temporary files
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_memory)]
    pub memory: u64,
    /// The longest that a query may take
    #[arg(long, value_name = "LENGTH", default_value = "600s", value_parser = parse_length)]
    pub timeout: Nanos,
    /// Threads [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Run the query on the cluster of this scheduler, like df://host:50050; its executors' --memory and --threads apply
    #[arg(long, value_name = "ADDRESS", value_parser = parse_scheduler)]
    pub cluster: Option<(String, u16)>,
    /// The file with the cluster's token
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub cluster_token_file: Option<PathBuf>,
    /// Do not compare the store's files with their hashes before their first use: answers may come from damaged files
    #[arg(long)]
    pub no_verify: bool,
}

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Distribute queries to executors
    ///
    /// There is no TLS: use a private network. Whoever has the token can read and write files as the user that runs this.
    Scheduler {
        /// Where to listen
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50050")]
        listen: SocketAddr,
        #[command(flatten)]
        access: ClusterAccessArgs,
    },
    /// Execute queries for a scheduler
    ///
    /// An executor reads the store's files itself: they must be under the same path as on the machine that asks. That
    /// machine and other executors fetch results from it, with the same token.
    Executor(ExecutorArgs),
}

/// Who may connect to a program of a cluster.
#[derive(Debug, Args)]
pub struct ClusterAccessArgs {
    /// Require the token in this file for every connection: the same for all programs of the cluster, and for those
    /// that ask (--cluster-token-file)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Run without a token, as root, or beyond this machine without TLS
    #[arg(long)]
    pub insecure: bool,
}

#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// The scheduler, like df://host:50050
    #[arg(long, value_name = "ADDRESS", default_value = "df://127.0.0.1:50050", value_parser = parse_scheduler)]
    pub scheduler: (String, u16),
    /// Where to listen for those that fetch results
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub access: ClusterAccessArgs,
    /// Tasks at a time [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Memory for all tasks together, with M or G
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_memory)]
    pub memory: u64,
    /// Where to make a private directory for results and temporary files, removed at the end [default: the directory of
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SqlArgs {
    /// The store
    pub dir: PathBuf,
    /// The query [default: ask for queries]
    pub query: Option<String>,
    /// Output format; JSON has a line for each row
    #[arg(long, value_enum, default_value = "text")]
    pub format: SqlFormat,
    /// Write rows to a file; what was there is kept as FILE.old
    #[arg(short, long, value_name = "FILE", requires = "query")]
    pub output: Option<PathBuf>,
    /// The most rows in text
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub rows: usize,
    #[command(flatten)]
    pub limits: QueryLimits,
}

/// How `sql` writes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SqlFormat {
    /// A table
    Text,
    /// CSV, with a line of names
    Csv,
    /// JSON, a line for each row
    Json,
    /// A file of Parquet, with --output
    Parquet,
}

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Report what differs between kernels, hosts or weeks, outlying hosts, and the most frequent advice
    ///
    /// Each kernel (or host, …) is compared with the one named by --against, among VMs of the same shape: CPU model, and
    /// number of vCPUs. Differences have confidence intervals over hosts; those on both sides are compared with themselves.
    Report(FleetReportArgs),
}

#[derive(Debug, Args)]
pub struct FleetReportArgs {
    /// The store
    pub dir: PathBuf,
    #[command(flatten)]
    pub compared: ComparedArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: EventsFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub limits: QueryLimits,
}

/// The comparison that a report of a fleet makes.
#[derive(Clone, Debug, Args)]
#[group(requires = "dir")]
pub struct ComparedArgs {
    /// What is compared
    #[arg(long, value_enum, default_value = "kernel")]
    pub by: FleetByArg,
    /// Baseline [default: the earliest, by its first day]
    #[arg(long, value_name = "VALUE")]
    pub against: Option<String>,
    /// Only recordings from this day on
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    pub since: Option<NaiveDate>,
    /// Only recordings from before this day
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    pub before: Option<NaiveDate>,
    /// Reasons shown of each comparison
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Confidence of the intervals in per cent, 50 to 99.9
    #[arg(long, value_name = "PERCENT", default_value_t = CONFIDENCE, value_parser = parse_confidence)]
    pub confidence: f64,
}

/// What `fleet report` compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetByArg {
    /// Kernel releases
    Kernel,
    /// Hosts
    Host,
    /// Weeks, as 2026-W47
    Week,
    /// Days
    Day,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Trace to read; `-` is standard input [default: the first of perf.data.guest, perf.data.kvm, perf.data.host,
    /// perf.data, trace.dat that is here]
    pub file: Option<PathBuf>,
    /// Trace to read, with the flag of perf and trace-cmd
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    pub input: Option<PathBuf>,
    /// The policy whose settings are varied
    #[arg(long, value_enum, value_name = "POLICY")]
    pub policy: PolicyName,
    /// Vary a knob of the policy (docs/knobs.md): a list (halt_poll_ns=0,50us,200us), evenly spaced values
    /// (=0us..200us:5), or each a multiple of the one before (=10us..1ms:*2), and lists of these; with several, every
    /// combination is replayed [default: the longest poll, from 0 to 1ms; the width of virtual cores;
    /// in_kernel, what the kernel handles of the port accesses that left it; how long a vCPU spins before it yields]
    #[arg(long, value_name = "KNOB=VALUES", value_parser = exitscope_scenario::vary_axis::parse)]
    pub vary: Vec<exitscope_scenario::vary_axis::Axis>,
    /// Set a knob in every row; may be given several times
    #[arg(long, value_name = "KNOB=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    /// The figure that decides which row is the best: NAME for the highest, -NAME for the lowest [default: net_gain;
    /// with port_path, yielding and vcore: gain]
    #[arg(long, value_name = "[-]NAME", allow_hyphen_values = true)]
    pub best: Option<String>,
    /// With port_path: take costs that the recording lacks from this machine, by its name in docs/models.md, or from a
    /// file of that form, as `lab exits` writes it
    #[arg(long, value_name = "MODEL")]
    pub costs: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: SimFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum PolicyName {
    /// KVM's polling for a halted vCPU, in the host
    HostHaltPoll,
    /// The polling of the cpuidle governor haltpoll, in the guest
    GuestHaltPoll,
    /// The virtual cores of POWER7 and POWER8, whose threads leave the guest together
    Vcore,
    /// The way of a port access: who decodes it, and who serves it
    PortPath,
    /// The yields of vCPUs that wait for another: PAUSE loops on x86, diagnoses X'44' and X'9C' on s390
    Yielding,
}

impl PolicyName {
    /// The policy's name in docs/knobs.md.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::HostHaltPoll => "host_halt_poll",
            PolicyName::GuestHaltPoll => "guest_halt_poll",
            PolicyName::Vcore => "vcore",
            PolicyName::PortPath => "port_path",
            PolicyName::Yielding => "yielding",
        }
    }

    /// What is varied unless something else is asked for; of yielding, that depends on what yields.
    pub fn default_vary(self) -> &'static str {
        match self {
            PolicyName::HostHaltPoll => "halt_poll_ns=0,10us,20us,50us,100us,200us,500us,1ms",
            PolicyName::GuestHaltPoll => "guest_halt_poll_ns=0,50us,100us,200us,500us,1ms",
            PolicyName::Vcore => "smt_mode=1,2,4,8",
            PolicyName::PortPath => "in_kernel=none,ioeventfd,coalesced,devices",
            PolicyName::Yielding => "spin_retry=0,100,1000,10000",
        }
    }
}

#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// Trace to read; `-` is standard input [default: the first of perf.data.guest, perf.data.kvm, perf.data.host,
    /// perf.data, trace.dat that is here]
    #[arg(conflicts_with = "undo")]
    pub file: Option<PathBuf>,
    /// Trace to read, with the flag of perf and trace-cmd
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["file", "undo"])]
    pub input: Option<PathBuf>,
    /// Print the settings in the form of the system that applies them; settings that a form cannot express become
    /// comments
    #[arg(long = "as", value_enum, value_name = "FORM", conflicts_with_all = ["apply", "undo"])]
    pub form: Option<AdviceForm>,
    /// With --as: settings of the host or of the guests; libvirt and qemu are always the VMs'
    #[arg(long, value_enum, value_name = "SIDE", default_value = "host", requires = "form")]
    pub side: AdviceSide,
    /// Set the host's knobs as advised: shows the changes, asks, saves the old values, and verifies the new ones
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Restore the knobs that --apply has set since the last boot; --force also restores those that somebody else has
    /// changed since, and those that an earlier version of exitscope saved without noting their --root
    #[arg(long)]
    pub undo: bool,
    /// Try the value that the advice of this number sets, as `exitscope try` does; flags of the trial follow after `--`, like
    /// `-- --metric COMMAND --unit ms --for 5m`
    #[arg(long = "try", value_name = "N", conflicts_with_all = ["apply", "undo", "form"])]
    pub tried: Option<usize>,
    /// With --apply: do not ask
    #[arg(long, requires = "apply")]
    pub yes: bool,
    /// With --apply and --try: also if the recording is from another host
    #[arg(long)]
    pub any_host: bool,
    /// Flags of the trial
    #[arg(last = true, value_name = "FLAGS", requires = "tried")]
    pub trial: Vec<String>,
    /// Also add to this file what each advice is predicted to come to, before anybody tries it: a line of JSON each.
    /// `try --against` scores what sets a knob, `exitscope predictions` counts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["undo", "apply", "tried"])]
    pub predictions: Option<PathBuf>,
    /// Where --apply keeps the old values [default: exitscope/applied.json below $XDG_STATE_HOME, or
    /// /var/lib/exitscope/applied.json]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Root of the host's /sys and /proc, if not /: in a container, where the host's root is mounted
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub root: PathBuf,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub names: NameArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text", conflicts_with_all = ["form", "apply", "tried"])]
    pub format: EventsFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AdviceForm {
    /// A tuned profile
    Tuned,
    /// A file for /etc/modprobe.d
    Modprobe,
    /// A file for /etc/tmpfiles.d, which writes sysfs at boot
    Sysfs,
    /// Elements of libvirt's domain XML
    Libvirt,
    /// QEMU's options
    Qemu,
    /// A shell script
    Script,
}

impl From<AdviceForm> for exitscope_view::SettingsFormat {
    fn from(form: AdviceForm) -> exitscope_view::SettingsFormat {
        match form {
            AdviceForm::Tuned => exitscope_view::SettingsFormat::Tuned,
            AdviceForm::Modprobe => exitscope_view::SettingsFormat::Modprobe,
            AdviceForm::Sysfs => exitscope_view::SettingsFormat::Sysfs,
            AdviceForm::Libvirt => exitscope_view::SettingsFormat::Libvirt,
            AdviceForm::Qemu => exitscope_view::SettingsFormat::Qemu,
            AdviceForm::Script => exitscope_view::SettingsFormat::Script,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AdviceSide {
    /// The host's
    Host,
    /// The guests'
    Guest,
}

impl AdviceSide {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            AdviceSide::Host => "host",
            AdviceSide::Guest => "guest",
        }
    }
}

#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// Scenario file; `-` is standard input
    pub scenario: PathBuf,
    /// Set a scenario key, overriding the file: a knob (halt_poll_ns=50us), or any key of the file
    /// (host.cores=8, vm.web.vcpus=4, costs.exit=1us); may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    /// Seed of all randomness, a whole number from 0 on [default: the scenario's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_seed)]
    pub seed: Option<u64>,
}

/// When a simulated run is stopped.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// Stop a run after this many events of the simulated machine [default: 10,000,000,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit_events: Option<u64>,
    /// Stop a run that takes longer than this, like 60s
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub wall_limit: Option<Nanos>,
}

#[derive(Debug, Args)]
pub struct SimArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Write the run, from the end of the warm-up on, as a recording (perf.data); an existing file is kept as FILE.old
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Also add to this file what --set is predicted to make of the scenario: both are run with five seeds each, and with the numbers
    /// that they assume otherwise, as --uncertainty does. `lab run --against` scores it, `exitscope predictions` counts
    #[arg(long, value_name = "FILE", requires = "set")]
    pub predictions: Option<PathBuf>,
    #[command(flatten)]
    pub check: ScenarioCheckArgs,
    /// Run the scenario with other seeds, and about 140 times with the numbers that it assumes otherwise, within their stated ranges
    /// (docs/scenario.md); show between which values 90 % of these runs have each figure, and which number moves it most. What --set
    /// sets is not assumed
    #[arg(long, conflicts_with = "trace")]
    pub uncertainty: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: SimFormat,
}

/// A recording that a scenario is held against.
#[derive(Debug, Args)]
pub struct ScenarioCheckArgs {
    /// Compare the scenario, as its file has it, with a recording of what it stands for: where vCPUs, exits, halts or cost are
    /// more than 10 % off, what other values change is not predicted, and the exit status is 1
    #[arg(long = "check", value_name = "RECORDING")]
    pub recording: Option<PathBuf>,
    /// With --check: only these VMs of the recording, as `report --vm` takes them
    #[arg(long = "check-vm", value_name = "NAME|PID", value_delimiter = ',', requires = "recording")]
    pub vms: Vec<String>,
    #[command(flatten)]
    pub clock: ClockArgs,
}

#[derive(Debug, Args)]
pub struct SweepArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub check: ScenarioCheckArgs,
    /// Vary a key that --set takes: a list (halt_poll_ns=0,50us,200us), evenly spaced values (=0us..200us:5), or each
    /// a multiple of the one before (=10us..1ms:*2), and lists of these; with several, every combination is run
    #[arg(long, value_name = "KEY=VALUES", required = true, value_parser = exitscope_scenario::vary_axis::parse)]
    pub vary: Vec<exitscope_scenario::vary_axis::Axis>,
    /// Runs of each configuration, with the seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub replicates: u32,
    /// Figures to show, several with commas; `help` lists them [default: throughput (of each VM and
    /// host thread that counts work, if several do); and of the first VM latency_p99, exits, and the shares of its time that
    /// differ between configurations]
    #[arg(long = "metric", value_name = "NAME", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// The figure that decides which configuration is best: for a throughput and for successful polls the highest, for
    /// all else the lowest; +NAME takes the highest of any figure, -NAME the lowest; `help` lists them [default: the
    /// first one shown]
    #[arg(long, value_name = "[+-]NAME", allow_hyphen_values = true)]
    pub best: Option<String>,
    /// Run each configuration about 140 times more, with the numbers that the scenario assumes otherwise, within their stated
    /// ranges (docs/scenario.md); show what of the gains over the first configuration hangs on them. What --set and --vary set is not
    /// assumed
    #[arg(long, conflicts_with = "cluster")]
    pub uncertainty: bool,
    /// Runs at a time [default: the machine's CPUs]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Run on the cluster of this scheduler, like df://host:50050; its executors' --threads apply
    #[arg(long, value_name = "ADDRESS", value_parser = parse_scheduler)]
    pub cluster: Option<(String, u16)>,
    /// The file with the cluster's token
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub cluster_token_file: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: SimFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Experiments to run [default: all]
    #[arg(conflicts_with = "lab")]
    pub experiments: Vec<String>,
    /// The simulator beside the lab, on this machine: measure what its KVM takes, and write what is predicted of 48 cells, each a change
    /// of one program's setting, into this file; where it is there already, run its cells on real guests and score it
    ///
    /// Exit status 1: a sign that is certain is not as predicted, or where nothing was changed something seemed to. 2: nothing is
    /// certain, or nothing was measured of some cell.
    #[arg(long, value_name = "FILE", conflicts_with = "replicates")]
    pub lab: Option<PathBuf>,
    /// With --lab: rounds, in which all take turns
    #[arg(long, value_name = "N", default_value_t = 8, requires = "lab", value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub repeat: u32,
    /// With --lab: how long each setting is measured, all rounds together
    #[arg(long, value_name = "LENGTH", default_value = "4s", requires = "lab", value_parser = parse_length)]
    pub duration: Nanos,
    /// Runs of each configuration, with a seed each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicates: u32,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: ValidateFormat,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// What an exit costs, by its cause and its handler; also registers, locks and numbers of devices
    ///
    /// An unsupported case is a row with the reason.
    Exits(LabExitsArgs),
    /// How throughput falls when every exit takes 0 to 30,000 ns longer
    ///
    /// Two vCPUs exchange a byte each way, with an exit each. In every second round trip the lab waits this long after
    /// each exit; the added time is the difference to the round trips before and after. A pilot of a tenth of the time
    /// decides how the time is divided among the delays, and says which are too small for it.
    Delay(LabArgs),
    /// What tracing adds to an exit: KVM's tracepoints, and the tracers of functions
    ///
    /// Traces the lab's threads alone, in an instance of tracefs of its own, which is removed when the command ends, also
    /// after a kill. Needs root. While a function tracer is on, all of the kernel is slower, for everybody.
    Tracer(LabArgs),
    /// What a port access costs, by its way: emulated or not, by a device model's thread or in place
    Pio(LabArgs),
    /// Run a scenario's programs on real guests, as far as that can be done
    ///
    /// Counts are exact, and are those of `exitscope sim` for programs that do not depend on time; times are this machine's.
    /// Differences from the scenario are listed.
    Run(LabRunArgs),
    /// What polling before a halt gains and costs, by who polls (nobody, KVM, the guest or the run loop) and how long
    ///
    /// Two vCPUs play ping-pong, and halt between balls.
    Haltpoll(LabArgs),
    /// Which yield waiters for a spinlock make: none, X'44', X'9C', X'9C' with sense-running
    ///
    /// More vCPUs than threads contend, under a dispatcher of the lab's own.
    Yield(LabArgs),
    /// What exits cost the other vCPUs of a virtual core, which all leave the guest together
    Gang(LabArgs),
    /// The operations of kvm-unit-tests' vmexit that a bare guest can do, under their names, on one vCPU and on all
    ///
    /// `mean cycles` is what that test prints. With --against, compares with a run of it that `exitscope lab import` has read.
    Vmexit(LabArgs),
    /// Read what kvm-unit-tests' vmexit printed, as a run of `exitscope lab vmexit`
    ///
    /// Several runs in one file are rounds. Save it with --format json for `exitscope lab vmexit --against`.
    Import(LabImportArgs),
    /// Run guests without end whose settings are files below a directory, for `exitscope try --root`
    ///
    /// The files have the kernel's paths below /sys and /proc, and act on these guests alone.
    Guests(LabGuestsArgs),
    /// Show a run that was saved with --format json again, for example as a page
    Show(LabShowArgs),
    /// List the experiments
    List,
}

#[derive(Debug, Args)]
pub struct LabExitsArgs {
    #[command(flatten)]
    pub lab: LabArgs,
    /// Write the measurements as a cost model for a scenario's costs.model; an existing file is kept as FILE.old. Refused
    /// on emulating back ends
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct LabArgs {
    /// How long each row is measured, all rounds together, like 500ms. An experiment takes that times its rows (exits
    /// 73, and up to 26 more where kvm_exit fires, delay 16, tracer 12, pio 7, haltpoll 22, yield 39, gang 12, vmexit 56), and
    /// about a third more for making guests and warming up
    #[arg(long, value_name = "LENGTH", default_value = "200ms", value_parser = parse_length)]
    pub duration: Nanos,
    /// Rounds, in which all rows take turns; the intervals cover the variation from round to round
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// Compare with an earlier run, saved with --format json: sizes only; given several times, with verdicts by the spread from
    /// run to run
    #[arg(long, value_name = "FILE")]
    pub against: Vec<PathBuf>,
    /// Write the exits of the last round as a perf.data file, which report, diff and perf read; an existing file is kept as
    /// FILE.old
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Do not pin vCPUs to CPUs
    #[arg(long)]
    pub no_pin: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: LabFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "against"])]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct LabGuestsArgs {
    /// What the guests do
    #[arg(value_enum)]
    pub program: LabGuestsProgram,
    /// The directory of the settings' files, and of `throughput`, a counter of work done; values already there are in
    /// force from the beginning
    #[arg(long, value_name = "DIRECTORY")]
    pub root: PathBuf,
    /// How long they run [default: until a signal]
    #[arg(long = "for", value_name = "LENGTH", value_parser = parse_length)]
    pub length: Option<Nanos>,
    /// vCPUs, all of one VM [default: ping-pong 2, locks 8, io 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub vcpus: Option<u32>,
    /// How long a vCPU computes between two balls, locks or requests; for io, on average
    #[arg(long, value_name = "LENGTH", default_value = "20us", value_parser = parse_length)]
    pub gap: Nanos,
    /// Keep each vCPU on a CPU (ping-pong, io)
    #[arg(long)]
    pub pin: bool,
    /// End when standard input ends, as it does with the program at its other end
    #[arg(long)]
    pub until_eof: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LabGuestsProgram {
    /// Pairs of vCPUs play ping-pong and halt between: round trips
    PingPong,
    /// vCPUs contend for a spinlock, over two threads: locks
    Locks,
    /// vCPUs wait for a disk, whose worker is a thread: requests
    Io,
}

#[derive(Debug, Args)]
pub struct LabShowArgs {
    /// The run: what an experiment wrote with --format json
    pub run: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: LabFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct LabImportArgs {
    /// What the test printed; - is standard input
    pub file: PathBuf,
    /// vCPUs of the test's VM (QEMU's -smp), which do most operations at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub vcpus: u32,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: LabFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct LabRunArgs {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// How long to run it; with --delay, each time: once more than --repeat for each kind of exit, and as often without delays
    /// [default: the scenario's duration]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub duration: Option<Nanos>,
    /// Find what the guests would win if exits of a kind were cheaper, for each kind that goes to user space: each time that a vCPU
    /// makes one, all other vCPUs are delayed instead, and the delays are taken off the time (causal profiling)
    #[arg(long, value_enum, value_name = "WHICH", group = "turns", conflicts_with_all = ["trace", "retries"])]
    pub delay: Option<LabRunDelay>,
    /// With --delay, how much cheaper an exit of the kind is to be, like 5us
    #[arg(long, value_name = "LENGTH", default_value = "5us", requires = "delay", value_parser = parse_length)]
    pub by: Nanos,
    /// With --delay, rounds, in which all kinds take turns; with --against, runs with each setting, and as many without. Intervals
    /// cover the variation from round to round
    #[arg(long, value_name = "N", default_value_t = 10, requires = "turns", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub repeat: u32,
    /// Write its exits as a perf.data file, which report, diff and perf read; an existing file is kept as FILE.old
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Do not pin vCPUs to CPUs, also not those of VMs that the scenario pins
    #[arg(long)]
    pub no_pin: bool,
    /// How often it is run again at most, with compute steps set anew, because the processor was faster or slower than when it was
    /// measured
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retries: u32,
    /// Score what this file of `sim --predictions` predicts of this scenario: it runs in turns as it is and with each setting, and the
    /// scores are added to the file
    #[arg(long, value_name = "FILE", group = "turns", conflicts_with_all = ["trace", "html"])]
    pub against: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: LabRunFormat,
    /// Write one self-contained HTML page to this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PredictionsArgs {
    /// Files that `--predictions` has written
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: PredictionsFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PredictionsFormat {
    /// For a person, in a terminal
    Text,
    /// One object; `exitscope docs predictions-schema` describes it
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LabRunDelay {
    /// All vCPUs but the one that makes the exit
    Others,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LabRunFormat {
    /// For a person, in a terminal
    Text,
    /// One object; `exitscope docs lab-schema` describes it
    Json,
    /// The figures, one a line
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LabFormat {
    /// For a person, in a terminal
    Text,
    /// One object; `exitscope docs lab-schema` describes it
    Json,
    /// The figures, one a line
    Csv,
    /// Every figure of every round, as lines that Go's benchstat reads
    Benchstat,
}

/// The processes whose exits are recorded or counted.
#[derive(Clone, Debug, Args)]
pub struct ProcessArgs {
    /// Only this process; several with commas [default: every virtual machine's]
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["vm", "all"])]
    pub pid: Vec<u32>,
    /// Only the virtual machine of this process id, name, UUID, Proxmox VMID, KubeVirt VMI or pod (docs/identity.md); top and
    /// exporter find it again after a restart
    #[arg(long, value_name = "NAME|PID", conflicts_with = "all")]
    pub vm: Option<String>,
    /// Every virtual machine, as without this flag
    #[arg(short, long = "all-cpus")]
    pub all: bool,
}

#[derive(Clone, Debug, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub whose: ProcessArgs,
    /// For how long, like 10s; a number alone is in seconds [default: until the command ends, or Ctrl-C]
    #[arg(long = "for", value_name = "LENGTH", value_parser = parse_seconds)]
    pub length: Option<Nanos>,
    /// Record so many times, each --for so long or as long as the command runs: perf.1.data, perf.2.data, … (one side of `diff` needs
    /// several)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub repeat: Option<u32>,
    /// From the beginning of one recording of --repeat to that of the next [default: they follow one another]
    #[arg(long, value_name = "LENGTH", requires = "repeat", value_parser = parse_seconds)]
    pub every: Option<Nanos>,
    /// The file; an existing one is kept as FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub output: PathBuf,
    /// Also add the finished recording to this store, as `store add` does
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Size of each CPU's ring, in bytes, or with K or M
    #[arg(short = 'm', long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    pub buffer: usize,
    /// Also record the events of this view. phases: system calls of vCPU threads, two events each, so two or more for each
    /// return to user space. All system calls of this host slow down a little; without BPF, all of them go through the
    /// rings
    #[arg(long, value_name = "VIEW", value_parser = on_request())]
    pub for_view: Option<EventsOnRequest>,
    /// Omit scheduler events; reports then cannot separate steal
    #[arg(long)]
    pub no_sched: bool,
    /// Do not use BPF
    #[arg(long)]
    pub no_bpf: bool,
    /// Do not compress the file: several times as large, for a perf that was built without zstd
    #[arg(long)]
    pub no_compress: bool,
    /// Run this command, and record until it ends; Ctrl-C or SIGTERM ends both
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub whose: ProcessArgs,
    /// How long an interval is
    #[arg(short = 'd', long, value_name = "LENGTH", default_value = "1s", value_parser = parse_interval)]
    pub interval: Nanos,
    /// Print intervals as text, without a screen
    #[arg(short, long)]
    pub batch: bool,
    /// End after so many intervals [default: on q, or Ctrl-C]
    #[arg(short = 'n', long, value_name = "N")]
    pub iterations: Option<u64>,
    /// Output format of --batch; json implies it: one object for each interval, one a line
    #[arg(long, value_enum, default_value = "text")]
    pub format: EventsFormat,
    /// Columns of the list, in this order, separated by commas; the key `o` chooses them, too [default: all that fit, without
    /// parts that are zero]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = top_columns())]
    pub columns: Vec<TopColumn>,
    /// Do not use BPF
    #[arg(long)]
    pub no_bpf: bool,
}

#[derive(Debug, Args)]
pub struct ExporterArgs {
    /// Address and port to serve on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9965")]
    pub listen: std::net::SocketAddr,
    #[command(flatten)]
    pub whose: ProcessArgs,
    /// VMs with series of their own; further ones are counted as `other`
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub max_vms: usize,
    /// Serve where time went also by vCPU: up to ten series for each
    #[arg(long)]
    pub per_vcpu: bool,
    /// Serve nothing: write the metrics to this file every 15 s, for node_exporter's textfile collector (name it *.prom). It is
    /// removed at the end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "AccessArgs"])]
    pub textfile: Option<PathBuf>,
    #[command(flatten)]
    pub access: AccessArgs,
    /// Do not use BPF
    #[arg(long)]
    pub no_bpf: bool,
}

/// Access to a server.
#[derive(Debug, Args)]
pub struct AccessArgs {
    /// Use TLS, with this certificate (PEM, with the rest of its chain in the same file)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Require the token in this file, as `Authorization: Bearer TOKEN`; browsers get it from the address that `serve`
    /// prints
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept this name in the Host header, too; may be repeated. Accepted anyway: localhost, this machine's own name, and
    /// any address where others can connect
    #[arg(long, value_name = "NAME")]
    pub host_name: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Traces to show, reread when they change [default: the first of perf.data.guest, perf.data.kvm, perf.data.host,
    /// perf.data, trace.dat that is here]
    #[arg(conflicts_with_all = ["live", "ComparedArgs", "QueryLimits"])]
    pub files: Vec<PathBuf>,
    /// Show this host's VMs live
    #[arg(long, conflicts_with_all = ["ComparedArgs", "QueryLimits"])]
    pub live: bool,
    /// Show the `fleet report` of this store, refreshed whenever the page is loaded
    #[arg(long = "store", value_name = "DIR", conflicts_with_all = ["files", "live"])]
    pub dir: Option<PathBuf>,
    /// Time that is kept and shown, like 90s, 5m or 1h
    #[arg(long, value_name = "LENGTH", default_value = "5m", requires = "live", conflicts_with = "files", value_parser = parse_keep)]
    pub keep: Nanos,
    /// Address, or name, and port to serve on; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9966")]
    pub listen: String,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub whose: ProcessArgs,
    /// With --live: size of each CPU's ring, in bytes, or with K or M
    #[arg(short = 'm', long, value_name = "SIZE", default_value = "4M", requires = "live", conflicts_with = "files", value_parser = parse_size)]
    pub buffer: usize,
    /// With --live: omit scheduler events
    #[arg(long, requires = "live", conflicts_with = "files")]
    pub no_sched: bool,
    /// With --live: do not use BPF
    #[arg(long, requires = "live", conflicts_with = "files")]
    pub no_bpf: bool,
    /// Names of the VMs' ports and addresses, as for report
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "dir"])]
    pub devices: Option<PathBuf>,
    /// The guest's /proc/kallsyms, read there as root: names the functions of the guest
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "dir"])]
    pub guestkallsyms: Option<PathBuf>,
    #[command(flatten)]
    pub clock: ClockArgs,
    #[command(flatten, next_help_heading = "With --store")]
    pub compared: ComparedArgs,
    #[command(flatten, next_help_heading = "With --store")]
    pub limits: QueryLimits,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: EventsFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValidateFormat {
    /// For a person, in a terminal
    Text,
    /// One object; `exitscope docs validate-schema` describes it
    Json,
    /// The rows, one a line
    Csv,
    /// For docs/validation.md
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimFormat {
    /// For a person, in a terminal
    Text,
    /// One object; `exitscope docs` prints the schemas
    Json,
    /// For sim, the figures: metric, value, unit. For sweep and replay, one configuration a line
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a person, in a terminal
    Text,
    /// One object; `exitscope docs report-schema` describes it
    Json,
    /// One group a line, with the names of JSON's fields; lengths in ns
    Csv,
    /// With --view gang: what the gang-exits script of 2015 prints (perf script -s gang_exits.py), counted by its rule
    Script,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// For a person
    Text,
    /// For a script; `exitscope docs` prints the schemas
    Json,
    /// For a comment on a change: what text has, with tables that GitHub and GitLab show
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventsFormat {
    /// For a person
    Text,
    /// For a script; `exitscope docs` prints the schemas
    Json,
}

/// perf's names (`sample`, `time`, `mean_t`, …) are taken too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortArg {
    /// Handled by the kernel and by user space
    #[value(alias = "share")]
    Cost,
    /// From exit to entry, whatever it holds
    #[value(alias = "time", alias = "percent_time")]
    ExitTime,
    /// Exits
    #[value(alias = "sample", alias = "percent_sample")]
    Count,
    /// Mean length
    #[value(alias = "mean_t")]
    Mean,
    /// Median
    P50,
    /// 99th percentile
    P99,
    /// Longest
    #[value(alias = "max_t")]
    Max,
    /// Shortest
    #[value(alias = "min_t")]
    Min,
    /// The groups' own order: numbers, names, time
    Key,
}

impl From<SortArg> for SortKey {
    fn from(sort: SortArg) -> SortKey {
        match sort {
            SortArg::Cost => SortKey::Cost,
            SortArg::ExitTime => SortKey::Total,
            SortArg::Count => SortKey::Count,
            SortArg::Mean => SortKey::Mean,
            SortArg::P50 => SortKey::P50,
            SortArg::P99 => SortKey::P99,
            SortArg::Max => SortKey::Max,
            SortArg::Min => SortKey::Min,
            SortArg::Key => SortKey::Key,
        }
    }
}

fn parse_dim(text: &str) -> Result<Dimension, String> {
    Dimension::parse(text.trim()).ok_or_else(|| format!("there are {}", Dimension::ALL.map(Dimension::name).join(", ")))
}

fn parse_perf_event(text: &str) -> Result<Dimension, String> {
    match text {
        "vmexit" => Ok(Dimension::Reason),
        "mmio" => Ok(Dimension::Mmio),
        "ioport" => Ok(Dimension::Port),
        "msr" => Ok(Dimension::Msr),
        "hcall" => Ok(Dimension::Hypercall),
        _ => Err("there are vmexit, mmio, ioport, msr, hcall".to_string()),
    }
}

/// Groups that text shows unless told otherwise.
pub const TEXT_TOP: usize = 20;

/// Rows of a table of what exits were about, likewise.
pub const DETAIL_ROWS: usize = 8;

/// What `--top` of a report does.
fn top_help() -> String {
    format!(
        "Show at most this many groups, or `all` [default: {TEXT_TOP} in text, all in JSON and CSV]; in text also at most this many rows \
         in each table of subjects (ports, MSRs, …) [default: {DETAIL_ROWS}], and in tables of vCPUs, which may have {VCPU_ROWS} in any \
         case"
    )
}

fn parse_top(text: &str) -> Result<usize, String> {
    match text.parse() {
        _ if text == "all" => Ok(usize::MAX),
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err("a number from 1 on, or all".to_string()),
    }
}

/// The columns of `top`'s list, by name.
fn top_columns() -> impl TypedValueParser<Value = TopColumn> {
    let values = TopColumn::all().map(|column| PossibleValue::new(column.name()).help(column.help()));
    PossibleValuesParser::new(values).try_map(|name| TopColumn::named(&name).ok_or("no column"))
}

fn parse_length(text: &str) -> Result<Nanos, String> {
    let length = Nanos::parse_long(text).ok_or("a length is a number and ns, us, ms, s, m or h, like 200us")?;
    if length == Nanos::ZERO { Err("a length of zero".to_string()) } else { Ok(length) }
}

fn parse_day(text: &str) -> Result<NaiveDate, String> {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| "a day is like 2026-11-22".to_string())
}

/// A length; as with other tools' `-d`, a number alone is of seconds.
fn parse_seconds(text: &str) -> Result<Nanos, String> {
    match text.ends_with(|last: char| last.is_ascii_digit()) {
        true => parse_length(&format!("{text}s")),
        false => parse_length(text),
    }
}

fn parse_interval(text: &str) -> Result<Nanos, String> {
    let allowed = Nanos(100_000_000)..=Nanos(3_600_000_000_000);
    let length = parse_seconds(text)?;
    if allowed.contains(&length) { Ok(length) } else { Err("an interval is 100ms to 3600s".to_string()) }
}

/// A length of ten seconds to a day; also in minutes or hours.
fn parse_keep(text: &str) -> Result<Nanos, String> {
    let length = Nanos::parse_long(text);
    let allowed = Nanos(10_000_000_000)..=Nanos(86_400_000_000_000);
    length.filter(|length| allowed.contains(length)).ok_or_else(|| "10s to 24h, like 90s, 5m or 1h".to_string())
}

/// A size in bytes, or with K or M.
fn parse_size(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |number| (number, 1 << 20)),
    };
    let size = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    let size = size.filter(|size| (4 << 10..=256 << 20).contains(size));
    size.ok_or("a size is a number, with K or M, from 4K to 256M".to_string())
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['M', 'm']) {
        Some(number) => (number, 1 << 20),
        None => text.strip_suffix(['G', 'g']).map_or((text, 1), |number| (number, 1 << 30)),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    size.filter(|size| *size >= 16 << 20).ok_or("a size is a number with M or G, at least 16M".to_string())
}

/// The host and port in `df://host:port`.
fn parse_scheduler(text: &str) -> Result<(String, u16), String> {
    let address = text.strip_prefix("df://").and_then(|rest| rest.trim_end_matches('/').rsplit_once(':'));
    let parsed = address.and_then(|(host, port)| Some((host.trim_matches(['[', ']']), port.parse::<u16>().ok()?)));
    let sound = parsed.filter(|(host, port)| !host.is_empty() && *port > 0);
    sound.map(|(host, port)| (host.to_string(), port)).ok_or("a scheduler is named like df://host:50050".to_string())
}

fn parse_when(text: &str) -> Result<MomentSpec, String> {
    match text.strip_prefix('+') {
        Some(after) => {
            Nanos::parse(after).map(MomentSpec::After).ok_or("after + comes a length, like +1.5s".to_string())
        }
        None => {
            let at = Moment::parse(text.strip_suffix('s').unwrap_or(text)).map(MomentSpec::At);
            at.ok_or("a moment is in seconds as the trace prints it, like 30.163347, or +1.5s".to_string())
        }
    }
}

fn parse_seed(text: &str) -> Result<u64, String> {
    const MOST: u64 = i64::MAX as u64;
    text.parse().ok().filter(|seed| *seed <= MOST).ok_or(format!("a seed is a whole number, 0 to {MOST}"))
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a key, =, and a value, like halt_poll_ns=50us")?;
    Ok((key.trim().to_string(), value.trim().to_string()))
}

fn parse_work(text: &str) -> Result<(f64, f64), String> {
    let amount = |text: &str| text.trim().parse::<f64>().ok().filter(|work| work.is_finite() && *work > 0.0);
    let work = text.split_once(',').and_then(|(before, after)| Some((amount(before)?, amount(after)?)));
    work.ok_or_else(|| "two amounts of work above zero, as in 120000,118000".to_string())
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (50.0..=99.9).contains(&percent) => Ok(percent),
        _ => Err("a confidence is between 50 and 99.9 per cent".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, CommandFactory};

    #[test]
    fn with_a_bundle_whatever_would_select_or_show_exits_is_refused() {
        // The recording and how it is read; the last two say how something is shown, and nothing is.
        let taken = ["files", "inputs", "tsc_hz", "force", "xen_mode", "bundle", "help", "slowest", "threads_per_core"];
        let mut command = Cli::command();
        command.build();
        let report = command.find_subcommand("report").unwrap();
        let with =
            |of: &Arg| report.get_arg_conflicts_with(of).into_iter().map(Arg::get_id).cloned().collect::<Vec<_>>();
        let bundle = report.get_arguments().find(|arg| arg.get_id() == "bundle").unwrap();
        let refused = with(bundle);
        for arg in report.get_arguments().filter(|arg| !taken.contains(&arg.get_id().as_str())) {
            let is_refused = refused.contains(arg.get_id()) || with(arg).contains(bundle.get_id());
            assert!(is_refused, "{} goes unheeded with --bundle", arg.get_id());
        }
    }

    #[test]
    fn a_number_alone_is_of_seconds_where_a_command_runs_for_a_time() {
        let cases = [
            ("5", Some(5_000_000_000)),
            ("5s", Some(5_000_000_000)),
            ("200ms", Some(200_000_000)),
            ("10m", Some(600_000_000_000)),
            ("0", None),
            ("x", None),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse_seconds(text).ok(), nanos.map(Nanos), "{text}");
        }
        let record = Cli::try_parse_from(["exitscope", "record", "--for", "5"]).unwrap();
        assert!(matches!(record.command, Command::Record(args) if args.length == Some(Nanos(5_000_000_000))));
    }
}
