// Colours that people with any colour vision can tell apart: test/colors.test.mjs checks it. A reason, and a part of time, has
// the same one everywhere. A fill is a colour, or one after `/`, `\\` or `:`: hatched in it, that way, or dotted.
import { computed, signal } from "@preact/signals";
import { isDark } from "./url_state";
import { data } from "./selection";
import type { PageData } from "./types.gen";

const LIGHT = { ground: "#ffffff", ink: "#1b1f24", soft: "#57606a", grid: "#e4e8ec", line: "#b8c0c8", accent: "#0b5cad", bad: "#b3261e", heat: ["#e8eff7", "#08306b"] };

const DARK: typeof LIGHT = { ground: "#15181c", ink: "#e6e9ec", soft: "#9aa4ae", grid: "#2a3037", line: "#4a535c", accent: "#6cb2f5", bad: "#ff8a80", heat: ["#1d2a38", "#c6e2ff"] };

/** Parts of time that charts name; others come with their names. */
type Part = "guest_ns" | "kernel_ns" | "user_space_ns" | "polling_ns" | "halted_ns" | "steal_ns" | "unknown_ns";

type Fills = Omit<PageData["palette"]["light"], "parts"> & { parts: Record<Part, string> & Record<string, string> };

const palette = signal<PageData["palette"] | null>(null);

/** Takes the fills that a page brings along: text and `top` have them of the same table, crates/view/src/palette.rs. */
export const takePalette = (of: PageData["palette"]): void => void (palette.value = of);

export const colors = computed(() => (isDark.value ? { ...DARK, ...(palette.value?.dark as Fills) } : { ...LIGHT, ...(palette.value?.light as Fills) }));

/** Fills of parts, by column. */
export const partFills = (parts: { column: string }[]): string[] => parts.map(({ column }) => colors.value.parts[column]!);

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
