// What the page gets: `exitscope report --format json`, `advise --format json`, and crates/page's own facts.
// All lengths are in nanoseconds.

export interface Who {
  vm?: number;
  vm_name?: string;
  vcpu?: number;
  on_cpu?: number;
  tid?: number;
}

export interface Figures {
  count: number;
  timed: number;
  rate_per_s: number;
  total_ns: number;
  cost_ns: number;
  share_of_cost: number;
  kernel_ns: number;
  user_ns: number;
  idle_ns: number;
  waiting_ns: number;
  min_ns: number | null;
  mean_ns: number | null;
  p50_ns: number | null;
  p90_ns: number | null;
  p99_ns: number | null;
  p999_ns: number | null;
  max_ns: number | null;
  user_share: number;
}

export interface CoverageLine {
  id: string;
  severity: "info" | "notice" | "loss" | "error";
  count: number;
  first_at: number | null;
  text: string;
}

export interface Lengths {
  count: number;
  sum_ns: number;
  mean_ns: number | null;
  p50_ns: number | null;
  p90_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
}

export interface Trace {
  name: string;
  format: string;
  arch: string;
  hostname: string;
  release: string;
  clock: string;
  events: number;
}

export interface VcpuRow extends Who {
  span_ns: number;
  guest_ns: number;
  kernel_ns: number;
  user_ns: number;
  idle_ns: number;
  waiting_ns: number;
  unknown_ns: number;
  exits: number;
}

export interface Detail extends Figures {
  kind: string;
  key: number;
  name: string | null;
  direction: string | null;
}

export interface Slow extends Who {
  at_ns: number;
  cpu: number;
  reason: string;
  door: string;
  detail: string | null;
  total_ns: number;
  kernel_ns: number;
  user_ns: number;
  idle_ns: number;
  waiting_ns: number;
  lane: number;
  reason_at: number;
  after_ns: number;
}

export interface PioRow {
  kind: string;
  key: number;
  name: string | null;
  direction: string | null;
  outside: boolean;
  exits: number;
  string: boolean;
  plain: number;
  lengths: Lengths;
  kernel_ns: number;
  outside_ns: number;
  waiting_ns: number;
  saves_ns: number | null;
}

export interface Phase {
  reason: string | null;
  outside: boolean;
  exits: number;
  timed: number;
  reaching_ns: number;
  handling_ns: number;
  leaving_ns: number;
  user_ns: number;
  asleep_ns: number;
  entering_ns: number;
  idle_ns: number;
  waiting_ns: number;
}

export interface HaltRow extends Who {
  told: boolean;
  halts: number;
  caught: number | null;
  slept: number | null;
  gaps: Lengths;
  inexact_gaps: number;
  latency: Lengths;
  poll_hit_ns: number;
  poll_miss_ns: number | null;
}

export interface YieldRow extends Who {
  call: string | null;
  count: number;
  sibling_preempted: number;
  sibling_woken: number;
  nobody_waited: number;
  gave_target: number;
  gave_sibling: number;
  gave_other: number;
  kept: number;
  waited_ns: number;
  lasted: Lengths;
}

export interface PreemptedRow extends Who {
  preemptions: number;
  waits: Lengths;
  yielded_for: number;
  yields: number;
  blocked: Lengths;
}

export interface GangRow {
  vm: number | null;
  vm_name: string | null;
  vcpus: number[] | null;
  runs: number;
  ganged: number;
  exits: number;
  forced: number;
  lost: Lengths;
}

export interface Report {
  schema: string;
  traces: Trace[];
  coverage: { events: number; exits: number; timed_exits: number; lost: number; lines: CoverageLine[] };
  /** What the traces tell at all. */
  told: { user: boolean; scheduler: boolean };
  selection: { vms: number[]; vcpus: number[]; reasons: string[]; longer_than_ns?: number };
  duration_ns: number;
  vcpus: VcpuRow[];
  total: Figures;
  rows: (Figures & { reason?: string })[];
  details: Detail[];
  slowest: Slow[];
  gang: { vms: GangRow[]; vcores: GangRow[]; causes: { vm: number | null; vcpu: number; reason: string; runs: number; forced: number; lost_ns: number }[] } | null;
  halt: { all: HaltRow; vcpus: HaltRow[]; settings: { vm: number; halt_poll_taken_ns: number; halt_poll_ns: number | null }[]; guest_polls: boolean; of_vcores: boolean } | null;
  pio: { rows: PioRow[]; servers_told: boolean; xen: boolean } | null;
  phases: { rows: Phase[]; removable: { change: string; exits: number; removes_ns: number | null; rule: string }[]; xen: boolean } | null;
  yield: { vcpus: YieldRow[]; preempted: PreemptedRow[]; queue: { span_ns: number; time_ns: number[]; mean: number; most: number } | null } | null;
}

export interface AdviceSetting {
  kind: string;
  side: string | null;
  name: string | null;
  file: string | null;
  writable: boolean;
  value: string;
  within: string | null;
  text: string;
}

export interface Advice {
  facts: { number: number; scope: string; vm: number | null; vm_name: string | null; topic: string; what: string; value: number; unit: string; text: string }[];
  advice: {
    number: number;
    id: string;
    scope: string;
    vm: number | null;
    vm_name: string | null;
    scope_text: string;
    change: string;
    settings: AdviceSetting[];
    gain: { of: string; of_text: string; low_ns_per_s: number; high_ns_per_s: number; how: string; source: string };
    evidence: number[];
    risk: string;
    payer: string;
    undo: string;
    acts: string;
  }[];
  left_alone: { why: string; evidence: number[] }[];
  not_judged: { what: string; missing: string; record: string }[];
  /** What takes more than 5 % of the cost of its VM's exits, or 1 % of its vCPUs' time. */
  causes: AdvisedCause[];
}

