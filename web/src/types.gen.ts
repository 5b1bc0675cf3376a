// Made of docs/page.schema.json by `npm run types`.

/**
 * What the front end is given as JSON. Lengths are in nanoseconds.
 */
export type PageData = (ReportPage | ResultPage) & {
  /**
   * What parts of time, reasons and phases are filled with.
   */
  palette: Palette;
  /**
   * Name and version of this layout.
   */
  schema: string;
  /**
   * The version of exitscope that made the page.
   */
  version: string;
};
/**
 * A moment as it was given.
 */
export type MomentSpecRow =
  | {
      at_ns: number;
    }
  | {
      after_first_ns: number;
    };
/**
 * What such a page shows.
 */
export type ResultPage =
  | {
      /**
       * What changed.
       */
      diff: Comparison;
      kind: "diff";
      /**
       * How long exits took on both sides; all together first, then by reason, as in the comparison.
       */
      lengths: SideLengths[];
    }
  | {
      kind: "sweep";
      /**
       * What they gave.
       */
      sweep: Sweep;
    }
  | {
      kind: "lab";
      /**
       * What it found.
       */
      lab: LabReport;
    }
  | {
      /**
       * What differs within it.
       */
      fleet: Fleet;
      kind: "fleet";
    }
  | {
      kind: "trial";
      /**
       * What they found, the oldest first.
       */
      trials: TrialReport[];
    };
/**
 * The unit of a figure.
 */
export type FigureUnit = "ns" | "cycles" | "1/s" | "share" | "count";
/**
 * By what a fleet is compared.
 */
export type FleetBy = "kernel" | "host" | "week" | "day";

/**
 * A report, and what of it is shown over time.
 */
export interface ReportPage {
  advice: AdviceReport | null;
  forced_out: ForcedOutColumns | null;
  kind: "report";
  /**
   * How many of the report's `details` a page does not hold.
   */
  left_out: number;
  /**
   * The report as plain text, as `report --mail` prints it.
   */
  mail: string;
  polls: PollLimitTable | null;
  report: Report;
  timelines: OverTimeHead;
}
/**
 * What a recording says would win time back, and why.
 */
export interface AdviceReport {
  /**
   * What costs, and is to be left as it is.
   */
  accepted_costs: AcceptedCostRow[];
  /**
   * Advice, what wins most first.
   */
  advice: AdviceRow[];
  /**
   * What takes more than 5 % of the cost of its VM's exits, or 1 % of its vCPUs' time: costliest first, VM by VM.
   */
  causes: AdvisedCauseRow[];
  /**
   * Where halts contradict the rate of the clock that was given by hand; left out where they do not.
   */
  clock?: ClockRow;
  /**
   * What was seen and not used.
   */
  coverage: CoverageLine[];
  /**
   * How much exits and waiting take at most, where the recording shows all of it and it is little, and what else may slow the guest;
   * absent otherwise.
   */
  exit_bound?: ExitBoundRow;
  /**
   * Number of exits in the recording.
   */
  exits: number;
  /**
   * What the recording says, as far as advice is made of it.
   */
  facts: CitedFactRow[];
  /**
   * What could not be judged, for what the recording lacks.
   */
  not_judged: NotJudgedRow[];
  /**
   * Name and version of this layout. Fields may be added within a version; none changes its meaning.
   */
  schema: string;
  /**
   * Those of the vCPUs and moments that are selected.
   */
  selected_exits: number;
  /**
   * The selection by which exits were looked at.
   */
  selection: SelectionRow;
  /**
   * The recording that was read.
   */
  trace: TraceRow;
}
/**
 * Something that costs, and is to be left as it is.
 */
export interface AcceptedCostRow {
  /**
   * The numbers of the facts that show it.
   */
  evidence: number[];
  /**
   * `vm` or `host`: about whom it is.
   */
  scope: string;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm: number | null;
  /**
   * What costs, and why it is to be left as it is.
   */
  why: string;
}
/**
 * An advice.
 */
export interface AdviceRow {
  /**
   * The change, in a sentence.
   */
  change: string;
  /**
   * The numbers of the facts that say so.
   */
  evidence: number[];
  /**
   * The expected gain, with its range and how it was got.
   */
  gain: GainRow;
  /**
   * Its id, the only one of the recording: the same as long as the same is advised, whatever its figures.
   */
  id: string;
  /**
   * The number of better advice to the same end: whoever follows both does not win both.
   */
  instead_of?: number;
  /**
   * Its number, from 1 on.
   */
  number: number;
  /**
   * What can go wrong with the change.
   */
  risk: string;
  /**
   * What is advised.
   */
  rule:
    | "cure"
    | "doorbell"
    | "replace_device"
    | "steal"
    | "newer_xen"
    | "host_halt_poll"
    | "guest_halt_poll"
    | "no_guest_halt_poll"
    | "idle_states"
    | "virtual_cores"
    | "lock_holders"
    | "spin_longer"
    | "split_locks";
  /**
   * The number of better advice that is the same change, for other exits: whoever follows it wins both.
   */
  same_as?: number;
  /**
   * `vm` or `host`: for whom it is.
   */
  scope: string;
  /**
   * For whom it is, for a person: `VM qemu-system-x86 121`, or `the host`.
   */
  scope_text: string;
  /**
   * How exactly: alternatives and what belongs together, in the order in which to think of them.
   */
  settings: AdviceSettingRow[];
  /**
   * What it is about; absent where that is no single thing that exits are about.
   */
  subject: AdviceSubjectRow | null;
  /**
   * When the change takes effect.
   */
  takes_effect: string;
  /**
   * The change as a short imperative, without its conditions.
   */
  title: string;
  /**
   * How to undo the change.
   */
  undo: string;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm: number | null;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name: string | null;
  /**
   * Who has a disadvantage from the change.
   */
  who_pays: string;
}
/**
 * What a change is expected to win.
 */
export interface GainRow {
  /**
   * What is said first: what the change usually wins where it does what it is made for, in each second in which the vCPUs concerned
   * were seen, all of them together. Advice is ranked by the middle between it and what is won at least.
   */
  headline_ns_per_s: number;
  /**
   * The headline as a part of the time of the VM's vCPUs, from each one's first event to its last; of all vCPUs' in advice for
   * the host. Absent of `host_cpu`, and where nothing says which vCPUs there are.
   */
  headline_share: number | null;
  /**
   * Whether waits for a CPU may be in that, as nothing in the recording tells them apart.
   */
  high_may_wait: boolean;
  /**
   * Upper bound of the gain, in nanoseconds per second, of the same vCPUs.
   */
  high_ns_per_s: number;
  /**
   * The upper bound as a share of the same time; absent where `headline_share` is.
   */
  high_share: number | null;
  /**
   * Of what: `exits` (time of vCPUs that goes into exits), `wake_ups` (time from a wake-up to the entry), `host_cpu`,
   * `steal` (runnable, without a CPU), `yields` (their CPU time, and waiting for a CPU meanwhile) or `forced_out` (lost to
   * other threads' exits).
   */
  kind: string;
  /**
   * Lower bound of the gain, in nanoseconds per second, of the same vCPUs.
   */
  low_ns_per_s: number;
  /**
   * The lower bound as a share of the same time; absent where `headline_share` is.
   */
  low_share: number | null;
  /**
   * How it was found out: `replayed`, `counted`, `simulated` or `published`.
   */
  method: string;
  /**
   * The headline alone: `about 2.9%` or `up to 2.7%`, of vCPU time; `0.11 CPUs`.
   */
  range_text: string;
  /**
   * The policy that was replayed, what was counted, what the simulator said of what, or the publication.
   */
  source: string;
  /**
   * All of it for a person, but for how it was found out.
   */
  text: string;
}
/**
 * A single thing to set.
 */
export interface AdviceSettingRow {
  /**
   * Where alone it is to be set, as the recording does not say: `for a Linux guest`, `for a Windows guest`, `once the guest keeps time
   * with another clock`; absent where it always is.
   */
  condition?: string;
  /**
   * Of a knob, its file.
   */
  file: string | null;
  /**
   * `knob`, `module`, `libvirt`, `qemu`, `boot` or `by_hand`.
   */
  kind: string;
  /**
   * Of a knob or a module, its name.
   */
  name: string | null;
  /**
   * Whose system it is of: `host` or `guest`; absent where the VM's configuration is changed.
   */
  side: string | null;
  /**
   * For a person, in one line.
   */
  text: string;
  /**
   * What to set it to, in the kernel's, libvirt's or QEMU's spelling, or what to do.
   */
  value: string;
  /**
   * Of libvirt, the elements below `<domain>` that it is in, with slashes between.
   */
  within: string | null;
  /**
   * Of a knob, whether writing the file changes it on a running system; otherwise only loading the module does.
   */
  writable: boolean;
}
/**
 * A port, a page, a register, a call, a leaf; or a device or a group of registers that rules have a name for.
 */
export interface AdviceSubjectRow {
  /**
   * Its id: the same for the same thing in every recording.
   */
  id: string;
  /**
   * Port, first address of the page, MSR, hypercall number, CPUID leaf, …; of a device or a group of registers, that of the
   * costliest; absent where none tells these exits apart.
   */
  key?: number;
  /**
   * What kind of thing it is, as in the details of a report: `port`, `mmio`, `msr`, `cpuid`, `hypercall`, …; `exits` where
   * their reason tells them apart, or their reason and what happened.
   */
  kind: string;
  /**
   * Its name, as text and page show it.
   */
  text: string;
}
/**
 * Something that weighs, and what is said of it. Not judged is not "nothing to do": no rule looks at it.
 */
export interface AdvisedCauseRow {
  /**
   * The numbers of the advice that changes it; none where too little is to be won for one.
   */
  advice: number[];
  /**
   * In a table: the number of the advice that changes it, and what that wins of it; or the verdict. Empty if no rule looked at the
   * recording.
   */
  brief: string;
  /**
   * Number of exits; 0 of other kinds than `exits`.
   */
  exits: number;
  /**
   * `exits`, `steal` (runnable, without a CPU), `forced_out` (out of the guest because another thread of the core had to
   * leave), `polling` (of the host's, for halted vCPUs), `halt_not_divided` (a halt of which nothing says how long it polled,
   * was halted and waited) or `unknown`.
   */
  kind: "exits" | "steal" | "forced_out" | "polling" | "halt_not_divided" | "unknown";
  /**
   * Of exits, the median of their lengths; null of halts, which are as long as the guest halts.
   */
  p50_ns: number | null;
  /**
   * The length that one of a hundred passes.
   */
  p99_ns: number | null;
  /**
   * The exit reason, as in a report; absent of other kinds than `exits`.
   */
  reason: string | null;
  /**
   * Of exits, part of the cost of all exits of the VM.
   */
  share_of_cost: number | null;
  /**
   * Part of the time of the VM's vCPUs.
   */
  share_of_time: number;
  /**
   * The exits' subject; absent where nothing tells their subjects apart.
   */
  subject: AdviceSubjectRow | null;
  /**
   * What is said of it, in a sentence.
   */
  text: string;
  /**
   * What they cost, in the kernel and in user space; of steal and the like, how long.
   */
  time_ns: number;
  /**
   * `can_be_changed`, `inherent`, `not_recorded` (the recording lacks what would tell) or `not_judged`.
   */
  verdict: "can_be_changed" | "inherent" | "not_recorded" | "not_judged";
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm: number | null;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name: string | null;
  /**
   * Why, or what would change it where there is no advice; absent where there is.
   */
  why: string | null;
}
/**
 * Halts of more than 1 ms that are not as long on the trace's clock as `kvm_vcpu_wakeup` says.
 */
export interface ClockRow {
  /**
   * Ticks of the clock in a second, at most, as no halt is longer than the time from its exit to its end; to within the 0.05 % by
   * which NTP may slew the host's own clock.
   */
  at_most_hz: number;
  /**
   * Halts that were compared.
   */
  compared: number;
  /**
   * Those that are more than 2 % too short, or too long even with 50 us from the exit until KVM begins the halt.
   */
  mismatched: number;
}
/**
 * Something that was seen and not used.
 */
export interface CoverageLine {
  /**
   * Events, exits, vCPUs or files, as the line says.
   */
  count: number;
  /**
   * Where the first was met: byte offset, or line number for text traces.
   */
  first_at: number | null;
  /**
   * What it is, as docs/losses.md lists it.
   */
  id: string;
  /**
   * When the first few were, in nanoseconds on the trace's clock; empty where that is not kept.
   */
  moments_ns: number[];
  /**
   * `info`, `notice`, `loss` or `error`.
   */
  severity: "info" | "notice" | "loss" | "error";
  /**
   * One sentence.
   */
  text: string;
}
/**
 * How much of the vCPUs' time exits and waiting take at most, where that is little and all of it is recorded.
 */
export interface ExitBoundRow {
  /**
   * Exits and waiting, as a part (0 to 1) of the vCPUs' time without halts. What is unknown counts as theirs.
   */
  at_most: number;
  /**
   * What they halted, as a part (0 to 1) of all their time.
   */
  halted: number;
  /**
   * What an exit hides: `measured` by `lab exits` (`--hidden`), or as `published` of x86.
   */
  hidden: "measured" | "published";
  /**
   * What else may slow the guest: not judged, and in no order.
   */
  not_judged: GuestCheckRow[];
  /**
   * In a sentence.
   */
  text: string;
  /**
   * The same, with what exits hide around their tracepoints.
   */
  with_hidden: number;
}
/**
 * Something that may slow a guest, and that no recording of its host judges.
 */
export interface GuestCheckRow {
  /**
   * What shows it: commands between backquotes.
   */
  check: string;
  /**
   * What it is.
   */
  what: string;
}
/**
 * A fact.
 */
export interface CitedFactRow {
  /**
   * Its number, from 1 on.
   */
  number: number;
  /**
   * `vm`, or `host`: of the host, or of all VMs together.
   */
  scope: string;
  /**
   * How much, for a person.
   */
  text: string;
  /**
   * Where in a report it can be seen: the id of a page's section.
   */
  topic: "devices" | "phases" | "halts" | "yields" | "gangs" | "timeline";
  /**
   * Of what: `count`, `per_s`, `ns`, `share` (0 to 1), `cpus`, or `value`: a number that the guest wrote.
   */
  unit: string;
  /**
   * The value, in `unit`.
   */
  value: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm: number | null;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name: string | null;
  /**
   * What the value is of, in words.
   */
  what: string;
}
/**
 * What could not be judged.
 */
