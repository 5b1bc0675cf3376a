// Numbers as people read them; lengths as exitscope's text prints them, but for `µs`, which that writes `us`.

import type { SelectionRow } from "./types.gen";

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
];

/** Three significant digits and the unit that suits: `831ns`, `12.4µs`, `1.27s`. */
export function ns(nanos: number | null | undefined): string {
  if (nanos === null || nanos === undefined || Number.isNaN(nanos)) return "–";
  if (nanos < 0) return "-" + ns(-nanos);
  if (nanos === 0) return "0";
  for (const [size, unit] of UNITS) {
    // What rounds up to the next unit is of that unit.
    if (nanos >= size * 0.9995) {
      const value = nanos / size;
      return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2) + unit;
    }
  }
  return `${Math.round(nanos)}ns`;
}

/** A length that is a round number, without digits that say nothing: `10µs`, `2ms`. */
export function round(nanos: number): string {
  return ns(nanos).replace(/(\.\d*?)0+(?=\D)/, "$1").replace(/\.(?=\D)/, "");
}

/** A length of a text of the command's, and not what is part of a name, like `10us.data`. */
const MICROSECONDS = /(?<![\w.])(\d[\d.,]* ?)us(?!\w|[.-][A-Za-z])/g;
/** What is a name, or to be typed, and stays as it is. */
const AS_THEY_ARE = new Set(["name", "vm_name", "vm_label", "hostname", "host", "command", "commands"]);

/** What the command said, as JSON, with `µs` in its sentences: in a terminal they have `us`. */
export function asShown<T>(said: T, key = ""): T {
  if (typeof said === "string") return (AS_THEY_ARE.has(key) ? said : said.replace(MICROSECONDS, "$1µs")) as T;
  if (Array.isArray(said)) said.forEach((of, at) => (said[at] = asShown(of, key)));
  else if (said !== null && typeof said === "object") for (const [name, of] of Object.entries(said)) (said as Record<string, unknown>)[name] = asShown(of, name);
  return said;
}

/** `1,234,567`. */
export function count(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** `1 host`, `1,234 hosts`. */
export const plural = (many: number, what: string): string => `${count(many)} ${what}${many === 1 ? "" : "s"}`;

/** `12.3%`; `<0.1%` for what is not nothing. */
export function share(part: number): string {
  if (part > 0 && part < 0.0005) return "<0.1%";
  if (!(part > 0)) return "0%";
  return `${(part * 100).toFixed(1)}%`;
}

/** How many in a second. */
export function rate(perSecond: number): string {
  return perSecond > 0 && perSecond < 0.5 ? "<1" : count(perSecond);
}

/** Seconds on an axis that is `step` seconds between its ticks. */
export function seconds(nanos: number, stepNs: number): string {
  const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(stepNs / 1e9) - 1e-9)));
  return (nanos / 1e9).toFixed(decimals);
}

/** A moment on the trace's clock, `30.163347000`, from one counted from the base. */
export function clock(base: string, after: number): string {
  const nanos = BigInt(base) + BigInt(Math.round(after));
  return `${nanos / 1000000000n}.${(nanos % 1000000000n).toString().padStart(9, "0")}`;
}

/** A field of a CSV file. */
export function csvField(value: string | number | null | undefined): string {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A value in a unit of the simulator and the lab: `ns`, `cycles`, `1/s`, `share` or `count`. */
export function quantity(unit: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const sign = value < 0 ? "-" : "";
  const size = Math.abs(value);
  switch (unit) {
    case "ns":
      return ns(value);
    case "1/s":
      return `${sign}${size > 0 && size < 10 ? size.toFixed(2) : count(size)}/s`;
    case "share":
      return sign + share(size);
    case "cycles":
      return sign + count(size);
    default:
      return Number.isInteger(size) || size >= 100 ? sign + count(size) : sign + size.toFixed(2);
  }
}

/** What stands behind the name of a figure in an axis title. */
export const unitName = (unit: string): string => ({ ns: "time", "1/s": "per second", share: "%", cycles: "cycles of the time stamp counter", count: "number" })[unit] ?? unit;

/** What was chosen of a recording, in words; empty if all of it. */
export function chosenBy({ vms, vcpus, reasons, longer_than_ns, where, from: _from, to: _to, ...others }: SelectionRow): string[] {
  // A further field of a selection does not compile until it has its words.
  others satisfies Record<string, never>;
  return [
    vms.length && `VM ${vms.join(", ")}`,
    vcpus.length && `vCPU ${vcpus.join(", ")}`,
    reasons.length && `reason ${reasons.join(", ")}`,
    longer_than_ns && `longer than ${ns(longer_than_ns)}`,
    where && `where ${where}`,
  ].filter((words): words is string => Boolean(words));
}

/** Nothing has no sign: `0%` of `-0%`. */
export const unsigned = (text: string): string => (/[1-9]/.test(text) ? text : text.replace(/^[-+]/, ""));

/** A long name without its middle. */
export function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(1 - Math.floor(most / 2))}`;
}
