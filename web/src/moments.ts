// The slowest moments: slow exits, those of one incident together.
import { costOf, timeOf } from "./aggregate";
import { data } from "./selection";
import type { SlowOne } from "./types.gen";

/** By what exits are slow: halts, and a VM that is stopped, are as long as they are to be. */
export const slownessOf = (exit: SlowOne): number => costOf(exit) + timeOf(exit, "steal_ns");

/** The slowest exit of an incident, and how many slow ones were at the same time. */
export interface SlowMoment {
  exit: SlowOne;
  others: number;
}

/** How far apart exits of one incident may be, as a part of how slow the slower one was. */
const NEAR = 0.1;
/** If the slowest exit is no more than this many times as slow as slow ones are in the middle, none stands out. */
const STANDS_OUT = 1.2;

/** When an exit was slow: one that waited first, as a halt does, at its end. */
const slowIn = (exit: SlowOne): [number, number] => {
  const end = exit.after_ns + exit.exit_time_ns;
  return [end - slownessOf(exit), end];
};

/** Slow exits as moments, the slowest first: what was slow on any vCPU while another exit was, or right beside it, is one incident with it. */
export function momentsOf(slow: SlowOne[]): SlowMoment[] {
  const found: (SlowMoment & { from: number; to: number })[] = [];
  for (const exit of [...slow].sort((a, b) => slownessOf(b) - slownessOf(a))) {
    const [from, to] = slowIn(exit);
    // Several recordings share no clock.
    const same = data.timelines.in_time && found.find((of) => from <= of.to && to >= of.from);
    const near = slownessOf(exit) * NEAR;
    if (same) same.others++;
    else found.push({ exit, others: 0, from: from - near, to: to + near });
  }
  return found.map(({ exit, others }) => ({ exit, others }));
}

/** Whether any exit is slow beside other slow ones. */
export function anyStandsOut(slow: SlowOne[]): boolean {
  const all = slow.map(slownessOf).sort((a, b) => a - b);
  return all.length < 3 || all.at(-1)! > all[all.length >> 1]! * STANDS_OUT;
}
