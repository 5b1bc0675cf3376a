// The page of a comparison: what changed from one recording to another, and how long exits took in both.
import { colors } from "./colors";
import { Lengths, reason } from "./diff_lengths";
import { count, ns, rate, share } from "./format";
import { Intervals, type IntervalRow } from "./intervals";
import { kept } from "./link";
import { Shell } from "./shell";
import { DataTable, type Column } from "./table";
import type { Change, Compared, Comparison, Other, Side } from "./types";

const MEASURES = ["cost_ns_per_s", "rate_per_s", "mean_ns", "p50_ns", "p99_ns"] as const;
type Measure = (typeof MEASURES)[number];

const TITLES: Record<Measure, string> = { cost_ns_per_s: "Cost", rate_per_s: "Rate", mean_ns: "Mean", p50_ns: "p50", p99_ns: "p99" };
const UNITS: Record<Measure, string> = {
  cost_ns_per_s: "Time that exits cost in a second",
  rate_per_s: "Exits per second",
  mean_ns: "Mean length, from exit to entry",
  p50_ns: "Median length, from exit to entry",
  p99_ns: "99th percentile of length, from exit to entry",
};

const measure = kept<Measure>("measure", "cost_ns_per_s", MEASURES);
const relative = kept<"" | "yes">("relative", "", ["", "yes"]);

const TOP = 20;

function show(of: Measure, value: number | null): string {
  if (value === null) return "–";
  const sign = value < 0 ? "-" : "";
  if (of === "rate_per_s") return `${sign}${Math.abs(value) < 100 && value !== 0 ? Math.abs(value).toFixed(Math.abs(value) < 10 ? 2 : 1) : rate(Math.abs(value))}/s`;
  return of === "cost_ns_per_s" ? `${ns(value)}/s` : ns(value);
}

const signed = (of: Measure, value: number | null): string => (value === null ? "–" : (value > 0 ? "+" : "") + show(of, value));

function percent(value: number): string {
  const size = Math.abs(value * 100);
  return `${value > 0 ? "+" : value < 0 ? "-" : ""}${size >= 99.95 ? count(size) : size.toFixed(1)}%`;
}

const difference = (change: Change): number | null => (change.before === null || change.after === null ? null : change.after - change.before);
const part = (change: Change): number | null => (change.before ? (difference(change) ?? NaN) / change.before : null);
const partText = (change: Change): string => {
  const found = part(change);
  return found === null || Number.isNaN(found) ? "–" : percent(found);
};
const interval = (of: Measure, change: Change): string => (change.low === null ? "–" : `${signed(of, change.low)} to ${signed(of, change.high)}`);

const VERDICTS = { more: "more", less: "less", unclear: "may be chance", "too few": "too few to tell" } as const;

function verdictColor(change: Change): string {
  const { states, other } = colors.value;
  return change.verdict === "more" ? states[2]! : change.verdict === "less" ? states[1]! : other;
}

const name = (row: Compared): string => row.reason ?? "all exits";
const changeOf = (row: Compared, of: Measure = measure.value): Change =>
  row.changes.find((change) => change.measure === of) ?? { measure: of, before: null, after: null, low: null, high: null, verdict: "too few" };

const columns = (): Column<Compared>[] => {
  const of = measure.value;
  const number = (title: string, value: (change: Change) => number | null, text: (change: Change) => string): Column<Compared> => ({
    title,
    value: (row) => value(changeOf(row)),
    show: (row) => text(changeOf(row)),
  });
  return [
    {
      title: "reason",
      text: true,
      value: name,
      show: (row) => (
        <button type="button" class="reason" aria-pressed={reason.value === (row.reason ?? "")} onClick={() => (reason.value = row.reason ?? "")}>
          {name(row)}
        </button>
      ),
    },
    { title: "exits before", value: (row) => row.count_before, show: (row) => count(row.count_before) },
    { title: "exits after", value: (row) => row.count_after, show: (row) => count(row.count_after) },
    number(`${TITLES[of]} before`, (change) => change.before, (change) => show(of, change.before)),
    number("after", (change) => change.after, (change) => show(of, change.after)),
    number("change", difference, (change) => signed(of, difference(change))),
    number("of before", part, partText),
    number("interval from", (change) => change.low, (change) => signed(of, change.low)),
    number("to", (change) => change.high, (change) => signed(of, change.high)),
    {
      title: "verdict",
      text: true,
      value: (row) => VERDICTS[changeOf(row).verdict],
      show: (row) => (
        <>
          <i class="swatch" style={{ background: verdictColor(changeOf(row)) }} aria-hidden="true" />
          {VERDICTS[changeOf(row).verdict]}
        </>
      ),
    },
  ];
};

