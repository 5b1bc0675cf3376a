// Time: a strip of the whole recording that stays in sight, and what each vCPU does within the range.
import { useSignal, type Signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { bottomAxis, timeScale, type Plot, type Scale } from "./axes";
import { Chart, type Pointing, type Tip } from "./chart";
import { colors, partFills, ranked, reasonColor, reasonName } from "./colors";
import { clock, count, ns, share } from "./format";
import { costliest, exitsOver, partName, parts, statesOver, together, type Stacks } from "./query";
import { calm, data, isWhole, lanes, liveFor, look, lookAtAll, only, pan, range, reasons, stack, zoom } from "./state";
import { missingIn, phasesOf, pick, picked, singlesInView, type Single } from "./single";
import { textWidth, type Surface } from "./surface";

/** vCPUs that are drawn unless all are asked for. */
const FIRST_LANES = 12;
/** Height of a lane: the fewer, the taller. */
const laneHeight = (lanes: number): number => (lanes <= 2 ? 84 : lanes <= 6 ? 60 : 44);

export const zero = (): number => {
  if (liveFor()) return data.to;
  const firsts = data.over.lanes.flatMap((lane) => lane.first_ns ?? []);
  return firsts.length ? Math.min(...firsts) : data.from;
};

export const timeAxis = (): string => (liveFor() ? "Time, from the last moment that is shown (s)" : "Time since the first entry or exit (s)");

export function laneName(lane: number): string {
  const row = data.over.lanes[lane];
  if (!row) return "further vCPUs";
  const one = new Set(data.over.lanes.map((row) => row.vm_label)).size === 1;
  return one ? `vCPU ${row.vcpu_label}` : `${row.vm_label} / ${row.vcpu_label}`;
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
    Home: lookAtAll,
    "0": lookAtAll,
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
    double: lookAtAll,
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
        look(moving.from - by, moving.to - by);
      } else if (began !== null) brush.value = [Math.min(began, at(x)), Math.max(began, at(x))];
    },
    up(x, y) {
      const chosen = brush.value;
      brush.value = null;
      moving = began = null;
      if (!chosen) return;
      if (Math.abs(scale()!(chosen[1]) - scale()!(chosen[0])) > 4) look(...chosen);
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

interface Series {
  labels: string[];
  fills: string[];
}

function series(): Series {
  if (stack.value === "states") return { labels: parts.value.map(partName), fills: partFills(parts.value) };
  const own = ranked.filter((reason) => !reasons.value || reasons.value.has(reason));
  return { labels: [...own.map(reasonName), "other reasons"], fills: [...own.map(reasonColor), colors.value.other] };
}

function stacksOf(at: [number, number], most: number): Map<number, Stacks> {
  if (stack.value === "states") return statesOver(at, most);
  const own = ranked.filter((reason) => !reasons.value || reasons.value.has(reason));
  const place = (reason: number) => (own.indexOf(reason) + 1 || own.length + 1) - 1;
  return exitsOver(at, most, stack.value === "cost" ? "cost" : "count", place, own.length + 1);
}

const peak = (stacks: Stacks): number => {
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
    double: lookAtAll,
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
        look(grabbed.from + by, grabbed.to + by);
      } else if (began !== null && Math.abs(scale()(began) - x) > 3) {
        const at = scale().back(x);
        look(Math.min(began, at), Math.max(began, at));
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
    const plot = { x: 1, y: 2, w: w - 2, h: h - 16 };
    const scale = timeScale(data.from, data.to, plot.x, plot.x + plot.w, zero());
    const of = lanes.value;
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
    for (const tick of scale.ticks) if (tick.at < w - 20) s.text(Math.max(tick.at, textWidth(tick.label + " s", 10) / 2), h - 6, tick.label + " s", { color: colors.value.soft, align: "center", size: 10 });
    if (!isWhole.value) drawBrush(s, plot, scale, range.value);
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
      summary={() => `What all vCPUs did over ${ns(data.to - data.from)}; the range looked at is ${ns(calm.value[1] - calm.value[0])} long.`}
      height={58}
      draw={draw}
      pointing={pointing}
      twin={twin}
    />
  );
}

function rowsOf(stacks: Stacks | null): number[][] {
  if (!stacks) return [];
  return Array.from({ length: stacks.groups }, (_, group) => [
    stacks.from + group * stacks.step - zero(),
    ...stacks.values.map((values) => values[group]!),
  ]);
}

/** Switches between all vCPUs and the `first` that cost most, where there are more. */
export function MoreVcpus({ all, first }: { all: Signal<boolean>; first: number }) {
  const many = data.over.lanes.length;
  return many > first ? (
    <button type="button" onClick={() => (all.value = !all.value)}>
      {all.value ? `The ${first} vCPUs that cost most` : `All ${count(many)} vCPUs`}
    </button>
  ) : null;
}

/** Single exits of a vCPU: each as long as it took, by reason; below it how its time divides, in no order, and of the slowest the phases of
 * their cost. */
