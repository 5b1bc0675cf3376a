// What each vCPU, or each CPU of the host, did within the range: as sums, and single exits where few are in view.
import { signal, useSignal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { arrowText, arrowsIn, arrowsOf, lastsOf, longest, type Arrow } from "./arrows";
import { bottomAxis, timeScale, type Plot, type Scale } from "./axes";
import { Chart, type Tip } from "./chart";
import { colors, mix, partFills, ranked, reasonColor, reasonLegend, reasonName } from "./colors";
import { clock, count, ns, share } from "./format";
import { isAsking, noneGiven } from "./given";
import { kept } from "./url_state";
import { drawNotes } from "./notes";
import { isPrinting } from "./print";
import { COST, exitsOver, hasGuestTime, partName, parts, statesOver, together, waitParts, type Stacks } from "./aggregate";
import { missingIn, neighbours, phasesOf, pick, singlesInView, takeSingles, type Single } from "./single";
import { settledRange, chosen, data, selectedVcpus, lengths, selectOnly, range, reasons, stack, vms } from "./selection";
import { textWidth, type Surface } from "./surface";
import { brushing, drawBrush, drawStacks, timePlot, vcpuName, vmRow, peak, rowsOf, timeAxis, zero } from "./timeline";

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

/** A row of the timeline. */
interface Row {
  name: string;
  /** What it is the sum of; of a CPU, none. */
  lanes: number[];
  /** The VM that a click opens and closes. */
  vm?: string;
  cpu?: number;
  tall: number;
}

/** Height of a lane: the fewer, the taller; and of a VM above its lanes. */
const laneHeight = (lanes: number): number => (lanes <= 2 ? 84 : lanes <= 6 ? 60 : 44);
const VM_HEIGHT = 34;
/** Rows above these are scrolled through; on paper, a page has so much of them. */
const MOST_HEIGHT = 560;
const PAGE_HEIGHT = 900;
const mostHeight = (): number => (isPrinting.value ? PAGE_HEIGHT : MOST_HEIGHT);
/** Where there are more vCPUs, VMs are closed at first. */
const OPEN_LANES = 24;
const AXIS = 42;

/** Whether vCPUs or the host's CPUs are rows. */
const rowsAre = kept<"vcpus" | "cpus">("rows", "vcpus", ["vcpus", "cpus"]);
/** VMs that were opened or closed. */
const turned = signal<ReadonlySet<string>>(new Set());

function rows(): Row[] {
  const singles = singlesInView.value;
  if (rowsAre.value === "cpus" && singles) {
    const cpus = [...new Set(singles.map((exit) => exit.cpu))].sort((a, b) => a - b);
    return cpus.map((cpu) => ({ name: `CPU ${cpu}`, lanes: [], cpu, tall: laneHeight(cpus.length) }));
  }
  const isShown = (lane: number) => !selectedVcpus.value || selectedVcpus.value.has(lane);
  const all = vms()
    .map((vm) => ({ name: vm.name, lanes: [...vm.lanes].filter(isShown) }))
    .filter((vm) => vm.lanes.length > 0);
  const many = all.reduce((sum, vm) => sum + vm.lanes.length, 0);
  const tall = laneHeight(many);
  const lane = (lane: number): Row => ({ name: vcpuName(lane), lanes: [lane], tall });
  if (all.length === 1) return all[0]!.lanes.map(lane);
  return all.flatMap((vm) => {
    if (vm.lanes.length === 1) return vm.lanes.map(lane);
    const isOpen = many <= OPEN_LANES !== turned.value.has(vm.name);
    const head: Row = { name: vmRow(vm.name, vm.lanes.length, isOpen), lanes: vm.lanes, vm: vm.name, tall: isOpen ? VM_HEIGHT : tall };
    return [head, ...(isOpen ? vm.lanes.map(lane) : [])];
  });
}

/** Opens a VM, or closes it. */
function turn(vm: string): void {
  const next = new Set(turned.value);
  if (!next.delete(vm)) next.add(vm);
  turned.value = next;
}

const heightOf = (all: Row[]): number => all.reduce((sum, row) => sum + row.tall, 0);

/** Whether exits may be left out of those in view, so that what is between two of them is not known. */
const isPart = (): boolean => reasons.value !== null || chosen.value !== null || lengths.value !== null;

/** The next exit of its vCPU, where all between them is known. */
type NextOf = (exits: Single[], at: number) => Single | null;

/** Exits on a CPU: between those of a vCPU that stays on it, it runs the guest. Exits in which the vCPU gave the CPU away come first: others may
 * have had it; by reason they are paler. */
function drawCpu(s: Surface, plot: Plot, scale: Scale, cpu: number, byLane: Map<number, Single[]>, nextOf: NextOf): void {
  const away = waitParts().filter((part) => part.column !== "polling_ns");
  const isAway = (exit: Single) => away.some((part) => (exit.times[part.column] ?? 0) > 0);
  const fills = partFills(parts.value);
  const [guest] = partFills([{ column: "guest_ns" }]);
  for (const first of [true, false])
    for (const exits of byLane.values()) for (const exit of exits) if (exit.cpu === cpu && isAway(exit) === first) drawExit(s, plot, scale, exit, fills, first);
  for (const [lane, exits] of byLane)
    exits.forEach((exit, at) => {
      const next = nextOf(exits, at);
      if (exit.cpu !== cpu || next?.cpu !== cpu) return;
      const [since, until] = [Math.max(plot.x, scale(exit.at + exit.total)), Math.min(plot.x + plot.w, scale(next.at))];
      if (until - since < 0.3) return;
      s.rect(since, plot.y + plot.h * 0.25, until - since, plot.h * 0.5, guest!);
      if (until - since > 70) s.text(since + 4, plot.y + plot.h / 2, vcpuName(lane), { color: colors.value.ink, size: 10, width: until - since - 8 });
    });
}

/** Exits by vCPU, in order of time. */
function byLaneOf(singles: Single[]): Map<number, Single[]> {
  const found = new Map<number, Single[]>();
  for (const exit of singles) {
    const exits = found.get(exit.lane);
    if (exits) exits.push(exit);
    else found.set(exit.lane, [exit]);
  }
  found.forEach((exits) => exits.sort((a, b) => a.at - b.at));
  return found;
}

/** Lines from a vCPU's last exit on a CPU to its first on another. */
function drawMoves(s: Surface, plots: { row: Row; plot: Plot }[], scale: Scale, byLane: Map<number, Single[]>, nextOf: NextOf): void {
  const middle = new Map(plots.map(({ row, plot }) => [row.cpu, plot.y + plot.h / 2]));
  for (const exits of byLane.values())
    exits.forEach((exit, at) => {
      const next = nextOf(exits, at);
      if (!next || next.cpu === exit.cpu) return;
      const [from, to] = [middle.get(exit.cpu), middle.get(next.cpu)];
      if (from !== undefined && to !== undefined) s.path([scale(exit.at + exit.total), from, scale(next.at), to], colors.value.ink, 1);
    });
}

/** How single exits are drawn, as what is stacked where they are summed up: their time by part; each by its reason; or by its reason as high
 * as cost is a part of it. */
function drawExit(s: Surface, plot: Plot, scale: Scale, exit: Single, fills: string[], isPale = false): void {
  const [begin, end] = [scale(exit.at), scale(exit.at + exit.total)];
  const [from, to] = [Math.max(plot.x, begin), Math.min(plot.x + plot.w, end)];
  if (to < from) return;
  const cost = COST.reduce((sum, column) => sum + (exit.times[column] ?? 0), 0);
  const phases = stack.value === "cost" && end - begin > 12 ? phasesOf(exit) : null;
  if (stack.value === "states") {
    const times = parts.value.map((part) => exit.times[part.column] ?? 0);
    // As wide as it is, however narrow: together exits take no more room than they took time. Of one that is next to nothing, what it is most.
    if (end - begin < 1) s.rect(from, plot.y, Math.max(0.25, to - from), plot.h, fills[times.indexOf(Math.max(...times))]!);
    else divided(s, { ...plot, x: begin, w: end - begin }, plot, times, fills);
    return;
  }
  const color = reasonColor(exit.reason);
  const room = plot.h * (phases ? 0.7 : 1);
  const tall = room * (stack.value === "exits" ? 1 : cost / (exit.total || 1));
  s.rect(from, plot.y + room - tall, Math.max(1, to - from), tall, isPale ? mix(color, colors.value.ground, 0.6) : color);
  if (phases)
    divided(s, { x: begin, y: plot.y + room + 2, w: end - begin, h: plot.h - room - 2 }, plot, phases.map((phase) => phase.ns), phases.map((phase) => colors.value.phases[phase.step]!));
}

/** A whole from left to right by its parts, as far as it is within the plot. */
function divided(s: Surface, { x, y, w, h }: Plot, plot: Plot, times: number[], fills: string[]): void {
  const whole = times.reduce((sum, time) => sum + time, 0) || 1;
  let at = x;
  times.forEach((time, part) => {
    const [from, to] = [Math.max(plot.x, at), Math.min(plot.x + plot.w, (at += (time / whole) * w))];
    if (to - from > 0.1) s.rect(from, y, to - from, h, fills[part]!);
  });
}

/** Single exits of a vCPU; where time is shown, also what is between them. */
function drawSingles(s: Surface, plot: Plot, scale: Scale, exits: Single[], between: { gaps: [number, number][]; of: Stacks } | null): void {
  const fills = partFills(parts.value);
  if (between) between.gaps.forEach((gap) => drawBetween(s, plot, scale, gap, between.of, fills));
  for (const exit of exits) drawExit(s, plot, scale, exit, fills);
  if (stack.value !== "states") return;
  for (const exit of exits) {
    const [from, to] = [Math.max(plot.x, scale(exit.at)), Math.min(plot.x + plot.w, scale(exit.at + exit.total))];
    const name = reasonName(exit.reason);
    if (to - from < textWidth(name, 10) + 14) continue;
    s.rect(from + 3, plot.y + plot.h - 17, textWidth(name, 10) + 8, 14, colors.value.ground);
    s.text(from + 7, plot.y + plot.h - 10, name, { color: colors.value.ink, size: 10 });
  }
}

/** What a vCPU did that is of no exit: as a rule, its guest. */
function betweenOver(at: [number, number], most: number): Map<number, Stacks> {
  const sums = statesOver(at, most);
  takeSingles(sums, parts.value.map((part) => part.column));
  return sums;
}

/** Where a vCPU has no exit, of those that are all known: between two, before the first and after the last in view. */
function gapsOf(lane: number, exits: Single[], nextOf: NextOf): [number, number][] {
  const [from, to] = range.value;
  const begin = Math.max(from, data.timelines.vcpus[lane]?.first_ns ?? from);
  const gaps: [number, number][] = [[begin, exits[0]?.at ?? to]];
  exits.forEach((exit, at) => {
    const next = nextOf(exits, at);
    if (next) gaps.push([exit.at + exit.total, next.at]);
  });
  if (exits.length > 0) gaps.push([Math.max(...exits.map((exit) => exit.at + exit.total)), to]);
  return gaps.filter(([from, to]) => to > from);
}

/** A stretch without exits, by what sums of that time say of what is of no exit. */
function drawBetween(s: Surface, plot: Plot, scale: Scale, [from, to]: [number, number], of: Stacks, fills: string[]): void {
  const shares = (group: number) => {
    // What is next to nothing is what rounding leaves.
    const times = of.values.map((values) => ((values[group] ?? 0) > of.step / 200 ? values[group]! : 0));
    const sum = times.reduce((sum, time) => sum + time, 0);
    return times.map((time) => (sum > 0 ? time / sum : 0));
  };
  const groupOf = (at: number) => Math.floor((at - of.from) / of.step);
  for (let group = groupOf(from); group <= groupOf(to); ) {
    const own = shares(group);
    const begin = Math.max(from, of.from + group * of.step);
    // Neighbours that look the same are one.
    do group++;
    while (group <= groupOf(to) && shares(group).every((part, at) => Math.abs(part - own[at]!) < 0.01));
    const [left, right] = [Math.max(plot.x, scale(begin)), Math.min(plot.x + plot.w, scale(Math.min(to, of.from + group * of.step)))];
    let y = plot.y + plot.h;
    own.forEach((part, at) => part > 0 && right > left && s.rect(left, (y -= part * plot.h), right - left, part * plot.h, fills[at]!));
  }
}

/** A frame around the exit that is looked into, if it is of this vCPU, whether or not single exits are drawn. */
function drawPicked(s: Surface, plot: Plot, scale: Scale, lane: number): void {
  const exit = neighbours.value?.exit;
  if (exit?.lane !== lane) return;
  const [from, to] = [Math.max(plot.x, scale(exit.at)), Math.min(plot.x + plot.w, scale(exit.at + exit.total))];
  if (to >= plot.x && from <= plot.x + plot.w) s.frame(from - 1, plot.y - 1, Math.max(4, to - from + 2), plot.h, colors.value.ink);
}

/** Of so many stretches of the range each vCPU has one arrow, of the longest wait that begins there: more would hide the exits. */
const ARROW_STRETCHES = 40;

/** All arrows in view, those that are drawn, and whether the page leaves any out. */
function shownArrows(): { all: number; arrows: Arrow[]; isPart: boolean } {
  if (rowsAre.value === "cpus" || !singlesInView.value) return { all: 0, arrows: [], isPart: false };
  const [from, to] = range.value;
  const { arrows, isPart } = arrowsIn([from, to], (lane) => !selectedVcpus.value || selectedVcpus.value.has(lane));
  const best = new Map<string, Arrow>();
  for (const of of longest(arrows, arrows.length)) {
    const place = `${of.lane} ${Math.floor(((of.at - from) / (to - from)) * ARROW_STRETCHES)}`;
    const other = best.get(place);
    if (!other || lastsOf(of) > lastsOf(other)) best.set(place, of);
  }
  return { all: arrows.length, arrows: [...best.values()], isPart };
}

/** A line with a seam, so that it is seen on every reason's colour; with a head where it ends, if it is long enough. */
function drawArrow(s: Surface, [x0, y0, x, y]: [number, number, number, number], dash = false): void {
  const { ink, ground } = colors.value;
  const long = Math.hypot(x - x0, y - y0);
  s.path([x0, y0, x, y], ground, 3);
  s.path([x0, y0, x, y], ink, 1, undefined, dash);
  if (long < 8) return;
  const [dx, dy] = [((x - x0) / long) * 6, ((y - y0) / long) * 6];
  s.path([x, y, x - dx - dy / 2, y - dy + dx / 2, x - dx + dy / 2, y - dy - dx / 2, x, y], ground, 1, ink);
}

/** In the row of who was woken, preempted or forced out, a line until it ran; from the vCPU that woke it or forced it out, and to the one
 * that took its CPU, an arrow. */
function drawArrows(s: Surface, plots: { row: Row; plot: Plot }[], scale: Scale, all: Arrow[]): void {
  const middle = new Map(plots.filter(({ row }) => row.lanes.length === 1).map(({ row, plot }) => [row.lanes[0]!, plot.y + plot.h * 0.31]));
  for (const of of all) {
    const y = middle.get(of.lane);
    if (y === undefined) continue;
    const [from, to] = [scale(of.at), scale(of.ran ?? of.at)];
    if (to - from > 1) drawArrow(s, [from, y, to, y], of.kind !== "woken");
    const other = of.by === null ? undefined : middle.get(of.by);
    if (other === undefined || other === y) drawArrow(s, [from, y - 4, from, y + 3]);
    else drawArrow(s, of.kind === "preempted" ? [from, y, from, other] : [from, other, from, y]);
  }
}

/** What is to be known of the arrows. */
function arrowNote(): string {
  const { all, arrows, isPart } = shownArrows();
  const kinds = (["woken", "preempted", "forced out"] as const).filter((kind) => arrows.some((of) => of.kind === kind));
  const words = { woken: "solid: woken, until it ran", preempted: "dashed: preempted, until it ran again", "forced out": "dashed: forced out, until it was in its guest again" };
  return [
    kinds.length > 0 && ` Lines: ${kinds.map((kind) => words[kind]).join("; ")}; arrows lead from or to the vCPU that did it.`,
    arrows.length < all && ` ${count(arrows.length)} of ${count(all)} are drawn: where there is no room for all, the longest.`,
    isPart && " This page does not have the wake-ups and preemptions of some of this time.",
  ]
    .filter(Boolean)
    .join("");
}

/** How it stands with exits that the page does not hold. */
function missingNote(): string {
  if (missingIn(range.value).length === 0) return "";
  if (isAsking.value) return " Hatched: single exits that are being read from the recording.";
  return ` Hatched: single exits that are not stored here.${noneGiven.value && ` They could not be read: ${noneGiven.value}`}`;
}

/** What is to be known of what is drawn. */
function note(): string {
  if (isPrinting.value && heightOf(rows()) > PAGE_HEIGHT) return "Only as many rows as a page has room for; others are printed when their VM or vCPU is chosen.";
  if (!singlesInView.value)
    return rowsAre.value === "cpus"
      ? "Rows are vCPUs until you zoom in: rows by the host's CPUs need single exits in view."
      : "Drag to zoom into a range: everything on this page follows it; where few exits are in view, they are drawn one by one. Shift+drag moves, Ctrl+wheel zooms, double click shows all. Keys: ← → + − Home.";
  const isCpus = rowsAre.value === "cpus";
  const how = {
    states: "divided by its time, in no order",
    exits: "by its reason",
    cost: "by its reason, as high as its cost is a part of it; below the slowest the phases of their cost",
  }[stack.value];
  const what = `Single exits${isCpus ? " by the host's CPU" : ""}, each ${how}.${isCpus ? ` In some${stack.value === "states" ? "" : ", which are paler,"} the vCPU gave the CPU away, at a moment that is not recorded.` : ""}`;
  const moves = isCpus ? "; lines: it goes to another CPU" : "";
  const inGuest = hasGuestTime() ? "in its guest" : "in its guest or in the kernel, which this recording does not separate";
  const between = isPart()
    ? "Exits outside the selection may lie between them."
    : stack.value === "states" && hasGuestTime() && !isCpus
      ? "Between them is the guest, or what else the colours say."
      : `Between them the vCPU was ${inGuest}, or had no CPU${moves}.`;
  return `${what} ${between}${arrowNote()}${missingNote()} Click one to look into it.`;
}

export function Timeline() {
  const top = useSignal(0);
  const brush = useSignal<[number, number] | null>(null);
  const last = useRef<{ scale: Scale; plots: { row: Row; plot: Plot; stacks: Stacks | undefined; singles: Single[] | null }[] } | null>(null);
  const under = (x: number, y: number): { exit: Single | null } | null => {
    const found = last.current?.plots.find(({ plot }) => y >= plot.y && y <= plot.y + plot.h && x >= plot.x && x <= plot.x + plot.w);
    if (!found?.singles || !last.current) return null;
    const { scale } = last.current;
    // What is narrower than a pixel is found beside it, too.
    const away = (exit: Single) => Math.max(0, scale(exit.at) - x, x - scale(exit.at + exit.total));
    let best: Single | null = null;
    for (const exit of found.singles) if (away(exit) <= 3 && (!best || away(exit) < away(best))) best = exit;
    return { exit: best };
  };
  const [pointing] = useState(() => brushing(() => last.current?.scale ?? null, brush, (x, y) => pick(under(x, y)?.exit ?? null)));
  const [withRows] = useState(() => ({
    ...pointing,
    key: (event: KeyboardEvent) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by && heightOf(rows()) > mostHeight()) top.value = Math.max(0, Math.min(heightOf(rows()) - mostHeight(), top.value + by * VM_HEIGHT));
      else return pointing.key!(event);
      return true;
    },
    up(x: number, y: number, event: PointerEvent) {
      const row = last.current?.plots.find(({ plot }) => y >= plot.y && y <= plot.y + plot.h && x < plot.x)?.row;
      pointing.up!(x, y, event);
      if (row?.vm !== undefined) turn(row.vm);
    },
  }));
  const draw = (s: Surface, w: number, h: number) => {
    const own = rows();
    const outer = timePlot(w, 4, h - AXIS);
    const left = outer.x;
    const scale = timeScale(range.value[0], range.value[1], outer.x, outer.x + outer.w, zero());
    const stacks = stacksOf(range.value, outer.w / (own.length > 6 ? 4 : 2));
    const { fills } = series();
    const states = stack.value === "states";
    const sums = own.map((row) => (row.lanes.length === 1 ? stacks.get(row.lanes[0]!) : together(row.lanes.flatMap((lane) => stacks.get(lane) ?? []))) ?? undefined);
    const most = states ? 0 : Math.max(1, ...sums.map((of) => (of ? peak(of) : 1)));
    bottomAxis(s, outer, scale, timeAxis());
    const found = singlesInView.value;
    const missing = found ? missingIn(range.value) : [];
    const byLane = found ? byLaneOf(found) : new Map<number, Single[]>();
    const between = found && states && !isPart() ? betweenOver(range.value, outer.w / 2) : null;
    const nextOf: NextOf = (exits, at) => {
      const [exit, next] = [exits[at]!, exits[at + 1]];
      const isKnown = next && !isPart() && !missing.some(([from, to]) => from < next.at && to > exit.at + exit.total);
      return isKnown ? next : null;
    };
    const plots: NonNullable<typeof last.current>["plots"] = [];
    const each = (row: Row, of: Stacks | undefined, plot: Plot) => {
      const full = states ? () => (of?.step ?? 1) * row.lanes.length : () => most;
      s.text(left - 8, plot.y + plot.h / 2, row.name, { color: colors.value.ink, align: "right", width: left - 12 });
      const singles = !found || row.lanes.length > 1 ? null : row.cpu === undefined ? (byLane.get(row.lanes[0]!) ?? []) : found.filter((exit) => exit.cpu === row.cpu);
      if (singles) {
        const lane = row.lanes[0]!;
        if (row.cpu === undefined) drawSingles(s, plot, scale, singles, between?.get(lane) ? { gaps: gapsOf(lane, singles, nextOf), of: between.get(lane)! } : null);
        else drawCpu(s, plot, scale, row.cpu, byLane, nextOf);
        for (const [from, to] of missing) {
          const [left, right] = [Math.max(plot.x, scale(from)), Math.min(plot.x + plot.w, scale(to))];
          s.rect(left, plot.y, right - left, plot.h, colors.value.ground);
          s.rect(left, plot.y, right - left, plot.h, "/" + colors.value.soft);
        }
      } else if (of) drawStacks(s, plot, scale, of, fills, full);
      if (row.cpu === undefined && row.lanes.length === 1) drawPicked(s, plot, scale, row.lanes[0]!);
      s.rect(plot.x, plot.y + plot.h, plot.w, 1, colors.value.line);
      plots.push({ row, plot, stacks: singles ? undefined : of, singles });
      if (singles) return;
      const step = of?.step ?? 1;
      const up = states ? "100%" : stack.value === "exits" ? `${count((most / step) * 1e9)}/s` : share(most / step);
      s.text(plot.x + plot.w + 4, plot.y + 5, up, { color: colors.value.soft, size: 10, width: 58 });
      s.text(plot.x + plot.w + 4, plot.y + plot.h - 3, "0", { color: colors.value.soft, size: 10 });
    };
    s.clip(0, outer.y, w, outer.h, () => {
      let y = outer.y - top.value;
      own.forEach((row, at) => {
        // What is scrolled away is not drawn.
        if (y + row.tall > outer.y && y < outer.y + outer.h) each(row, sums[at], { x: outer.x, y: y + 3, w: outer.w, h: row.tall - 8 });
        y += row.tall;
      });
      if (found && rowsAre.value === "cpus") drawMoves(s, plots, scale, byLane, nextOf);
      s.clip(outer.x, outer.y, outer.w, outer.h, () => drawArrows(s, plots, scale, shownArrows().arrows));
    });
    last.current = { scale, plots };
    drawNotes(s, outer, scale);
    drawBrush(s, outer, scale, brush.value);
  };
  const hit = (x: number, y: number): Tip | null => {
    const single = under(x, y);
    if (single) {
      const { exit } = single;
      return (
        exit && {
          title: `${reasonName(exit.reason)}${exit.about === null ? "" : `: ${data.timelines.subjects[exit.about]?.text ?? ""}`}`,
          lines: [
            ["at", `${((exit.at - zero()) / 1e9).toFixed(6)} s`],
            ...parts.value.filter((part) => exit.times[part.column]).map((part): [string, string] => [partName(part), ns(exit.times[part.column]!)]),
            ...longest(arrowsOf(exit).arrows, 3).map((of): [string, string] => ["", arrowText(of, exit)]),
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
      return [label, stack.value === "states" ? `${ns(value)} (${share(value / (step * found.row.lanes.length))})` : stack.value === "exits" ? count(value) : ns(value)];
    });
    const shown = lines.filter((_, part) => (values[part]?.[group] ?? 0) > 0);
    return {
      title: `${found.row.name}, ${((from + group * step - zero()) / 1e9).toFixed(6)} s + ${ns(step)}`,
      lines: [...(shown.length ? shown : lines.slice(0, 0)), ["trace clock", clock(data.timelines.base_ns, from + group * step)]],
    };
  };
  const legend = () => {
    const { labels, fills } = series();
    const singles = singlesInView.value;
    if (singles && stack.value !== "states") {
      return reasonLegend(singles.map((exit) => exit.reason)).map(({ reason, ...item }) => ({ ...item, click: reason === null ? undefined : () => selectOnly(reasons, reason) }));
    }
    const own = ranked.filter((reason) => !reasons.value || reasons.value.has(reason));
    return labels.map((label, at) => ({
      label,
      color: fills[at]!,
      click: stack.value !== "states" && own[at] !== undefined ? () => selectOnly(reasons, own[at]!) : undefined,
    }));
  };
  const twin = () => {
    const { labels } = series();
    const rows = [...stacksOf(range.value, 60)].flatMap(([lane, stacks]) => rowsOf(stacks).map((row) => [lane, ...row] as number[]));
    const unit = stack.value === "exits" ? count : ns;
    return {
      columns: [
        { title: "vCPU", text: true, show: (row: number[]) => vcpuName(row[0]!), value: (row: number[]) => vcpuName(row[0]!) },
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
      summary={() => `${rows().length} rows over ${ns(settledRange.value[1] - settledRange.value[0])}.`}
      height={() => Math.min(mostHeight(), Math.max(VM_HEIGHT, heightOf(rows()))) + AXIS + 4}
      scroll={{ more: () => Math.max(0, heightOf(rows()) - mostHeight()), top }}
      time={() => last.current?.scale ?? null}
      draw={draw}
      hit={hit}
      legend={legend}
      twin={twin}
      pointing={withRows}
      note={note()}
      controls={
        <>
          <span role="group" aria-label="What is stacked" class="choice">
            {option("states", "Time")}
            {option("exits", "Exits by reason")}
            {option("cost", "Cost by reason")}
          </span>
          {data.singles && (
            <span role="group" aria-label="Rows" class="choice">
              {(["vcpus", "cpus"] as const).map((of) => (
                <button
                  type="button"
                  aria-pressed={rowsAre.value === of}
                  disabled={of === "cpus" && rowsAre.value !== of && !singlesInView.value}
                  title={of === "cpus" && !singlesInView.value ? "Where single exits are in view: zoom in" : undefined}
                  onClick={() => (rowsAre.value = of)}
                >
                  {of === "vcpus" ? "vCPUs" : "CPUs"}
                </button>
              ))}
            </span>
          )}
        </>
      }
    />
  );
}