export interface NotJudgedRow {
  /**
   * Why: what the recording does not have.
   */
  missing: string;
  /**
   * How to record it: commands between backquotes. Absent where no recording of such a machine has it.
   */
  record: string | null;
  /**
   * What could not be judged.
   */
  what: string;
}
/**
 * Which exits were looked at; an empty list or an absent field leaves nothing out.
 */
export interface SelectionRow {
  /**
   * Not before.
   */
  from?: MomentSpecRow;
  /**
   * Only exits longer than this, whatever they hold.
   */
  longer_than_ns?: number;
  /**
   * Exit reasons, as they were given.
   */
  reasons: string[];
  /**
   * Not after.
   */
  to?: MomentSpecRow;
  /**
   * The numbers of the vCPUs (`--vcpu`).
   */
  vcpus: number[];
  /**
   * The process ids of the VMs (`--vm`); on Xen their domains' numbers.
   */
  vms: number[];
  /**
   * Only exits of which this condition holds.
   */
  where?: string;
}
/**
 * A trace that was read.
 */
export interface TraceRow {
  /**
   * Machine architecture, as `uname -m` says it; where the trace does not say it, what that begins with, as the exits show;
   * empty if unknown.
   */
  arch: string;
  /**
   * The clock's name; empty if unknown.
   */
  clock: string;
  /**
   * The CPU's model; empty if unknown.
   */
  cpu: string;
  /**
   * CPUs of the machine; 0 if unknown.
   */
  cpus: number;
  /**
   * Number of events that were read.
   */
  events: number;
  /**
   * The moment of the first event, in nanoseconds on the trace's clock.
   */
  first_ns: number;
  /**
   * The format of the file, such as `perf.data`.
   */
  format: string;
  /**
   * Ticks of the clock in a second, where they were given by hand (`--tsc-hz`); left out where the trace says them, or needs none.
   */
  given_hz?: number;
  /**
   * Host name; empty if unknown.
   */
  hostname: string;
  /**
   * The moment of the last event, in nanoseconds on the trace's clock.
   */
  last_ns: number;
  /**
   * The file, as it was given; `-` is standard input.
   */
  name: string;
  /**
   * Kernel release; empty if unknown.
   */
  release: string;
  /**
   * What was in force on the machine, and what the recorder says of itself; empty unless the recorder says.
   */
  settings: HostSettingRow[];
  /**
   * What the VMs are called by those who run them, as the recorder found them when it began; left out unless it says.
   */
  vms?: VmIdentityRow[];
}
/**
 * What was in force on the recorded machine.
 */
export interface HostSettingRow {
  /**
   * The kernel module, `host`, or `exitscope` for what the recorder says of itself.
   */
  component: string;
  /**
   * Its name, the kernel's where the kernel has one.
   */
  name: string;
  /**
   * What it was, in the kernel's spelling.
   */
  value: string;
}
/**
 * Who a VM is. A part that the recorder could not read is absent; docs/identity.md says where each is read.
 */
export interface VmIdentityRow {
  /**
   * The name that an OpenStack user gave it.
   */
  display_name?: string;
  /**
   * Its process id in the PID namespace of its own.
   */
  inner_pid?: string;
  /**
   * Who started the VM: `libvirt`, `proxmox`, `kubevirt`, `kata`, `kubernetes` (another VMM in a pod), or the VMM itself: `qemu`,
   * `firecracker`, `cloud-hypervisor`, `crosvm`.
   */
  manager?: string;
  /**
   * Its name: libvirt's domain, QEMU's `-name`, Firecracker's id; under Kata `NAMESPACE/POD`.
   */
  name?: string;
  /**
   * The namespace of its pod.
   */
  namespace?: string;
  /**
   * Its pod.
   */
  pod?: string;
  /**
   * The UID of its pod.
   */
  pod_uid?: string;
  /**
   * Where each of these parts was read.
   */
  sources: {
    [k: string]: string;
  };
  /**
   * Its UUID.
   */
  uuid?: string;
  /**
   * The VM's process id.
   */
  vm: number;
  /**
   * KubeVirt's VirtualMachineInstance.
   */
  vmi?: string;
  /**
   * Proxmox' number.
   */
  vmid?: string;
  /**
   * VMs of KVM that its process had when the recording began.
   */
  vms_of_process?: string;
}
/**
 * It as JSON; columns of equal length.
 */
export interface ForcedOutColumns {
  /**
   * The moment that buckets are counted from, on the trace's clock. As text, for it may be more than a double holds.
   */
  base_ns: string;
  /**
   * Of each row: its bucket, less that of the row before.
   */
  bucket: number[];
  /**
   * How often. Where several had a reason, once for each.
   */
  forced: number[];
  /**
   * Every vCPU that was forced out with who forced it; the last one, without a VM, stands for all further.
   */
  forced_pairs: TripleRow[];
  /**
   * Time from being forced out to the next entry, in nanoseconds; shared where several had a reason.
   */
  lost: number[];
  /**
   * The number of its triple.
   */
  triple: number[];
  /**
   * The width of a bucket of time.
   */
  width_ns: number;
}
/**
 * A vCPU that was forced out, and who forced it.
 */
export interface TripleRow {
  cause: number | null;
  reason: string | null;
  vcpu: number | null;
  vm: number | null;
}
/**
 * Halt polling with other limits.
 */
export interface PollLimitTable {
  /**
   * Gaps by length: shortest, width of the bucket, how many were caught, and how many not.
   */
  gaps: [number, number, number, number][];
  /**
   * The guest's with each limit; none on powerpc, whose guests have no such governor.
   */
  guest: PollRow[];
  halts: number;
  /**
   * The host's with each limit.
   */
  host: PollRow[];
  /**
   * The host's polling with the settings that were in force.
   */
  in_force: PollRow;
  /**
   * Halts whose gap is not known exactly.
   */
  inexact: number;
  /**
   * Halts that were replayed: the last ones, of so many that there were.
   */
  replayed: number;
}
/**
 * What one limit would have made of the halts.
 */
export interface PollRow {
  caught: number;
  halts: number;
  latency: DurationStatsRow;
  missed_ns: number;
  polling_ns: number;
  value_ns: number | null;
}
/**
 * Lengths of time of one kind.
 */
export interface DurationStatsRow {
  /**
   * Number of lengths of time.
   */
  count: number;
  /**
   * Longest, in nanoseconds; absent if there is none.
   */
  max_ns: number | null;
  /**
   * Mean length in nanoseconds; absent if there is none.
   */
  mean_ns: number | null;
  /**
   * Median; exact of up to 32, else to within 1/32 of its value, as all percentiles.
   */
  p50_ns: number | null;
  /**
   * 90th percentile.
   */
  p90_ns: number | null;
  /**
   * 99th percentile.
   */
  p99_ns: number | null;
  /**
   * Sum of these lengths, in nanoseconds.
   */
  sum_ns: number;
}
/**
 * Where the time of VM exits went. All lengths are in nanoseconds, all moments in nanoseconds on the trace's clock.
 */
export interface Report {
  /**
   * Thresholds of --fail-on that were passed.
   */
  breaches: BreachRow[];
  /**
   * The dimensions of `rows`.
   */
  by: string[];
  /**
   * What takes more than 5 % of the cost of all exits, or 1 % of the vCPUs' time, of all VMs together: reason and subject, costliest
   * first; and what rules say of it, if any looked at the recording.
   */
  causes: AdvisedCauseRow[];
  /**
   * What was seen, and what was seen and not used.
   */
  coverage: Coverage;
  /**
   * Time from the first to the last event, within --from and --to, summed over the traces.
   */
  duration_ns: number;
  /**
   * Which kinds of events the recordings have.
   */
  event_kinds: EventKindsRow;
  /**
   * The reasons at which vCPUs halt: how long they do says nothing of how long exits take.
   */
  exit_times_without: string[];
  /**
   * Ganged exits; not narrowed to vCPUs, reasons or lengths. Absent unless the host is a powerpc.
   */
  gang: GangRows | null;
  /**
   * Halts; not narrowed to reasons or lengths. Absent if there are none.
   */
  halt: HaltRows | null;
  /**
   * What of the guests' time no tracepoint sees, at most. Absent without --hidden.
   */
  hidden?: HiddenTime;
  /**
   * Polls of idle CPUs by the events of the kernel that recorded, as of a guest; narrowed to moments alone. Left out if there are none, and of
   * recordings of exits without changes of a guest's limit: CPUs of hosts poll, too.
   */
  idle_polls?: IdlePollRows;
  /**
   * Interrupts injected at the entries that ended exits.
   */
  injected: InjectedRow[];
  /**
   * What inhibits APICv and AVIC, and exits for the local APIC; not narrowed to reasons or lengths. Absent if there is neither.
   */
  interrupts: InterruptRows | null;
  /**
   * The steps of exits. Absent if no exit is timed.
   */
  phases: PhaseRows | null;
  /**
   * Accesses to ports and to emulated memory. Absent if there are none.
   */
  pio: PioRows | null;
  /**
   * Exits grouped by `by`, in the order of --sort. A last row without any of those fields stands for all groups
   * beyond those that are kept.
   */
  rows: GroupRow[];
  /**
   * Rows left out by --top.
   */
  rows_left_out: number;
  /**
   * How long Xen's scheduler had each virtual CPU in each run state; empty for traces of others.
   */
  run_states: RunStatesRow[];
  /**
   * Name and version of this layout. Fields may be added within a version; none changes its meaning.
   */
  schema: string;
  /**
   * Which exits were looked at.
   */
  selection: SelectionRow;
  /**
   * Events that show what KVM does beside exits; not narrowed to vCPUs, reasons or lengths. What was not recorded is not here.
   */
  signs: SignRow[];
  /**
   * The slowest single exits, by cost and steal.
   */
  slowest: SlowExitRow[];
  /**
   * Who had the CPUs for which vCPUs waited, by VM; empty without steal, and where no sched_switch says who has a CPU.
   */
  steal_takers: StealTakerRow[];
  /**
   * What exits were about, by kind and number, most costly first; not those of nested guests.
   */
  subjects: SubjectRow[];
  /**
   * Exits over time, for one trace.
   */
  timeline: TimelineRows | null;
  /**
   * All selected exits together; lengths (`min_ns` to `max_ns`) are of those that are not of `total_without`.
   */
  total: ExitFigures;
  /**
   * The recordings that were read.
   */
  traces: TraceRow[];
  /**
   * Exits that have no place along one of the dimensions (with `port`: all that are not about a port).
   */
  ungrouped_exits: number;
  /**
   * How the wall time of each virtual CPU divides.
   */
  vcpus: VcpuRow[];
  /**
   * Where the time goes, in a sentence, and how sure that is.
   */
  verdict: VerdictRow;
  /**
   * Yields, preemptions and the run queue; not narrowed to reasons or lengths. Absent if there are none.
   */
  yield: YieldRows | null;
}
/**
 * A threshold that was passed.
 */
export interface BreachRow {
  /**
   * The value that was found, in words.
   */
  found: string;
  /**
   * As it was given to --fail-on.
   */
  threshold: string;
}
/**
 * What was seen, and what was seen and not used.
 */
export interface Coverage {
  /**
   * Number of events that were read.
   */
  events: number;
  /**
   * Number of exits that these events make up.
   */
  exits: number;
  /**
   * Everything that was seen and not used.
   */
  lines: CoverageLine[];
  /**
   * Records that were lost, as the recorder and the kernel's own counts say; null if a recording does not say whether any
   * was, and no other lost one.
   */
  lost: number | null;
  /**
   * Exits of which both ends were seen, so that they have a length.
   */
  timed_exits: number;
  /**
   * Whether a part of a recording is missing, nobody knows how much: its recorder did not end in order, the file has less
   * than it says, or it does not unpack.
   */
  truncated: boolean;
}
/**
 * What the traces tell at all. Where one does not, figures of it are zero and mean nothing, and that time is in others.
 */
export interface EventKindsRow {
  /**
   * Whether that is all such time: on powerpc without sched_switch other tasks' is not, and without sched_wakeup what ends a sleep is
   * not. If not, the rest is counted as whatever they were doing.
   */
  all_steal: boolean;
  /**
   * When user space entered KVM_RUN again (kvm_fpu, sys_enter_ioctl; of Xen always). If not, the kernel's way from there into the
   * guest is counted as user space's.
   */
  kvm_run: boolean;
  /**
   * When vCPUs had no CPU (sched_switch; on Xen, run states; on powerpc, when other virtual cores had it). If not, that time is
   * counted as whatever they were doing.
   */
  scheduler: boolean;
  /**
   * Which exits went on to user space (kvm_userspace_exit), or to Xen's device model (run states). If not, the time there
   * is counted as the kernel's.
   */
  user_space: boolean;
}
/**
 * Ganged exits: threads of a virtual core that had to leave the guest because another did (POWER7 and POWER8).
 */
export interface GangRows {
  /**
   * Exits that forced others out, most forced first.
   */
  causes: ForcingExitsRow[];
  /**
   * Time from being forced out until at the latest, of those whose next entry was not recorded: until their next run began, or,
   * where somebody joined it, until they left it.
   */
  forced_out_at_most_ns: number;
  /**
   * Exits of powerpc guests. Without any run, every vCPU runs by itself: POWER9 and later.
   */
  guest_exits: number;
  /**
   * By process, what the script of 2015 prints.
   */
  script: GangScriptRow[];
  /**
   * Runs of which only one end was seen.
   */
  unpaired_runs: number;
  /**
   * By virtual core, as `--threads-per-core` makes them or as the runs show them.
   */
  vcores: GangRow[];
  /**
   * Core runs and exits by VM.
   */
  vms: GangRow[];
}
/**
 * Exits that forced others out.
 */
export interface ForcingExitsRow {
  /**
   * Exits that were forced in these runs; where several threads had a reason, each has them all.
   */
  forced_exits: number;
  /**
   * Time that those lost who were forced out, shared equally where several had a reason.
   */
  forced_out_ns: number;
  /**
   * The exit reason for which it had to leave.
   */
  reason: string;
  /**
   * Ganged runs in which it had it.
   */
  runs: number;
  /**
   * The vCPU that had to leave.
   */
  vcpu: number;
  /**
   * The VM's process id; absent if the trace does not say.
   */
  vm: number | null;
}
/**
 * What the script of 2015 prints of one process.
 */