function drawSingles(s: Surface, plot: Plot, scale: Scale, exits: Single[]): void {
  const fills = partFills(parts.value);
  const tall = Math.round(plot.h * 0.62);
  for (const exit of exits) {
    const from = Math.max(plot.x, scale(exit.at));
    const to = Math.min(plot.x + plot.w, Math.max(scale(exit.at + exit.total), from + 1));
    if (to <= from) continue;
    s.rect(from, plot.y, to - from, tall, reasonColor(exit.reason));
    const wide = scale(exit.at + exit.total) - scale(exit.at);
    const row = (y: number, h: number, times: number[], fills: string[]) => {
      let x = scale(exit.at);
      times.forEach((time, at) => {
        const long = (time / (exit.total || 1)) * wide;
        const [begin, end] = [Math.max(plot.x, x), Math.min(plot.x + plot.w, x + long)];
        if (end - begin > 0.2) s.rect(begin, y, end - begin, h, fills[at]!);
        x += long;
      });
    };
    const below = plot.h - tall - 3;
    const phases = wide > 12 ? phasesOf(exit) : null;
    row(plot.y + tall + 2, phases ? below / 2 : below, parts.value.map((part) => exit.times[part.column] ?? 0), fills);
    if (phases) row(plot.y + tall + 2 + below / 2, below / 2, phases.map((phase) => phase.ns), phases.map((phase) => colors.value.steps[data.over.phases.indexOf(phase.name)]!));
    const chosen = picked.value;
    if (chosen && chosen.lane === exit.lane && chosen.at === exit.at) s.frame(from - 1, plot.y - 1, Math.max(4, to - from + 2), plot.h, colors.value.ink);
  }
}

