// Reasons: figures, distribution of lengths, percentile curve.
import { quantile } from "./buckets";
import { reasonColor, reasonName } from "./colors";
import { count, ns, rate, share } from "./format";
import { Distribution, Percentiles, type LengthSeries } from "./exit_time_distribution";
import { areLengthsOfReasons, byExitTime, byReason, costOf, handlers, timeOf, totalOf, waitParts, type Sums } from "./aggregate";
import { settledRange, chosen, data, isAll, lengths, selectOnly, reasons } from "./selection";
import { DataTable, type Column } from "./table";

interface Row {
  reason: number;
  name: string;
  sums: Sums;
  rate: number;
  share: number;
  p50: number | null;
  p99: number | null;
  p999: number | null;
  max: number | null;
}

/** Whole recordings have the report's own percentiles. */
function figures(reason: number): Pick<Row, "p50" | "p99" | "p999" | "max"> {
  const row = isAll.value && chosen.value === null ? data.report.rows.find((row) => row.reason === reasonName(reason)) : undefined;
  if (row) return { p50: row.p50_ns, p99: row.p99_ns, p999: row.p999_ns, max: row.max_ns };
  const counts = byExitTime.value.get(reason);
  const at = (per10000: number) => (counts ? quantile(counts, per10000) : null);
  return { p50: at(5_000), p99: at(9_900), p999: at(9_990), max: null };
}

function rows(): Row[] {
  const all = [...byReason.value];
  const cost = all.reduce((sum, row) => sum + costOf(row[1]), 0) || 1;
  const seconds = (isAll.value ? data.report.duration_ns : settledRange.value[1] - settledRange.value[0]) / 1e9 || 1;
  return all
    .map(([reason, sums]) => ({
      reason,
      name: reasonName(reason),
      sums,
      rate: sums.count! / seconds,
      share: costOf(sums) / cost,
      ...figures(reason),
    }))
    .sort((a, b) => costOf(b.sums) - costOf(a.sums) || b.sums.count! - a.sums.count!);
}

const number = (title: string, value: (row: Row) => number | null, show: (value: number) => string = ns): Column<Row> => ({
  title,
  value,
  show: (row) => {
    const found = value(row);
    return found === null ? "–" : show(found);
  },
});

const columns = (): Column<Row>[] => [
  {
    title: "reason",
    text: true,
    value: (row) => row.name,
    show: (row) => (
      <button type="button" class="reason" aria-pressed={reasons.value?.has(row.reason) ?? false} onClick={() => selectOnly(reasons, row.reason)}>
        <i class="swatch" style={{ background: reasonColor(row.reason) }} aria-hidden="true" />
        {row.name}
      </button>
    ),
  },
  number("exits", (row) => row.sums.count!, count),
  number("per second", (row) => row.rate, rate),
  number("cost", (row) => costOf(row.sums)),
  {
    title: "share of cost",
    value: (row) => row.share,
    show: (row) => (
      <span class="share">
        <i style={{ width: `${row.share * 60}px`, background: reasonColor(row.reason) }} />
        {share(row.share)}
      </span>
    ),
  },
  ...waitParts().map(({ name, column }) => number(name, (row) => timeOf(row.sums, column))),
  number("mean", (row) => (row.sums.timed ? totalOf(row.sums) / row.sums.timed : null)),
  number("p50", (row) => row.p50),
  number("p99", (row) => row.p99),
  number("p99.9", (row) => row.p999),
  number("max", (row) => row.max),
  ...(data.report.event_kinds.user_space ? [number(`to ${handlers()[1]}`, (row) => (row.sums.count ? row.sums.user_exits! / row.sums.count : 0), share)] : []),
];

/** Reasons whose lengths are drawn: those chosen, or the most costly and most frequent. */
function drawn(): number[] {
  const all = rows().filter((row) => byExitTime.value.has(row.reason));
  if (reasons.value) return all.filter((row) => reasons.value!.has(row.reason)).map((row) => row.reason);
  const frequent = [...all].sort((a, b) => b.sums.count! - a.sums.count!).slice(0, 3);
  return [...new Set([...all.slice(0, 4), ...frequent])].map((row) => row.reason);
}

const series = (): LengthSeries[] =>
  drawn().map((reason) => ({
    label: reasonName(reason),
    color: reasonColor(reason),
    counts: byExitTime.value.get(reason)!,
    click: () => selectOnly(reasons, reason),
  }));

export function Reasons() {
  const list = rows();
  const part = isAll.value ? "" : " Percentiles of a range are to within an eighth of their value.";
  return (
    <section id="reasons" aria-label="Reasons">
      <h2>Exits by reason</h2>
      <p class="note">{`Cost is the time in which ${handlers().join(" and ")} handled exits, and nothing else. Choose a reason to see only it.${part}`}</p>
      <DataTable columns={columns()} rows={list} caption="Exits by reason" top={12} chosen={(row) => reasons.value?.has(row.reason) ?? false} />
      <div class="pair">
        <Distribution id="distribution" title="How long exits took" series={series} bits={3} chosen={lengths} note={`Drag to choose lengths: the timeline, the lengths over time and the slowest exits then show only these.${areLengthsOfReasons() ? " Of all exits for the reason: this page does not have lengths by cause." : ""}`} />
        <Percentiles id="percentiles" title="Percentiles" series={series} bits={3} />
      </div>
    </section>
  );
}