export interface GangScriptRow {
  /**
   * Runs at whose end more than one vCPU was runnable, less those that ceded since a thread of the process last began one.
   */
  ganged_exits: number;
  /**
   * The process that ran virtual cores; absent if the trace does not say.
   */
  process: number | null;
}
/**
 * The core runs of one VM or of one virtual core (powerpc).
 */
export interface GangRow {
  /**
   * CPUs that recorded the runs: of a core, its first thread.
   */
  cpus: number[];
  /**
   * Of these, runs that ended for all of them with the hypervisor decrementer: nobody forced anybody.
   */
  decrementer: number;
  /**
   * Threads that did not get into the guest, because others were leaving already.
   */
  entry_refused: number;
  /**
   * Exits of threads that had not ceded.
   */
  exits: number;
  /**
   * Exits that were forced: the thread had no reason of its own.
   */
  forced_exits: number;
  /**
   * From being forced out to the next entry, other VMs' turns on the core included; needs kvm_guest_enter.
   */
  forced_out: DurationStatsRow;
  /**
   * Of these, the others: one thread's exit took the rest along.
   */
  ganged: number;
  /**
   * Runs that the rule of the script of 2015 counts: more than one vCPU runnable at the end, less those that ceded.
   */
  ganged_script: number;
  /**
   * vCPUs that joined a run under way.
   */
  joined: number;
  /**
   * Core runs of which both ends were seen.
   */
  runs: number;
  /**
   * Runs that at least two threads left that had not ceded.
   */
  runs_of_several: number;
  /**
   * The virtual core's vCPUs, as far as they were seen to run; absent of a VM.
   */
  vcpus: number[] | null;
  /**
   * The VM's process id; absent if the trace does not say.
   */
  vm: number | null;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name: string | null;
}
/**
 * What vCPUs do when they have nothing to do. A gap is from the exit with which a vCPU says so until something wakes
 * it; the wake-up latency is from there to its entry into the guest.
 */
export interface HaltRows {
  /**
   * Halts of all vCPUs together.
   */
  all: HaltRow;
  /**
   * Where halts contradict the rate of the clock that was given by hand; left out where they do not, or the trace says the rate.
   */
  clock?: ClockRow;
  /**
   * Gaps by length, all vCPUs together.
   */
  gaps: GapRow[];
  /**
   * Whether a guest switched the host's polling off (a write of 0 to MSR_KVM_POLL_CONTROL): it polls itself.
   */
  guest_polls: boolean;
  /**
   * Whether these are the halts of virtual cores (powerpc), each under the vCPU that ran it.
   */
  of_vcores: boolean;
  /**
   * What KVM's decisions show of the settings of its polling, by VM.
   */
  settings: PollSettingsRow[];
  /**
   * Halts by vCPU.
   */
  vcpus: HaltRow[];
}
/**
 * The halts of one vCPU, or of all.
 */
export interface HaltRow {
  /**
   * From the beginning of halts until the thread blocked: what polls that failed took at most; from scheduler events.
   */
  before_block_ns: number | null;
  /**
   * Halts whose thread blocked. Absent without `kvm_vcpu_wakeup`.
   */
  blocked: number | null;
  /**
   * Number of failed polls; absent without `kvm_halt_poll_ns`.
   */
  failed_polls: number | null;
  /**
   * Lengths of the gaps: from the exit until something woke the vCPU.
   */
  gaps: DurationStatsRow;
  /**
   * Times KVM made its poll longer, as far as it traced that.
   */
  grown: number;
  /**
   * Number of halts.
   */
  halts: number;
  /**
   * Whether `kvm_vcpu_wakeup` was recorded; if not, halts are the exits for one.
   */
  has_wakeup_events: boolean;
  /**
   * Halts that user space does (`KVM_EXIT_HLT`): KVM neither polls for them nor traces them.
   */
  in_user_space: number;
  /**
   * Gaps that include the way back to the CPU, because nothing says what woke the vCPU when.
   */
  inexact_gaps: number;
  /**
   * Wake-ups that nothing came of (s390).
   */
  invalid: number;
  /**
   * Halts that a sibling ended by `KVM_HC_KICK_CPU`: waits for a paravirtual spinlock.
   */
  kicked: number;
  /**
   * Wake-up latencies, of all halts whose gap is exact.
   */
  latency: DurationStatsRow;
  /**
   * Wake-up latencies of halts that blocked.
   */
  latency_blocked: DurationStatsRow;
  /**
   * Wake-up latencies of halts that ended before they blocked.
   */
  latency_not_blocked: DurationStatsRow;
  /**
   * Halts that ended before the vCPU's thread blocked, as in a successful poll. Absent without `kvm_vcpu_wakeup`.
   */
  not_blocked: number | null;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * Exits for a halt that found something pending, and did not halt.
   */
  pending: number;
  /**
   * CPU time of failed polls; absent without `kvm_halt_poll_ns`.
   */
  poll_fail_ns: number | null;
  /**
   * CPU time of successful polls.
   */
  poll_success_ns: number;
  /**
   * Times KVM made its poll shorter, as far as it traced that.
   */
  shrunk: number;
  /**
   * Successful polls: the vCPU's thread did not block.
   */
  successful_polls: number;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * Exits for a halt whose end a loss or the recording's end hides.
   */
  unfinished: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
}
/**
 * Gaps of about one length.
 */
export interface GapRow {
  /**
   * Gaps of halts whose thread blocked.
   */
  blocked: number;
  /**
   * Gaps of halts that ended before the thread blocked, as by a successful poll.
   */
  not_blocked: number;
  /**
   * The longest of them; absent for all that are longer than the row before.
   */
  up_to_ns: number | null;
}
/**
 * The settings of host halt polling that KVM's decisions show; what they do not show is absent.
 */
export interface PollSettingsRow {
  /**
   * Decisions that it is read off.
   */
  decisions: number;
  /**
   * The factor by which polls grow.
   */
  grow: number | null;
  /**
   * What polls of zero grow to.
   */
  grow_start_ns: number | null;
  /**
   * What replay takes for the longest poll: where it was not seen, the architecture's default if that is within the
   * bounds.
   */
  halt_poll_assumed_ns: number;
  /**
   * The longest poll is shorter than this.
   */
  halt_poll_less_than_ns: number | null;
  /**
   * The longest poll is longer than this.
   */
  halt_poll_more_than_ns: number;
  /**
   * The longest poll, where a poll was cut down to it.
   */
  halt_poll_ns: number | null;
  /**
   * The divisor by which polls shrink; 0: they are reset to zero.
   */
  shrink: number | null;
  /**
   * The VM's process id.
   */
  vm: number;
}
/**
 * What of the guests' time no tracepoint sees, at most: part of what is given as their time.
 */
export interface HiddenTime {
  /**
   * All exits together, each with the bound of its reason, in nanoseconds.
   */
  at_most_ns: number;
  /**
   * All guests' time, in nanoseconds.
   */
  guest_ns: number;
  /**
   * The exits by reason, those with the most hidden time first.
   */
  reasons: HiddenReason[];
  /**
   * `at_most_ns` as a share of `guest_ns`, 0 to 1.
   */
  share_of_guest: number;
  /**
   * What makes the bounds less sure.
   */
  warnings: string[];
}
/**
 * The exits of a reason.
 */
export interface HiddenReason {
  /**
   * The bound of each, in nanoseconds.
   */
  bound_ns: number;
  /**
   * Number of exits for this reason.
   */
  exits: number;
  /**
   * Whether it was measured for this reason; else it is the greatest that was measured for any.
   */
  measured: boolean;
  /**
   * The exit reason.
   */
  reason: string;
}
/**
 * Polls of idle CPUs, by the events of the kernel that recorded; CPUs of several recordings are one if their numbers are.
 */
export interface IdlePollRows {
  /**
   * All CPUs together.
   */
  all: IdlePollRow;
  /**
   * By CPU.
   */
  cpus: IdlePollRow[];
}
/**
 * Polls of one CPU. Figures of which the recording has no event are null: that may be as there were none, or as they were not recorded.
 */
export interface IdlePollRow {
  /**
   * The CPU: of a guest, the vCPU's number in the guest. Null for all together.
   */
  cpu: number | null;
  /**
   * Times that its limit grew (guest_halt_poll_ns).
   */
  limit_grown: number | null;
  /**
   * For how long it polls before it halts after the last change.
   */
  limit_ns: number | null;
  /**
   * Times that its limit shrank.
   */
  limit_shrunk: number | null;
  /**
   * The longest such limit, before or after a change.
   */
  longest_limit_ns: number | null;
  /**
   * Times that there was something to do for it while it polled, so that it was sent no interrupt (sched_wake_idle_without_ipi). Also a
   * CPU that idles by MWAIT polls.
   */
  woken_without_ipi: number | null;
}
/**
 * Interrupts injected with one vector.
 */
export interface InjectedRow {
  /**
   * How often an interrupt with this vector was injected.
   */
  count: number;
  /**
   * What it is called, where somebody said which Linux the guests are.
   */
  name?: string;
  /**
   * The interrupt's vector, as the guest sees it.
   */
  vector: number;
}
/**
 * For how long KVM kept the processor from virtualising VMs' APICs (APICv of VMX, AVIC of SVM), why, and which exits for the
 * local APIC there were meanwhile. KVM traces changes: before a VM's first, what was in force is known only as far as that one
 * tells.
 */
export interface InterruptRows {
  /**
   * Exits for MSRs that the recording does not name: some may be the APIC's.
   */
  unnamed_msrs: number;
  /**
   * The VMs with such events or exits.
   */
  vms: VmApicvRow[];
}
/**
 * One VM.
 */
export interface VmApicvRow {
  /**
   * Time in which no reason was in force, of that in which the VM was seen.
   */
  allowed_ns: number;
  /**
   * Events of `kvm_apicv_inhibit_changed`, also those that change nothing.
   */
  events: number;
  /**
   * Exits for the local APIC, by what they are for.
   */
  exits: ApicExitRow[];
  /**
   * Time in which a reason was in force, of that in which the VM was seen.
   */
  inhibited_ns: number;
  /**
   * The reasons, longest in force first.
   */
  inhibits: InhibitRow[];
  /**
   * VMs of which these events and exits are, at least: where they are of several, which one is inhibited is not known, and all
   * that rests on it is left out.
   */
  of_vms: number;
  /**
   * Time of which that is not known: before the first event.
   */
  unknown_ns: number;
  /**
   * The VM's process id; absent if the trace does not say.
   */
  vm: number | null;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name: string | null;
}
/**
 * Exits of one kind, by whether APICv or AVIC was inhibited when they began.
 */
export interface ApicExitRow {
  /**
   * Exits while it was not inhibited.
   */
  allowed: ApicExitSums;
  /**
   * Exits while APICv or AVIC was inhibited.
   */
  inhibited: ApicExitSums;
  /**
   * `eoi`, `task_priority`, `ipi`, `other_register`, `interrupt_window` or `host_interrupt`.
   */
  kind: string;
  /**
   * Exits while it is not known whether it was.
   */
  unknown: ApicExitSums;
  /**
   * What these exits are for, in words.
   */
  what: string;
}
/**
 * Exits in one state.
 */
export interface ApicExitSums {
  /**
   * What they cost; null if there are some and of none both ends were seen.
   */
  cost_ns: number | null;
  /**
   * Number of exits in this state.
   */
  count: number;
  /**
   * Exits per second of the state's time; null if there was none.
   */
  rate_per_s: number | null;
}
/**
 * One reason.
 */
export interface InhibitRow {
  /**
   * Whether it was at the end.
   */
  at_end: boolean;
  /**
   * Whether it concerns AVIC alone; null with `name`.
   */
  avic_alone: boolean | null;
  /**
   * What clears it; null with `name`.
   */
  cleared_by: string | null;
  /**
   * The vCPU in whose thread; null if it was in another of the VMM.
   */
  first_set_in: WhoRow | null;
  /**
   * When it was set first.
   */
  first_set_ns: number | null;
  /**
   * Whether it was from the beginning on.
   */
  from_begin: boolean;
  /**
   * How long it was in force.
   */
  in_force_ns: number;
  /**
   * The kernel's name, without `APICV_INHIBIT_REASON_`; null if kernels disagree and the trace does not say which it is of.
   */
  name: string | null;
  /**
   * The reason's number in the kernel's `enum kvm_apicv_inhibit` (arch/x86/include/asm/kvm_host.h) of the recorded kernel.
   */
  number: number;
  /**
   * What it is, for a person.
   */
  reason: string;
  /**
   * What sets it; null with `name`.
   */
  set_by: string | null;
  /**
   * How often it was set where it was not known to be in force.
   */
  sets: number;
}
/**
 * A virtual CPU.
 */
export interface WhoRow {
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
}
/**
 * How the cost of exits divides into steps, and what would take steps away.
 */
export interface PhaseRows {
  /**
   * Cycles of the processor per second, as `--tsc-hz` gives it; absent without it.
   */
  cycles_per_s: number | null;
  /**
   * All exits together that the kernel (or Xen) handled alone.
   */
  in_kernel: PhaseRow;
  /**
   * All exits together that user space handled (on Xen, the device model).
   */
  in_user_space: PhaseRow;
  /**
   * Changes that would avoid phases of these exits.
   */
  removable: RemovableRow[];
  /**
   * By reason and by whether they left the kernel (or Xen), most costly first; without reasons of which no exit is timed.
   */
  rows: PhaseRow[];
  /**
   * Whether the host is Xen.
   */
  xen: boolean;
}
/**
 * The steps of exits of one reason that went the same way; lengths are sums over the timed ones.
 */
