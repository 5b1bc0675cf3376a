// Colours that people with any colour vision can tell apart (after Paul Tol's bright and muted schemes); a reason, and a part
// of time, has the same one everywhere. A fill is a colour, or one after `/` or `\\`: hatched in it, that way.
import { computed } from "@preact/signals";
import { isDark } from "./link";
import { data } from "./state";

const LIGHT = {
  ground: "#ffffff",
  ink: "#1b1f24",
  soft: "#57606a",
  grid: "#e4e8ec",
  line: "#b8c0c8",
  accent: "#0b5cad",
  bad: "#b3261e",
  other: "#a3abb3",
  reasons: ["#4477aa", "#ee6677", "#228833", "#ccab22", "#33a6cc", "#aa3377", "#ee7733", "#7a66cc"],
  // By column; what is not known is hatched.
  parts: {
    guest_ns: "#3f9b6b",
    kernel_ns: "#3b74b4",
    user_ns: "#e07b39",
    polling_ns: "#d6b52c",
    halted_ns: "#d9dee3",
    halt_not_divided_ns: "#b3bcc5",
    waiting_for_memory_ns: "#5ab4d6",
    steal_ns: "#9a4f96",
    stopped_ns: "#6d5a4a",
    unknown_ns: "/#8a949e",
    excluded_ns: "\\#b3261e",
  },
  steps: ["#88b6dd", "#3b74b4", "#f2b784", "#e07b39", "#9aa3ab", "#5aa9a3"],
  heat: ["#e8eff7", "#08306b"],
};

const DARK: typeof LIGHT = {
  ground: "#15181c",
  ink: "#e6e9ec",
  soft: "#9aa4ae",
  grid: "#2a3037",
  line: "#4a535c",
  accent: "#6cb2f5",
  bad: "#ff8a80",
  other: "#79828b",
  reasons: ["#6f9fd0", "#ee7a89", "#4fae5d", "#d6bd4a", "#66ccee", "#cc6699", "#ee8f55", "#9d8ee6"],
  parts: {
    guest_ns: "#4fae7e",
    kernel_ns: "#5b92d0",
    user_ns: "#e58f55",
    polling_ns: "#dcc04f",
    halted_ns: "#39414a",
    halt_not_divided_ns: "#5d6872",
    waiting_for_memory_ns: "#6cc4e4",
    steal_ns: "#b673b2",
    stopped_ns: "#a08c78",
    unknown_ns: "/#9aa4ae",
    excluded_ns: "\\#ff8a80",
  },
  steps: ["#a5c8ea", "#5b92d0", "#f3c79c", "#e58f55", "#828c95", "#6fc0b9"],
  heat: ["#1d2a38", "#c6e2ff"],
};

export const colors = computed(() => (isDark.value ? DARK : LIGHT));

/** Fills of parts, by column. */
export const partFills = (parts: { column: string }[]): string[] => parts.map(({ column }) => colors.value.parts[column as keyof typeof LIGHT.parts]);

/** Reasons that have a colour of their own, those that cost most first, and, after them, the most frequent. */
export let ranked: number[] = [];

/** Ranks them; reasons that had a colour before, by that, keep it as long as they have one. */
export function rankReasons(before: string[] = []): void {
  const cost = new Map<number, [number, number]>();
  const { reason, kernel_ns, user_ns, count } = data.tables.exits.col;
  for (let row = 0; row < data.tables.exits.rows; row++) {
    const sums = cost.get(reason![row]!) ?? [0, 0];
    cost.set(reason![row]!, [sums[0] + kernel_ns![row]! + user_ns![row]!, sums[1] + count![row]!]);
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

export const reasonName = (reason: number): string => data.over.reasons[reason] ?? "(further reasons)";

/** Between two colours, 0 to 1. */
export function mix(from: string, to: string, part: number): string {
  const of = (color: string, at: number) => parseInt(color.slice(1 + at * 2, 3 + at * 2), 16);
  const parts = [0, 1, 2].map((at) => Math.round(of(from, at) + (of(to, at) - of(from, at)) * part));
  return `rgb(${parts.join(",")})`;
}
