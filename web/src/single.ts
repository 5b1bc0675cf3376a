// Single exits: unpacked, chunk by chunk, as they are looked at; crates/page/src/single_exits.rs says how they are packed.
import { computed, signal } from "@preact/signals";
import { bucketHolding } from "./buckets";
import { Numbers, type Packed, type Table } from "./data";
import { givenFor, type Given } from "./given";
import { keep } from "./url_state";
import { aboutOf, reasonOf } from "./causes";
import { handlers, isShown, type Stacks } from "./aggregate";
import type { Places } from "./server_events";
import { data, laneCalled, laneId, selectedVcpus, lengths, range } from "./selection";
import type { ThreadRow } from "./types.gen";

/** One exit. Times in ns, from the page's begin on. */
export interface Single {
  at: number;
  lane: number;
  cause: number;
  reason: number;
  /** What it was about, if it was about anything. */
  about: number | null;
  toUser: boolean;
  cpu: number;
  /** Where in the guest it was: address, and function if known; `null` if the recording does not say. */
  rip: string | null;
  /** Its parts, by column. */
  times: Record<string, number>;
  total: number;
}

/** Chunks that are unpacked at most for what is in view, and those that stay so. */
const IN_VIEW = 8;
const UNPACKED = 24;
/** Single exits that are drawn at most. */
const DRAWN = 2500;

/** Exits that ended one after the other, by column. */
export interface Chunk {
  rows: number;
  at: Float64Array;
  lane: Float64Array;
  cause: Float64Array;
  /** 1: it went to user space. */
  toUser: Float64Array;
  cpu: Float64Array;
  /** Place in the list of places in guests + 1; 0: the recording does not say. */
  rip: Float64Array;
  kernel: Float64Array;
  user: Float64Array;
  total: Float64Array;
  /** The other parts of those that have any. */
  others: Map<number, Record<string, number>>;
  places: Places;
  /** Waits for a CPU that ended in its time, in order of time; `null` if they are left out. */
  waits: CpuWait[] | null;
}

/** A vCPU that was woken or preempted, and waited for a CPU. Times in ns, from the page's begin on. */
export interface CpuWait {
  at: number;
  lane: number;
  isWoken: boolean;
  /** When it ran; `null` if that was not recorded. */
  ran: number | null;
  /** The thread that took its CPU, or recorded that it was woken; `null` if the recording does not say, or the page has no room for it. */
  thread: ThreadRow | null;
}

const unpacked = new Map<number, Chunk>();
let of: Packed | null = null;

/** Values out of what says how they changed: 0 where a key's value is as it last was, else the value + 1. */
function restore(column: Float64Array, key: Float64Array): void {
  const last = new Map<number, number>();
  for (let row = 0; row < column.length; row++) {
    const value = column[row] === 0 ? (last.get(key[row]!) ?? 0) : column[row]! - 1;
    last.set(key[row]!, value);
    column[row] = value;
  }
}

const unzigzag = (of: number): number => (of % 2 === 0 ? of / 2 : -(of + 1) / 2);

