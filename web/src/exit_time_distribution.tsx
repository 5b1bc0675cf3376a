// How long exits took: how many of which length, and the length by percentile; of reasons, or of two recordings.
import { useSignal, type Signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { bottomAxis, leftAxis, leftRoom, linear, logarithmic, type Plot, type Scale } from "./axes";
import { bucketStart, quantile, total } from "./buckets";
import { Chart, type LegendItem, type Pointing, type Tip } from "./chart";
import { count, ns } from "./format";
import { kept } from "./url_state";
import type { Surface } from "./surface";
import { drawBrush } from "./timeline";

export interface LengthSeries {
  label: string;
  color: string;
  /** Exits by bucket of length. */
  counts: ArrayLike<number>;
  /** What an exit counts for. */
  weight?: number;
  click?: () => void;
}

interface Props {
  id: string;
  title: string;
  series: () => LengthSeries[];
  /** Buckets to a doubling, as a power of two. */
  bits: number;
  note?: ComponentChildren;
}

interface DistributionProps extends Props {
  /** Of the axis, and of a column. */
  unit?: [string, string];
  show?: (value: number) => string;
  controls?: ComponentChildren;
  /** Lengths that were chosen, in ns; where they can be chosen, by dragging. */
  chosen?: Signal<[number, number] | null>;
}

/** Whether counts are drawn by their logarithm. */
const log = kept<"" | "yes">("log", "", ["", "yes"]);

const LENGTH_AXIS = "Length, from exit to entry (log)";

/** The first and the last bucket that has any. Where the clock stood still there is no length; a logarithm has no place
 * for it. */
function ends(series: LengthSeries[], bits: number): [number, number] {
  let [low, high] = [Infinity, 0];
  for (const { counts } of series)
    for (let at = 1; at < counts.length; at++) {
      if (!counts[at]) continue;
      if (at < low) low = at;
      if (at > high) high = at;
    }
  return low > high ? [5 << bits, 15 << bits] : [low, high + 1];
}

const names = (series: LengthSeries[]): string => series.map((one) => one.label).join(", ");
const legend = (series: LengthSeries[]): LegendItem[] => series.map(({ label, color, click }) => ({ label, color, click }));

/** Dragging chooses lengths; a click takes them back. */
function choosing(chosen: Signal<[number, number] | null>, brush: Signal<[number, number] | null>, at: (x: number) => number): Pointing {
  let began: number | null = null;
  return {
    cursor: "crosshair",
    down(x) {
      began = x;
    },
    move(x) {
      if (began !== null && Math.abs(x - began) > 4) brush.value = [at(Math.min(began, x)), at(Math.max(began, x))];
    },
    up() {
      chosen.value = brush.value && [Math.floor(brush.value[0]), Math.ceil(brush.value[1])];
      brush.value = began = null;
    },
  };
}

export function Distribution(props: DistributionProps) {
  const { id, title, series, bits, unit = ["Exits", "exits"], show = count, controls, chosen, note } = props;
  const brush = useSignal<[number, number] | null>(null);
  const [pointing] = useState(() => chosen && choosing(chosen, brush, (x) => last.current?.x.back(x) ?? 1));
  const last = useRef<{ plot: Plot; x: Scale; series: LengthSeries[]; sums: Float64Array[] } | null>(null);
  // Four lengths to a doubling: steps that can be told apart.
  const step = bits - 2;
  const from = (group: number) => bucketStart(group << step, bits);
  const grouped = ({ counts, weight = 1 }: LengthSeries): Float64Array => {
    const sums = new Float64Array(257);
    for (let at = 0; at < counts.length; at++) sums[at >> step]! += counts[at]! * weight;
    return sums;
  };
  const draw = (s: Surface, w: number, h: number) => {
    const list = series();
    const [low, high] = ends(list, bits).map((at) => at >> step) as [number, number];
    const sums = list.map(grouped);
    const shown = sums.map((values) => values.subarray(Math.max(low, 0), high + 1));
    const most = Math.max(...shown.flatMap((values) => [...values]), 1e-9);
    const least = Math.min(...shown.flatMap((values) => [...values].filter((value) => value > 0)), most);
    const plot = { x: 0, y: 8, w: 0, h: h - 46 };
    const y = log.value
      ? logarithmic(least * 0.7, most * 1.3, plot.y + plot.h, plot.y, show)
      : linear(0, most * 1.05, plot.y + plot.h, plot.y, 5, show);
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 24;
    const x = logarithmic(Math.max(1, from(low)), from(high + 1), plot.x, plot.x + plot.w);
    leftAxis(s, plot, y, log.value ? `${unit[0]} (log)` : unit[0]);
    bottomAxis(s, plot, x, LENGTH_AXIS);
    s.clip(plot.x, plot.y, plot.w, plot.h, () => {
      list.forEach(({ color }, at) => {
        const points: number[] = [x(Math.max(1, from(low))), plot.y + plot.h];
        for (let group = low; group <= high; group++) {
          const value = sums[at]![group]!;
          const top = log.value && !value ? plot.y + plot.h : y(value);
          points.push(x(Math.max(1, from(group))), top, x(Math.max(1, from(group + 1))), top);
        }
        points.push(points.at(-2)!, plot.y + plot.h);
        s.path(points, color, 1.5, color + "22");
      });
    });
    last.current = { plot, x, series: list, sums };
    drawBrush(s, plot, x, brush.value ?? chosen?.value ?? null);
  };
  const hit = (x: number): Tip | null => {
    if (!last.current) return null;
    const long = last.current.x.back(x);
    let group = 0;
    while (group < 254 && from(group + 1) <= long) group++;
    const lines = last.current.series.map(({ label }, at): [string, string] => [label, show(last.current!.sums[at]![group]!)]);
    return { title: `${ns(from(group))} to ${ns(from(group + 1))}`, lines };
  };
  const twin = () => {
    const list = series();
    const [low, high] = ends(list, bits).map((at) => at >> step) as [number, number];
    const sums = list.map(grouped);
    return {
      columns: [
        { title: "from", show: (row: number[]) => ns(row[0]!), value: (row: number[]) => row[0]! },
        { title: "to", show: (row: number[]) => ns(row[1]!), value: (row: number[]) => row[1]! },
        ...list.map(({ label }, at) => ({
          title: `${label} (${unit[1]})`,
          show: (row: number[]) => show(row[at + 2]!),
          value: (row: number[]) => row[at + 2]!,
        })),
      ],
      rows: Array.from({ length: high + 1 }, (_, group) => [from(group), from(group + 1), ...sums.map((values) => values[group]!)]).filter(
        (row, group) => group >= low || row.slice(2).some((many) => many > 0),
      ),
    };
  };
  const zeros = series().reduce((sum, one) => sum + one.counts[0]!, 0);
  return (
    <Chart
      id={id}
      title={title}
      summary={() => `Distributions of ${names(series())}.`}
      height={260}
      draw={draw}
      hit={hit}
      legend={() => legend(series())}
      twin={twin}
      pointing={pointing}
      note={zeros ? `${count(zeros)} exits with equal exit and entry timestamps are not drawn.` : note}
      controls={
        <>
          {controls}
          <button type="button" aria-pressed={log.value !== ""} onClick={() => (log.value = log.value ? "" : "yes")}>
            log counts
          </button>
        </>
      }
    />
  );
}

/** Parts of exits, of 10,000, so that every further nine takes the same room. */
const CURVE = [100, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 9_500, 9_800, 9_900, 9_950, 9_980, 9_990, 9_995, 9_999];
const nines = (per10000: number): number => -Math.log10(1 - per10000 / 10_000);

export function Percentiles({ id, title, series, bits, note }: Props) {
  const last = useRef<{ plot: Plot; x: Scale; series: LengthSeries[] } | null>(null);
  const at = (one: LengthSeries, per10000: number) => quantile(one.counts, per10000, bits);
  const draw = (s: Surface, w: number, h: number) => {
    const list = series();
    const [low, high] = ends(list, bits);
    const plot = { x: 0, y: 8, w: 0, h: h - 46 };
    const y = logarithmic(Math.max(1, bucketStart(low, bits)), bucketStart(high, bits), plot.y + plot.h, plot.y);
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 24;
    const across = linear(0, 4, plot.x, plot.x + plot.w, 4, String);
    const labels = [0, 5_000, 9_000, 9_900, 9_990, 9_999];
    const x = Object.assign((value: number) => across(value), {
      back: across.back,
      ticks: labels.map((per10000) => ({ at: across(nines(per10000)), label: String(per10000 / 100) })),
    });
    leftAxis(s, plot, y, "Length (log)");
    bottomAxis(s, plot, x, "Percentile of exits (%)");
    for (const one of list) {
      const timed = total(one.counts);
      const points: number[] = [];
      for (const per10000 of CURVE) {
        // Beyond what the number of exits can tell, there is no curve.
        if ((10_000 - per10000) * timed < 10_000 && per10000 > 5_000) break;
        points.push(x(nines(per10000)), y(at(one, per10000) ?? 1));
      }
      if (points.length > 2) s.path(points, one.color, 1.8);
      else if (points.length) s.dot(points[0]!, points[1]!, 3, one.color);
    }
    last.current = { plot, x, series: list };
  };
  const hit = (x: number): Tip | null => {
    if (!last.current) return null;
    const per10000 = Math.min(9_999, Math.max(100, Math.round(10_000 - 10 ** (4 - last.current.x.back(x)))));
    return {
      title: `${(per10000 / 100).toFixed(per10000 > 9_900 ? 2 : 0)}% of exits took at most`,
      lines: last.current.series.map((one): [string, string] => [one.label, ns(at(one, per10000))]),
    };
  };
  const twin = () => ({
    columns: [
      { title: "percentile", show: (per10000: number) => String(per10000 / 100), value: (per10000: number) => per10000 / 100 },
      ...series().map((one) => ({
        title: one.label,
        show: (per10000: number) => ns(at(one, per10000)),
        value: (per10000: number) => at(one, per10000) ?? 0,
      })),
    ],
    rows: CURVE,
  });
  return (
    <Chart id={id} title={title} summary={() => `Length by percentile of ${names(series())}.`} height={260} draw={draw} hit={hit} legend={() => legend(series())} twin={twin} note={note} />
  );
}
