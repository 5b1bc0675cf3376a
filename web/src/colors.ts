// Colours that people with any colour vision can tell apart: test/colors.test.mjs checks it. A reason, and a part of time, has
// the same one everywhere. A fill is a colour, or one after `/`, `\\` or `:`: hatched in it, that way, or dotted.
import { computed } from "@preact/signals";
import { isDark } from "./url_state";
import { data } from "./selection";

const LIGHT = { ground: "#ffffff", ink: "#1b1f24", soft: "#57606a", grid: "#e4e8ec", line: "#b8c0c8", accent: "#0b5cad", bad: "#b3261e", heat: ["#e8eff7", "#08306b"] };

const DARK: typeof LIGHT = { ground: "#15181c", ink: "#e6e9ec", soft: "#9aa4ae", grid: "#2a3037", line: "#4a535c", accent: "#6cb2f5", bad: "#ff8a80", heat: ["#1d2a38", "#c6e2ff"] };

// A vCPU that has its CPU is filled, one that is blocked dotted; what else keeps it from running, and what is not known, is hatched.
const LIGHT_FILLS = {
  parts: {
    guest_ns: "#88919a",
    kernel_ns: "#306fb4",
    user_space_ns: "#d94204",
    polling_ns: "#9a981e",
    halted_ns: ":#88919a",
    halt_not_divided_ns: ":#525c66",
    waiting_for_memory_ns: ":#2286c0",
    steal_ns: "/#9a4f96",
    stopped_ns: "\\#7e7f45",
    unknown_ns: "/#88919a",
    excluded_ns: "\\#b3261e",
  },
  reasons: ["#7670fb", "#a20d04", "#3b8f60", "#bf8801", "#085b71", "#a07692", "#290098", "#6b062e"],
  other: "#4e504c",
  phases: ["#2399f0", "#3144e2", "#a9886b", "#a15d0f", "#ed5c9a", "#004f3f"],
};

const DARK_FILLS: typeof LIGHT_FILLS = {
  parts: {
    guest_ns: "#6f7881",
    kernel_ns: "#5b92d0",
    user_space_ns: "#e3894d",
    polling_ns: "#ecdc44",
    halted_ns: ":#6f7881",
    halt_not_divided_ns: ":#a9b3bb",
    waiting_for_memory_ns: ":#41c9f7",
    steal_ns: "/#b464bf",
    stopped_ns: "\\#77654f",
    unknown_ns: "/#8a949e",
    excluded_ns: "\\#ff8a80",
  },
  reasons: ["#a7dbf4", "#feb546", "#239603", "#ef72ff", "#db0178", "#ad9970", "#8365a7", "#a96267"],
  other: "#acacac",
  phases: ["#c99790", "#3966c2", "#fbdcb7", "#ac6b0f", "#5e9aa6", "#90f9f0"],
};

export const colors = computed(() => (isDark.value ? { ...DARK, ...DARK_FILLS } : { ...LIGHT, ...LIGHT_FILLS }));

/** Fills of parts, by column. */
export const partFills = (parts: { column: string }[]): string[] => parts.map(({ column }) => colors.value.parts[column as keyof typeof LIGHT_FILLS.parts]);

/** Reasons that have a colour of their own, those that cost most first, and, after them, the most frequent. */
export let ranked: number[] = [];

/** Ranks them; reasons that had a colour before, by that, keep it as long as they have one. */
export function rankReasons(before: string[] = []): void {
  const cost = new Map<number, [number, number]>();
  const { reason, kernel_ns, user_space_ns, count } = data.tables.exits.col;
  for (let row = 0; row < data.tables.exits.rows; row++) {
    const sums = cost.get(reason![row]!) ?? [0, 0];
    cost.set(reason![row]!, [sums[0] + kernel_ns![row]! + user_space_ns![row]!, sums[1] + count![row]!]);
  }
  const most = (at: 0 | 1) => [...cost].sort((a, b) => b[1][at] - a[1][at]).map((row) => row[0]);
  const first = [...new Set([...most(0).slice(0, 6), ...most(1).slice(0, 8)])].slice(0, 8);
  const further = first.filter((reason) => !before.includes(reasonName(reason)));
  const places = before.map((name) => first.find((reason) => reasonName(reason) === name) ?? further.shift());
  ranked = [...places, ...further].filter((reason) => reason !== undefined);
}

export function reasonColor(reason: number): string {
  const at = ranked.indexOf(reason);
  return at < 0 ? colors.value.other : colors.value.reasons[at]!;
}

/** What reasons are drawn in: each that has a colour of its own, and, where there are any, all others. */
export function reasonLegend(of: Iterable<number>): { label: string; color: string; reason: number | null }[] {
  const all = new Set(of);
  const own = ranked.filter((reason) => all.has(reason)).map((reason) => ({ label: reasonName(reason), color: reasonColor(reason), reason }));
  return own.length < all.size ? [...own, { label: "other reasons", color: colors.value.other, reason: null }] : own;
}

export const reasonName = (reason: number): string => data.timelines.reasons[reason] ?? "(further reasons)";

/** Between two colours, 0 to 1. */
export function mix(from: string, to: string, part: number): string {
  const of = (color: string, at: number) => parseInt(color.slice(1 + at * 2, 3 + at * 2), 16);
  const parts = [0, 1, 2].map((at) => Math.round(of(from, at) + (of(to, at) - of(from, at)) * part));
  return `rgb(${parts.join(",")})`;
}
