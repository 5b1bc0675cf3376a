// Subjects of exits: ports, MMIO, MSRs, hypercalls, CPUID leaves, …
import { Bars, type Bar } from "./bars";
import { chooseSubject, subjectId } from "./causes";
import { colors } from "./colors";
import { count, ns, share } from "./format";
import { bySubject, handlers } from "./aggregate";
import { go } from "./shell";
import { chosen, data, isAll } from "./selection";
import { DataTable, type Column } from "./table";
import type { AboutRow, SubjectRow, PioRow } from "./types.gen";

type Subject = Pick<SubjectRow, "subject_kind" | "subject_key" | "direction">;

interface Row {
  about: number;
  label: string;
  count: number;
  cost: number;
  detail?: SubjectRow;
  pio: PioRow[];
}

const same = (row: Subject, about: AboutRow) => row.subject_kind === about.kind && row.subject_key === about.key && row.direction === about.direction;

/** Details and accesses of each thing of this report, looked up once. */
let joined = new Map<number, Pick<Row, "detail" | "pio">>();
let joinedOf: unknown = null;

function rows(kind: Kind): Row[] {
  if (joinedOf !== data.report) [joined, joinedOf] = [new Map(), data.report];
  return [...bySubject.value]
    .filter(([at]) => data.timelines.subjects[at]?.kind === kind)
    .map(([at, sums]) => {
      const about = data.timelines.subjects[at]!;
      if (!joined.has(at))
        joined.set(at, {
          detail: data.report.subjects.find((row) => same(row, about)),
          pio: data.report.pio?.rows.filter((row) => same(row, about)) ?? [],
        });
      return { about: at, label: about.label, ...sums, ...joined.get(at)! };
    })
    .sort((a, b) => b.cost - a.cost || b.count - a.count);
}

const columns = (heading: string): Column<Row>[] => {
  const whole: Column<Row>[] = [
    { title: "mean", value: (row) => row.detail?.mean_ns ?? null, show: (row) => ns(row.detail?.mean_ns) },
    { title: "p50", value: (row) => row.detail?.p50_ns ?? null, show: (row) => ns(row.detail?.p50_ns) },
    { title: "p99", value: (row) => row.detail?.p99_ns ?? null, show: (row) => ns(row.detail?.p99_ns) },
    { title: "max", value: (row) => row.detail?.max_ns ?? null, show: (row) => ns(row.detail?.max_ns) },
    { title: `to ${handlers()[1]}`, value: (row) => row.detail?.user_space_share ?? null, show: (row) => share(row.detail?.user_space_share ?? 0) },
  ];
  const gain = (row: Row) => row.pio.reduce((sum, of) => sum + (of.gain_ns ?? 0), 0);
  const access: Column<Row>[] = [
    {
      title: "gain if the kernel handled it",
      value: gain,
      show: (row) => (row.pio.some((of) => of.gain_ns !== null) ? ns(gain(row)) : "–"),
    },
  ];
  return [
    {
      title: heading,
      text: true,
      value: (row) => row.label,
      show: (row) => (
        <button type="button" class="plain" aria-pressed={chosen.value === subjectId(row.about)} onClick={() => chooseSubject(row.about)}>
          <code>{row.label}</code>
        </button>
      ),
    },
    { title: "exits", value: (row) => row.count, show: (row) => count(row.count) },
    { title: "cost", value: (row) => row.cost, show: (row) => ns(row.cost) },
    ...(isAll.value ? whole : []),
    ...(isAll.value && (heading === "port" || heading === "MMIO page") ? access : []),
  ];
};

type Kind = AboutRow["kind"];

/** One of each kind. */
const NAMES: Record<Kind, string> = {
  vmgexit: "request",
  ghcb_msr: "request",
  exception: "exception",
  host_vector: "vector",
  host_irq: "IRQ",
  eoi_vector: "vector",
  incomplete_ipi: "vector",
  task_switch: "what led to it",
  page_fault: "fault",
  ept_violation: "violation",
  memory_fault: "fault",
  debug_register: "register",
  apic: "register",
  control_register: "register",
  system_register: "register",
  instruction: "instruction",
  program_interruption: "interruption",
  sigp: "order",
  cpuid: "CPUID leaf",
  mmio: "MMIO page",
  port: "port",
  msr: "MSR",
  hypercall: "hypercall",
  hyperv_hypercall: "hypercall",
  xen_hypercall: "hypercall",
  hcall: "hypercall",
  hvc: "function",
  diagnose: "diagnose",
};

/** Goes to the things of this kind. */
export function seeKind(kind: string): void {
  const place = `devices-${kind}`;
  const of = document.getElementById(place);
  if (of instanceof HTMLDetailsElement) of.open = true;
  go("devices", place);
}

/** What an exit was about, beside things of other kinds. */
export const subjectName = (at: number): string => data.timelines.subjects[at]?.text ?? "(further)";

export function Devices() {
  const kinds = [...new Set(data.timelines.subjects.map((about) => about.kind))];
  const order: Kind[] = ["port", "mmio", "msr"];
  kinds.sort((a, b) => (order.indexOf(a) + 1 || 9) - (order.indexOf(b) + 1 || 9));
  const hottest = (): (Bar & { cost: number; about: number })[] =>
    [...bySubject.value]
      .map(([at, sums]) => ({ about: at, label: subjectName(at), parts: [sums.cost], cost: sums.cost, after: `${ns(sums.cost)}, ${count(sums.count)} exits` }))
      .filter((bar) => bar.cost > 0)
      .sort((a, b) => b.cost - a.cost)
      .slice(0, 12);
  return (
    <section id="devices" aria-label="Devices">
      <h2>Subjects of exits</h2>
      <Bars
        id="hottest"
        title="Ports, MMIO, MSRs and calls that cost most"
        summary={() => `The most costly is ${hottest()[0]?.label ?? "unknown"}.`}
        axis="Cost of its exits (time)"
        bars={hottest}
        parts={["cost"]}
        fills={() => [colors.value.reasons[0]!]}
        show={ns}
        first="subject"
        click={(at) => chooseSubject(hottest()[at]!.about)}
      />
      {kinds.map((kind) => {
        const list = rows(kind);
        const heading = data.timelines.subjects.find((about) => about.kind === kind)!.heading;
        return (
          <details id={`devices-${kind}`} open={order.includes(kind)}>
            <summary>
              {heading} ({list.length})
            </summary>
            <DataTable columns={columns(NAMES[kind])} rows={list} caption={heading} top={8} chosen={(row) => chosen.value === subjectId(row.about)} />
          </details>
        );
      })}
      {data.left_out > 0 && <p class="note">{count(data.left_out)} subjects of the least cost have no percentiles on this page.</p>}
    </section>
  );
}