function Changes({ diff }: { diff: Comparison }) {
  const rows = (): IntervalRow[] => {
    const of = measure.value;
    return diff.rows.slice(0, TOP + 1).map((row) => {
      const change = changeOf(row);
      const scale = relative.value ? (change.before ? 1 / change.before : NaN) : 1;
      const scaled = (value: number | null) => (value === null || !Number.isFinite(value * scale) ? null : value * scale);
      return {
        label: name(row),
        value: scaled(difference(change)),
        low: scaled(change.low),
        high: scaled(change.high),
        color: verdictColor(change),
        after: `${show(of, change.before)} → ${show(of, change.after)}, ${partText(change)}`,
        tip: [
          ["before", show(of, change.before)],
          ["after", show(of, change.after)],
          ["change", `${signed(of, difference(change))} (${partText(change)})`],
          [`${diff.confidence_percent}% interval`, interval(of, change)],
          ["verdict", VERDICTS[change.verdict]],
          ["exits", `${count(row.count_before)} → ${count(row.count_after)}`],
        ],
      };
    });
  };
  return (
    <Intervals
      id="changes"
      title={`Change by reason: ${TITLES[measure.value]}`}
      summary={() => `After minus before, with the ${diff.confidence_percent} per cent interval; ${diff.rows.filter((row) => ["more", "less"].includes(changeOf(row).verdict)).length} of ${diff.rows.length} rows have a verdict.`}
      axis={`After minus before: ${UNITS[measure.value][0]!.toLowerCase()}${UNITS[measure.value].slice(1)}${relative.value ? ", as part of before (%)" : ""}`}
      rows={rows}
      show={(value) => (relative.value ? percent(value) : signed(measure.value, value))}
      click={(at) => (reason.value = diff.rows[at]?.reason ?? "")}
      legend={() => {
        const { states, other } = colors.value;
        return [
          { label: "more than before", color: states[2]! },
          { label: "less than before", color: states[1]! },
          { label: "may be chance, or too few", color: other },
        ];
      }}
      twin={() => ({ columns: columns(), rows: diff.rows })}
      note={`The line is the ${diff.confidence_percent} % interval of the change: where it holds zero, it may be chance. ${diff.rows.length > TOP + 1 ? `The ${TOP} reasons that cost most; the table has all.` : ""}`}
      controls={
        <>
          <span role="group" aria-label="What is compared" class="choice">
            {MEASURES.map((of) => (
              <button type="button" aria-pressed={measure.value === of} onClick={() => (measure.value = of)}>
                {TITLES[of]}
              </button>
            ))}
          </span>
          <button type="button" aria-pressed={relative.value !== ""} onClick={() => (relative.value = relative.value ? "" : "yes")}>
            as part of before
          </button>
        </>
      }
    />
  );
}

function Card({ head, children }: { head: string; children: preact.ComponentChildren }) {
  return (
    <div class="card">
      <h3>{head}</h3>
      <p>{children}</p>
    </div>
  );
}

/** The change of one measure, as a sentence. */
function Sentence({ row, of }: { row: Compared; of: Measure }) {
  const change = changeOf(row, of);
  return (
    <>
      {show(of, change.before)} → <b>{show(of, change.after)}</b>, {partText(change)}: <b>{VERDICTS[change.verdict]}</b>
      {change.low !== null && ` (${interval(of, change)})`}.
    </>
  );
}