export interface PhaseRow {
  /**
   * Exits for which the kernel emulated an instruction.
   */
  emulated: number;
  /**
   * Number of exits.
   */
  exits: number;
  /**
   * Time in the kernel's (or Xen's) handler.
   */
  handler_ns: number;
  /**
   * In halts: polling, halted and not divided; in no step.
   */
  in_halts_ns: number;
  /**
   * Whether they left the kernel, or Xen.
   */
  in_user_space: boolean;
  /**
   * The reason; absent for all together.
   */
  reason: string | null;
  /**
   * From the call of KVM_RUN until the entry.
   */
  reentry_ns: number;
  /**
   * Time in these ioctls, a part of `syscall_ns`.
   */
  register_ioctl_ns: number;
  /**
   * Of these, ioctls that read or write registers.
   */
  register_ioctls: number;
  /**
   * Runnable, without a CPU; in no step.
   */
  steal_ns: number;
  /**
   * Time in these; part of `user_space_ns` and `user_space_asleep_ns`.
   */
  syscall_ns: number;
  /**
   * System calls that user space made for them.
   */
  syscalls: number;
  /**
   * Exits of which both ends were seen.
   */
  timed: number;
  /**
   * Until the first event of the handler; of exits without one, the time is in `handler_ns`.
   */
  to_handler_ns: number;
  /**
   * From where KVM puts the guest's floating-point state aside until the system call returns; without events of system
   * calls only until kvm_userspace_exit.
   */
  to_user_space_ns: number;
  /**
   * In user space, asleep: the vCPU's thread waits for another.
   */
  user_space_asleep_ns: number;
  /**
   * In user space; on Xen, waiting for the device model.
   */
  user_space_ns: number;
  /**
   * Exits of which it was seen when KVM began to leave.
   */
  with_fpu_put: number;
  /**
   * Exits with an event of their handler.
   */
  with_handler_event: number;
  /**
   * Exits of which it was seen when KVM_RUN was called again.
   */
  with_syscall_entry: number;
  /**
   * Exits of which it was seen when the system call returned.
   */
  with_syscall_return: number;
}
/**
 * A change that takes steps of exits away.
 */
export interface RemovableRow {
  /**
   * The same in cycles of the processor, for each of those exits; absent if nobody said how many make a second.
   */
  avoidable_cycles_per_exit: number | null;
  /**
   * What it would take away, at most; absent if the trace does not say.
   */
  avoidable_ns: number | null;
  /**
   * `ioeventfd`, `synced_registers`, `split_lock`.
   */
  change: string;
  /**
   * Exits that it would change.
   */
  exits: number;
  /**
   * How `avoidable_ns` was got: `counted` in this recording.
   */
  method: string;
  /**
   * The rule by which these exits were chosen, in words.
   */
  rule: string;
}
/**
 * Accesses to ports and to emulated memory: who served them, how long that took, and what cheaper ways would save.
 */
export interface PioRows {
  /**
   * What the emulation of an instruction typically takes: how much later a string access is handed over than a plain one
   * of the same direction, by the medians. Absent if the recording lacks either.
   */
  emulation_ns: number | null;
  /**
   * Whether the recording tells who served accesses: it has kvm_userspace_exit, or Xen's scheduler records. If not,
   * `outside` means nothing.
   */
  has_handlers: boolean;
  /**
   * Accesses to emulated memory, all together.
   */
  mmio: PioSum;
  /**
   * Accesses to ports, all together; each is *outside* if user space or Xen's device model served it.
   */
  ports: PioSum;
  /**
   * By port or page, direction and who served them, most costly first.
   */
  rows: PioRow[];
  /**
   * Whether the host is Xen, where a device model in another domain serves what Xen does not.
   */
  xen: boolean;
}
/**
 * Accesses of one kind, all together.
 */
export interface PioSum {
  /**
   * Exits for accesses of this kind.
   */
  exits: number;
  /**
   * Accesses whose data are in a register, so that what the exit says is enough to serve them (Xen's quick path).
   */
  non_string: number;
  /**
   * What a read typically takes that the kernel serves, the median; absent if there is none. Where there is no read, a
   * write.
   */
  read_in_kernel_ns: number | null;
  /**
   * Accesses whose data are in memory (INS, OUTS), so that the instruction has to be emulated.
   */
  string: number;
  /**
   * What these cost: kernel plus user space.
   */
  user_space_cost_ns: number;
  /**
   * Accesses that user space served (on Xen, the device model).
   */
  user_space_exits: number;
  /**
   * The median of writes that the kernel serves; absent if there is none. Where there is no write, that of reads.
   */
  write_in_kernel_ns: number | null;
}
/**
 * Accesses to one port or page in one direction, served by the same.
 */
export interface PioRow {
  /**
   * The lowest and the highest address that was accessed; of a port, the port.
   *
   * @minItems 2
   * @maxItems 2
   */
  address_range: [number, number] | null;
  /**
   * `in` or `out` of a port, `read` or `write` of memory; absent if the recording does not show it.
   */
  direction: string | null;
  /**
   * From exit to entry, everything included.
   */
  exit_time: DurationStatsRow;
  /**
   * Exits for accesses of this kind.
   */
  exits: number;
  /**
   * What serving them without leaving the kernel would save at most: their cost, less what those typically take that the
   * kernel serves in this recording. Absent if it has none, or these are served there already.
   */
  gain_ns: number | null;
  /**
   * Whether user space served them (on Xen, the device model).
   */
  in_user_space: boolean;
  /**
   * Time in the kernel, all accesses together.
   */
  kernel_ns: number;
  /**
   * Accesses of which the trace says that their data are in a register.
   */
  non_string: number;
  /**
   * Ports: accesses by size in bytes, as far as the trace says it.
   */
  sizes: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^\d+$".
     */
    [k: string]: number;
  };
  /**
   * Steal during these accesses, all together: runnable, without a CPU.
   */
  steal_ns: number;
  /**
   * Whether their data are in memory (INS, OUTS).
   */
  string: boolean;
  /**
   * The port, or the first address of the 4 KiB page.
   */
  subject_key: number;
  /**
   * `port`, or `mmio` for a page of emulated memory.
   */
  subject_kind: string;
  /**
   * What it is called, where it has a name.
   */
  subject_name: string | null;
  /**
   * From the exit until it was served there: `KVM_RUN` was called again; on Xen, the vCPU was runnable again, or was woken
   * while it still ran.
   */
  to_completion: DurationStatsRow;
  /**
   * From the exit until somebody outside was told: `kvm_userspace_exit`; on Xen, the device model's vCPU was woken on
   * the same physical CPU, or this one stopped running.
   */
  to_handover: DurationStatsRow;
  /**
   * Time in user space (on Xen, at the device model), all accesses together.
   */
  user_space_ns: number;
  /**
   * The smallest and the largest value that was written, unless the data are in memory.
   *
   * @minItems 2
   * @maxItems 2
   */
  value_range: [number, number] | null;
}
/**
 * A group of exits.
 */
export interface GroupRow {
  /**
   * What the exits cost: kernel and user space, nothing else.
   */
  cost_ns: number | null;
  /**
   * Number of exits.
   */
  count: number;
  /**
   * The physical CPU.
   */
  cpu?: number;
  /**
   * The CPUID leaf.
   */
  cpuid?: number;
  /**
   * `in`/`out`, `read`/`write`.
   */
  direction?: string;
  /**
   * From exit to entry, everything included; null if there are exits and none has a length, as all times.
   */
  exit_time_ns: number | null;
  /**
   * The guest's function, of --guestkallsyms.
   */
  function?: string;
  /**
   * In a halt of which the recording tells too little: cost, polling, halted and steal are together here.
   */
  halt_not_divided_ns: number | null;
  /**
   * Blocked because the guest halted: from the block to the wake-up.
   */
  halted_ns: number | null;
  /**
   * Who answered: `kernel`, user space with this KVM_EXIT_* reason, or `device model`.
   */
  handler?: string;
  /**
   * The hypercall's number.
   */
  hypercall?: number;
  /**
   * In an exit, in the hypervisor.
   */
  kernel_ns: number | null;
  /**
   * Longest, from exit to entry.
   */
  max_ns: number | null;
  /**
   * Mean, from exit to entry.
   */
  mean_ns: number | null;
  /**
   * Shortest, from exit to entry; without exits whose two timestamps are equal.
   */
  min_ns: number | null;
  /**
   * First address of the 4 KiB page.
   */
  mmio?: number;
  /**
   * The MSR.
   */
  msr?: number;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * Median; exact of up to 32, else to within 1/32 of its value, as all percentiles.
   */
  p50_ns: number | null;
  /**
   * 90th percentile.
   */
  p90_ns: number | null;
  /**
   * 99.9th percentile.
   */
  p999_ns: number | null;
  /**
   * 99th percentile.
   */
  p99_ns: number | null;
  /**
   * The host polled for a wake-up before it blocked the halted vCPU.
   */
  polling_ns: number | null;
  /**
   * The port.
   */
  port?: number;
  /**
   * Exits per second of the time in which vCPUs were seen; in a bucket of time, of the bucket.
   */
  rate_per_s: number;
  /**
   * The exit reason, in the kernel's spelling.
   */
  reason?: string;
  /**
   * The guest's instruction pointer; with --guestkallsyms, where its function begins.
   */
  rip?: number;
  /**
   * Share of the cost of all selected exits, 0 to 1.
   */
  share_of_cost: number | null;
  /**
   * Runnable, without a CPU.
   */
  steal_ns: number | null;
  /**
   * Kept from running by the VMM: paused, last stage of a migration, a debugger.
   */
  stopped_ns: number | null;
  /**
   * Port, first address of the page, MSR, hypercall number, CPUID leaf, error code, …
   */
  subject_key?: number;
  /**
   * The kind of subject: `port`, `mmio`, `msr`, `host_vector`, …; absent of exits without subject.
   */
  subject_kind?: string;
  /**
   * What the subject is called.
   */
  subject_name?: string;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * Beginning of the bucket of time.
   */
  time_ns?: number;
  /**
   * Exits of which both ends were seen; all times are of these alone.
   */
  timed: number;
  /**
   * What nothing in the recording explains.
   */
  unknown_ns: number | null;
  /**
   * In an exit, outside KVM_RUN; on Xen, waiting for the device model.
   */
  user_space_ns: number | null;
  /**
   * Share that user space, or Xen's device model, answered, 0 to 1.
   */
  user_space_share: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Blocked by the host until a page is there, in an exit for a page fault.
   */
  waiting_for_memory_ns: number | null;
}
/**
 * How long Xen's scheduler had a virtual CPU in each run state. Stays that the recording's begin cuts are left out,
 * and what follows the last record of those that its end cuts.
 */
export interface RunStatesRow {
  /**
   * Blocked, as when its guest has halted.
   */
  blocked: StayStatsRow;
  /**
   * Offline: waiting for the device model, or paused without a record that shows it.
   */
  offline: StayStatsRow;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * Paused, as a record of the scheduler shows.
   */
  paused: StayStatsRow;
  /**
   * Preempted: runnable, waiting for a physical CPU.
   */
  preempted: StayStatsRow;
  /**
   * Running on a physical CPU.
   */
  running: StayStatsRow;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * Unknown: records were lost, or contradict one another.
   */
  unknown: StayStatsRow;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Runnable after it had been blocked or offline: waiting for a physical CPU.
   */
  woken: StayStatsRow;
}
/**
 * Stays in a run state.
 */
export interface StayStatsRow {
  /**
   * Number of stays.
   */
  count: number;
  /**
   * Time in this state, all stays together, in nanoseconds.
   */
  ns: number;
}
/**
 * Events of one kind that show what KVM does.
 */
export interface SignRow {
  /**
   * Number of events.
   */
  count: number;
  /**
   * The tracepoint.
   */
  event: string;
  /**
   * The process in whose threads they were: the VMM, or a thread of the kernel (khugepaged, ksmd, kswapd), which does not say
   * whose memory it worked on. Absent if the trace does not say.
   */
  process: number | null;
  /**
   * The name of that process; absent if the recording has none.
   */
  process_name: string | null;
  /**
   * What the event shows of KVM, in words.
   */
  what: string;
}
/**
 * One of the slowest exits.
 */
export interface SlowExitRow {
  /**
   * When it left its guest, in nanoseconds on the trace's clock.
   */
  at_ns: number;
  /**
   * The CPU on which it left.
   */
  cpu: number;
  /**
   * `in`/`out`, `read`/`write`, where that has a meaning.
   */
  direction: string | null;
  /**
   * From exit to entry, everything included.
   */
  exit_time_ns: number;
  /**
   * In a halt of which the recording tells too little: cost, polling, halted and steal are together here.
   */
  halt_not_divided_ns: number;
  /**
   * Blocked because the guest halted: from the block to the wake-up.
   */
  halted_ns: number;
  /**
   * Who finished the exit: the kernel, user space, the device model, …
   */
  handler: string;
  /**
   * In an exit, in the hypervisor.
   */
  kernel_ns: number;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * The host polled for a wake-up before it blocked the halted vCPU.
   */
  polling_ns: number;
  /**
   * The exit reason.
   */
  reason: string;
  /**
   * Runnable, without a CPU.
   */
  steal_ns: number;
  /**
   * Kept from running by the VMM: paused, last stage of a migration, a debugger.
   */
  stopped_ns: number;
  /**
   * The subject of the exit, in words; absent if it has none.
   */
  subject: string | null;
  /**
   * Port, address, MSR, hypercall number, CPUID leaf, error code, …
   */
  subject_key: number | null;
  /**
   * What `detail` is about: `port`, `mmio`, `msr`, …
   */
  subject_kind: string | null;
  /**
   * What it is called, where it has a name.
   */
  subject_name: string | null;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * What nothing in the recording explains.
   */
  unknown_ns: number;
  /**
   * In an exit, outside KVM_RUN; on Xen, waiting for the device model.
   */
  user_space_ns: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Blocked by the host until a page is there, in an exit for a page fault.
   */
  waiting_for_memory_ns: number;
}
/**
 * Who had the CPUs for which the vCPUs of a VM waited: after a wake-up the CPU that the vCPU then got, after a preemption the one that
 * it lost, up to when that was idle, and from then on the one that it got.
 */
export interface StealTakerRow {
  /**
   * The thread's name, as it was when it left the CPU; absent if the recording has none.
   */
  name?: string;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * The process id of the thread, if all time of this row is of one process; else absent.
   */
  pid?: number;
  /**
   * Number of processes of this name that had these CPUs, as far as they are known.
   */
  processes: number;
  /**
   * `steal_ns` as a share of the VM's steal, 0 to 1.
   */
  share: number;
  /**
   * Steal of the VM during which this taker had the CPU, in nanoseconds; all rows of a VM add up to its steal.
   */
  steal_ns: number;
  /**
   * `other_vm` and `same_vm` (vCPUs), `some_vcpu` (of which VM is not recorded), `own_vmm` (another thread of the VM's process),
   * `process`, `kernel_thread` (so its name says), `waking_up` (nobody: a CPU that was idle for less than 1 ms after a wake-up), `idle`
   * (nobody), `others` (further threads than are told apart) or `unknown`.
   */
  taker:
    | "other_vm"
    | "same_vm"
    | "some_vcpu"
    | "own_vmm"
    | "process"
    | "kernel_thread"
    | "waking_up"
    | "idle"
    | "others"
    | "unknown";
  /**
   * The process id of the other VM, or its Xen domain; absent of other takers than `other_vm`.
   */
  taker_vm?: number;
  /**
   * The name of the other VM's process; absent if the recording has none.
   */
  taker_vm_name?: string;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
}
/**
 * What exits were about.
 */
