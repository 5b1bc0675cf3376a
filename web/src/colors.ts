// Colours that people with any colour vision can tell apart: test/colors.test.mjs checks it. A reason, and a part of time, has
// the same one everywhere. A fill is a colour, or one after `/`, `\\` or `:`: hatched in it, that way, or dotted.
import { computed } from "@preact/signals";
import { isDark } from "./url_state";
import { data } from "./selection";

const LIGHT = {
  ground: "#ffffff",
  ink: "#1b1f24",
  soft: "#57606a",
  grid: "#e4e8ec",
  line: "#b8c0c8",
  accent: "#0b5cad",
  bad: "#b3261e",
  other: "#7d848a",
  reasons: ["#2b64f3", "#bd0702", "#088244", "#b18b14", "#419dc4", "#a63b77", "#fe2d0a", "#1b1099"],
  // By column. A vCPU that has its CPU is filled, one that is blocked dotted; what else keeps it from running, and what is not known, is hatched.
  parts: {
    guest_ns: "#88919a",
    kernel_ns: "#306fb4",
    user_space_ns: "#d94204",
    polling_ns: "#ab8f16",
    halted_ns: ":#88919a",
    halt_not_divided_ns: ":#4d5761",
    waiting_for_memory_ns: ":#2286c0",
    steal_ns: "/#9a4f96",
    stopped_ns: "\\#6e7e4b",
    unknown_ns: "/#88919a",
    excluded_ns: "\\#b3261e",
  },
  steps: ["#4e99d7", "#2b6cb4", "#ab8e73", "#d36614", "#889099", "#044f44"],
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
  reasons: ["#c8c9ff", "#f67e77", "#539c0f", "#e0c55d", "#8cc0b7", "#bc3686", "#ff180c", "#a286f4"],
  parts: {
    guest_ns: "#6f7881",
    kernel_ns: "#5b92d0",
    user_space_ns: "#e3894d",
    polling_ns: "#f1d35b",
    halted_ns: ":#6f7881",
    halt_not_divided_ns: ":#a9b3bb",
    waiting_for_memory_ns: ":#41c9f7",
    steal_ns: "/#b464bf",
    stopped_ns: "\\#886d53",
    unknown_ns: "/#8a949e",
    excluded_ns: "\\#ff8a80",
  },
  steps: ["#a3badd", "#2b8def", "#f3c79c", "#ed8737", "#818c96", "#b5fcf2"],
  heat: ["#1d2a38", "#c6e2ff"],
};

export const colors = computed(() => (isDark.value ? DARK : LIGHT));

type Part = keyof typeof LIGHT.parts;

/** Fills of parts, by column. */
export const partFills = (parts: { column: string }[]): string[] => parts.map(({ column }) => colors.value.parts[column as Part]);

/** The colour of a part where it is a line, or shaded. */
export const partColor = (part: Part): string => colors.value.parts[part].slice(-"#rrggbb".length);

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

export const reasonName = (reason: number): string => data.timelines.reasons[reason] ?? "(further reasons)";

/** Between two colours, 0 to 1. */
export function mix(from: string, to: string, part: number): string {
  const of = (color: string, at: number) => parseInt(color.slice(1 + at * 2, 3 + at * 2), 16);
  const parts = [0, 1, 2].map((at) => Math.round(of(from, at) + (of(to, at) - of(from, at)) * part));
  return `rgb(${parts.join(",")})`;
}