function Overview({ diff }: { diff: Comparison }) {
  const [all, ...reasons] = diff.rows;
  const size = (row: Compared) => Math.abs(difference(changeOf(row, "cost_ns_per_s")) ?? 0);
  const sure = reasons.filter((row) => ["more", "less"].includes(changeOf(row, "cost_ns_per_s").verdict)).sort((a, b) => size(b) - size(a));
  const unsure = reasons.length - sure.length;
  return (
    <section id="overview" aria-label="Overview">
      <h2>What changed</h2>
      <Coverage diff={diff} />
      <div class="cards">
        <Card head="Cost of all exits">{all && <Sentence row={all} of="cost_ns_per_s" />}</Card>
        <Card head="Exits per second">{all && <Sentence row={all} of="rate_per_s" />}</Card>
        <Card head="Where most of it comes from">
          {sure.length === 0
            ? "No reason's cost changed by more than chance explains."
            : sure.slice(0, 3).map((row, at) => (
                <>
                  {at > 0 && "; "}
                  <b>{name(row)}</b> {signed("cost_ns_per_s", difference(changeOf(row, "cost_ns_per_s")))} ({partText(changeOf(row, "cost_ns_per_s"))})
                </>
              ))}
        </Card>
        <Card head="How sure that is">
          {`${diff.confidence_percent} % intervals, from blocks of time drawn anew 2,000 times. Of ${reasons.length} reasons, the cost of ${sure.length} changed; that of ${unsure} may be as before.`}
          {diff.before.traces.length + diff.after.traces.length === 2 && " One recording a side: what differs from run to run is not in it; give several with --before and --after."}
        </Card>
      </div>
    </section>
  );
}

const side = (of: Side): string => of.traces.map((trace) => trace.name.split("/").at(-1)).join(", ");

function Coverage({ diff }: { diff: Comparison }) {
  const bad = (of: Side) => of.lines.filter((line) => line.severity === "loss" || line.severity === "error");
  const sides: [string, Side][] = [
    ["Before", diff.before],
    ["After", diff.after],
  ];
  const lost = sides.some(([, of]) => bad(of).length > 0);
  const { selection } = diff;
  const chosen = [
    selection.vms.length && `VM ${selection.vms.join(", ")}`,
    selection.vcpus.length && `vCPU ${selection.vcpus.join(", ")}`,
    selection.reasons.length && `reason ${selection.reasons.join(", ")}`,
    selection.longer_than_ns && `longer than ${ns(selection.longer_than_ns)}`,
  ].filter(Boolean);
  return (
    <div class={lost ? "coverage bad" : "coverage"} role={lost ? "alert" : undefined}>
      {lost && <b>Figures are affected by what is missing.</b>}
      {sides.map(([title, of]) => (
        <p>
          <b>{title}:</b> {side(of)}, {ns(of.duration_ns)}, {count(of.exits)} exits of {count(of.events)} events
          {bad(of).map((line) => `; ${line.text.replace(/\.$/, "")}: ${count(line.count)}`)}.
        </p>
      ))}
      {chosen.length > 0 && <p>Of both only {chosen.join("; ")}.</p>}
    </div>
  );
}

export function DiffPage({ diff, lengths, version }: Extract<Other, { kind: "diff" }>) {
  const ofAll = (of: Side) => (of.traces[0] ? [of.traces[0].arch, of.traces[0].hostname, of.traces[0].release].filter(Boolean).join(" ") : "");
  const hosts = [...new Set([ofAll(diff.before), ofAll(diff.after)])].filter(Boolean);
  return (
    <Shell
      title={`${side(diff.after)} against ${side(diff.before)}`}
      about={[`comparison`, ...hosts, `${share(diff.confidence_percent / 100)} confidence`].join(" · ")}
      sections={[
        { id: "overview", title: "Overview" },
        { id: "reasons", title: "Reasons" },
        { id: "lengths", title: "Lengths" },
      ]}
      version={version}
      made={
        <>
          as text: <code>exitscope diff BEFORE AFTER</code>, as JSON: <code>--format json</code>
        </>
      }
    >
      <Overview diff={diff} />
      <section id="reasons" aria-label="Reasons">
        <h2>Change by reason</h2>
        <Changes diff={diff} />
        <DataTable columns={columns()} rows={diff.rows} caption="Change by reason" top={TOP + 1} chosen={(row) => reason.value === (row.reason ?? "")} />
        {diff.rows_left_out > 0 && <p class="note">{diff.rows_left_out} further reasons were left out by --top.</p>}
      </section>
      <Lengths diff={diff} lengths={lengths} />
    </Shell>
  );
}
