// Reasons: figures, distribution of lengths, percentile curve.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { bottomAxis, leftAxis, leftRoom, linear, logarithmic, type Plot, type Scale } from "./axes";
import { Chart, type Tip } from "./chart";
import { reasonColor, reasonName } from "./colors";
import { lengthFrom } from "./data";
import { count, ns, rate, share } from "./format";
import { byLength, byReason, costOf, handlers, quantile, totalOf, type Sums } from "./query";
import { calm, data, isAll, only, reasons } from "./state";
import type { Surface } from "./surface";
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
  const row = isAll.value ? data.report.rows.find((row) => row.reason === reasonName(reason)) : undefined;
  if (row) return { p50: row.p50_ns, p99: row.p99_ns, p999: row.p999_ns, max: row.max_ns };
  const counts = byLength.value.get(reason);
  const at = (part: number) => (counts ? quantile(counts, part) : null);
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: null };
}

function rows(): Row[] {
  const all = [...byReason.value];
  const cost = all.reduce((sum, row) => sum + costOf(row[1]), 0) || 1;
  const seconds = (isAll.value ? data.report.duration_ns : calm.value[1] - calm.value[0]) / 1e9 || 1;
  return all
    .map(([reason, sums]) => ({
      reason,
      name: reasonName(reason),
      sums,
      rate: sums.count / seconds,
      share: costOf(sums) / cost,
      ...figures(reason),
    }))
    .sort((a, b) => costOf(b.sums) - costOf(a.sums) || b.sums.count - a.sums.count);
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
      <button type="button" class="reason" aria-pressed={reasons.value?.has(row.reason) ?? false} onClick={() => only(reasons, row.reason)}>
        <i class="swatch" style={{ background: reasonColor(row.reason) }} aria-hidden="true" />
        {row.name}
      </button>
    ),
  },
  number("exits", (row) => row.sums.count, count),
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
  number("idle", (row) => row.sums.idle),
  number("not running", (row) => row.sums.waiting),
  number("mean", (row) => (row.sums.timed ? totalOf(row.sums) / row.sums.timed : null)),
  number("p50", (row) => row.p50),
  number("p99", (row) => row.p99),
  number("p99.9", (row) => row.p999),
  number("max", (row) => row.max),
  number(`to ${handlers()[1]}`, (row) => (row.sums.count ? row.sums.toUser / row.sums.count : 0), share),
];

/** Reasons whose lengths are drawn: those chosen, or the most costly and most frequent. */
function drawn(): number[] {
  const all = rows().filter((row) => byLength.value.has(row.reason));
  if (reasons.value) return all.filter((row) => reasons.value!.has(row.reason)).map((row) => row.reason);
  const frequent = [...all].sort((a, b) => b.sums.count - a.sums.count).slice(0, 3);
  return [...new Set([...all.slice(0, 4), ...frequent])].map((row) => row.reason);
}

function ends(list: number[]): [number, number] {
  let [low, high] = [510, 0];
  for (const reason of list) {
    byLength.value.get(reason)!.forEach((many, at) => {
      // Where the clock stood still there is no length; a logarithm has no place for it.
      if (many && at > 0 && at < low) low = at;
      if (many && at > high) high = at;
    });
  }
  return low > high ? [40, 120] : [low, high + 1];
}

const zeros = (): number => drawn().reduce((sum, reason) => sum + byLength.value.get(reason)![0]!, 0);

export const LENGTH_AXIS = "Length, from exit to entry (log)";

export function Distribution() {
  const log = useSignal(false);
  const last = useRef<{ plot: Plot; x: Scale; list: number[] } | null>(null);
  const draw = (s: Surface, w: number, h: number) => {
    const list = drawn();
    const [low, high] = ends(list);
    // Two of the eight lengths of a doubling together: steps that can be told apart.
    const sums = list.map((reason) => grouped(reason));
    const most = Math.max(1, ...sums.flatMap((counts) => [...counts]));
    const plot = { x: 0, y: 8, w: 0, h: h - 46 };
    const y = log.value
      ? logarithmic(0.7, most * 1.3, plot.y + plot.h, plot.y, count)
      : linear(0, most * 1.05, plot.y + plot.h, plot.y, 5, (value) => count(value));
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 24;
    const x = logarithmic(Math.max(1, lengthFrom(low)), lengthFrom(high), plot.x, plot.x + plot.w);
    leftAxis(s, plot, y, log.value ? "Exits (log)" : "Exits");
    bottomAxis(s, plot, x, LENGTH_AXIS);
    s.clip(plot.x, plot.y, plot.w, plot.h, () => {
      list.forEach((reason, at) => {
        const points: number[] = [x(Math.max(1, lengthFrom(low & ~1))), plot.y + plot.h];
        for (let group = low >> 1; group <= high >> 1; group++) {
          const value = sums[at]![group]!;
          const top = log.value && !value ? plot.y + plot.h : y(value);
          points.push(x(Math.max(1, lengthFrom(group * 2))), top, x(Math.max(1, lengthFrom(group * 2 + 2))), top);
        }
        points.push(points.at(-2)!, plot.y + plot.h);
        const color = reasonColor(reason);
        s.path(points, color, 1.5, color + "22");
      });
    });
    last.current = { plot, x, list };
  };
  const grouped = (reason: number): Float64Array => {
    const counts = byLength.value.get(reason)!;
    const sums = new Float64Array(257);
    counts.forEach((many, at) => (sums[at >> 1]! += many));
    return sums;
  };
  const hit = (x: number): Tip | null => {
    if (!last.current) return null;
    const long = last.current.x.back(x);
    let group = 0;
    while (group < 254 && lengthFrom(group * 2 + 2) <= long) group++;
    const lines = last.current.list.map((reason): [string, string] => [reasonName(reason), count(grouped(reason)[group]!)]);
    return { title: `${ns(lengthFrom(group * 2))} to ${ns(lengthFrom(group * 2 + 2))}`, lines };
  };
  const twin = () => {
    const list = drawn();
    const [low, high] = ends(list);
    const sums = list.map(grouped);
    return {
      columns: [
        { title: "from", show: (row: number[]) => ns(row[0]!), value: (row: number[]) => row[0]! },
        { title: "to", show: (row: number[]) => ns(row[1]!), value: (row: number[]) => row[1]! },
        ...list.map((reason, at) => ({
          title: `${reasonName(reason)} (exits)`,
          show: (row: number[]) => count(row[at + 2]!),
          value: (row: number[]) => row[at + 2]!,
        })),
      ],
      rows: Array.from({ length: (high >> 1) + 1 }, (_, group) => [lengthFrom(group * 2), lengthFrom(group * 2 + 2), ...sums.map((counts) => counts[group]!)]).filter(
        (row, group) => group >= low >> 1 || row.slice(2).some((many) => many > 0),
      ),
    };
  };
  return (
    <Chart
      id="distribution"
      title="How long exits took"
      summary={() => `Distributions of ${drawn().map(reasonName).join(", ")}.`}
      height={260}
      draw={draw}
      hit={hit}
      legend={legend}
      twin={twin}
      note={zeros() ? `${count(zeros())} exits whose two ends bear the same moment are not drawn.` : undefined}
      controls={
        <button type="button" aria-pressed={log.value} onClick={() => (log.value = !log.value)}>
          log counts
        </button>
      }
    />
  );
}

