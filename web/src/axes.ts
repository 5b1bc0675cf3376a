// Axes: ticks from d3-scale, titles with units.
import { scaleLinear, scaleLog } from "d3-scale";
import { colors } from "./colors";
import { round, seconds, unsigned } from "./format";
import { textWidth, type Surface } from "./surface";

/** Where a chart's marks go, within its axes. */
export interface Plot {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Scale {
  (value: number): number;
  back(at: number): number;
  ticks: { at: number; label: string; minor?: boolean }[];
}

/** A tick's label without digits that say nothing: `50µs` of `50.0µs`. Plain numbers keep theirs, so that all have as many. */
const tidy = (label: string): string => unsigned(label.replace(/(\.\d*?)0+(?=[a-zµ%])/, "$1").replace(/\.(?=[a-zµ%])/, ""));

/** The scale's values, fewer where the labels of two would be the same. */
function distinct(some: (most: number) => number[], most: number, label: (value: number, step: number) => string, range: number): [number, string][] {
  for (let count = most; ; count--) {
    const values = some(count);
    const step = values.length > 1 ? values[1]! - values[0]! : range || 1;
    const labelled = values.map((value): [number, string] => [value, tidy(label(value, step))]);
    if (new Set(labelled.map(([, text]) => text)).size === labelled.length) return labelled;
    // Not even two can be told apart.
    if (count <= 1) return labelled.filter(([, text], at) => labelled.findIndex((other) => other[1] === text) === at);
  }
}

/** What an axis says that does not start at zero. */
export const startsAt = (title: string, from: number, show: (value: number) => string): string => (from > 0 ? `${title}, axis from ${show(from)}` : title);

export function linear(from: number, to: number, low: number, high: number, ticks: number, label: (value: number, step: number) => string): Scale {
  const scale = scaleLinear([from, to], [low, high]);
  const labelled = distinct((most) => (from === to ? [from] : scale.ticks(most)), ticks, label, to - from);
  return Object.assign((value: number) => scale(value), {
    back: (at: number) => scale.invert(at),
    ticks: labelled.map(([value, text]) => ({ at: scale(value), label: text })),
  });
}

/** Lengths of time by their logarithm; a tick with a label for each power of ten. */
export function logarithmic(from: number, to: number, low: number, high: number, label: (value: number) => string = round): Scale {
  const scale = scaleLog([from, to], [low, high]);
  // Pixels of a power of ten.
  const room = Math.abs(high - low) / Math.log10(to / from);
  const lead = (value: number) => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  const labelled = (value: number) => lead(value) === 1 || (room > 150 && (lead(value) === 2 || lead(value) === 5));
  return Object.assign((value: number) => scale(Math.max(value, from)), {
    back: (at: number) => scale.invert(at),
    ticks: scale
      .ticks()
      .filter((value) => lead(value) === 1 || room > 40)
      .map((value) => ({ at: scale(value), label: labelled(value) ? tidy(label(value)) : "", minor: !labelled(value) })),
  });
}

/** Seconds since the first event. */
export function timeScale(from: number, to: number, low: number, high: number, zero: number): Scale {
  const most = Math.max(2, Math.min(12, Math.round((high - low) / 90)));
  const scale = linear((from - zero) / 1e9, (to - zero) / 1e9, low, high, most, (value, step) => seconds(value * 1e9, step * 1e9));
  return Object.assign((value: number) => scale((value - zero) / 1e9), {
    back: (at: number) => scale.back(at) * 1e9 + zero,
    ticks: scale.ticks,
  });
}

/** Room for an axis of the left: its labels and title. */
export function leftRoom(scale: Scale): number {
  return Math.ceil(Math.max(...scale.ticks.map((tick) => textWidth(tick.label)), 10)) + 26;
}

export function leftAxis(s: Surface, plot: Plot, scale: Scale, title: string): void {
  const { soft, grid } = colors.value;
  for (const tick of scale.ticks) {
    if (tick.minor) continue;
    s.rect(plot.x, Math.round(tick.at), plot.w, 1, grid);
    s.text(plot.x - 6, tick.at, tick.label, { color: soft, align: "right" });
  }
  s.text(plot.x - leftRoom(scale) + 8, plot.y + plot.h / 2, title, { color: soft, align: "center", up: true, width: plot.h + 30 });
}

/** Needs 34 pixels below the plot. */
export function bottomAxis(s: Surface, plot: Plot, scale: Scale, title: string): void {
  const { soft, grid, line } = colors.value;
  const y = plot.y + plot.h;
  for (const tick of scale.ticks) {
    s.rect(Math.round(tick.at), plot.y, 1, tick.minor ? 0 : plot.h, grid);
    s.rect(Math.round(tick.at), y, 1, tick.minor ? 2 : 4, line);
    if (tick.label) s.text(Math.max(plot.x, tick.at), y + 11, tick.label, { color: soft, align: "center" });
  }
  s.rect(plot.x, y, plot.w, 1, line);
  s.text(plot.x + plot.w / 2, y + 26, title, { color: soft, align: "center", width: plot.w });
}
