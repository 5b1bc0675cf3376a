// Latency over time: a heat map of all exits, and the slowest ones singly.
import { useSignal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { bottomAxis, leftAxis, logarithmic, timeScale, type Plot, type Scale } from "./axes";
import { bucketStart } from "./buckets";
import { reasonOf } from "./causes";
import { Chart, type Tip } from "./chart";
import { colors, mix, reasonColor, reasonLegend } from "./colors";
import { UNTIMED } from "./data";
import { clock, count, ns } from "./format";
import { exitParts, handlers, heat, partName, slowest, slowestIn, timeOf, type Heat } from "./aggregate";
import { slownessOf } from "./moments";
import { pick } from "./single";
import { chosen, data, selectedVcpus, lengths, selectRange, range, reasons } from "./selection";
import type { Surface } from "./surface";
import { DataTable, type Column } from "./table";
import { brushing, drawBrush, timePlot, vcpuName, timeAxis, zero } from "./timeline";
import type { SlowOne } from "./types.gen";

/** The next 1, 2 or 5 times a power of ten that is not above. */
function below(nanos: number): number {
  const ten = 10 ** Math.floor(Math.log10(Math.max(1, nanos)) + 1e-9);
  return ten * ([5, 2].find((lead) => ten * lead <= nanos) ?? 1);
}

/** From the shortest to the longest length that there is, and 1 us to 1 ms if there is none. */
function span(map: Heat): [number, number] {
  if (map.low > map.high) return [1e3, 1e6];
  return [below(bucketStart(map.low & ~1)), bucketStart(map.high + 2)];
}

/** How far from cold to hot one exit is; and how many are hot at least. */
const ONE = 0.25;
const MANY = 10;

export function HeatMap() {
  const brush = useSignal<[number, number] | null>(null);
  const last = useRef<{ plot: Plot; x: Scale; y: Scale; map: Heat } | null>(null);
  const [pointing] = useState(() => brushing(() => last.current?.x ?? null, brush));
  const draw = (s: Surface, w: number, h: number) => {
    const plot = timePlot(w, 8, h - 46);
    const map = heat(range.value, plot.w / 5);
    const [low, high] = span(map);
    const y = logarithmic(low, high, plot.y + plot.h, plot.y);
    const x = timeScale(range.value[0], range.value[1], plot.x, plot.x + plot.w, zero());
    leftAxis(s, plot, y, "Length, from exit to entry (log)");
    bottomAxis(s, plot, x, timeAxis());
    // One exit looks the same at every zoom.
    const most = Math.log(Math.max(map.most, MANY));
    const [cold, hot] = colors.value.heat as [string, string];
    const shades = Array.from({ length: 33 }, (_, at) => mix(cold, hot, ONE + ((1 - ONE) * at) / 32));
    const rows: { long: number; y: number; h: number }[] = [];
    for (let long = map.low & ~1; long <= map.high; long += 2) {
      const top = y(bucketStart(long + 2));
      rows.push({ long, y: top, h: Math.max(1, y(Math.max(1, bucketStart(long))) - top) });
    }
    const shade = (row: number, group: number): number => {
      const place = group * UNTIMED + rows[row]!.long;
      const many = map.counts[place]! + map.counts[place + 1]!;
      return many ? Math.round((Math.log(many) / most) * 32) : -1;
    };
    const left = x(map.from);
    s.clip(plot.x, plot.y, plot.w, plot.h, () => s.cells(left, x(map.from + map.across * map.step) - left, rows, map.across, shade, shades));
    last.current = { plot, x, y, map };
    drawBrush(s, plot, x, brush.value);
  };
  const hit = (px: number, py: number): Tip | null => {
    const drawn = last.current;
    if (!drawn || px < drawn.plot.x || py > drawn.plot.y + drawn.plot.h) return null;
    const { map } = drawn;
    const group = Math.floor((drawn.x.back(px) - map.from) / map.step);
    const nanos = drawn.y.back(py);
    let long = Math.max(0, map.low & ~1);
    while (long < map.high && bucketStart(long + 2) <= nanos) long += 2;
    if (group < 0 || group >= map.across) return null;
    return {
      title: `${ns(bucketStart(long))} to ${ns(bucketStart(long + 2))}`,
      lines: [
        ["exits", count(map.counts[group * UNTIMED + long]! + map.counts[group * UNTIMED + long + 1]!)],
        ["from", `${((map.from + group * map.step - zero()) / 1e9).toFixed(6)} s`],
        ["for", ns(map.step)],
      ],
    };
  };
  const twin = () => {
    const map = heat(range.value, 80);
    const rows: number[][] = [];
    for (let group = 0; group < map.across; group++)
      for (let long = 0; long <= map.high; long++) {
        const many = map.counts[group * UNTIMED + long]!;
        if (many) rows.push([map.from + group * map.step - zero(), bucketStart(long), bucketStart(long + 1), many]);
      }
    return {
      columns: [
        { title: "Time (s)", show: (row: number[]) => (row[0]! / 1e9).toFixed(4), value: (row: number[]) => row[0]! / 1e9 },
        { title: "length from", show: (row: number[]) => ns(row[1]!), value: (row: number[]) => row[1]! },
        { title: "to", show: (row: number[]) => ns(row[2]!), value: (row: number[]) => row[2]! },
        { title: "exits", show: (row: number[]) => count(row[3]!), value: (row: number[]) => row[3]! },
      ],
      rows,
    };
  };
  const legend = () => {
    const [cold, hot] = colors.value.heat as [string, string];
    return [
      { label: "1 exit", color: mix(cold, hot, ONE) },
      { label: "many exits (log)", color: hot },
    ];
  };
  return (
    <Chart
      id="heat"
      title="Lengths of exits over time"
      summary={() => "How many exits took how long, when."}
      height={280}
      draw={draw}
      hit={hit}
      legend={legend}
      twin={twin}
      pointing={pointing}
      time={() => last.current?.x ?? null}
      note={reasons.value || selectedVcpus.value || chosen.value !== null || lengths.value ? "Only the selection above." : undefined}
    />
  );
}

const time = (title: string, value: (exit: SlowOne) => number): Column<SlowOne> => ({ title, value, show: (exit) => ns(value(exit)) });

/** Xen is no kernel. */
const handlerName = (exit: SlowOne): string => (exit.handler === "kernel" ? handlers()[0] : exit.handler);

export const slowColumns = (): Column<SlowOne>[] => [
  {
    title: "when (s)",
    value: (exit) => (exit.after_ns - zero()) / 1e9,
    show: (exit) =>
      data.timelines.in_time ? (
        <button type="button" class="plain" title={`${clock(data.timelines.base_ns, exit.after_ns)} on the trace's clock`} onClick={() => around(exit)}>
          {((exit.after_ns - zero()) / 1e9).toFixed(6)}
        </button>
      ) : (
        "–"
      ),
  },
  { title: "vCPU", text: true, value: (exit) => vcpuName(exit.lane), show: (exit) => vcpuName(exit.lane) },
  {
    title: "reason",
    text: true,
    value: (exit) => exit.reason,
    show: (exit) => (
      <>
        <i class="swatch" style={{ background: reasonColor(reasonOf(exit.cause)) }} aria-hidden="true" /> {exit.reason}
      </>
    ),
  },
  { title: "subject", text: true, value: (exit) => exit.subject ?? "", show: (exit) => exit.subject ?? "" },
  { title: "handler", text: true, value: handlerName, show: handlerName },
  time("cost and steal", slownessOf),
  ...exitParts().map((part) => time(partName(part), (exit) => timeOf(exit, part.column))),
];

/** Looks at an exit with some time before and after it. */
export function around(exit: SlowOne): void {
  if (data.singles) pick({ lane: exit.lane, at: exit.after_ns });
  const long = data.singles ? exit.exit_time_ns : Math.max(exit.exit_time_ns, data.snap * 4);
  selectRange(exit.after_ns - long, exit.after_ns + long * 1.5);
}

export function Slowest() {
  const brush = useSignal<[number, number] | null>(null);
  const last = useRef<{ plot: Plot; x: Scale; y: Scale; list: SlowOne[] } | null>(null);
  const [pointing] = useState(() => brushing(() => last.current?.x ?? null, brush));
  const draw = (s: Surface, w: number, h: number) => {
    const list = slowestIn(range.value);
    const plot = timePlot(w, 10, h - 48);
    const [low, high] = list.length ? [below(slownessOf(list.at(-1)!)), slownessOf(list[0]!) * 1.3] : [1e3, 1e6];
    const y = logarithmic(low, Math.max(high, low * 2), plot.y + plot.h, plot.y);
    const x = timeScale(range.value[0], range.value[1], plot.x, plot.x + plot.w, zero());
    leftAxis(s, plot, y, "Cost and steal (log)");
    bottomAxis(s, plot, x, timeAxis());
    for (const exit of [...list].reverse()) s.dot(x(exit.after_ns), y(slownessOf(exit)), 3, reasonColor(reasonOf(exit.cause)));
    last.current = { plot, x, y, list };
    drawBrush(s, plot, x, brush.value);
  };
  const hit = (px: number, py: number): Tip | null => {
    let best: SlowOne | null = null;
    let near = 144;
    for (const exit of last.current?.list ?? []) {
      const away = (last.current!.x(exit.after_ns) - px) ** 2 + (last.current!.y(slownessOf(exit)) - py) ** 2;
      if (away < near) [best, near] = [exit, away];
    }
    return (
      best && {
        title: `${best.reason} ${best.subject ?? ""}`,
        lines: [
          ["vCPU", vcpuName(best.lane)],
          ["at", `${((best.after_ns - zero()) / 1e9).toFixed(6)} s`],
          ["trace clock", clock(data.timelines.base_ns, best.after_ns)],
          ...exitParts()
            .filter((part) => timeOf(best!, part.column) > 0)
            .map((part): [string, string] => [partName(part), ns(timeOf(best!, part.column))]),
        ],
      }
    );
  };
  const legend = () => reasonLegend(slowest.value.map((exit) => reasonOf(exit.cause)));
  return (
    <section id="slowest" aria-label="Slowest exits">
      <h2>Slowest exits</h2>
      {data.timelines.in_time && (
        <Chart
          id="slow"
          title="When slow exits were"
          summary={() => `${slowest.value.length} of the slowest exits of every part of the recording.`}
          height={220}
          draw={draw}
          hit={hit}
          legend={legend}
          twin={() => ({ columns: slowColumns(), rows: slowest.value })}
          pointing={pointing}
          time={() => last.current?.x ?? null}
          note="The ten exits with the most cost and steal, of each hundredth of the recording."
        />
      )}
      <DataTable columns={slowColumns()} rows={slowest.value} caption="The slowest exits" top={10} />
    </section>
  );
}
