// Exits of a served recording in groups that its page cannot sum up: the server reads all of them again.
import { effect, signal } from "@preact/signals";
import type { Limit } from "./condition";
import { Numbers } from "./data";
import { onClock } from "./given";
import type { Sums } from "./aggregate";
import { ask, serverUrls, type Places } from "./server_events";
import { data } from "./selection";

/** What is to be known of exits. */
export interface Wanted {
  at: [number, number];
  /** What they are told apart by, beside vCPU and cause. */
  keys: ReadonlySet<GroupKey>;
  limits: Limit[];
}

export type GroupKey = "to_user" | "cpu" | "rip";

/** A group of them; keys that were not asked for are 0. */
export interface Row {
  keys: Record<GroupKey | "lane" | "cause", number>;
  sums: Sums;
}

interface Answered {
  address: string;
  of: { rows: Row[]; places: Places } | null;
  /** Why there are none. */
  wrong: string | null;
}

/** How the server spells comparisons. */
const SIGNS: Record<string, string> = { "=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge" };
/** How long a question must rest before it is asked, in ms. */
const REST = 300;

const KEYS = ["lane", "cause", "to_user", "cpu", "rip"] as const;

/** Whether there is a server to ask. */
export const canAsk = (): boolean => !!serverUrls.value?.groups;

const answered = signal<Answered | null>(null);

function addressOf({ at: [from, to], keys, limits }: Wanted): string {
  const list = (of: string[]) => of.join(",") || "-";
  const words = limits.map(({ word, sign, ns }) => `${word}.${SIGNS[sign]}.${Math.round(ns)}`);
  // The last moment of it is the server's, too.
  return `${serverUrls.value!.groups!}/${onClock(from)}/${onClock(to - 1)}/${list([...keys].sort())}/${list(words)}`;
}

async function answer(address: string): Promise<Answered> {
  try {
    const { answer, columns } = await ask(address);
    const { rows, columns: names, ...places } = answer.groups!;
    const numbers = new Numbers(columns);
    const of = Object.fromEntries(names.map((name) => [name, Float64Array.from({ length: rows }, () => numbers.next())]));
    const pick = (wanted: readonly string[], row: number) => Object.fromEntries(wanted.map((name) => [name, of[name]?.[row] ?? 0]));
    const sums = names.filter((name) => !(KEYS as readonly string[]).includes(name));
    return { address, of: { rows: Array.from({ length: rows }, (_, row) => ({ keys: pick(KEYS, row) as Row["keys"], sums: pick(sums, row) })), places }, wrong: null };
  } catch (error) {
    return { address, of: null, wrong: error instanceof Error ? error.message : String(error) };
  }
}

/** The answer to what is wanted, if it is there. */
export function groupsOf(wanted: Wanted): Answered | null {
  const found = answered.value;
  return found?.address === addressOf(wanted) && data.singles ? found : null;
}

/** Asks what is wanted from now on, whenever that changes. */
export function askGroups(wanted: () => Wanted | null): () => void {
  let resting = 0;
  return effect(() => {
    clearTimeout(resting);
    const now = wanted();
    if (!now || groupsOf(now)) return;
    const address = addressOf(now);
    resting = window.setTimeout(async () => {
      const found = await answer(address);
      // Another may have been asked since: its answer comes later.
      const is = wanted();
      if (is && addressOf(is) === address) answered.value = found;
    }, REST);
  });
}
