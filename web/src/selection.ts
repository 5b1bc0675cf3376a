// What of a recording is looked at: range of time, vCPUs, reasons, a cause, lengths; kept in the page's address, by name.
import { computed, effect, signal } from "@preact/signals";
import type { Data } from "./data";
import { begin as beginLink, keep, kept } from "./url_state";
import { serverUrls } from "./server_events";

const current = signal<Data | null>(null);

/** The recording that is shown, as soon as there is one. What reads it is drawn anew when there is another. */
export const data = new Proxy({} as Data, { get: (_, name) => current.value![name as keyof Data] });

/** Shows another one. */
export const replace = (of: Data): void => void (current.value = of);

/** Whether what happens is shown as it happens: for how many ns it is kept. */
export const liveFor = (): number | null => serverUrls.value?.keep_ns ?? null;

/** What views show that do not follow the range. */
export const fullRange = (): string => (liveFor() === null ? "the whole recording" : "all that is kept");

/** From and to, in ns from the base; whole numbers of `data.snap`. */
export const range = signal<[number, number]>([0, 1]);
/** Lanes that are shown; `null` for all. */
export const selectedVcpus = signal<ReadonlySet<number> | null>(null);
/** Reasons that are shown; `null` for all. */
export const reasons = signal<ReadonlySet<number> | null>(null);
/** A cause or a subject that is shown alone, by its name or id (causes.ts); `null` for all. */
export const chosen = signal<string | null>(null);
/** The recording, as a command takes it. */
export function recording(): string {
  const { name, given_hz } = data.report.traces[0]!;
  return given_hz ? `${name} --tsc-hz ${given_hz}` : name;
}

/** The lengths, in ns, of which exits are shown: from, and below; `null` for all. */
export const lengths = signal<[number, number] | null>(null);
/** What the timeline stacks. */
export const stack = kept<"states" | "exits" | "cost">("stack", "states", ["states", "exits", "cost"]);

const whole = ([from, to]: [number, number]): boolean => from <= data.from && to >= data.to;

/** The range as the panels have it. Charts over time follow `range` at once; the panels do so too, unless there is so much
 * to sum up that they would hold the charts up: then as soon as it rests. */
export const settledRange = signal<[number, number]>([0, 1]);

/** Rows of all tables from which on panels wait, and for how many ms. */
const MANY_ROWS = 150_000;
const REST = 120;

/** Whether the charts over time, or the panels, show the whole recording. */
export const isWhole = computed(() => whole(range.value));
export const isSettledWhole = computed(() => whole(settledRange.value));
/** Whether the panels show the whole recording of all vCPUs. */
export const isAll = computed(() => isSettledWhole.value && selectedVcpus.value === null);

/** A range is no shorter than this, in ns. */
const SHORTEST = 2_000;

/** Buckets below which a range need not be whole ones, where there are single exits to be seen. */
const WHOLE = 20;

/** Sets the range, to whole buckets within the recording; a short one, of single exits, to any moments. */
export function selectRange(from: number, to: number): void {
  const { snap } = data;
  const all = data.to - data.from;
  if (data.singles && to - from < snap * WHOLE) {
    const long = Math.round(Math.min(all, Math.max(SHORTEST, to - from)));
    const begin = Math.round(Math.min(data.to - long, Math.max(data.from, from + (to - from - long) / 2)));
    if (begin !== range.value[0] || begin + long !== range.value[1]) range.value = [begin, begin + long];
    return;
  }
  const long = Math.min(all, Math.max(snap, Math.round((to - from) / snap) * snap));
  const begin = Math.min(data.to - long, Math.max(data.from, Math.round(from / snap) * snap));
  if (begin !== range.value[0] || begin + long !== range.value[1]) range.value = [begin, begin + long];
}

export const selectAll = (): void => selectRange(data.from, data.to);

/** Narrows or widens the range around `at` (0 to 1 of it). */
export function zoom(factor: number, at = 0.5): void {
  const [from, to] = range.value;
  const long = (to - from) * factor;
  const pivot = from + (to - from) * at;
  selectRange(pivot - long * at, pivot + long * (1 - at));
}

/** Moves the range by a part of its length. */
export function pan(part: number): void {
  const [from, to] = range.value;
  const by = Math.sign(part) * Math.max(data.singles ? 1 : data.snap, Math.abs(part) * (to - from));
  selectRange(from + by, to + by);
}

/** Shows only `key`, or, if only it is shown, all. */
export function selectOnly(of: typeof selectedVcpus, key: number): void {
  of.value = of.value?.size === 1 && of.value.has(key) ? null : new Set([key]);
}

