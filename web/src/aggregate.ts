// What the range, vCPUs and reasons that are looked at come to.
import { computed } from "@preact/signals";
import { bucketStart } from "./buckets";
import { aboutOf, chosenCauses, reasonOf } from "./causes";
import { KEYS, UNTIMED, type Table } from "./data";
import { hasAllSingles, lengthsOfSingles } from "./single";
import { collapsed, level, levelsOf, rowsIn, type Levels } from "./zoom_levels";
import type { PartRow, SlowOne } from "./types.gen";
import { settledRange, data, selectedVcpus, lengths, reasons } from "./selection";

/** Times by the columns of their parts, and what is counted beside them. */
export type Sums = Record<string, number>;

/** The parts of vCPUs' time that the recording has any of. */
export const parts = computed<PartRow[]>(() => {
  const { col, rows } = data.tables.states;
  const has = ({ column }: PartRow) => {
    for (let row = 0; row < rows; row++) if (col[column]![row]! > 0) return true;
    return false;
  };
  return data.timelines.parts.filter(has);
});

/** What cost is made of. */
export const COST = ["kernel_ns", "user_space_ns"];

/** Those of exits, and of these those that are no cost. */
export const exitParts = (): PartRow[] => parts.value.filter((part) => part.of_exits);
export const waitParts = (): PartRow[] => exitParts().filter((part) => !COST.includes(part.column));

/** How long a part is of what has a field, or a sum, for each. */
export const timeOf = (of: object, column: string): number => (of as Sums)[column] ?? 0;
export const costOf = (of: object): number => COST.reduce((sum, column) => sum + timeOf(of, column), 0);
export const totalOf = (of: object): number => data.timelines.parts.reduce((sum, part) => sum + timeOf(of, part.column), 0);

/** Adds the sums of a range's rows, those of a key in one, of the lanes and the causes that `show` and `causes` name. */
function sumUp(found: Map<number, Sums>, table: Table, key: Float64Array, show: Uint8Array, causes: Uint8Array | null = null): void {
  const names = Object.keys(table.col).filter((name) => name !== "bucket" && !KEYS.includes(name));
  const columns = names.map((name) => table.col[name]!);
  const lane = table.col.lane!;
  const cause = table.col.cause;
  const all = new Map<number, Float64Array>();
  const [from, to] = rowsIn(table, settledRange.value);
  for (let row = from; row < to; row++) {
    if (!show[lane[row]!] || (causes && cause && !causes[cause[row]!])) continue;
    let sums = all.get(key[row]!);
    if (!sums) all.set(key[row]!, (sums = new Float64Array(names.length)));
    for (let at = 0; at < columns.length; at++) sums[at]! += columns[at]![row]!;
  }
  for (const [key, sums] of all) found.set(key, { ...found.get(key), ...Object.fromEntries(names.map((name, at) => [name, sums[at]!])) });
}

/** Whether a number is shown, as a list for fast look-ups. */
function shown(of: ReadonlySet<number> | null, size: number): Uint8Array {
  const list = new Uint8Array(Math.max(size, 1 << 12) + 1).fill(of ? 0 : 1);
  of?.forEach((number) => (list[number] = 1));
  return list;
}

const laneShown = computed(() => shown(selectedVcpus.value, data.timelines.vcpus.length));
/** The causes of the cause or the subject that was chosen; and of these, of the reasons that were. */
const causeChosen = computed(() => shown(chosenCauses.value?.causes ?? null, data.timelines.causes.length));
const causeShown = computed(() => {
  const of = reasons.value;
  return of ? causeChosen.value.map((isChosen, cause) => (isChosen && of.has(reasonOf(cause)) ? 1 : 0)) : causeChosen.value;
});

/** Whether exits of a cause are looked at, and those of a bucket of lengths. */
export const isShown = (cause: number): boolean => causeShown.value[cause] === 1;
const isLengthShown = (bucket: number): boolean => !lengths.value || (bucketStart(bucket) >= lengths.value[0] && bucketStart(bucket) < lengths.value[1]);

/** Goes through the sums of all exits that are looked at, by lane, cause and whether they went to user space; of other parts than
 * cost, as if all stayed in the kernel. */
export function eachCauseSum(visit: (lane: number, cause: number, toUser: number, sums: Sums) => void): void {
  for (const table of [data.tables.exits, data.tables.waits]) {
    const { lane, cause, to_user } = table.col;
    const names = Object.keys(table.col).filter((name) => name !== "bucket" && !KEYS.includes(name));
    const all = new Map<number, { row: number; sums: Float64Array }>();
    const [from, to] = rowsIn(table, settledRange.value);
    for (let row = from; row < to; row++) {
      if (!laneShown.value[lane![row]!] || !causeShown.value[cause![row]!]) continue;
      const key = (lane![row]! * 65536 + cause![row]!) * 2 + (to_user?.[row] ?? 0);
      let found = all.get(key);
      if (!found) all.set(key, (found = { row, sums: new Float64Array(names.length) }));
      names.forEach((name, at) => (found.sums[at]! += table.col[name]![row]!));
    }
    for (const { row, sums } of all.values())
      visit(lane![row]!, cause![row]!, to_user?.[row] ?? 0, Object.fromEntries(names.map((name, at) => [name, sums[at]!])));
  }
}