export interface SubjectRow {
  /**
   * What the exits cost: kernel and user space, nothing else.
   */
  cost_ns: number | null;
  /**
   * Number of exits.
   */
  count: number;
  /**
   * `in`/`out`, `read`/`write`, where that has a meaning.
   */
  direction: string | null;
  /**
   * From exit to entry, everything included; null if there are exits and none has a length, as all times.
   */
  exit_time_ns: number | null;
  /**
   * In a halt of which the recording tells too little: cost, polling, halted and steal are together here.
   */
  halt_not_divided_ns: number | null;
  /**
   * Blocked because the guest halted: from the block to the wake-up.
   */
  halted_ns: number | null;
  /**
   * In an exit, in the hypervisor.
   */
  kernel_ns: number | null;
  /**
   * Longest, from exit to entry.
   */
  max_ns: number | null;
  /**
   * Mean, from exit to entry.
   */
  mean_ns: number | null;
  /**
   * Shortest, from exit to entry; without exits whose two timestamps are equal.
   */
  min_ns: number | null;
  /**
   * Median; exact of up to 32, else to within 1/32 of its value, as all percentiles.
   */
  p50_ns: number | null;
  /**
   * 90th percentile.
   */
  p90_ns: number | null;
  /**
   * 99.9th percentile.
   */
  p999_ns: number | null;
  /**
   * 99th percentile.
   */
  p99_ns: number | null;
  /**
   * The host polled for a wake-up before it blocked the halted vCPU.
   */
  polling_ns: number | null;
  /**
   * Exits per second of the time in which vCPUs were seen; in a bucket of time, of the bucket.
   */
  rate_per_s: number;
  /**
   * Share of the cost of all selected exits, 0 to 1.
   */
  share_of_cost: number | null;
  /**
   * Runnable, without a CPU.
   */
  steal_ns: number | null;
  /**
   * Kept from running by the VMM: paused, last stage of a migration, a debugger.
   */
  stopped_ns: number | null;
  /**
   * Port, first address of the page, MSR, hypercall number, CPUID leaf, error code, …
   */
  subject_key: number;
  /**
   * `port`, `mmio`, `msr`, `hypercall`, `cpuid`, `page_fault`, …
   */
  subject_kind: string;
  /**
   * What it is called, where it has a name.
   */
  subject_name: string | null;
  /**
   * Exits of which both ends were seen; all times are of these alone.
   */
  timed: number;
  /**
   * What nothing in the recording explains.
   */
  unknown_ns: number | null;
  /**
   * In an exit, outside KVM_RUN; on Xen, waiting for the device model.
   */
  user_space_ns: number | null;
  /**
   * Share that user space, or Xen's device model, answered, 0 to 1.
   */
  user_space_share: number;
  /**
   * Blocked by the host until a page is there, in an exit for a page fault.
   */
  waiting_for_memory_ns: number | null;
}
/**
 * Exits over time.
 */
export interface TimelineRows {
  /**
   * What the exits of each bucket cost, in nanoseconds; null if no exit has a length.
   */
  cost_ns: number[] | null;
  /**
   * Number of exits in each bucket.
   */
  counts: number[];
  /**
   * Beginning of the first bucket, in nanoseconds on the trace's clock.
   */
  first_ns: number;
  /**
   * Width of each bucket, in nanoseconds.
   */
  width_ns: number;
}
/**
 * The figures of a group of exits.
 */
export interface ExitFigures {
  /**
   * What the exits cost: kernel and user space, nothing else.
   */
  cost_ns: number | null;
  /**
   * Number of exits.
   */
  count: number;
  /**
   * From exit to entry, everything included; null if there are exits and none has a length, as all times.
   */
  exit_time_ns: number | null;
  /**
   * In a halt of which the recording tells too little: cost, polling, halted and steal are together here.
   */
  halt_not_divided_ns: number | null;
  /**
   * Blocked because the guest halted: from the block to the wake-up.
   */
  halted_ns: number | null;
  /**
   * In an exit, in the hypervisor.
   */
  kernel_ns: number | null;
  /**
   * Longest, from exit to entry.
   */
  max_ns: number | null;
  /**
   * Mean, from exit to entry.
   */
  mean_ns: number | null;
  /**
   * Shortest, from exit to entry; without exits whose two timestamps are equal.
   */
  min_ns: number | null;
  /**
   * Median; exact of up to 32, else to within 1/32 of its value, as all percentiles.
   */
  p50_ns: number | null;
  /**
   * 90th percentile.
   */
  p90_ns: number | null;
  /**
   * 99.9th percentile.
   */
  p999_ns: number | null;
  /**
   * 99th percentile.
   */
  p99_ns: number | null;
  /**
   * The host polled for a wake-up before it blocked the halted vCPU.
   */
  polling_ns: number | null;
  /**
   * Exits per second of the time in which vCPUs were seen; in a bucket of time, of the bucket.
   */
  rate_per_s: number;
  /**
   * Share of the cost of all selected exits, 0 to 1.
   */
  share_of_cost: number | null;
  /**
   * Runnable, without a CPU.
   */
  steal_ns: number | null;
  /**
   * Kept from running by the VMM: paused, last stage of a migration, a debugger.
   */
  stopped_ns: number | null;
  /**
   * Exits of which both ends were seen; all times are of these alone.
   */
  timed: number;
  /**
   * What nothing in the recording explains.
   */
  unknown_ns: number | null;
  /**
   * In an exit, outside KVM_RUN; on Xen, waiting for the device model.
   */
  user_space_ns: number | null;
  /**
   * Share that user space, or Xen's device model, answered, 0 to 1.
   */
  user_space_share: number;
  /**
   * Blocked by the host until a page is there, in an exit for a page fault.
   */
  waiting_for_memory_ns: number | null;
}
/**
 * How the wall time of one virtual CPU divides.
 */
export interface VcpuRow {
  /**
   * What its exits cost: kernel and user space; null if no exit of the recording has a length.
   */
  cost_ns: number | null;
  /**
   * Hidden by a loss: in no other figure.
   */
  excluded_ns: number;
  /**
   * Number of its exits.
   */
  exits: number;
  /**
   * In the guest, on a CPU; what the host cannot see is in it: guest halt polling, idleness where HLT does not exit, time hidden around entry and exit.
   */
  guest_ns: number;
  /**
   * In a halt of which the recording tells too little: cost, polling, halted and steal are together here.
   */
  halt_not_divided_ns: number;
  /**
   * Blocked because the guest halted: from the block to the wake-up.
   */
  halted_ns: number;
  /**
   * In an exit, in the hypervisor.
   */
  kernel_ns: number;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * The host polled for a wake-up before it blocked the halted vCPU.
   */
  polling_ns: number;
  /**
   * From its first entry or exit to the last event that tells of it.
   */
  span_ns: number;
  /**
   * Runnable, without a CPU.
   */
  steal_ns: number;
  /**
   * Kept from running by the VMM: paused, last stage of a migration, a debugger.
   */
  stopped_ns: number;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * What nothing in the recording explains.
   */
  unknown_ns: number;
  /**
   * In an exit, outside KVM_RUN; on Xen, waiting for the device model.
   */
  user_space_ns: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Blocked by the host until a page is there, in an exit for a page fault.
   */
  waiting_for_memory_ns: number;
}
/**
 * What a recording comes to.
 */
export interface VerdictRow {
  /**
   * Whether that is much: its size against the CPUs, and against the other VMs of the recording; null where nothing was timed, and
   * where figures are counted live.
   */
  amount: string | null;
  /**
   * The change that wins most; null if rules know none, or none looked.
   */
  best_change: BestChangeRow | null;
  /**
   * The cause that costs most, where exits dominate and rules looked at the recording.
   */
  cause: string | null;
  /**
   * What makes it doubtful, or hides a part of it.
   */
  doubts: string[];
  /**
   * How much exits and waiting take at most, where the recording shows all of it and it is little; absent otherwise.
   */
  exit_bound?: ExitBoundRow;
  /**
   * Whether rules looked at the recording.
   */
  is_advised: boolean;
  /**
   * Whether what is lost or not recorded could change it.
   */
  is_doubtful: boolean;
  /**
   * Whether it is no news that anything is wrong.
   */
  is_good: boolean;
  /**
   * What was not recorded or was lost, and what no rule could judge for that.
   */
  not_seen: string[];
  /**
   * Part of the vCPUs' time that it is: of `healthy` what the guests ran, of `mostly_halted` what they halted.
   */
  share: number | null;
  /**
   * What dominates; `healthy` and `mostly_halted` if nothing does; `no_exits`, `no_lengths` and `mostly_unknown` if that
   * cannot be told.
   */
  state:
    | "exits_dominate"
    | "steal_dominates"
    | "forced_out"
    | "polling_burns"
    | "mostly_halted"
    | "healthy"
    | "no_exits"
    | "no_lengths"
    | "mostly_unknown";
  /**
   * Why it is not doubtful, in a clause; null where it is, and where figures are counted live.
   */
  sure: string | null;
  /**
   * In one sentence, with its size.
   */
  text: string;
  /**
   * The vCPU that loses most to what dominates, and the others; null of one vCPU, and where figures are counted live.
   */
  worst_vcpu: string | null;
}
/**
 * The change that wins most.
 */
export interface BestChangeRow {
  /**
   * The number of the advice.
   */
  advice: number;
  /**
   * The change, in a sentence.
   */
  change: string;
  /**
   * The expected gain, in words.
   */
  gain: string;
  /**
   * What can go wrong with the change, in a clause.
   */
  risk: string;
  /**
   * For whom it is: `VM qemu-system-x86 121`, or `the host`.
   */
  scope: string;
  /**
   * The change as a short imperative, without its conditions.
   */
  title: string;
}
/**
 * vCPUs that wait for another and say so to the hypervisor; vCPUs that lost their CPU meanwhile; and how many wait for a
 * CPU. Where others were is known from scheduler events alone.
 */
export interface YieldRows {
  /**
   * All yields of vCPUs that wait for somebody (not KVM_HC_KICK_CPU and H_PROD, which wake).
   */
  all: YieldRow;
  /**
   * The sums over all preempted vCPUs.
   */
  all_preempted: PreemptedRow;
  /**
   * Those preemptions during which siblings waited longest, longest first.
   */
  longest: PreemptionRow[];
  /**
   * Yields that name further vCPUs than are kept.
   */
  other_targets: number;
  /**
   * vCPUs that lost their CPU though they wanted to run.
   */
  preempted: PreemptedRow[];
  /**
   * How many vCPUs waited for a CPU; absent without scheduler events.
   */
  queue: QueueRow | null;
  /**
   * Yields that name a vCPU, by vCPU and call.
   */
  targets: TargetRow[];
  /**
   * The same by vCPU and call, most yields first.
   */
  vcpus: YieldRow[];
  /**
   * How windows of PAUSE loops changed, by VM.
   */
  windows: PleWindowRow[];
}
/**
 * Yields of one vCPU by one call, or of all.
 */
export interface YieldRow {
  /**
   * Time in the guest between these: spinning, and what was done if the vCPU got what it waited for.
   */
  between_repeats: DurationStatsRow;
  /**
   * What it said: `PAUSE`, `WFE`, `X'44'`, `X'9C'`, `KVM_HC_SCHED_YIELD`, `H_CONFER`, `SCHEDOP_yield`, …; absent of all.
   */
  call: string | null;
  /**
   * Number of yields.
   */
  count: number;
  /**
   * Time from exit to entry.
   */
  exit_time: DurationStatsRow;
  /**
   * Yields that gave it to another VM, or to no vCPU.
   */
  gave_other: number;
  /**
   * Yields that gave it to another vCPU of the VM.
   */
  gave_sibling: number;
  /**
   * Yields that gave the CPU to the vCPU that they named.
   */
  gave_target: number;
  /**
   * Yields that gave it to nobody: the hypervisor ignored them, passed them on, or found nobody better.
   */
  kept_cpu: number;
  /**
   * Yields at which no sibling waited for a CPU.
   */
  no_runnable_sibling: number;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * Yields whose exit before was a yield as well.
   */
  repeated: number;
  /**
   * Yields at which a sibling had lost its CPU and waited for one.
   */
  sibling_preempted: number;
  /**
   * Yields at which no sibling had, but one was woken and waited for a CPU.
   */
  sibling_runnable: number;
  /**
   * Steal within it, in ns.
   */
  steal_ns: number;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Whether who calls so waits for somebody; else it wakes one that waited for it.
   */
  waits: boolean;
}
/**
 * How one vCPU lost its CPU though it wanted to run.
 */
export interface PreemptedRow {
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * How often it was preempted.
   */
  preemptions: number;
  /**
   * Time from the first of these yields of each preemption until the vCPU ran.
   */
  sibling_wait: DurationStatsRow;
  /**
   * Time from each preemption until it ran again.
   */
  steal: DurationStatsRow;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Preemptions during which siblings yielded.
   */
  with_sibling_yields: number;
  /**
   * Yields of its siblings while it was preempted.
   */
  yields: number;
}
/**
 * One preemption.
 */
export interface PreemptionRow {
  /**
   * When it was preempted, in nanoseconds on the trace's clock.
   */
  at_ns: number;
  /**
   * When a sibling first yielded, in nanoseconds on the trace's clock.
   */
  first_yield_ns: number;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * When it ran again, in nanoseconds on the trace's clock.
   */
  ran_ns: number;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Yields of its siblings while it was preempted.
   */
  yields: number;
}
/**
 * How many vCPUs of all VMs could run and did not, for each CPU that runs vCPUs. Like a dispatch vector (PLDV) of z/VM.
 */