const legend = () =>
  drawn().map((reason) => ({ label: reasonName(reason), color: reasonColor(reason), click: () => only(reasons, reason) }));

/** Parts of exits, so that every further nine takes the same room. */
const CURVE = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999];
const nines = (part: number): number => -Math.log10(1 - part);

export function Percentiles() {
  const last = useRef<{ plot: Plot; x: Scale; list: number[] } | null>(null);
  const draw = (s: Surface, w: number, h: number) => {
    const list = drawn();
    const [low, high] = ends(list);
    const plot = { x: 0, y: 8, w: 0, h: h - 46 };
    const y = logarithmic(Math.max(1, lengthFrom(low)), lengthFrom(high), plot.y + plot.h, plot.y);
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 24;
    const across = linear(0, 4, plot.x, plot.x + plot.w, 4, String);
    const labels: [number, string][] = [[0, "0"], [0.5, "50"], [0.9, "90"], [0.99, "99"], [0.999, "99.9"], [0.9999, "99.99"]];
    const x = Object.assign((value: number) => across(value), {
      back: across.back,
      ticks: labels.map(([part, label]) => ({ at: across(nines(part)), label })),
    });
    leftAxis(s, plot, y, "Length (log)");
    bottomAxis(s, plot, x, "Percentile of exits (%)");
    for (const reason of list) {
      const counts = byLength.value.get(reason)!;
      const timed = counts.reduce((sum, many) => sum + many, 0);
      const points: number[] = [];
      for (const part of CURVE) {
        // Beyond what the number of exits can tell, there is no curve.
        if (1 - part < 1 / timed && part > 0.5) break;
        points.push(x(nines(part)), y(quantile(counts, part) ?? 1));
      }
      if (points.length > 2) s.path(points, reasonColor(reason), 1.8);
      else if (points.length) s.dot(points[0]!, points[1]!, 3, reasonColor(reason));
    }
    last.current = { plot, x, list };
  };
  const hit = (x: number): Tip | null => {
    if (!last.current) return null;
    const part = Math.min(0.9999, Math.max(0.01, 1 - 10 ** -last.current.x.back(x)));
    return {
      title: `${(part * 100).toFixed(part > 0.99 ? 2 : 0)}% of exits took at most`,
      lines: last.current.list.map((reason): [string, string] => [reasonName(reason), ns(quantile(byLength.value.get(reason)!, part))]),
    };
  };
  const twin = () => ({
    columns: [
      { title: "percentile", show: (part: number) => String(part * 100), value: (part: number) => part * 100 },
      ...drawn().map((reason) => ({
        title: reasonName(reason),
        show: (part: number) => ns(quantile(byLength.value.get(reason)!, part)),
        value: (part: number) => Math.round(quantile(byLength.value.get(reason)!, part) ?? 0),
      })),
    ],
    rows: CURVE,
  });
  return (
    <Chart id="percentiles" title="Percentiles" summary={() => `Length by percentile of ${drawn().map(reasonName).join(", ")}.`} height={260} draw={draw} hit={hit} legend={legend} twin={twin} />
  );
}

export function Reasons() {
  const list = rows();
  const part = isAll.value ? "" : " Percentiles of a range are to within an eighth of their value.";
  return (
    <section id="reasons" aria-label="Reasons">
      <h2>Exits by reason</h2>
      <p class="note">Cost is the time that kernel and user space handled exits; idle time and waiting for a CPU are no cost. Choose a reason to see only it.{part}</p>
      <DataTable columns={columns()} rows={list} caption="Exits by reason" top={12} chosen={(row) => reasons.value?.has(row.reason) ?? false} />
      <div class="pair">
        <Distribution />
        <Percentiles />
      </div>
    </section>
  );
}