/** By reason: of the vCPUs and the cause that are looked at, all reasons. */
export const byReason = computed<Map<number, Sums>>(() => {
  const found = new Map<number, Sums>();
  for (const table of [data.tables.exits, data.tables.waits]) sumUp(found, table, table.col.reason!, laneShown.value, causeChosen.value);
  return found;
});

/** By cause: of the vCPUs, reasons and the cause that are looked at. */
export const byCause = computed<Map<number, Sums>>(() => {
  const found = new Map<number, Sums>();
  for (const table of [data.tables.exits, data.tables.waits]) sumUp(found, table, table.col.cause!, laneShown.value, causeShown.value);
  return found;
});

/** By lane: times, and exits as `count`. */
export const byVcpu = computed<Map<number, Sums>>(() => {
  const [times, exits] = [data.tables.states, data.tables.exits].map((table) => {
    const found = new Map<number, Sums>();
    sumUp(found, table, table.col.lane!, shown(null, 0));
    return found;
  });
  return new Map(data.timelines.vcpus.map((_, lane) => [lane, { ...times!.get(lane), count: exits!.get(lane)?.count ?? 0 }]));
});

/** Of these vCPUs the `most` whose exits cost most, in their own order: those to draw where there is no room for all. */
export function costliest(all: number[], most: number): number[] {
  if (all.length <= most) return all;
  const cost = (lane: number) => costOf(byVcpu.value.get(lane) ?? {});
  const last = [...all].sort((a, b) => cost(b) - cost(a)).slice(0, most);
  return last.sort((a, b) => a - b);
}

/** Counts by time, vCPU, reason and bucket of length. Sums over time have none by cause: of one that was chosen they are those of single
 * exits, as long as the page has all of these; else all of its reasons. */
const lengthTable = computed<Table>(() => {
  const table = data.tables.lengths;
  if (!chosenCauses.value) return table;
  if (hasAllSingles()) return lengthsOfSingles(chosenCauses.value.causes, table.width);
  const of = new Set([...chosenCauses.value.causes].map(reasonOf));
  return collapsed(table, (row) => of.has(table.col.reason![row]!), ["lane", "reason", "length"], "count");
});

/** Whether lengths are those of more than what was chosen. */
export const areLengthsOfReasons = (): boolean => chosenCauses.value !== null && !hasAllSingles();

/** Lengths by reason: counts by bucket of length. */
export const byExitTime = computed<Map<number, Float64Array>>(() => {
  const table = lengthTable.value;
  const { lane, reason, length, count } = table.col;
  const show = laneShown.value;
  const found = new Map<number, Float64Array>();
  const [from, to] = rowsIn(table, settledRange.value);
  for (let row = from; row < to; row++) {
    if (!show[lane![row]!] || length![row] === UNTIMED) continue;
    let counts = found.get(reason![row]!);
    if (!counts) found.set(reason![row]!, (counts = new Float64Array(UNTIMED)));
    counts[length![row]!]! += count![row]!;
  }
  return found;
});

/** What exits were about: count and cost by number. */
export const bySubject = computed<Map<number, { count: number; cost: number }>>(() => {
  const found = new Map<number, { count: number; cost: number }>();
  for (const [cause, of] of byCause.value) {
    const about = aboutOf(cause);
    if (about === null) continue;
    const sums = found.get(about) ?? { count: 0, cost: 0 };
    found.set(about, { count: sums.count + (of.count ?? 0), cost: sums.cost + costOf(of) });
  }
  return found;
});

/** The slowest exits of a range, of those that are looked at. */
export function slowestIn([from, to]: [number, number]): SlowOne[] {
  return data.timelines.slow_exits.filter(
    (exit) =>
      (!data.timelines.in_time || (exit.after_ns >= from && exit.after_ns < to)) &&
      laneShown.value[exit.lane] &&
      isShown(exit.cause) &&
      (!lengths.value || (exit.exit_time_ns >= lengths.value[0] && exit.exit_time_ns < lengths.value[1])),
  );
}

/** The slowest exits that are looked at. */
export const slowest = computed(() => slowestIn(settledRange.value));

/** Whether time in guests can be told from time in the kernel. */
export const hasGuestTime = (): boolean => !data.report.coverage.lines.some((line) => line.id === "no_kvm_exit");

export const isXen = (): boolean => data.report.traces.some((trace) => trace.format.startsWith("xentrace"));

/** Who handles exits: near, and far. */
export const handlers = (): [string, string] => (isXen() ? ["Xen", "device model"] : ["kernel", "user space"]);

/** A part's name; on Xen, who handles exits has other ones. */
export const partName = ({ column, name }: PartRow): string => handlers()[COST.indexOf(column)] ?? name;

/** Stacks over time: of `lane` (all that are shown for -1), by group of `step` ns. */
export interface Stacks {
  from: number;
  step: number;
  groups: number;
  /** By series, then group. */
  values: Float64Array[];
}

