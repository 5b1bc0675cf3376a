// Single exits: unpacked, chunk by chunk, as they are looked at; crates/page/src/single_exits.rs says how they are packed.
import { computed, signal } from "@preact/signals";
import { Numbers, type Packed } from "./data";
import { keep } from "./link";
import { data, lanes, range, reasons } from "./state";

/** One exit. Times in ns, from the page's begin on. */
export interface Single {
  at: number;
  lane: number;
  reason: number;
  /** What it was about, if it was about anything. */
  about: number | null;
  toUser: boolean;
  /** Its parts, by column. */
  times: Record<string, number>;
  total: number;
}

/** Chunks that are unpacked at most for what is in view, and those that stay so. */
const IN_VIEW = 8;
const UNPACKED = 24;
/** Single exits that are drawn at most. */
const DRAWN = 2500;

const unpacked = new Map<number, Single[]>();
let of: Packed | null = null;

function unpack(number: number): Single[] {
  const { head, bytes } = data.singles!;
  const chunk = head.chunks[number]!;
  let at = 0;
  for (let before = 0; before < number; before++) at += head.chunks[before]!.bytes;
  const numbers = new Numbers(bytes, at);
  const next = () => numbers.next();
  const column = (): Float64Array => Float64Array.from({ length: chunk.rows }, next);
  const [begin, lane, reason, about, toUser, kernel, user, others] = head.columns.map(column) as Float64Array[];
  let before = chunk.first_ns;
  return Array.from({ length: chunk.rows }, (_, row) => {
    const zigzag = begin![row]!;
    before += zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    const times: Record<string, number> = { kernel_ns: kernel![row]!, user_ns: user![row]! };
    head.parts.forEach((part, bit) => {
      if (Math.floor(others![row]! / 2 ** bit) % 2 === 1) times[part] = next();
    });
    return {
      at: before,
      lane: lane![row]!,
      reason: reason![row]!,
      about: about![row]! > 0 ? about![row]! - 1 : null,
      toUser: toUser![row] === 1,
      times,
      total: Object.values(times).reduce((sum, time) => sum + time, 0),
    };
  });
}

function chunk(number: number): Single[] {
  if (of !== data.singles) {
    unpacked.clear();
    of = data.singles;
  }
  let found = unpacked.get(number);
  if (found) unpacked.delete(number);
  else found = unpack(number);
  unpacked.set(number, found);
  if (unpacked.size > UNPACKED) unpacked.delete(unpacked.keys().next().value!);
  return found;
}

/** The chunks that have exits of a time. */
function chunksIn([from, to]: [number, number]): number[] {
  const chunks = data.singles?.head.chunks ?? [];
  return chunks.map((_, number) => number).filter((number) => chunks[number]!.first_ns <= to && chunks[number]!.to_ns >= from);
}

/** Stretches of a time of which no single exits are in the page. */
export function missingIn([from, to]: [number, number]): [number, number][] {
  const { head } = data.singles!;
  if (head.chunks.reduce((sum, of) => sum + of.rows, 0) === head.exits) return [];
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

/** The exits that are in view, of the vCPUs and reasons that are looked at; `null` if they are too many to be drawn one by one. */
export const singlesInView = computed<Single[] | null>(() => {
  if (!data.singles) return null;
  const [from, to] = range.value;
  const numbers = chunksIn([from, to]);
  if (numbers.length > IN_VIEW) return null;
  const [ofLanes, ofReasons] = [lanes.value, reasons.value];
  const found: Single[] = [];
  for (const number of numbers) {
    for (const exit of chunk(number)) {
      if (exit.at > to || exit.at + exit.total < from) continue;
      if ((ofLanes && !ofLanes.has(exit.lane)) || (ofReasons && !ofReasons.has(exit.reason))) continue;
      found.push(exit);
      if (found.length > DRAWN) return null;
    }
  }
  return found;
});

/** The exit that is looked into: vCPU and moment. */
export const picked = signal<{ lane: number; at: number } | null>(null);

export function pick(exit: { lane: number; at: number } | null): void {
  picked.value = exit && { lane: exit.lane, at: exit.at };
}

keep({
  read(hash) {
    const [lane, at] = (hash.get("exit") ?? "").split(":").map(Number);
    picked.value = Number.isInteger(lane) && Number.isFinite(at) && at !== undefined && hash.has("exit") ? { lane: lane!, at } : null;
  },
  write(hash) {
    if (picked.value) hash.set("exit", `${picked.value.lane}:${picked.value.at}`);
  },
});

/** How an exit lies among others of its vCPU. */
export interface Neighbours {
  exit: Single;
  /** Before it, the last first; after it. */
  before: Single[];
  after: Single[];
  /** The last and the next for the same reason, about the same. */
  lastOfKind: Single | null;
  nextOfKind: Single | null;
}

/** The exit that is looked into, with those around it that the page has. */
export const neighbours = computed<Neighbours | null>(() => {
  const wanted = picked.value;
  if (!wanted || !data.singles) return null;
  const numbers = chunksIn([wanted.at, wanted.at]);
  const first = numbers[0] ?? -1;
  const around = [...new Set([first - 1, ...numbers, (numbers.at(-1) ?? -1) + 1])].filter((number) => number >= 0 && number < data.singles!.head.chunks.length);
  const all = around.flatMap(chunk).filter((exit) => exit.lane === wanted.lane);
  all.sort((a, b) => a.at - b.at);
  const place = all.findIndex((exit) => exit.at === wanted.at);
  if (place < 0) return null;
  const exit = all[place]!;
  const isOfKind = (other: Single) => other.reason === exit.reason && other.about === exit.about;
  const before = all.slice(0, place).reverse();
  const after = all.slice(place + 1);
  return { exit, before: before.slice(0, 6), after: after.slice(0, 3), lastOfKind: before.find(isOfKind) ?? null, nextOfKind: after.find(isOfKind) ?? null };
});
