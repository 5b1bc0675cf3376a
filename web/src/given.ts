// Single exits that a page does not hold, and that its server reads again where few are in view.
//
//   range ─► not in the page, but few enough? ─► server ─► given ─► single.ts
import { effect, signal } from "@preact/signals";
import type { Packed } from "./data";
import { rowsIn } from "./zoom_levels";
import { ask, serverUrls } from "./server_events";
import { data, range } from "./selection";

/** Single exits of a time. */
export interface Given {
  from: number;
  to: number;
  packed: Packed;
  /** What its moments are counted from, in ns from the page's begin on. */
  base: number;
  /** What was shown when it was asked for. */
  page: Packed;
}

/** Exits up to which a time is asked for, and how long it must rest before, in ms. */
const MOST = 50_000;
const REST = 300;
/** Times that are kept. */
const KEPT = 4;

const given = signal<Given[]>([]);
/** Why none are given now; empty if nothing is wrong. */
export const noneGiven = signal("");
export const isAsking = signal(false);

/** What the server gave of all of a time. */
export const givenFor = ([from, to]: [number, number]): Given | undefined =>
  given.value.find((of) => of.page === data.singles && of.from <= Math.max(from, data.from) && of.to >= Math.min(to, data.to));

/** A moment on the trace's clock, in ns, as text. */
export const onClock = (at: number): string => {
  const moment = BigInt(data.timelines.base_ns) + BigInt(Math.round(at));
  return String(moment < 0n ? 0n : moment);
};

/** What a moment on the trace's clock is, counted from the page's begin. */
export const fromClock = (at: string): number => Number(BigInt(at) - BigInt(data.timelines.base_ns));

function countIn(at: [number, number]): number {
  const table = data.tables.exits;
  const [from, to] = rowsIn(table, at);
  let sum = 0;
  for (let row = from; row < to; row++) sum += table.col.count![row]!;
  return sum;
}

async function fetchThem([from, to]: [number, number]): Promise<void> {
  const page = data.singles!;
  isAsking.value = true;
  try {
    const { answer, columns } = await ask(`${serverUrls.value!.single!}/${onClock(from)}/${onClock(to)}`);
    noneGiven.value = "";
    const none: Packed["head"] = { ...page.head, exits: 0, chunks: [] };
    const of: Given = { from, to, packed: { head: answer.singles ?? none, bytes: columns }, base: fromClock(answer.base_ns), page };
    given.value = [of, ...given.value.filter((other) => other.page === page)].slice(0, KEPT);
  } catch (error) {
    noneGiven.value = error instanceof Error ? error.message : String(error);
  }
  isAsking.value = false;
}

/** Has the server asked for what is in view and not in the page; `isMissing` says whether any of a time is. */
export function askForMissing(isMissing: (at: [number, number]) => boolean): void {
  let resting = 0;
  let failed = "";
  effect(() => {
    const [from, to] = range.value;
    clearTimeout(resting);
    if (!serverUrls.value?.single || !data.singles || isAsking.value || !isMissing([from, to])) return;
    // What is asked for goes wrong once.
    if (failed === `${from} ${to}` && noneGiven.peek() !== "") return;
    const wide: [number, number] = [Math.max(data.from, from - (to - from)), Math.min(data.to, to + (to - from))];
    const wanted = [wide, range.value].find((at) => countIn(at) <= MOST);
    if (!wanted) return;
    resting = window.setTimeout(() => {
      failed = `${from} ${to}`;
      void fetchThem(wanted);
    }, REST);
  });
}
