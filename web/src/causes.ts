// Causes, which are reason and subject together, as the page numbers them; and those that are looked at.
import { computed } from "@preact/signals";
import { chosen, data } from "./selection";
import type { AdvisedCauseRow } from "./types.gen";

/** The reason's number; beyond all for reasons that are too many. */
export const reasonOf = (cause: number): number => data.timelines.causes[cause]?.reason ?? data.timelines.reasons.length;

/** The number of the subject, if it has one. */
export const aboutOf = (cause: number): number | null => data.timelines.causes[cause]?.about ?? null;

/** A subject's own name in links: of another kind, the same key is another thing. */
export function subjectId(about: number): string {
  const { kind, key, direction } = data.timelines.subjects[about]!;
  return `${kind}/0x${key.toString(16)}${direction ? `/${direction}` : ""}`;
}

/** What a row of the costliest causes is called. */
export function causeName(row: AdvisedCauseRow): string {
  // What is a part of other rows' exits says so.
  const reason = row.reason ?? (row.kind === "forced_out" ? "forced out (part of these exits)" : row.kind.replaceAll("_", " "));
  return row.subject ? `${reason}: ${row.subject.text}` : reason;
}

/** The causes of such a row. */
function causesOf(row: AdvisedCauseRow): number[] {
  const { causes, subjects: abouts, reasons } = data.timelines;
  const isOfRow = (cause: (typeof causes)[number]): boolean => {
    if (cause.is_further || reasons[cause.reason ?? -1] !== row.reason) return false;
    if (cause.named !== null) return cause.named === row.subject?.text;
    if (!cause.is_told_apart) return row.subject === null;
    const about = abouts[cause.about!]!;
    return row.subject?.kind === about.kind && row.subject.key === about.key;
  };
  return causes.flatMap((cause, at) => (isOfRow(cause) ? [at] : []));
}

export const chooseCause = (row: AdvisedCauseRow): void => void (chosen.value = chosen.value === causeName(row) ? null : causeName(row));
export const chooseSubject = (about: number): void => void (chosen.value = chosen.value === subjectId(about) ? null : subjectId(about));

interface Chosen {
  name: string;
  causes: ReadonlySet<number>;
}

/** What was chosen, if the recording has it. */
export const chosenCauses = computed<Chosen | null>(() => {
  const wanted = chosen.value;
  if (wanted === null) return null;
  const row = data.report.causes.find((row) => row.reason && causeName(row) === wanted);
  if (row) return { name: wanted, causes: new Set(causesOf(row)) };
  const about = data.timelines.subjects.findIndex((_, at) => subjectId(at) === wanted);
  if (about < 0) return null;
  return { name: data.timelines.subjects[about]!.text, causes: new Set(data.timelines.causes.flatMap((cause, at) => (cause.about === about ? [at] : []))) };
});