/** A width of 1, 2 or 5 times a power of ten buckets, so that at most `most` groups cover the range. */
export function stepFor(width: number, [from, to]: [number, number], most: number): number {
  let factor = 1;
  while ((to - from) / (width * factor) > most) {
    const lead = factor / 10 ** Math.floor(Math.log10(factor) + 1e-9);
    factor *= lead === 2 ? 2.5 : 2;
  }
  return width * factor;
}

/** What vCPUs do over time: ns of each of these parts in each group; by lane. */
export function statesOver(at: [number, number], most: number, of = parts.value): Map<number, Stacks> {
  const step = stepFor(data.tables.states.width, at, most);
  const table = level(levelsOf(data.tables.states, ["lane"]), step / data.tables.states.width);
  const { bucket, lane } = table.col;
  const begin = Math.floor(at[0] / step) * step;
  const groups = Math.ceil((at[1] - begin) / step);
  const columns = of.map((part) => table.col[part.column]!);
  const found = new Map<number, Stacks>();
  const [from, to] = rowsIn(table, [begin, begin + groups * step]);
  const first = begin / step;
  for (let row = from; row < to; row++) {
    const key = lane![row]!;
    let stacks = found.get(key);
    if (!stacks) found.set(key, (stacks = { from: begin, step, groups, values: columns.map(() => new Float64Array(groups)) }));
    const group = bucket![row]! - first;
    for (let part = 0; part < columns.length; part++) stacks.values[part]![group]! += columns[part]![row]!;
  }
  return found;
}

/** Exits or their cost over time by the series that `series` gives a reason (-1: none); by lane. */
export function exitsOver(
  at: [number, number],
  most: number,
  what: "count" | "cost",
  series: (reason: number) => number,
  sizes: number,
): Map<number, Stacks> {
  const step = stepFor(data.tables.exits.width, at, most);
  const table = level(levelsOf(data.tables.exits, KEYS.filter((key) => data.tables.exits.col[key])), step / data.tables.exits.width);
  const { bucket, lane, cause, reason, count, kernel_ns, user_space_ns } = table.col;
  const begin = Math.floor(at[0] / step) * step;
  const groups = Math.ceil((at[1] - begin) / step);
  const show = causeShown.value;
  const found = new Map<number, Stacks>();
  const [from, to] = rowsIn(table, [begin, begin + groups * step]);
  const first = begin / step;
  for (let row = from; row < to; row++) {
    if (!show[cause![row]!]) continue;
    const place = series(reason![row]!);
    if (place < 0) continue;
    const key = lane![row]!;
    let stacks = found.get(key);
    if (!stacks)
      found.set(key, (stacks = { from: begin, step, groups, values: Array.from({ length: sizes }, () => new Float64Array(groups)) }));
    const group = bucket![row]! - first;
    stacks.values[place]![group]! += what === "count" ? count![row]! : kernel_ns![row]! + user_space_ns![row]!;
  }
  return found;
}

/** Adds stacks up. */
export function together(all: Iterable<Stacks>): Stacks | null {
  let sum: Stacks | null = null;
  for (const stacks of all) {
    if (!sum) sum = { ...stacks, values: stacks.values.map((values) => values.slice()) };
    else stacks.values.forEach((values, at) => values.forEach((value, group) => (sum!.values[at]![group]! += value)));
  }
  return sum;
}

/** Lengths of what is looked at, all together. */
const shownLengths = computed<Levels>(() => {
  const table = lengthTable.value;
  const { lane, reason, length } = table.col;
  const [showLane, ofReasons] = [laneShown.value, reasons.value];
  const keep = (row: number) => length![row] !== UNTIMED && !!showLane[lane![row]!] && (!ofReasons || ofReasons.has(reason![row]!)) && isLengthShown(length![row]!);
  return levelsOf(collapsed(table, keep, ["length"], "count"), ["length"]);
});

export interface Heat {
  from: number;
  step: number;
  across: number;
  low: number;
  high: number;
  /** The most of one length, two of eight to a doubling together, in a group. */
  most: number;
  counts: Float64Array;
}

/** Exits by time and length: `across` groups, in each a count for every bucket of length. */
export function heat(at: [number, number], most: number): Heat {
  const step = stepFor(data.tables.lengths.width, at, most);
  const table = level(shownLengths.value, step / data.tables.lengths.width);
  const { bucket, length, count } = table.col;
  const begin = Math.floor(at[0] / step) * step;
  const across = Math.max(1, Math.ceil((at[1] - begin) / step));
  const [from, to] = rowsIn(table, [begin, begin + across * step]);
  const counts = new Float64Array(across * UNTIMED + 1);
  const first = begin / step;
  let low = UNTIMED;
  let high = 0;
  let highest = 1;
  for (let row = from; row < to; row++) {
    const long = length![row]!;
    const place = (bucket![row]! - first) * UNTIMED + long;
    counts[place]! += count![row]!;
    if (long > 0 && long < low) low = long;
    if (long > high) high = long;
    const pair = place - (long & 1);
    highest = Math.max(highest, counts[pair]! + counts[pair + 1]!);
  }
  return { from: begin, step, across, low, high, most: highest, counts };
}