/** Unpacks a chunk; `base`: what its moments are counted from. */
function unpack({ head, bytes }: Packed, number: number, base = 0): Chunk {
  const { rows } = head.chunks[number]!;
  const first_ns = head.chunks[number]!.first_ns + base;
  let start = 0;
  for (let before = 0; before < number; before++) start += head.chunks[before]!.bytes;
  const numbers = new Numbers(bytes, start);
  const column = (name: string, planes: readonly string[] = head.planes, size = rows): Float64Array => {
    const found = new Float64Array(size);
    if (!planes.includes(name)) for (let row = 0; row < size; row++) found[row] = numbers.next();
    else {
      const bytesOfEach = numbers.next();
      for (let plane = 0; plane < bytesOfEach; plane++) for (let row = 0; row < size; row++) found[row]! += bytes[numbers.at++]! * 256 ** plane;
    }
    return found;
  };
  const [at, lane, cause, toUser, cpu, rip, kernel, user, bits] = head.columns.map((name) => column(name)) as Float64Array[];
  restore(toUser!, cause!);
  restore(cpu!, lane!);
  restore(rip!, cause!);
  const total = new Float64Array(rows);
  const others: Chunk["others"] = new Map();
  // A vCPU may have several numbers in the columns: ends are of each.
  const ends = new Map<number, number>();
  for (let row = 0; row < rows; row++) {
    total[row] = kernel![row]! + user![row]!;
    if (bits![row] !== 0) {
      const times: Record<string, number> = {};
      head.parts.forEach((part, bit) => {
        if (Math.floor(bits![row]! / 2 ** bit) % 2 === 1) total[row]! += times[part] = numbers.next();
      });
      others.set(row, times);
    }
    at![row] = (ends.get(lane![row]!) ?? first_ns) + unzigzag(at![row]!);
    ends.set(lane![row]!, at![row]! + total[row]!);
  }
  for (let row = 0; row < rows; row++) {
    lane![row] = head.lanes[lane![row]!]!;
    cause![row] = head.causes[cause![row]!]!;
  }
  // Numbers are read in the order in which they are packed.
  const own = head.chunks[number]!.waits ?? null;
  const [begin, of, woken, waited, thread] = !own ? [] : head.wait_columns.map((name) => column(name, head.wait_planes, own));
  let before = first_ns;
  const waits = own === null ? null : Array.from({ length: own }, (_, row): CpuWait => {
    before += unzigzag(begin![row]!);
    const ran = waited![row] === 0 ? null : before + waited![row]! - 1;
    return { at: before, lane: head.lanes[of![row]!]!, isWoken: woken![row] === 1, ran, thread: head.threads[thread![row]! - 1] ?? null };
  });
  waits?.sort((a, b) => a.at - b.at);
  return { waits, places: head, rows, at: at!, lane: lane!, cause: cause!, toUser: toUser!, cpu: cpu!, rip: rip!, kernel: kernel!, user: user!, total, others };
}

function single(of: Chunk, row: number): Single {
  const cause = of.cause[row]!;
  return {
    at: of.at[row]!,
    lane: of.lane[row]!,
    cause,
    reason: reasonOf(cause),
    about: aboutOf(cause),
    toUser: of.toUser[row] === 1,
    cpu: of.cpu[row]!,
    rip: ripName(of.rip[row]!, of.places),
    times: { kernel_ns: of.kernel[row]!, user_space_ns: of.user[row]!, ...of.others.get(row) },
    total: of.total[row]!,
  };
}

/** A place in a guest: its address, and its function if that is known. */
export function ripName(place: number, places: Places): string | null {
  const [address, name] = [places.rips[place - 1] ?? null, functionName(place, places)];
  return address !== null && name !== null ? `${address} ${name}+0x${places.rip_offsets[place - 1]!.toString(16)}` : address;
}

/** The guest's function that a place is in; `null` if that is not known. */
export const functionName = (place: number, places: Places): string | null => places.functions[places.rip_functions[place - 1]! - 1] ?? null;

function chunk(number: number): Chunk {
  if (of !== data.singles) {
    unpacked.clear();
    of = data.singles;
  }
  let found = unpacked.get(number);
  if (found) unpacked.delete(number);
  else found = unpack(data.singles!, number);
  unpacked.set(number, found);
  if (unpacked.size > UNPACKED) unpacked.delete(unpacked.keys().next().value!);
  return found;
}

/** The chunks that have exits of a time. */
function chunksIn([from, to]: [number, number]): number[] {
  const chunks = data.singles?.head.chunks ?? [];
  return chunks.map((_, number) => number).filter((number) => chunks[number]!.first_ns <= to && chunks[number]!.to_ns >= from);
}

/** Chunks that a server gave, as they were unpacked. */
const unpackedGiven = new WeakMap<Given, Chunk[]>();

/** The chunks that have exits of a time, of the page, or where it lacks any, of its server; `null` if they are too many. */
function chunksOf(at: [number, number]): Chunk[] | null {
  const of = missingInPage(at).length > 0 ? givenFor(at) : undefined;
  if (!of) {
    const numbers = chunksIn(at);
    return numbers.length > IN_VIEW ? null : numbers.map(chunk);
  }
  let found = unpackedGiven.get(of);
  if (!found) unpackedGiven.set(of, (found = of.packed.head.chunks.map((_, number) => unpack(of.packed, number, of.base))));
  return found;
}

/** Stretches of a time of which no single exits are known. */
export const missingIn = (at: [number, number]): [number, number][] => (givenFor(at) ? [] : missingInPage(at));

