// Time: how ranges are chosen, and a strip of the whole recording that stays in sight.
import { computed, type Signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { timeScale, type Plot, type Scale } from "./axes";
import { Chart, type Pointing } from "./chart";
import { colors, partFills } from "./colors";
import { count, ns } from "./format";
import { drawNotes } from "./notes";
import { partName, parts, statesOver, together, type Stacks } from "./aggregate";
import { settledRange, data, isWhole, selectedVcpus, liveFor, selectRange, selectAll, pan, range, vms, zoom } from "./selection";
import { textWidth, type Surface } from "./surface";

export const zero = (): number => {
  if (liveFor()) return data.to;
  // As `--from +1s` counts.
  const first = data.report.traces[0]?.first_ns;
  return first === undefined ? data.from : Number(BigInt(first) - BigInt(data.timelines.base_ns));
};

export const timeAxis = (): string => (liveFor() ? "Time, from the last moment that is shown (s)" : "Time since the first event (s)");

export function vcpuName(lane: number): string {
  const row = data.timelines.vcpus[lane];
  if (!row) return "further vCPUs";
  const one = new Set(data.timelines.vcpus.map((row) => row.vm_label)).size === 1;
  return one ? `vCPU ${row.vcpu_label}` : `${row.vm_label} / ${row.vcpu_label}`;
}

/** A VM's row above those of its vCPUs, or in place of them. */
export const vmRow = (vm: string, vcpus: number, isOpen: boolean): string => `${isOpen ? "▾" : "▸"} ${vm} (${vcpus})`;

/** What rows of time are called, at its widest. */
const namesWidth = computed(() => {
  const all = vms();
  const heads = all.length > 1 ? all.filter((vm) => vm.lanes.size > 1).map((vm) => vmRow(vm.name, vm.lanes.size, true)) : [];
  return Math.max(...heads.concat(data.timelines.vcpus.map((_, lane) => vcpuName(lane))).map((name) => textWidth(name)), 0);
});

/** Where charts over time draw: all in the same place, so that a moment has the same place in all. Names or an axis have room on the left,
 * the values of axes on the right. */
export function timePlot(w: number, y: number, h: number): Plot {
  const left = Math.round(Math.min(190, Math.max(72, Math.min(w * 0.28, namesWidth.value + 34))));
  return { x: left, y, w: w - left - (w < 500 ? 44 : 62), h };
}

/** Keys that move the range; the same wherever time runs along. */
export function timeKey(event: KeyboardEvent): boolean {
  const keys: Record<string, () => void> = {
    ArrowLeft: () => pan(-0.2),
    ArrowRight: () => pan(0.2),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    w: () => zoom(0.5),
    "-": () => zoom(2),
    s: () => zoom(2),
    a: () => pan(-0.2),
    d: () => pan(0.2),
    Home: selectAll,
    "0": selectAll,
  };
  const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
  act?.();
  return act !== undefined;
}

/** Dragging selects; with Shift it moves. `scale` is that of the last drawing. */
export function brushing(scale: () => Scale | null, brush: { value: [number, number] | null }, click?: (x: number, y: number) => void): Pointing {
  let moving: { x: number; from: number; to: number } | null = null;
  let began: number | null = null;
  const at = (x: number) => scale()!.back(x);
  return {
    cursor: "crosshair",
    key: timeKey,
    double: selectAll,
    wheel(x, _y, event) {
      const [from, to] = range.value;
      if (event.shiftKey) pan(Math.sign(event.deltaY || event.deltaX) * 0.1);
      else zoom(event.deltaY > 0 ? 1.25 : 0.8, (at(x) - from) / (to - from));
    },
    down(x, _y, event) {
      if (event.shiftKey) moving = { x, from: range.value[0], to: range.value[1] };
      else {
        began = at(x);
        brush.value = [began, began];
      }
    },
    move(x) {
      if (moving) {
        const [from, to] = range.value;
        const by = (at(x) - at(moving.x)) * ((moving.to - moving.from) / (to - from));
        selectRange(moving.from - by, moving.to - by);
      } else if (began !== null) brush.value = [Math.min(began, at(x)), Math.max(began, at(x))];
    },
    up(x, y) {
      const chosen = brush.value;
      brush.value = null;
      moving = began = null;
      if (!chosen) return;
      if (Math.abs(scale()!(chosen[1]) - scale()!(chosen[0])) > 4) selectRange(...chosen);
      else click?.(x, y);
    },
  };
}

export function drawBrush(s: Surface, plot: Plot, scale: Scale, brush: [number, number] | null): void {
  if (!brush) return;
  const [from, to] = [scale(brush[0]), scale(brush[1])];
  s.rect(plot.x, plot.y, Math.max(0, from - plot.x), plot.h, colors.value.ground + "aa");
  s.rect(to, plot.y, Math.max(0, plot.x + plot.w - to), plot.h, colors.value.ground + "aa");
  s.frame(from, plot.y, to - from, plot.h, colors.value.accent);
}

/** Stacked bars, group by group, up from the plot's bottom; `full` is the value of its whole height. */
export function drawStacks(s: Surface, plot: Plot, scale: Scale, stacks: Stacks, fills: string[], full: (group: number) => number): void {
  const base = plot.y + plot.h;
  const below = new Float64Array(stacks.groups);
  const edges = Array.from({ length: stacks.groups + 1 }, (_, group) =>
    // Whole pixels, so that no seams show between bars.
    Math.min(plot.x + plot.w, Math.max(plot.x, Math.round(scale(stacks.from + group * stacks.step)))),
  );
  stacks.values.forEach((values, series) => {
    const fill = fills[series]!;
    for (let group = 0; group < stacks.groups; ) {
      const h = (values[group]! / full(group)) * plot.h;
      const [from, bottom] = [group, below[group]!];
      // Neighbours that look the same are one bar.
      for (; group < stacks.groups; group++) {
        const own = (values[group]! / full(group)) * plot.h;
        if (group > from && (Math.abs(own - h) > 0.2 || Math.abs(below[group]! - bottom) > 0.2)) break;
        below[group]! += own;
      }
      const [left, right] = [edges[from]!, edges[group]!];
      if (h > 0 && right > left) s.rect(left, base - bottom - h, right - left, h, fill);
    }
  });
}

/** The most that all series of a group are together. */
export const peak = (stacks: Stacks): number => {
  let most = 0;
  for (let group = 0; group < stacks.groups; group++) {
    let sum = 0;
    for (const values of stacks.values) sum += values[group]!;
    if (sum > most) most = sum;
  }
  return most || 1;
};

/** Dragging moves the range that is grabbed, or sets one. */
function sliding(scale: () => Scale): Pointing {
  let grabbed: { x: number; from: number; to: number } | null = null;
  let began: number | null = null;
  return {
    key: timeKey,
    cursor: "ew-resize",
    double: selectAll,
    wheel: (_x, _y, event) => zoom(event.deltaY > 0 ? 1.25 : 0.8),
    down(x) {
      const at = scale().back(x);
      const [from, to] = range.value;
      if (!isWhole.value && at >= from && at <= to) grabbed = { x, from, to };
      else began = at;
    },
    move(x) {
      if (grabbed) {
        const by = scale().back(x) - scale().back(grabbed.x);
        selectRange(grabbed.from + by, grabbed.to + by);
      } else if (began !== null && Math.abs(scale()(began) - x) > 3) {
        const at = scale().back(x);
        selectRange(Math.min(began, at), Math.max(began, at));
      }
    },
    up() {
      grabbed = began = null;
    },
  };
}

/** The whole recording, with the range marked; drag in it to move or set the range. */
export function Strip() {
  const held = useRef<{ scale: Scale; of: unknown; table: unknown; palette: unknown; sum: Stacks | null } | null>(null);
  const draw = (s: Surface, w: number, h: number) => {
    const plot = timePlot(w, 2, h - 16);
    const scale = timeScale(data.from, data.to, plot.x, plot.x + plot.w, zero());
    const of = selectedVcpus.value;
    const palette = colors.value;
    const table = data.tables.states;
    const before = held.current;
    const isSame = before?.of === of && before.table === table && before.palette === palette && before.scale.ticks.at(-1)?.at === scale.ticks.at(-1)?.at;
    if (!held.current || !isSame) {
      const chosen = [...statesOver([data.from, data.to], plot.w / 2)].filter(([lane]) => !of || of.has(lane));
      held.current = { scale, of, table, palette, sum: together(chosen.map((row) => row[1])) };
    }
    const { sum } = held.current;
    // As high as when most vCPUs were there: many may be there for a moment each.
    const most = sum ? peak(sum) : 1;
    if (sum) s.kept(held.current, w, h, (s) => drawStacks(s, plot, scale, sum, partFills(parts.value), () => most));
    s.text(plot.x - 8, plot.y + plot.h / 2, "all vCPUs", { color: colors.value.soft, align: "right", size: 10, width: plot.x - 12 });
    for (const tick of scale.ticks) s.text(tick.at, h - 6, tick.label + " s", { color: colors.value.soft, align: "center", size: 10 });
    if (!isWhole.value) drawBrush(s, plot, scale, range.value);
    drawNotes(s, plot, scale);
  };
  const [pointing] = useState(() => sliding(() => held.current!.scale));
  const twin = () => ({
    columns: [
      { title: "From (s)", show: (row: number[]) => ns(row[0]!), value: (row: number[]) => row[0]! / 1e9 },
      ...parts.value.map((part, at) => ({ title: partName(part), show: (row: number[]) => ns(row[at + 1]!), value: (row: number[]) => row[at + 1]! })),
    ],
    rows: rowsOf(together([...statesOver([data.from, data.to], 100)].map((row) => row[1]))),
  });
  return (
    <Chart
      id="strip"
      title="The whole recording"
      summary={() => `What all vCPUs did over ${ns(data.to - data.from)}; the range looked at is ${ns(settledRange.value[1] - settledRange.value[0])} long.`}
      height={58}
      draw={draw}
      time={() => held.current?.scale ?? null}
      pointing={pointing}
      twin={twin}
    />
  );
}

/** A row of a table for each group: its begin, then the series. */
export function rowsOf(stacks: Stacks | null): number[][] {
  if (!stacks) return [];
  return Array.from({ length: stacks.groups }, (_, group) => [
    stacks.from + group * stacks.step - zero(),
    ...stacks.values.map((values) => values[group]!),
  ]);
}

/** Switches between all vCPUs and the `first` that cost most, where there are more. */
export function MoreVcpus({ all, first }: { all: Signal<boolean>; first: number }) {
  const many = data.timelines.vcpus.length;
  return many > first ? (
    <button type="button" onClick={() => (all.value = !all.value)}>
      {all.value ? `The ${first} vCPUs that cost most` : `All ${count(many)} vCPUs`}
    </button>
  ) : null;
}