export interface QueueRow {
  /**
   * Most at a time, for one CPU.
   */
  max: number;
  /**
   * How many waited for a CPU, on average over time and CPUs.
   */
  mean: number;
  /**
   * Time in which that is known, summed over CPUs.
   */
  span_ns: number;
  /**
   * Time in which none waited, one, two, …; the last is of as many and more.
   */
  time_ns: number[];
  /**
   * Over time, for one trace: `counts` are nanoseconds of each bucket, `cost_ns` nanoseconds times vCPUs that waited.
   */
  timeline: TimelineRows | null;
}
/**
 * Yields to one vCPU.
 */
export interface TargetRow {
  /**
   * The call that named it, as in `vcpus`.
   */
  call: string;
  /**
   * Number of yields.
   */
  count: number;
  /**
   * Yields at which it was halted.
   */
  halted: number;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * Yields at which it was preempted: runnable, without a CPU.
   */
  preempted: number;
  /**
   * Yields at which it had been woken, and waited for a CPU.
   */
  runnable: number;
  /**
   * Yields at which it was on a CPU already.
   */
  running: number;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * Yields at which the recording does not show what it did.
   */
  unknown: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
}
/**
 * How windows of PAUSE loops changed: cycles on VMX, PAUSEs on SVM.
 */
export interface PleWindowRow {
  /**
   * How often the window of a vCPU grew.
   */
  grown: number;
  /**
   * The largest window that a change had or left: cycles on VMX, PAUSEs on SVM.
   */
  max: number;
  /**
   * The smallest window that a change had or left: cycles on VMX, PAUSEs on SVM.
   */
  min: number;
  /**
   * How often the window of a vCPU shrank.
   */
  shrunk: number;
  /**
   * The VM's process id; absent if the trace does not say.
   */
  vm: number | null;
}
/**
 * What of it is JSON.
 */
export interface OverTimeHead {
  /**
   * The moment that others are counted from, on the trace's clock: a whole number of buckets. As text, for it may be
   * more than a double holds.
   */
  base_ns: string;
  causes: PageCause[];
  directed_yields: NamedRow[];
  /**
   * Whether there is a time axis: one trace.
   */
  in_time: boolean;
  /**
   * The parts of a vCPU's time, in the order in which they are shown.
   */
  parts: PartRow[];
  /**
   * The phases of an exit's cost, in their order.
   */
  phases: string[];
  reasons: string[];
  /**
   * Single exits, whose columns follow those of the tables; absent where there are none.
   */
  singles: SingleExitsHead | null;
  slow_exits: SlowOne[];
  subjects: AboutRow[];
  tables: TableHead[];
  vcpus: LaneRow[];
}
/**
 * What exits come from: their reason and their subject together.
 */
export interface PageCause {
  /**
   * The subject's place in `subjects`; none where there is no subject, and of causes that are too many.
   */
  about: number | null;
  /**
   * Whether these are all further causes of the reason.
   */
  is_further: boolean;
  /**
   * Whether rules tell it from other causes of the reason, by that name or by what `about` is.
   */
  is_told_apart: boolean;
  /**
   * What rules call the subject, if they tell it apart: a device, a group of registers, what happened.
   */
  named: string | null;
  /**
   * The reason's place in `reasons`; none of reasons that are too many.
   */
  reason: number | null;
}
/**
 * Yields of one vCPU that name another.
 */
export interface NamedRow {
  count: number;
  from: string;
  to: number;
  vm: string;
}
/**
 * A part of a vCPU's time.
 */
export interface PartRow {
  /**
   * Its column in the tables, and everywhere.
   */
  column: string;
  name: string;
  /**
   * Whether exits have it.
   */
  of_exits: boolean;
  /**
   * What it means.
   */
  prose: string;
}
/**
 * What is kept of single exits.
 */
export interface SingleExitsHead {
  causes: number[];
  chunks: SingleChunk[];
  /**
   * Columns of each chunk that are packed one number an exit: begin, vCPU, cause, user space, CPU, place in the guest, …
   */
  columns: string[];
  /**
   * Exits that there are; all of them are kept if that is the sum of the chunks' rows.
   */
  exits: number;
  /**
   * The guest's functions, where they are known; and of each place, its function's place in this list + 1 (0: of none of them), and
   * how far from where that begins it is.
   */
  functions: string[];
  /**
   * Where in the page the vCPUs of that column are, and the causes: one vCPU may have several numbers here.
   */
  lanes: number[];
  /**
   * The other parts of exits, by the bits of the last of these columns, from the lowest on.
   */
  parts: string[];
  /**
   * Those of the columns that are packed byte by byte of their numbers.
   *
   * @minItems 2
   * @maxItems 2
   */
  planes: [string, string];
  rip_functions: number[];
  rip_offsets: number[];
  /**
   * Instruction pointers, in hexadecimal.
   */
  rips: string[];
  /**
   * Threads that took vCPUs' CPUs or woke vCPUs; the number behind the last of them stands for all further.
   */
  threads: ThreadRow[];
  /**
   * Columns of the waits for a CPU behind those of exits, and those of them that are packed byte by byte.
   *
   * @minItems 5
   * @maxItems 5
   */
  wait_columns: [string, string, string, string, string];
  /**
   * @minItems 2
   * @maxItems 2
   */
  wait_planes: [string, string];
}
/**
 * Exits that ended one after the other.
 */
export interface SingleChunk {
  /**
   * Length of its columns.
   */
  bytes: number;
  /**
   * When the first of them began, from the page's begin on.
   */
  first_ns: number;
  /**
   * What ended in this time is in the chunk.
   */
  from_ns: number;
  rows: number;
  to_ns: number;
  /**
   * Waits for a CPU that ended in this time; absent where they are left out.
   */
  waits: number | null;
}
/**
 * A thread that took a vCPU's CPU, or woke a vCPU.
 */
export interface ThreadRow {
  /**
   * The place of the vCPU that it runs, if it runs one.
   */
  lane: number | null;
  /**
   * What it is called, if the trace says.
   */
  name: string | null;
  /**
   * 0: the idle CPU's.
   */
  tid: number;
}
/**
 * One of the slowest exits.
 */
export interface SlowOne {
  /**
   * When, counted from the page's begin.
   */
  after_ns: number;
  /**
   * When it left its guest, in nanoseconds on the trace's clock.
   */
  at_ns: number;
  cause: number;
  /**
   * The CPU on which it left.
   */
  cpu: number;
  /**
   * `in`/`out`, `read`/`write`, where that has a meaning.
   */
  direction: string | null;
  /**
   * From exit to entry, everything included.
   */
  exit_time_ns: number;
  /**
   * In a halt of which the recording tells too little: cost, polling, halted and steal are together here.
   */
  halt_not_divided_ns: number;
  /**
   * Blocked because the guest halted: from the block to the wake-up.
   */
  halted_ns: number;
  /**
   * Who finished the exit: the kernel, user space, the device model, …
   */
  handler: string;
  /**
   * In an exit, in the hypervisor.
   */
  kernel_ns: number;
  lane: number;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * How long each of the `phases` of its cost was, in nanoseconds.
   *
   * @minItems 6
   * @maxItems 6
   */
  phases_ns: [number, number, number, number, number, number];
  /**
   * The host polled for a wake-up before it blocked the halted vCPU.
   */
  polling_ns: number;
  /**
   * The exit reason.
   */
  reason: string;
  /**
   * Runnable, without a CPU.
   */
  steal_ns: number;
  /**
   * Kept from running by the VMM: paused, last stage of a migration, a debugger.
   */
  stopped_ns: number;
  /**
   * The subject of the exit, in words; absent if it has none.
   */
  subject: string | null;
  /**
   * Port, address, MSR, hypercall number, CPUID leaf, error code, …
   */
  subject_key: number | null;
  /**
   * What `detail` is about: `port`, `mmio`, `msr`, …
   */
  subject_kind: string | null;
  /**
   * What it is called, where it has a name.
   */
  subject_name: string | null;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * What nothing in the recording explains.
   */
  unknown_ns: number;
  /**
   * In an exit, outside KVM_RUN; on Xen, waiting for the device model.
   */
  user_space_ns: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
  /**
   * Blocked by the host until a page is there, in an exit for a page fault.
   */
  waiting_for_memory_ns: number;
}
/**
 * What exits were about.
 */
export interface AboutRow {
  direction: string | null;
  heading: string;
  key: number;
  kind:
    | "vmgexit"
    | "ghcb_msr"
    | "exception"
    | "host_vector"
    | "host_irq"
    | "eoi_vector"
    | "incomplete_ipi"
    | "task_switch"
    | "page_fault"
    | "ept_violation"
    | "memory_fault"
    | "debug_register"
    | "apic"
    | "control_register"
    | "system_register"
    | "instruction"
    | "program_interruption"
    | "sigp"
    | "cpuid"
    | "mmio"
    | "port"
    | "msr"
    | "hypercall"
    | "hyperv_hypercall"
    | "xen_hypercall"
    | "hcall"
    | "hvc"
    | "diagnose";
  /**
   * What it is called beside others of its kind, and beside those of other kinds.
   */
  label: string;
  text: string;
}
/**
 * A table of columns.
 */
export interface TableHead {
  columns: string[];
  name: string;
  rows: number;
  /**
   * Width of a bucket of time.
   */
  width_ns: number;
}
/**
 * A vCPU.
 */
export interface LaneRow {
  /**
   * Its first and last entry or exit, counted from the page's begin.
   */
  first_ns: number | null;
  last_ns: number | null;
  /**
   * The physical CPU, where nothing else says which vCPU it is (Xen without scheduler records).
   */
  on_cpu?: number;
  /**
   * The vCPU's thread; absent where another thread records for it (powerpc), and on Xen.
   */
  tid?: number;
  /**
   * The vCPU's number; absent if nothing in the trace says.
   */
  vcpu?: number;
  vcpu_label: string;
  /**
   * The VM's process id, or Xen's domain; absent if the trace does not say.
   */
  vm?: number;
  vm_label: string;
  /**
   * The VM's name, or its process's; absent if the recording has none.
   */
  vm_name?: string;
}
/**
 * What changed between two recordings. All lengths are in nanoseconds; cost and rates are per second of vCPU time, so that neither
 * how long a recording is nor how many vCPUs it has changes them.
 */
export interface Comparison {
  /**
   * The recordings after the change.
   */
  after: SideRow;
  /**
   * The recordings before the change.
   */
  before: SideRow;
  /**
   * Confidence of the intervals, in per cent.
   */
  confidence_percent: number;
  /**
   * All reasons together first, then reason by reason, most costly first.
   */
  rows: ReasonComparison[];
  /**
   * Reasons left out by --top.
   */
  rows_left_out: number;
  /**
   * Name and version of this layout. Fields may be added within a version; none changes its meaning.
   */
  schema: string;
  /**
   * Which exits were looked at, on both sides.
   */
  selection: SelectionRow;
  /**
   * The result of the comparison, and how sure it is.
   */
  verdict: DiffVerdictRow;
}
/**
 * One side of a comparison.
 */
export interface SideRow {
  /**
   * Time from the first to the last event, within --from and --to, summed over the traces.
   */
  duration_ns: number;
  /**
   * What all of its traces tell.
   */
  event_kinds: EventKindsRow;
  /**
   * Number of events that were read.
   */
  events: number;
  /**
   * Number of exits that the selection holds.
   */
  exits: number;
  /**
   * Time in the guest of these vCPUs, a part of `vcpu_ns`.
   */
  guest_ns: number;
  /**
   * Everything that was seen and not used.
   */
  lines: CoverageLine[];
  /**
   * Records that the recorder says it lost.
   */
  lost: number;
  /**
   * The recordings of this side.
   */
  traces: TraceRow[];
  /**
   * Time of all selected vCPUs, each from its first event to its last, within --from and --to.
   */
  vcpu_ns: number;
}
/**
 * One reason on both sides.
 */
export interface ReasonComparison {
  /**
   * The change of each measure.
   */
  changes: ChangeRow[];
  /**
   * Number of exits for this reason after the change.
   */
  count_after: number;
  /**
   * Number of exits for this reason before the change.
   */
  count_before: number;
  /**
   * The exit reason, in the kernel's spelling; absent for all reasons together.
   */
  reason: string | null;
  /**
   * Of the cost of all exits, the part of this reason, on the side on which it is larger; absent of all reasons together,
   * and where nothing costs anything.
   */
  share_of_cost: number | null;
  /**
   * The reasons that all together are without, because their vCPUs are halted there.
   */
  without: string[];
}
/**
 * One measure on both sides.
 */
export interface ChangeRow {
  /**
   * The value after the change; absent if there was nothing to measure.
   */
  after: number | null;
  /**
   * The value before the change; absent if there was nothing to measure. With several recordings on each side the geometric mean of
   * theirs, or the mean where some have none.
   */
  before: number | null;
  /**
   * Upper bound of after minus before; absent where there is too little for an interval.
   */
  high: number | null;
  /**
   * Lower bound of after minus before; absent where there is too little for an interval.
   */
  low: number | null;
  /**
   * `cost_ns_per_s`, `rate_per_s`, `mean_ns`, `p50_ns` or `p99_ns`; of all exits together also `cost_ns_per_guest_s` (per second that
   * guests ran), `cost_ns_per_work`, `guest_ns_per_s` and `steal_ns_per_s`.
   */
  measure: string;
  /**
   * Recordings a side (of a fleet by anything but hosts: hosts) that make a change as large as this clear in 80 of 100 repetitions;
   * absent with one on a side.
   */
  needed: number | null;
  /**
   * How often chance makes as large a change, of this row alone; absent with one recording on a side.
   */
  p_value: number | null;
  /**
   * `more`, `less`, `unclear` (chance may explain it: the interval holds zero, or would if corrected for all reasons), `too few` (no interval) or `not judged` (by what the sides are, nothing is said
   * of any change).
   */
  verdict: "more" | "less" | "unclear" | "too few" | "not judged";
}
/**
 * What a comparison comes to.
 */
