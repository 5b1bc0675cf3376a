// Arrows of the timeline where single exits are in view: who woke a vCPU, who took its CPU, who forced it out of its guest.
import { forcedOut } from "./forced_out_timeline";
import { ns } from "./format";
import { waitsIn, type CpuWait, type Single } from "./single";
import { data } from "./selection";
import { vcpuName } from "./timeline";

/** What others did to a vCPU. Times in ns, from the page's begin on. */
export interface Arrow {
  kind: "woken" | "preempted" | "forced out";
  lane: number;
  at: number;
  /** When it ran, or was in its guest, again; `null` if that was not recorded. */
  ran: number | null;
  /** The vCPU that did it, if it was one. */
  by: number | null;
  /** Who did it, in words; empty if the recording does not say. */
  who: string;
}

/** A thread in words. */
function whoIs({ thread, isWoken }: CpuWait): { by: number | null; who: string } {
  if (!thread) return { by: null, who: "" };
  if (thread.tid === 0) return { by: null, who: "an interrupt or another CPU, on a CPU that was idle" };
  const name = thread.lane !== null ? vcpuName(thread.lane) : `${thread.name ?? "thread"} (${thread.tid})`;
  // The event tells on whose time the wake-up was, and not whether that was an interrupt's.
  return { by: thread.lane, who: isWoken ? `${name}, or an interrupt while that ran` : name };
}

/** Forced exits, where their moments are known well enough. */
function forcedIn([from, to]: [number, number], isShown: (lane: number) => boolean): Arrow[] {
  const width = data.forced_out?.width_ns ?? Infinity;
  if (width > (to - from) / 100) return [];
  return forcedOut.value
    .filter((drag) => drag.at + drag.lost >= from && drag.at <= to && isShown(drag.lane))
    .map((drag) => ({ kind: "forced out", lane: drag.lane, at: drag.at, ran: drag.at + drag.lost, by: drag.cause < 0 ? null : drag.cause, who: drag.cause < 0 ? "" : `${vcpuName(drag.cause)}, ${drag.reason}` }));
}

/** All in a time, of these vCPUs; and whether the page leaves any out. */
export function arrowsIn(at: [number, number], isShown: (lane: number) => boolean): { arrows: Arrow[]; isPart: boolean } {
  const { waits, isPart } = waitsIn(at, isShown);
  const arrows = waits.map((wait): Arrow => ({ kind: wait.isWoken ? "woken" : "preempted", lane: wait.lane, at: wait.at, ran: wait.ran, ...whoIs(wait) }));
  return { arrows: [...arrows, ...forcedIn(at, isShown)], isPart: isPart && data.report.event_kinds.scheduler };
}

/** Those of an exit. */
export const arrowsOf = (exit: Single): ReturnType<typeof arrowsIn> => {
  const width = data.forced_out?.width_ns ?? 0;
  const { arrows, isPart } = arrowsIn([exit.at, exit.at + exit.total], (lane) => lane === exit.lane);
  // Moments of forced exits are whole buckets.
  return { isPart, arrows: arrows.filter((of) => of.at >= exit.at - (of.kind === "forced out" ? width : 0) && of.at <= exit.at + exit.total) };
};

/** How long an arrow stands for. */
export const lastsOf = ({ at, ran }: Arrow): number => (ran ?? at) - at;

/** So many of them that took longest, in order of time. */
export const longest = (of: Arrow[], most: number): Arrow[] =>
  [...of]
    .sort((a, b) => lastsOf(b) - lastsOf(a))
    .slice(0, most)
    .sort((a, b) => a.at - b.at);

/** One of an exit, in words. */
export function arrowText({ kind, at, ran, who }: Arrow, exit: Single): string {
  const when = at <= exit.at ? "at its start" : `after ${ns(at - exit.at)}`;
  const by = who && ` by ${who}`;
  if (kind === "forced out") return `Forced out of the guest${by}; back in it after ${ns(ran! - at)}.`;
  const again = ran === null ? "when it ran again is not recorded" : `${kind === "woken" ? "ran" : "ran again"} ${ns(ran - at)} later`;
  return `${kind === "woken" ? "Woken" : "Preempted"} ${when}${by}; ${again}.`;
}