/** Puts `key` in besides what is chosen, or out. */
export function toggle(of: typeof selectedVcpus, key: number, all: number): void {
  const next = new Set(of.value ?? []);
  if (!next.delete(key)) next.add(key);
  of.value = next.size === 0 || next.size === all ? null : next;
}

/** Takes back what was chosen, one thing after the other: lengths, cause, reasons, vCPUs, range. */
export function takeBack(): void {
  if (lengths.value) lengths.value = null;
  else if (chosen.value !== null) chosen.value = null;
  else if (reasons.value) reasons.value = null;
  else if (selectedVcpus.value) selectedVcpus.value = null;
  else selectAll();
}

/** VMs with their vCPUs. */
export function vms(): { name: string; lanes: ReadonlySet<number> }[] {
  const found = new Map<string, number[]>();
  data.timelines.vcpus.forEach((row, lane) => found.set(row.vm_label, [...(found.get(row.vm_label) ?? []), lane]));
  return [...found].map(([name, lanes]) => ({ name, lanes: new Set(lanes) }));
}

/** Whether just these vCPUs are shown. */
export const isShownAlone = (of: ReadonlySet<number>): boolean => selectedVcpus.value?.size === of.size && [...of].every((lane) => selectedVcpus.value!.has(lane));

/** Shows only these vCPUs, or, if only they are shown, all. */
export const showAlone = (of: ReadonlySet<number>): void => void (selectedVcpus.value = isShownAlone(of) ? null : of);

/** What a link calls a vCPU. Where several have one name, the later ones are told apart by their place. */
export function laneId(lane: number): string {
  const row = data.timelines.vcpus[lane];
  const name = row ? `${row.vm_label}/${row.vcpu_label}` : "further";
  const first = data.timelines.vcpus.findIndex((other) => other.vm_label === row?.vm_label && other.vcpu_label === row?.vcpu_label);
  return first === lane || first < 0 ? name : `${name}#${lane}`;
}

/** The numbers of what has one of these names. */
function named(names: string[], nameOf: (number: number) => string, size: number): ReadonlySet<number> | null {
  const wanted = new Set(names);
  const found = wanted.size === 0 ? [] : Array.from({ length: size }, (_, number) => number).filter((number) => wanted.has(nameOf(number)));
  return found.length ? new Set(found) : null;
}

/** The vCPU with this name in links. */
export const laneCalled = (id: string): number => data.timelines.vcpus.findIndex((_, lane) => laneId(lane) === id);

keep({
  read(hash) {
    if (!current.value) return;
    const from = Number(hash.get("from") ?? NaN);
    const to = Number(hash.get("to") ?? NaN);
    selectRange(Number.isFinite(from) ? from : data.from, Number.isFinite(to) ? to : data.to);
    selectedVcpus.value = named(hash.getAll("vcpu"), laneId, data.timelines.vcpus.length);
    reasons.value = named(hash.getAll("reason"), (reason) => data.timelines.reasons[reason]!, data.timelines.reasons.length);
    chosen.value = hash.get("cause");
    const [least, most] = (hash.get("lengths") ?? "").split("-").map(Number);
    lengths.value = least !== undefined && most !== undefined && least >= 0 && most > least ? [least, most] : null;
  },
  write(hash) {
    if (!current.value) return;
    if (!isWhole.value) {
      hash.set("from", String(range.value[0]));
      hash.set("to", String(range.value[1]));
    }
    selectedVcpus.value?.forEach((lane) => hash.append("vcpu", laneId(lane)));
    reasons.value?.forEach((reason) => hash.append("reason", data.timelines.reasons[reason]!));
    if (chosen.value !== null) hash.set("cause", chosen.value);
    if (lengths.value) hash.set("lengths", lengths.value.join("-"));
  },
});

/** The whole buckets that a range is in: panels add up buckets. */
function widened([from, to]: [number, number]): [number, number] {
  const { snap } = data;
  return [Math.max(data.from, Math.floor(from / snap) * snap), Math.min(data.to, Math.ceil(to / snap) * snap)];
}

/** Begins with this recording. */
export function begin(of: Data): void {
  replace(of);
  beginLink();
  let resting = 0;
  const many = (): boolean => Object.values(data.tables).reduce((sum, table) => sum + table.rows, 0) > MANY_ROWS;
  settledRange.value = widened(range.value);
  effect(() => {
    const next = widened(range.value);
    clearTimeout(resting);
    // What is shown live is summed up at once, however much it is: the range goes on with it.
    if (liveFor() === null && many()) resting = window.setTimeout(() => (settledRange.value = next), REST);
    else settledRange.value = next;
  });
}