export interface DiffVerdictRow {
  /**
   * The figures that it rests on, and what it does not say.
   */
  details: string[];
  /**
   * What makes it doubtful, or limits it.
   */
  doubts: string[];
  /**
   * Whether something that is not in the figures could change it.
   */
  is_doubtful: boolean;
  /**
   * A change of the cost as large as this would have been clear, in nanoseconds per second of vCPU time; with several recordings on
   * each side, in 80 of 100 repetitions.
   */
  least_clear_ns_per_s: number | null;
  /**
   * Recordings a side that would make a change as large as the one seen clear, in 80 of 100 repetitions; absent with one recording
   * on a side.
   */
  needed_recordings: number | null;
  /**
   * In which order the recordings of the sides were made: `pairs` (of one name), `in turns`, `in order` (one side first), `mixed`,
   * `unknown`; absent with one recording on a side.
   */
  order: "pairs" | "in turns" | "in order" | "mixed" | "unknown" | null;
  /**
   * The reason whose cost certainly changed the same way as that of all, and most of those.
   */
  reason: string | null;
  /**
   * Its part of the change of all; more than one where others changed the other way.
   */
  reason_part: number | null;
  /**
   * Of a comparison `worse`, `better`, `recordings_differ` (of which a side has one), `no_clear_difference`, `same` (every figure is)
   * or `cannot_tell`; of a fleet the first, the second, the fourth and the last, for the largest certain difference. Of a sweep `best` (one configuration), `ahead` (some, that tie among
   * themselves), `tie` (all) or `cannot_tell`. Of an experiment `found` or `cannot_tell`.
   */
  state:
    | "worse"
    | "better"
    | "recordings_differ"
    | "no_clear_difference"
    | "same"
    | "cannot_tell"
    | "best"
    | "ahead"
    | "tie"
    | "found";
  /**
   * In one sentence.
   */
  text: string;
  /**
   * All exits together, halts included.
   */
  total: ReasonComparison;
}
/**
 * How long the exits of one reason took on both sides.
 */
export interface SideLengths {
  /**
   * Shortest length of each bucket, and the exits of it before and after.
   */
  counts: [number, number, number][];
  /**
   * The reason; absent for all exits.
   */
  reason: string | null;
}
/**
 * What a sweep found.
 */
export interface Sweep {
  /**
   * Confidence of the intervals, in per cent.
   */
  confidence_percent: number;
  /**
   * The figures; the first one decides which configuration is the best.
   */
  metrics: SweepMetric[];
  /**
   * Number of runs of each configuration, each with a seed of its own.
   */
  replicates: number;
  /**
   * The configurations, the first of `vary` changing slowest.
   */
  rows: SweepRow[];
  /**
   * What ran, before anything was varied. Its seed is that of the first replicate; each further one has the next.
   */
  scenario: ScenarioRow;
  /**
   * Name and version of this layout. Fields may be added within a version; none changes its meaning.
   */
  schema: string;
  /**
   * What of the gains over the first configuration hangs on assumed numbers (`--uncertainty`).
   */
  uncertainty?: GainUncertainty;
  /**
   * The keys that were varied, and their values.
   */
  vary: AxisRow[];
  /**
   * Which configuration is the best by the first figure, if one is.
   */
  verdict: Headline;
}
/**
 * A figure of a sweep.
 */
export interface SweepMetric {
  /**
   * Whether more of it is better, or less; null where neither is, as of time that vCPUs are halted.
   */
  higher_is_better: boolean | null;
  /**
   * Its name, such as `web.latency_p99`.
   */
  name: string;
  /**
   * What it is measured in.
   */
  unit: FigureUnit;
}
/**
 * One configuration.
 */
export interface SweepRow {
  /**
   * Whether it is the best by the first figure, or its interval meets that of the best. None is where all tie, and where there
   * are no intervals because each ran once.
   */
  best: boolean;
  /**
   * Why it did not run to its end.
   */
  error: string | null;
  /**
   * Whether no other configuration is better in one of the figures and as good in all others, by their means.
   */
  pareto: boolean;
  /**
   * Number of runs of this configuration that were made.
   */
  replicates: number;
  [k: string]: unknown;
}
/**
 * A scenario, as far as it says what ran.
 */
export interface ScenarioRow {
  /**
   * `vmx`, `svm`, `powerpc` or `s390`.
   */
  arch: string;
  /**
   * Cores of each socket.
   */
  cores: number;
  /**
   * The cost model that the run took its costs from.
   */
  costs: CostsRow;
  /**
   * What the file says that it stands for.
   */
  description: string;
  /**
   * Simulated time that was measured.
   */
  duration_ns: number;
  /**
   * Its file; `-` is standard input.
   */
  file: string;
  /**
   * The name that the file gives it.
   */
  name: string;
  /**
   * The seed of all random numbers: with the same one, a run is the same.
   */
  seed: number;
  /**
   * Values set on the command line, as they were given.
   */
  set: string[];
  /**
   * Sockets of the host.
   */
  sockets: number;
  /**
   * Hardware threads of each core.
   */
  threads: number;
  /**
   * Number of vCPUs of all VMs together.
   */
  vcpus: number;
  /**
   * Number of VMs.
   */
  vms: number;
  /**
   * Simulated time before measuring began.
   */
  warmup_ns: number;
}
/**
 * A cost model, and how its numbers are known.
 */
export interface CostsRow {
  /**
   * Numbers of the right size only.
   */
  assumed: number;
  /**
   * Numbers fitted to published figures.
   */
  calibrated: number;
  /**
   * The name that the file gives it.
   */
  name: string;
  /**
   * Numbers printed in a publication.
   */
  published: number;
}
/**
 * What of the gains of a sweep hangs on numbers that are assumed: of each configuration over the first one, by the first figure.
 */
export interface GainUncertainty {
  /**
   * The numbers that are assumed, and what each may as well be.
   */
  assumptions: AssumptionRow[];
  /**
   * How often all assumed numbers were drawn at once, each between its ends.
   */
  draws: number;
  /**
   * Runs that did not reach their end: where there are any, there is no interval.
   */
  failed: number;
  /**
   * All configurations but the first.
   */
  gains: UncertainGain[];
  /**
   * Part of the draws that an interval holds, in per cent.
   */
  holds_percent: number;
  /**
   * The figure.
   */
  metric: string;
}
/**
 * A number that is assumed.
 */
export interface AssumptionRow {
  /**
   * The greatest.
   */
  high: string;
  /**
   * The key, as `--set` takes it.
   */
  key: string;
  /**
   * The least that it may as well be.
   */
  low: string;
  /**
   * Where these two are from.
   */
  source: string;
  /**
   * What the scenario has.
   */
  value: string;
}
/**
 * By how much a figure of a configuration is more than that of the first one, in per cent.
 */
export interface UncertainGain {
  /**
   * From where to where with the assumed numbers drawn.
   *
   * @minItems 2
   * @maxItems 2
   */
  by_assumptions: [number, number] | null;
  /**
   * The configuration.
   */
  configuration: string;
  /**
   * The number that moves it most by itself.
   */
  moved_most: MovedBy | null;
  /**
   * With what the scenario has, over the replicates.
   */
  percent: number | null;
  /**
   * The numbers each of which turns the sign by itself, within its ends; what moves the gain most comes first.
   */
  sign_hangs_on: string[];
}
/**
 * What an assumed number does to a figure, by itself.
 */
export interface MovedBy {
  /**
   * Its two ends.
   *
   * @minItems 2
   * @maxItems 2
   */
  ends: [string, string];
  /**
   * The figure at these.
   *
   * @minItems 2
   * @maxItems 2
   */
  figure: [number, number];
  /**
   * The number.
   */
  key: string;
}
/**
 * A key that was varied.
 */
export interface AxisRow {
  /**
   * Its column in the rows: the key, and `_ns` behind it if the values are times.
   */
  column: string;
  /**
   * The key, as `--set` takes it.
   */
  key: string;
  /**
   * Its values, as they were set.
   */
  values: string[];
}
/**
 * The answer, before all figures.
 */
export interface Headline {
  /**
   * The figures that it rests on, and what it does not say.
   */
  details: string[];
  /**
   * What makes it doubtful, or limits it.
   */
  doubts: string[];
  /**
   * Whether something that is not in the figures could change it.
   */
  is_doubtful: boolean;
  /**
   * Of a comparison `worse`, `better`, `recordings_differ` (of which a side has one), `no_clear_difference`, `same` (every figure is)
   * or `cannot_tell`; of a fleet the first, the second, the fourth and the last, for the largest certain difference. Of a sweep `best` (one configuration), `ahead` (some, that tie among
   * themselves), `tie` (all) or `cannot_tell`. Of an experiment `found` or `cannot_tell`.
   */
  state:
    | "worse"
    | "better"
    | "recordings_differ"
    | "no_clear_difference"
    | "same"
    | "cannot_tell"
    | "best"
    | "ahead"
    | "tie"
    | "found";
  /**
   * In one sentence.
   */
  text: string;
}
/**
 * What an experiment on real KVM guests found.
 */
export interface LabReport {
  /**
   * What the experiment measures, in a sentence.
   */
  description: string;
  /**
   * What the guests executed in all that leaves a guest, as they counted it: also those that probed the machine, first
   * turns and warm-ups. A recording of the kernel's shows as many exits, but where the processor answers by itself (MSRs
   * of interrupts, with APICv or AVIC), or an end of time stopped a guest in the middle (`lab run`).
   */
  executed: ExecutedRow[];
  /**
   * The experiment, as the command has it.
   */
  experiment: string;
  /**
   * The machine and the settings of this run.
   */
  manifest: ManifestRow;
  /**
   * Name and version of this layout. Fields may be added within a version; none changes its meaning.
   */
  schema: string;
  /**
   * What was found, in plain words.
   */
  summary: string[];
  /**
   * The figures, a table for each kind of them.
   */
  tables: LabTable[];
  /**
   * What was found first of all.
   */
  verdict: Headline;
  /**
   * What makes the figures less sure.
   */
  warnings: string[];
}
/**
 * Instructions of a kind.
 */
export interface ExecutedRow {
  /**
   * Times that it was executed.
   */
  count: number;
  /**
   * `hypercall`, `CPUID`, `MSR access`, `port access`, `MMIO access`, `HLT` or `first touch of a page`.
   */
  instruction: string;
}
/**
 * What ran an experiment.
 */
export interface ManifestRow {
  /**
   * KVM's back end, by its module.
   */
  back_end: string;
  /**
   * What measures rates and shares of time.
   */
  clock: string;
  /**
   * The processor's model, as /proc/cpuinfo spells it; empty if unknown.
   */
  cpu: string;
  /**
   * CPUs on which the lab may run.
   */
  cpus: number;
  /**
   * How long each row is measured, all rounds together.
   */
  duration_ns: number;
  /**
   * Whether ring 0 of guests is emulated: then costs are the emulator's.
   */
  emulates_ring_0: boolean;
  /**
   * How rounds become figures.
   */
  estimator: string;
  /**
   * The CPUs on which each thread was kept that had CPUs of its own, as the kernel had them; empty if none had.
   */
  kept_on: number[][];
  /**
   * The host kernel's release, as `uname -r` prints it.
   */
  kernel: string;
  /**
   * Whether vCPUs were kept on a CPU each, where there are enough.
   */
  pinned: boolean;
  /**
   * Rounds, in which all rows take turns.
   */
  rounds: number;
  /**
   * Ticks of the time stamp counter in a second.
   */
  tsc_hz: number;
  /**
   * The processor's vendor, as CPUID spells it.
   */
  vendor: string;
}
/**
 * Figures of a kind.
 */
export interface LabTable {
  /**
   * What the labels of each row are, in their order: the headings of the first columns.
   */
  labels: string[];
  /**
   * The rows, in the order in which the experiment defines them.
   */
  rows: LabRow[];
  /**
   * The title of the table: what its rows have in common.
   */
  title: string;
}
/**
 * One thing that was measured, or cannot be.
 */
export interface LabRow {
  /**
   * What was measured of it; empty if it is unavailable.
   */
  figures: LabFigure[];
  /**
   * What distinguishes this row: a text for each of the table's `labels`.
   */
  labels: string[];
  /**
   * Names of figures that were measured and that the rounds leave open: their intervals say next to nothing.
   */
  not_measurable?: string[];
  /**
   * Why it could not be measured; there are no figures then.
   */
  unavailable: string | null;
}
/**
 * A figure.
 */
export interface LabFigure {
  /**
   * Upper bound of the 95 % confidence interval, over rounds; absent where the figure has none.
   */
  high: number | null;
  /**
   * Lower bound of the 95 % confidence interval, over rounds; absent where the figure has none.
   */
  low: number | null;
  /**
   * What is measured, such as `time` or `exits`: the same figure has the same name in all rows.
   */
  name: string;
  /**
   * Samples beyond the middle half by more than three times its width; they count like the others.
   */
  outliers: number | null;
  /**
   * 5th percentile of the samples, in `unit`; absent of figures without samples.
   */
  p5: number | null;
  /**
   * 95th percentile of the samples, in `unit`; absent of figures without samples.
   */
  p95: number | null;
  /**
   * The value of each round.
   */
  rounds: number[];
  /**
   * Samples that the value is of; absent of figures without samples.
   */
  samples: number | null;
  /**
   * What it is measured in.
   */
  unit: FigureUnit;
  /**
   * Its value, in `unit`; for times, the median of all samples.
   */
  value: number;
}
/**
 * What differs within a fleet. Figures per second are per second of a vCPU.
 */
export interface Fleet {
  /**
   * What is advised by the newest recording of each host, on most hosts first.
   */
  advice: FleetAdvice[];
  /**
   * What the others are compared with; absent if there are no others.
   */
  against: string | null;
  /**
   * By what recordings are put on sides: `kernel`, `host`, `week` or `day`.
   */
  by: FleetBy;
  /**
   * Each of the others, shape by shape.
   */
  comparisons: FleetComparison[];
  /**
   * Confidence of the intervals, in per cent.
   */
  confidence_percent: number;
  /**
   * Exits in these recordings.
   */
  exits: number;
  /**
   * The day of the earliest of these recordings, as YYYY-MM-DD; empty if there is none.
   */
  first_day: string;
  /**
   * Hosts that these recordings were made on.
   */
  hosts: number;
  /**
   * The day of the latest of these recordings, as YYYY-MM-DD; empty if there is none.
   */
  last_day: string;
  /**
   * Files of the store that could not be read; nothing in them is counted here.
   */
  left_out: LeftOutFile[];
  /**
   * Records that the recorders of these recordings lost: exits are too few by about as many.
   */
  lost: number;
  /**
   * What is on one side only, and so is not compared.
   */
  not_compared: string[];
  /**
   * Hosts whose VMs cost far more or less than is usual for their shape, the farthest first.
   */
  outliers: Outlier[];
  /**
   * Recordings of the store that are in this report: those from the days that were asked for.
   */
  recordings: number;
  /**
   * Name and version of this layout. Fields may be added within a version; none changes its meaning.
   */
  schema: string;
  /**
   * The largest certain difference in cost, or that none is certain.
   */
  verdict: Headline;
}
/**
 * Something to change on many hosts.
 */