/** The same of what is in the page. */
function missingInPage([from, to]: [number, number]): [number, number][] {
  const { head } = data.singles!;
  if (hasAllSingles()) return [];
  const gaps: [number, number][] = [];
  let at = from;
  for (const of of head.chunks) {
    if (of.from_ns > at) gaps.push([at, Math.min(of.from_ns, to)]);
    at = Math.max(at, of.to_ns);
    if (at >= to) return gaps;
  }
  if (at < to) gaps.push([at, to]);
  return gaps;
}

/** Waits for a CPU in a time, of these vCPUs; and whether the page leaves any out. */
export function waitsIn([from, to]: [number, number], isShown: (lane: number) => boolean): { waits: CpuWait[]; isPart: boolean } {
  const chunks = data.singles ? chunksOf([from, to]) : [];
  if (!chunks) return { waits: [], isPart: true };
  const found = chunks.map((of) => of.waits);
  const waits = found.flatMap((waits) => waits?.filter((wait) => wait.at <= to && (wait.ran ?? wait.at) >= from && isShown(wait.lane)) ?? []);
  return { waits, isPart: found.includes(null) || missingIn([from, to]).length > 0 };
}

/** Whether an exit of a chunk is looked at. */
function isLookedAt(of: Chunk, row: number): boolean {
  const total = of.total[row]!;
  if ((selectedVcpus.value && !selectedVcpus.value.has(of.lane[row]!)) || !isShown(of.cause[row]!)) return false;
  return !lengths.value || (total >= lengths.value[0] && total < lengths.value[1]);
}

/** The exits that last into a time, of those that `takes` says; `null` if they are more than `most`. */
function singlesOver([from, to]: [number, number], most: number, takes: (of: Chunk, row: number) => boolean): Single[] | null {
  const chunks = chunksOf([from, to]);
  if (!chunks) return null;
  const found: Single[] = [];
  for (const of of chunks) {
    for (let row = 0; row < of.rows; row++) {
      if (of.at[row]! > to || of.at[row]! + of.total[row]! < from || !takes(of, row)) continue;
      found.push(single(of, row));
      if (found.length > most) return null;
    }
  }
  return found;
}

/** The exits that are in view, of those that are looked at; `null` if they are too many to be drawn one by one. */
export const singlesInView = computed<Single[] | null>(() => (data.singles ? singlesOver(range.value, DRAWN, isLookedAt) : null));

/** Takes from sums over time, by vCPU, what single exits have in them: of each as much as lies in a group, for its parts are spread evenly in
 * sums. What is left is of no exit. */
export function takeSingles(sums: Map<number, Stacks>, columns: string[]): void {
  const [any] = sums.values();
  if (!any) return;
  const { from, step, groups } = any;
  for (const exit of singlesOver([from, from + groups * step], Infinity, () => true) ?? []) {
    const values = sums.get(exit.lane)?.values;
    const end = exit.at + exit.total;
    for (let group = Math.max(0, Math.floor((exit.at - from) / step)); values && exit.total > 0 && group < groups && from + group * step < end; group++) {
      const within = Math.min(end, from + (group + 1) * step) - Math.max(exit.at, from + group * step);
      columns.forEach((column, part) => (values[part]![group]! -= ((exit.times[column] ?? 0) * within) / exit.total));
    }
  }
}

/** Whether the page has all single exits of the recording. */
export const hasAllSingles = (): boolean => {
  const head = data.singles?.head;
  return !!head && head.chunks.reduce((sum, of) => sum + of.rows, 0) === head.exits;
};

/** Counts of all exits of these causes by time, vCPU, reason and bucket of length, as sums over time have them by reason. */
export function lengthsOfSingles(causes: ReadonlySet<number>, width: number): Table {
  const found = new Map<string, number[]>();
  data.singles!.head.chunks.forEach((_, number) => {
    const of = unpacked.get(number) ?? unpack(data.singles!, number);
    for (let row = 0; row < of.rows; row++) {
      const cause = of.cause[row]!;
      if (!causes.has(cause)) continue;
      const keys = [Math.floor(of.at[row]! / width), of.lane[row]!, reasonOf(cause), bucketHolding(of.total[row]!)];
      const id = keys.join();
      const known = found.get(id);
      if (known) known[4]!++;
      else found.set(id, [...keys, 1]);
    }
  });
  const rows = [...found.values()].sort((a, b) => a[0]! - b[0]!);
  const column = (at: number) => Float64Array.from(rows, (row) => row[at]!);
  return { width, rows: rows.length, col: { bucket: column(0), lane: column(1), reason: column(2), length: column(3), count: column(4) } };
}