export function Timeline() {
  const all = useSignal(false);
  const brush = useSignal<[number, number] | null>(null);
  const last = useRef<{ scale: Scale; plots: { lane: number; plot: Plot; stacks: Stacks | undefined; singles: Single[] | null }[] } | null>(null);
  const under = (x: number, y: number): { lane: number; exit: Single | null } | null => {
    const found = last.current?.plots.find(({ plot }) => y >= plot.y && y <= plot.y + plot.h && x >= plot.x && x <= plot.x + plot.w);
    if (!found?.singles || !last.current) return null;
    const { scale } = last.current;
    // What is narrower than a pixel is found beside it, too.
    const away = (exit: Single) => Math.max(0, scale(exit.at) - x, x - scale(exit.at + exit.total));
    let best: Single | null = null;
    for (const exit of found.singles) if (away(exit) <= 3 && (!best || away(exit) < away(best))) best = exit;
    return { lane: found.lane, exit: best };
  };
  const [pointing] = useState(() => brushing(() => last.current?.scale ?? null, brush, (x, y) => pick(under(x, y)?.exit ?? null)));
  const drawn = (): number[] => {
    const chosen = data.over.lanes.map((_, lane) => lane).filter((lane) => !lanes.value || lanes.value.has(lane));
    return all.value ? chosen : costliest(chosen, FIRST_LANES);
  };
  const draw = (s: Surface, w: number, h: number) => {
    const own = drawn();
    const tall = laneHeight(own.length);
    const left = Math.min(170, Math.max(60, ...own.map((lane) => textWidth(laneName(lane)) + 20)));
    const outer = { x: left, y: 4, w: w - left - 62, h: h - 42 };
    const scale = timeScale(range.value[0], range.value[1], outer.x, outer.x + outer.w, zero());
    const stacks = stacksOf(range.value, outer.w / (own.length > 6 ? 4 : 2));
    const { fills } = series();
    const states = stack.value === "states";
    const most = states ? 0 : Math.max(1, ...own.map((lane) => (stacks.has(lane) ? peak(stacks.get(lane)!) : 1)));
    bottomAxis(s, outer, scale, timeAxis());
    const found = singlesInView.value;
    const missing = found ? missingIn(range.value) : [];
    const plots = own.map((lane, at) => {
      const plot = { x: outer.x, y: outer.y + at * tall + 3, w: outer.w, h: tall - 8 };
      const of = stacks.get(lane);
      const full = states ? () => of?.step ?? 1 : () => most;
      s.text(left - 8, plot.y + plot.h / 2, laneName(lane), { color: colors.value.ink, align: "right", width: left - 12 });
      const singles = found && found.filter((exit) => exit.lane === lane);
      if (singles) {
        for (const [from, to] of missing) s.rect(Math.max(plot.x, scale(from)), plot.y, Math.min(plot.x + plot.w, scale(to)) - Math.max(plot.x, scale(from)), plot.h, "/" + colors.value.soft);
        drawSingles(s, plot, scale, singles);
      } else if (of) drawStacks(s, plot, scale, of, fills, full);
      s.rect(plot.x, plot.y + plot.h, plot.w, 1, colors.value.line);
      if (singles) return { lane, plot, stacks: undefined, singles };
      const top = states ? "100%" : stack.value === "exits" ? `${count((most / (of?.step ?? 1)) * 1e9)}/s` : share(most / (of?.step ?? 1));
      s.text(plot.x + plot.w + 4, plot.y + 5, top, { color: colors.value.soft, size: 10, width: 58 });
      s.text(plot.x + plot.w + 4, plot.y + plot.h - 3, "0", { color: colors.value.soft, size: 10 });
      return { lane, plot, stacks: of, singles: null };
    });
    last.current = { scale, plots };
    drawBrush(s, outer, scale, brush.value);
  };
  const hit = (x: number, y: number): Tip | null => {
    const single = under(x, y);
    if (single) {
      const { exit } = single;
      return (
        exit && {
          title: `${reasonName(exit.reason)}${exit.about === null ? "" : `: ${data.over.abouts[exit.about]?.text ?? ""}`}`,
          lines: [
            ["at", `${((exit.at - zero()) / 1e9).toFixed(6)} s`],
            ...parts.value.filter((part) => exit.times[part.column]).map((part): [string, string] => [partName(part), ns(exit.times[part.column]!)]),
          ],
        }
      );
    }
    const found = last.current?.plots.find(({ plot }) => y >= plot.y && y <= plot.y + plot.h && x >= plot.x && x <= plot.x + plot.w);
    if (!found?.stacks || !last.current) return null;
    const at = last.current.scale.back(x);
    const { from, step, values } = found.stacks;
    const group = Math.floor((at - from) / step);
    const { labels } = series();
    const lines = labels.map((label, part): [string, string] => {
      const value = values[part]?.[group] ?? 0;
      return [label, stack.value === "states" ? `${ns(value)} (${share(value / step)})` : stack.value === "exits" ? count(value) : ns(value)];
    });
    const shown = lines.filter((_, part) => (values[part]?.[group] ?? 0) > 0);
    return {
      title: `${laneName(found.lane)}, ${((from + group * step - zero()) / 1e9).toFixed(6)} s + ${ns(step)}`,
      lines: [...(shown.length ? shown : lines.slice(0, 0)), ["trace clock", clock(data.over.base_ns, from + group * step)]],
    };
  };
  const legend = () => {
    const { labels, fills } = series();
    const singles = singlesInView.value;
    if (singles) {
      const shown = [...new Set(singles.map((exit) => exit.reason))].slice(0, 9);
      return shown.map((reason) => ({ label: reasonName(reason), color: reasonColor(reason), click: () => only(reasons, reason) }));
    }
    const own = ranked.filter((reason) => !reasons.value || reasons.value.has(reason));
    return labels.map((label, at) => ({
      label,
      color: fills[at]!,
      click: stack.value !== "states" && own[at] !== undefined ? () => only(reasons, own[at]!) : undefined,
    }));
  };
  const twin = () => {
    const { labels } = series();
    const rows = [...stacksOf(range.value, 60)].flatMap(([lane, stacks]) => rowsOf(stacks).map((row) => [lane, ...row] as number[]));
    const unit = stack.value === "exits" ? count : ns;
    return {
      columns: [
        { title: "vCPU", text: true, show: (row: number[]) => laneName(row[0]!), value: (row: number[]) => laneName(row[0]!) },
        { title: "From (s)", show: (row: number[]) => (row[1]! / 1e9).toFixed(4), value: (row: number[]) => row[1]! / 1e9 },
        ...labels.map((label, at) => ({
          title: stack.value === "exits" ? `${label} (exits)` : `${label} (ns)`,
          show: (row: number[]) => unit(row[at + 2]!),
          value: (row: number[]) => row[at + 2]!,
        })),
      ],
      rows,
    };
  };
  const option = (value: "states" | "exits" | "cost", label: string) => (
    <button type="button" aria-pressed={stack.value === value} onClick={() => (stack.value = value)}>
      {label}
    </button>
  );
  return (
    <Chart
      id="timeline"
      title="What each vCPU did, over time"
      summary={() => `${drawn().length} vCPUs over ${ns(calm.value[1] - calm.value[0])}.`}
      height={() => Math.max(1, drawn().length) * laneHeight(drawn().length) + 46}
      draw={draw}
      hit={hit}
      legend={legend}
      twin={twin}
      pointing={pointing}
      note={
        singlesInView.value
          ? "Single exits, by reason; below each how its time divides, in no order; of the slowest also the phases of their cost. Between them the vCPU was in its guest, or had no CPU. Click one to look into it."
          : "Drag to zoom into a range: everything on this page follows it; where few exits are in view, they are drawn one by one. Shift+drag moves, Ctrl+wheel zooms, double click shows all. Keys: ← → + − Home."
      }
      controls={
        <>
          <span role="group" aria-label="What is stacked" class="choice">
            {option("states", "Time")}
            {option("exits", "Exits by reason")}
            {option("cost", "Cost by reason")}
          </span>
          <MoreVcpus all={all} first={FIRST_LANES} />
        </>
      }
    />
  );
}