export interface FleetAdvice {
  /**
   * The change that is advised.
   */
  change: string;
  /**
   * The kind of time that it wins: `exits`, `wake_ups`, `host_cpu`, `steal`, `forced_out`.
   */
  gain_kind: string;
  /**
   * Upper bound of the gain, in nanoseconds per second, all these hosts together.
   */
  high_ns_per_s: number;
  /**
   * Hosts whose newest recording has this advice.
   */
  hosts: number;
  /**
   * Lower bound of the gain, in nanoseconds per second, all these hosts together.
   */
  low_ns_per_s: number;
  /**
   * How the gain was got: `replayed`, `counted`, `simulated`, `published`.
   */
  method: string;
}
/**
 * VMs of one shape, with one kernel (or week, …) and with another.
 */
export interface FleetComparison {
  /**
   * What the store has of `value`: VMs of this shape alone.
   */
  after: FleetSide;
  /**
   * What the store has of `against`: VMs of this shape alone.
   */
  before: FleetSide;
  /**
   * All reasons together first, then reason by reason, most costly first.
   */
  rows: ReasonComparison[];
  /**
   * Reasons left out by --top.
   */
  rows_left_out: number;
  /**
   * The shape of the VMs that are compared: CPU model, architecture and number of vCPUs.
   */
  shape: Shape;
  /**
   * Whether a side has fewer than two hosts (recordings, where hosts are compared). Then no difference is called certain:
   * verdicts are `too few`, and intervals cover only what differs over time.
   */
  too_few: boolean;
  /**
   * The kernel, host, week or day that is compared with `against`.
   */
  value: string;
}
/**
 * Who is on one side of a comparison.
 */
export interface FleetSide {
  /**
   * Hosts with recordings on this side.
   */
  hosts: number;
  /**
   * Recordings on this side.
   */
  recordings: number;
  /**
   * Time recorded, times the vCPUs that ran, in nanoseconds.
   */
  vcpu_ns: number;
}
/**
 * VMs that may be compared with one another.
 */
export interface Shape {
  /**
   * Machine architecture; empty if unknown.
   */
  arch: string;
  /**
   * The CPU's model; empty if unknown.
   */
  cpu: string;
  /**
   * vCPUs that a VM has; 0 if unknown.
   */
  vcpus: number;
}
/**
 * A file that could not be read.
 */
export interface LeftOutFile {
  /**
   * Its path, below the store.
   */
  path: string;
  /**
   * Why it was left out.
   */
  why: string;
}
/**
 * A host that is far from the others.
 */
export interface Outlier {
  /**
   * What exits of these VMs cost on this host, in nanoseconds per second of a vCPU.
   */
  cost_ns_per_s: number;
  /**
   * The host that stands out.
   */
  host: string;
  /**
   * Hosts with VMs of this shape, this one included.
   */
  hosts: number;
  /**
   * The median of that over all hosts with VMs of this shape.
   */
  median_ns_per_s: number;
  /**
   * The reason that is farthest from its own median.
   */
  reason: string;
  /**
   * The median of that over all hosts with VMs of this shape.
   */
  reason_median_ns_per_s: number;
  /**
   * What exits for that reason cost on this host, in nanoseconds per second of a vCPU.
   */
  reason_ns_per_s: number;
  /**
   * How far it is from all other hosts with VMs of this shape, by ratios, in parts of what is certain at 95 % for all of these
   * hosts together: beyond 1 or -1.
   */
  score: number;
  /**
   * The shape of the VMs for which it does.
   */
  shape: Shape;
}
/**
 * What a trial found.
 */
export interface TrialReport {
  /**
   * When the trial began, as RFC 3339 writes it; empty of a dry run.
   */
  began: string;
  /**
   * What each whole block found; of more than 500, some at the same distance and the last. Empty of trials of earlier
   * versions.
   */
  blocks: TrialBlockRow[];
  /**
   * Exits by reason, those that cost most first; empty where they were not counted.
   */
  causes: TrialCauseRow[];
  /**
   * What the first metric is, in words; empty of trials of earlier versions.
   */
  decided_by: string;
  /**
   * The name of the host.
   */
  host: string;
  /**
   * How the settings were left; absent of a dry run.
   */
  left?: TrialLeftRow;
  /**
   * The files or threads that were set.
   */
  places: string[];
  /**
   * The plan of the trial.
   */
  plan: TrialPlanRow;
  /**
   * What was recorded before the trial to predict from; absent where nothing is predicted.
   */
  predicted_from?: PredictedFromRow;
  /**
   * Name and version of this layout. Fields may be added within a version; none changes its meaning.
   */
  schema: string;
  /**
   * Of a trial of delays, what shorter exits are worth; absent of others.
   */
  sensitivity?: SensitivityRow;
  /**
   * What was found; of a dry run, that nothing was measured.
   */
  verdict: TrialVerdictRow;
}
/**
 * A block of turns.
 */
export interface TrialBlockRow {
  /**
   * Its number, from 1.
   */
  block: number;
  /**
   * By tried setting, in the order of the verdict's.
   */
  settings: BlockChangeRow[];
}
/**
 * What a block found of the first metric under a setting.
 */
export interface BlockChangeRow {
  /**
   * The change in this block, in per cent of the value in force; null where it has no bound, as are those below.
   */
  block_percent: number | null;
  /**
   * The change over all blocks up to this one.
   */
  change_percent: number | null;
  /**
   * The upper bound of that interval.
   */
  high_percent: number | null;
  /**
   * The lower bound of its interval.
   */
  low_percent: number | null;
}
/**
 * Exits for a reason in the turns of each setting.
 */
export interface TrialCauseRow {
  /**
   * The exit reason.
   */
  reason: string;
  /**
   * By setting, in the plan's order.
   */
  settings: CauseRateRow[];
}
/**
 * Exits for a reason in the turns of a setting.
 */
export interface CauseRateRow {
  /**
   * Cost in per cent of vCPU time.
   */
  cost_percent: number;
  /**
   * Exits in each second of vCPU time.
   */
  per_s: number;
}
/**
 * How the settings were left.
 */
export interface TrialLeftRow {
  /**
   * What was done, in words.
   */
  done: string[];
  /**
   * What could not be restored, in words.
   */
  failed: string[];
  /**
   * Whether a tried value was left in force.
   */
  kept: boolean;
  /**
   * Whether something was left as somebody else has set it, or as the kernel has.
   */
  unchanged: boolean;
}
/**
 * What a trial was to do.
 */
export interface TrialPlanRow {
  /**
   * The chance of any false alarm, at most.
   */
  alpha: number;
  /**
   * The turns of each block, as positions in `settings`.
   */
  blocks: number[][];
  /**
   * What the trial could find of a metric that spreads little, as usual or much; absent of a trial of delays, and of trials of earlier
   * versions.
   */
  could_find?: CouldFindRow[];
  /**
   * How long all turns take together, with settling.
   */
  length_ns: number;
  /**
   * What the order was drawn with.
   */
  seed: number;
  /**
   * The settings that were compared; the first was in force.
   */
  settings: string[];
  /**
   * Time between setting and measuring.
   */
  settle_ns: number;
  /**
   * Time that is measured of each turn.
   */
  turn_ns: number;
}
/**
 * The smallest change that is found in 80 of 100 trials that use all of their blocks.
 */
export interface CouldFindRow {
  /**
   * The change, up or down, in per cent of the value in force.
   */
  change_percent: number;
  /**
   * What turns of one setting differ by, each by itself: the standard deviation, in per cent of their mean.
   */
  turns_differ_percent: number;
}
/**
 * The recording from which was predicted.
 */
export interface PredictedFromRow {
  /**
   * Number of halts in the recording.
   */
  halts: number;
  /**
   * The length of the recording, in nanoseconds.
   */
  length_ns: number;
}
/**
 * What 100 ns less in each exit are worth, found by delays that were added to exits.
 */
export interface SensitivityRow {
  /**
   * Which exits were delayed: `all` or `to_user_space`.
   */
  exits: "all" | "to_user_space";
  /**
   * Exits of that kind in each second of the turns, those with a delay of 0 included; null of a dry run.
   */
  exits_per_s: number | null;
  /**
   * The upper bound of that interval.
   */
  high_percent: number | null;
  /**
   * What was measured with each delay, that of 0 first.
   */
  levels: DelayLevelRow[];
  /**
   * The lower bound of its interval, which holds whenever one looks.
   */
  low_percent: number | null;
  /**
   * How often the program did not run, as another one was at work on the CPU; 0 on kernels that do not count it.
   */
  missed: number;
  /**
   * What 100 ns less in each exit are worth, in per cent of the metric without delays, above 0 if shorter exits are better;
   * null where it is unknown or has no bound, as are those below.
   */
  percent_per_100ns: number | null;
  /**
   * The reason of the delayed exits; null if exits of all reasons were.
   */
  reason: string | null;
  /**
   * `found`: the slope is not 0; `negligible`: it is smaller than what matters; `undecided`; or `not_judged` where a metric without
   * a value, or a limit, ended the trial.
   */
  ruling: "found" | "negligible" | "undecided" | "not_judged";
  /**
   * What was found, in words; empty where nothing was begun, and of trials of earlier versions.
   */
  text: string;
  /**
   * The VM, as it was named.
   */
  vm: string;
}
/**
 * A delay, and what was measured with it.
 */
export interface DelayLevelRow {
  /**
   * The delay that was achieved, of exits that were not delayed included: mean of the turns; null of none.
   */
  achieved_ns: number | null;
  /**
   * The delay that was asked for.
   */
  asked_ns: number;
  /**
   * Those of them that were delayed.
   */
  delayed: number;
  /**
   * Exits in the measured turns.
   */
  exits: number;
  /**
   * Those that were not, as there was no room for their thread.
   */
  lost: number;
  /**
   * Mean of the metric; null of no turn.
   */
  mean: number | null;
  /**
   * Those that were not, as their thread had spent its share of the time.
   */
  skipped: number;
}
/**
 * What a trial found.
 */
export interface TrialVerdictRow {
  /**
   * Number of whole blocks.
   */
  blocks: number;
  /**
   * `decided`, `time_over`, `aborted` or `stopped`; absent where nothing was begun.
   */
  end?: "decided" | "time_over" | "aborted" | "stopped";
  /**
   * The setting to leave in force; null to revert.
   */
  keep: string | null;
  /**
   * The smallest change that matters, in per cent.
   */
  matters_percent: number;
  /**
   * What each setting came to.
   */
  settings: TriedSettingRow[];
  /**
   * How long they took, with settling.
   */
  took_ns: number;
  /**
   * Number of turns that were measured.
   */
  turns: number;
  /**
   * The same in words, with what was beyond a limit, or why it was stopped.
   */
  why: string;
}
/**
 * A setting beside the one in force.
 */
export interface TriedSettingRow {
  /**
   * What each metric came to; the first decides.
   */
  effects: TrialEffectRow[];
  /**
   * Of `undecided`, how much longer it takes at this spread.
   */
  more_ns: number | null;
  /**
   * `better`, `worse`, `no_difference`, `undecided`, or `not_judged` where a metric without a value, or a limit, ended the trial.
   */
  ruling: "better" | "worse" | "no_difference" | "undecided" | "not_judged";
  /**
   * The setting and its value, as `NAME=VALUE`.
   */
  setting: string;
  /**
   * Of `undecided`, the smallest change that would have been certain by now, in per cent.
   */
  visible_percent: number | null;
}
/**
 * A metric under a setting.
 */
export interface TrialEffectRow {
  /**
   * The change within blocks, of which each counts alike, in per cent of the value in force; null where it is unknown or has no
   * bound, as are those below.
   */
  change_percent: number | null;
  /**
   * The upper bound of that interval.
   */
  high_percent: number | null;
  /**
   * Whether higher values are better.
   */
  higher_is_better: boolean;
  /**
   * Mean of the turns of the setting in force, in the blocks that are compared; before one is whole, in all turns.
   */
  in_force: number | null;
  /**
   * The lower bound of its interval, which holds whenever one looks.
   */
  low_percent: number | null;
  /**
   * The change from the one mean to the other, in per cent of that in force; null where it is unknown. Blocks with high values
   * weigh more in it than in `change_percent`, which decides.
   */
  means_percent: number | null;
  /**
   * The name of the metric.
   */
  metric: string;
  /**
   * What was predicted before the trial; absent if nothing was.
   */
  predicted?: PredictionRow;
  /**
   * `ns`, `percent`, `per_second` or `number`.
   */
  unit: "ns" | "percent" | "per_second" | "number";
  /**
   * Mean of the turns of this setting.
   */
  with: number | null;
}
/**
 * What a metric was predicted to come to, in its unit.
 */
export interface PredictionRow {
  /**
   * The upper bound of that interval.
   */
  high: number;
  /**
   * With the setting in force, as recorded before the trial.
   */
  in_force: number;
  /**
   * The lower bound of its 95 % confidence interval.
   */
  low: number;
  /**
   * What became of it, carried over to what was measured to be in force: `held` if the mean is within its interval; `more` or
   * `less` if the interval of what was measured is beyond it, too; `perhaps_more` or `perhaps_less` if only the mean is. Absent of
   * trials of earlier versions, which did not carry it over.
   */
  outcome?: "held" | "more" | "less" | "perhaps_more" | "perhaps_less";
  /**
   * The value that was predicted with this setting, if as much is in force as was recorded, as are its bounds.
   */
  with: number;
}
/**
 * The fills of pages.
 */
export interface Palette {
  dark: Fills;
  light: Fills;
}
/**
 * Fills on one ground: colours; after `/`, `\` or `:` hatched in it, that way, or dotted.
 */
export interface Fills {
  /**
   * Of all other reasons, and of what else has no colour of its own.
   */
  other: string;
  /**
   * Of parts of time, by column.
   */
  parts: {
    [k: string]: string;
  };
  /**
   * Of the phases of an exit's cost, in their order.
   *
   * @minItems 6
   * @maxItems 6
   */
  phases: [string, string, string, string, string, string];
  /**
   * Of reasons, the costliest first.
   *
   * @minItems 8
   * @maxItems 8
   */
  reasons: [string, string, string, string, string, string, string, string];
}
