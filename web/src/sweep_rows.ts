// The rows of a sweep: their figures, and what was set in each.
import type { Sweep, SweepMetric, SweepRow } from "./types.gen";

/** The mean, and the bounds of its interval. */
export const figure = (row: SweepRow, metric: SweepMetric): { mean: number | null; low: number | null; high: number | null } => ({
  mean: row[`${metric.name}_mean`] as number | null,
  low: row[`${metric.name}_low`] as number | null,
  high: row[`${metric.name}_high`] as number | null,
});

/** Which value of each key a row has; the first key changes slowest. */
export function placesOf(sweep: Sweep, at: number): number[] {
  const places: number[] = [];
  for (const axis of [...sweep.vary].reverse()) {
    places.unshift(at % axis.values.length);
    at = Math.floor(at / axis.values.length);
  }
  return places;
}

export const settings = (sweep: Sweep, at: number): string => placesOf(sweep, at).map((place, key) => `${sweep.vary[key]!.key}=${sweep.vary[key]!.values[place]}`).join(" ");