export interface AdvisedCause {
  vm: number | null;
  vm_name: string | null;
  of: "exits" | "steal" | "forced_out";
  reason: string | null;
  subject: string | null;
  about: { id: string; kind: string; key: number; text: string } | null;
  exits: number;
  time_ns: number;
  share_of_cost: number | null;
  share_of_time: number;
  verdict: "can_be_changed" | "inherent" | "not_judged";
  advice: number[];
  why: string | null;
  text: string;
}

export interface PollRow {
  value_ns: number | null;
  halts: number;
  caught: number;
  polling_ns: number;
  missed_ns: number;
  latency: Lengths;
}

export interface Polls {
  replayed: number;
  halts: number;
  gaps: [number, number, number, number][];
  inexact: number;
  in_force: PollRow;
  host: PollRow[];
  guest: PollRow[];
}

export interface Lane extends Who {
  vm_label: string;
  vcpu_label: string;
  first_ns: number | null;
  last_ns: number | null;
}

export interface TableHead {
  name: string;
  width_ns: number;
  rows: number;
  columns: string[];
}

export interface Over {
  base_ns: string;
  in_time: boolean;
  lanes: Lane[];
  reasons: string[];
  abouts: { kind: string; heading: string; key: number; direction: string | null; label: string; text: string }[];
  tables: TableHead[];
  slow: Slow[];
  named: { vm: string; from: string; to: number; count: number }[];
}

/** Who forced whom out of the guest, when; columns of equal length. */
export interface Drags {
  width_ns: number;
  base_ns: string;
  triples: { vm: number | null; vcpu: number | null; cause: number | null; reason: string | null }[];
  /** Less that of the row before. */
  bucket: number[];
  triple: number[];
  forced: number[];
  lost: number[];
}

export interface Page {
  schema: string;
  version: string;
  kind: "report";
  report: Report;
  left_out: number;
  advice: Advice | null;
  polls: Polls | null;
  over: Over;
  drags: Drags | null;
}

export interface Change {
  measure: string;
  before: number | null;
  after: number | null;
  low: number | null;
  high: number | null;
  verdict: "more" | "less" | "unclear" | "too few";
}

export interface Compared {
  reason: string | null;
  without?: string[];
  count_before: number;
  count_after: number;
  changes: Change[];
}

export interface Side {
  traces: Trace[];
  events: number;
  exits: number;
  lost: number;
  duration_ns: number;
  lines: CoverageLine[];
}

export interface Comparison {
  confidence_percent: number;
  selection: Report["selection"];
  before: Side;
  after: Side;
  rows: Compared[];
  rows_left_out: number;
}

export interface SideLengths {
  reason: string | null;
  /** Shortest length of a bucket, exits before, exits after. */
  counts: [number, number, number][];
}

export interface SweepMetric {
  name: string;
  unit: string;
  higher_is_better: boolean | null;
}

export type SweepRow = { replicates: number; best: boolean; pareto: boolean; error: string | null } & Record<string, number | string | null | boolean>;

export interface Sweep {
  scenario: { file: string; name: string; about: string; set: string[]; seed: number; warmup_ns: number; duration_ns: number; arch: string; sockets: number; cores: number; threads: number; vms: number; vcpus: number };
  replicates: number;
  confidence_percent: number;
  vary: { key: string; column: string; values: string[] }[];
  metrics: SweepMetric[];
  rows: SweepRow[];
}

export interface LabFigure {
  name: string;
  unit: string;
  value: number;
  low: number | null;
  high: number | null;
  p5: number | null;
  p95: number | null;
  samples: number | null;
  outliers: number | null;
  rounds: number[];
}

export interface LabTable {
  title: string;
  labels: string[];
  rows: { labels: string[]; figures: LabFigure[]; cannot: string | null }[];
}

export interface LabRun {
  experiment: string;
  about: string;
  manifest: { back_end: string; emulates_ring_0: boolean; vendor: string; kernel: string; tsc_hz: number; cpus: number; pinned: boolean; rounds: number; duration_ns: number };
  summary: string[];
  warnings: string[];
  tables: LabTable[];
}

export interface Shape {
  arch: string;
  cpu: string;
  vcpus: number;
}

export interface FleetSide {
  hosts: number;
  recordings: number;
  vcpu_ns: number;
}

export interface FleetComparison {
  value: string;
  shape: Shape;
  before: FleetSide;
  after: FleetSide;
  /** Whether a side has too few hosts for any verdict. */
  too_few: boolean;
  rows: Compared[];
  rows_left_out: number;
}

export interface Outlier {
  host: string;
  shape: Shape;
  hosts: number;
  cost_ns_per_s: number;
  median_ns_per_s: number;
  score: number;
  reason: string;
  reason_ns_per_s: number;
  reason_median_ns_per_s: number;
}

export interface FleetAdvice {
  change: string;
  hosts: number;
  of: string;
  low_ns_per_s: number;
  high_ns_per_s: number;
  how: string;
}

export interface Fleet {
  recordings: number;
  hosts: number;
  first_day: string;
  last_day: string;
  exits: number;
  lost: number;
  left_out: { path: string; why: string }[];
  by: "kernel" | "host" | "week" | "day";
  against: string | null;
  confidence_percent: number;
  comparisons: FleetComparison[];
  not_compared: string[];
  outliers: Outlier[];
  advice: FleetAdvice[];
}

/** Pages that are not of a report. */
export type Other = { version: string } & (
  | { kind: "diff"; diff: Comparison; lengths: SideLengths[] }
  | { kind: "sweep"; sweep: Sweep }
  | { kind: "lab"; lab: LabRun }
  | { kind: "fleet"; fleet: Fleet }
);