/** Goes through all single exits that began in a time and are looked at. */
export function eachSingle([from, to]: [number, number], visit: (of: Chunk, row: number) => void): void {
  for (const number of chunksIn([from, to])) {
    // Not kept: there are more than have room.
    const of = unpacked.get(number) ?? unpack(data.singles!, number);
    for (let row = 0; row < of.rows; row++) {
      if (of.at[row]! >= from && of.at[row]! < to && isLookedAt(of, row)) visit(of, row);
    }
  }
}

/** The exit that is looked into: vCPU and moment. */
export const picked = signal<{ lane: number; at: number } | null>(null);

export function pick(exit: { lane: number; at: number } | null): void {
  picked.value = exit && { lane: exit.lane, at: exit.at };
}

keep({
  read(hash) {
    const [, name, at] = /^(.*)@(\d+)$/.exec(hash.get("exit") ?? "") ?? [];
    const lane = name === undefined ? -1 : laneCalled(name);
    picked.value = lane >= 0 ? { lane, at: Number(at) } : null;
  },
  write(hash) {
    if (picked.value) hash.set("exit", `${laneId(picked.value.lane)}@${picked.value.at}`);
  },
});

/** The phases of an exit's cost, in their order, where the page has them: of the slowest exits, where events mark any; `step` is a phase's
 * place among all. */
export function phasesOf(exit: { lane: number; at: number }): { name: string; step: number; ns: number }[] | null {
  const slow = data.timelines.slow_exits.find((of) => of.lane === exit.lane && of.after_ns === exit.at);
  const phases = slow?.phases_ns.map((ns, step) => ({ name: data.timelines.phases[step]!.replace("user space", handlers()[1]), step, ns })).filter(({ ns }) => ns > 0) ?? [];
  return phases.length > 1 ? phases : null;
}

/** How an exit lies among others of its vCPU. */
export interface Neighbours {
  exit: Single;
  /** Before it, the last first; after it. */
  before: Single[];
  after: Single[];
  /** The last and the next of the same cause. */
  lastOfKind: Single | null;
  nextOfKind: Single | null;
  /** Exits of other vCPUs on its CPU while it lasted: by vCPU. */
  meanwhile: Map<number, number>;
}

/** The exit that is looked into, with those around it that the page has. */
export const neighbours = computed<Neighbours | null>(() => {
  const wanted = picked.value;
  if (!wanted || !data.singles) return null;
  const moment: [number, number] = [wanted.at, wanted.at + 1];
  const numbers = chunksIn([wanted.at, wanted.at]);
  const first = numbers[0] ?? -1;
  const around = [...new Set([first - 1, ...numbers, (numbers.at(-1) ?? -1) + 1])].filter((number) => number >= 0 && number < data.singles!.head.chunks.length);
  const chunks = (missingInPage(moment).length > 0 ? chunksOf(moment) : null) ?? around.map(chunk);
  const meanwhile = new Map<number, number>();
  const all = chunks.flatMap((of) => {
    return Array.from({ length: of.rows }, (_, row) => row).filter((row) => of.lane[row] === wanted.lane).map((row) => single(of, row));
  });
  all.sort((a, b) => a.at - b.at);
  const place = all.findIndex((exit) => exit.at === wanted.at);
  if (place < 0) return null;
  const exit = all[place]!;
  const isOfKind = (other: Single) => other.cause === exit.cause;
  const before = all.slice(0, place).reverse();
  const after = all.slice(place + 1);
  for (const of of chunksOf([exit.at, exit.at + exit.total]) ?? []) {
    for (let row = 0; row < of.rows; row++)
      if (of.cpu[row] === exit.cpu && of.lane[row] !== exit.lane && of.at[row]! >= exit.at && of.at[row]! < exit.at + exit.total)
        meanwhile.set(of.lane[row]!, (meanwhile.get(of.lane[row]!) ?? 0) + 1);
  }
  const [lastOfKind, nextOfKind] = [before.find(isOfKind) ?? null, after.find(isOfKind) ?? null];
  return { exit, before: before.slice(0, 6), after: after.slice(0, 3), lastOfKind, nextOfKind, meanwhile };
});
