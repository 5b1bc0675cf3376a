// What is looked at: the range, VMs, vCPUs, reasons, cause and lengths that were chosen, as chips.
import { quantile, total } from "./buckets";
import { aboutOf, chosenCauses, reasonOf } from "./causes";
import { said } from "./chart";
import { reasonName } from "./colors";
import { DialogButtons } from "./find";
import { UNTIMED } from "./data";
import { clock, ns, plural, share, shortened } from "./format";
import { Notes } from "./notes";
import { byCause, byVcpu, byExitTime, costOf, timeOf, totalOf } from "./aggregate";
import { settledRange, chosen, data, fullRange, isAll, isShownAlone, isWhole, selectedVcpus, lengths, liveFor, selectAll, selectOnly, pan, range, reasons, recording, showAlone, toggle, vms, zoom } from "./selection";
import { vcpuName, zero } from "./timeline";

interface Choice {
  text: string;
  /** What is shown without it. */
  all: string;
  clear: () => void;
}

/** What is chosen, and how to take it back. */
const Chip = ({ text, all, clear }: Choice) => (
  <span class="chip" title={text}>
    {shortened(text, 48)}
    <button type="button" aria-label={`Show ${all}`} onClick={clear}>
      ×
    </button>
  </span>
);

/** Names up to this many are listed. */
const LISTED = 3;

const chosenNames = (chosen: ReadonlySet<number>, name: (key: number) => string, of: number, what: string): string =>
  chosen.size <= LISTED ? [...chosen].sort((a, b) => a - b).map(name).join(", ") : `${chosen.size} of ${of} ${what}`;

/** vCPUs that were chosen: those of whole VMs by the VM. */
function chosenLanes(of: ReadonlySet<number>): string {
  const all = vms();
  const whole = all.filter((vm) => [...vm.lanes].every((lane) => of.has(lane)));
  if (all.length > 1 && whole.length > 0 && whole.reduce((sum, vm) => sum + vm.lanes.size, 0) === of.size)
    return whole.length <= LISTED ? `VM ${whole.map((vm) => vm.name).join(", ")}` : `${whole.length} of ${all.length} VMs`;
  return chosenNames(of, vcpuName, data.timelines.vcpus.length, "vCPUs");
}

/** VMs and vCPUs up to these many have buttons. */
const VM_BUTTONS = 12;
const VCPU_BUTTONS = 32;

function VmButtons() {
  const all = vms();
  return all.length > 1 && all.length <= VM_BUTTONS && all.length < data.timelines.vcpus.length ? (
    <span class="choice lanes" role="group" aria-label="VMs">
      {all.map((vm) => (
        <button type="button" aria-pressed={isShownAlone(vm.lanes)} title={vm.name} onClick={() => showAlone(vm.lanes)}>
          {shortened(vm.name, 20)}
        </button>
      ))}
    </span>
  ) : null;
}

/** As a word of a shell. */
const quoted = (text: string): string => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The subject that all chosen causes have, if it is one. */
function subject(): string | null {
  const abouts = new Set([...(chosenCauses.value?.causes ?? [])].map(aboutOf));
  const [about] = abouts;
  const text = abouts.size === 1 && about !== null && about !== undefined ? data.timelines.subjects[about]!.text : null;
  return text?.includes('"') ? null : text;
}

/** How the command line shows the same; of a cause of several subjects, the exits of its reasons. None where flags would choose other vCPUs, too. */
function command(): string | null {
  const flags: string[] = [];
  const [from, to] = settledRange.value;
  // The last moment of a range is the first that is not in its buckets.
  if (!isWhole.value) flags.push(`--from ${clock(data.timelines.base_ns, from)} --to ${clock(data.timelines.base_ns, to - 1)}`);
  const all = (flag: string, of: Iterable<number | string | null | undefined>) => [...new Set(of)].forEach((value) => flags.push(`${flag} ${value}`));
  if (selectedVcpus.value) {
    const rows = data.timelines.vcpus.filter((_, lane) => selectedVcpus.value!.has(lane));
    const [ofVms, ofVcpus] = [new Set(rows.map((row) => row.vm)), new Set(rows.map((row) => row.vcpu))];
    const also = data.timelines.vcpus.filter((row) => ofVms.has(row.vm) && ofVcpus.has(row.vcpu)).length;
    if (also > rows.length || ofVms.has(null!) || rows.some((row) => row.vcpu === null || row.vcpu === undefined)) return null;
    all("-p", ofVms);
    if (data.timelines.vcpus.filter((row) => ofVms.has(row.vm)).length > rows.length) all("--vcpu", ofVcpus);
  }
  const ofCause = chosenCauses.value ? [...new Set([...chosenCauses.value.causes].map(reasonOf))] : null;
  const shownReasons = reasons.value ? [...reasons.value].filter((reason) => !ofCause || ofCause.includes(reason)) : (ofCause ?? []);
  all("--reason", shownReasons.map(reasonName).map(quoted));
  const about = subject();
  if (about !== null) flags.push(`--where ${quoted(`subject = "${about}"`)}`);
  return ["exitscope report", recording(), ...flags].join(" ");
}

/** What the exits that are chosen come to. */
function Chosen() {
  const rows = [...byCause.value.values()];
  const of = (column: string) => rows.reduce((sum, row) => sum + timeOf(row, column), 0);
  const cost = rows.reduce((sum, row) => sum + costOf(row), 0);
  const wall = [...byVcpu.value].filter(([lane]) => !selectedVcpus.value || selectedVcpus.value.has(lane)).reduce((sum, [, times]) => sum + totalOf(times), 0);
  const counts = new Float64Array(UNTIMED);
  byExitTime.value.forEach((row, reason) => (!reasons.value || reasons.value.has(reason)) && row.forEach((many, at) => (counts[at]! += many)));
  const [p50, p99] = [5_000, 9_900].map((per10000) => quantile(counts, per10000));
  const text = command();
  const copy = (text: string) => {
    said.value = "";
    // A page from disk may not use the clipboard in every browser.
    (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
      () => (said.value = `Copied: ${text}`),
      () => (said.value = text),
    );
  };
  return (
    <p class="chosen-line" aria-live={liveFor() ? "off" : "polite"}>
      <b>{plural(of("count"), "exit")}</b>
      {`, cost ${ns(cost)}`}
      {wall > 0 && ` (${share(cost / wall)} of vCPU time)`}
      {p50 !== null && `; length p50 ≈ ${ns(p50!)}`}
      {p99 !== null && total(counts) >= 100 && `, p99 ≈ ${ns(p99!)}`}
      {of("steal_ns") > 0 && `; steal in them ${ns(of("steal_ns"))}`}.{" "}
      {data.timelines.in_time && !liveFor() && text !== null && (
        <button type="button" class="plain" title={text} onClick={() => copy(text)}>
          {chosenCauses.value && subject() === null ? "Copy as a command (of all subjects)" : "Copy as a command"}
        </button>
      )}
    </p>
  );
}

/** The range in words, and whether it is all. */
function rangeText(): string {
  const [from, to] = range.value;
  if (isWhole.value) return `${fullRange()}${liveFor() === null ? ", first to last exit" : ""}: ${ns(to - from)}`;
  return `${moment(from)} s to ${moment(to)} s (${ns(to - from)})`;
}

/** A moment, as exact as the range is short. */
const moment = (at: number): string => ((at - zero()) / 1e9).toFixed(range.value[1] - range.value[0] < 1e6 ? 7 : 4);

/** What is chosen besides a range. */
function choices(): Choice[] {
  const found: Choice[] = [];
  if (selectedVcpus.value) found.push({ text: chosenLanes(selectedVcpus.value), all: "all vCPUs", clear: () => (selectedVcpus.value = null) });
  if (reasons.value)
    found.push({ text: chosenNames(reasons.value, reasonName, data.timelines.reasons.length, "reasons"), all: "all reasons", clear: () => (reasons.value = null) });
  if (chosenCauses.value) found.push({ text: chosenCauses.value.name, all: "all causes", clear: () => (chosen.value = null) });
  if (lengths.value) found.push({ text: `${ns(lengths.value[0])} to ${ns(lengths.value[1])} long`, all: "all lengths", clear: () => (lengths.value = null) });
  return found;
}

/** On paper, where there are no chips, what is looked at. */
export function PrintedChoices() {
  const only = choices().map(({ text }) => text);
  return (
    <p class="printed">
      {data.timelines.in_time && `Range: ${rangeText()}${isWhole.value ? "" : `, of ${fullRange()} (${ns(data.to - data.from)})`}. `}
      {only.length > 0 && `Only ${only.join("; ")}.`}
    </p>
  );
}

export function Filters() {
  const names = data.timelines.vcpus;
  const [from, to] = range.value;
  const chips = choices();
  // Sums are of whole buckets.
  const isWider = settledRange.value[0] < from || settledRange.value[1] > to;
  return (
    <div class="filters" role="group" aria-label="What is looked at">
      {data.timelines.in_time && (
        <span class="range" aria-live={liveFor() ? "off" : "polite"}>
          {isWhole.value ? rangeText() : <Chip text={rangeText()} all={fullRange()} clear={selectAll} />}
          {isWider && `; sums cover ${moment(settledRange.value[0])} s to ${moment(settledRange.value[1])} s`}
        </span>
      )}
      {data.timelines.in_time && (
        <span class="choice" role="group" aria-label="Range of time">
          <button type="button" aria-label="Earlier" onClick={() => pan(-0.5)}>◀</button>
          <button type="button" aria-label="Zoom in" onClick={() => zoom(0.5)}>+</button>
          <button type="button" aria-label="Zoom out" onClick={() => zoom(2)}>−</button>
          <button type="button" aria-label="Later" onClick={() => pan(0.5)}>▶</button>
        </span>
      )}
      <VmButtons />
      {names.length > 1 && names.length <= VCPU_BUTTONS && (
        <span class="choice lanes" role="group" aria-label="vCPUs">
          {names.map((_, lane) => (
            <button
              type="button"
              aria-pressed={selectedVcpus.value?.has(lane) ?? false}
              title="Show this alone; with Shift or Ctrl, add it or remove it"
              onClick={(event) => (event.shiftKey || event.ctrlKey || event.metaKey ? toggle(selectedVcpus, lane, names.length) : selectOnly(selectedVcpus, lane))}
            >
              {vcpuName(lane)}
            </button>
          ))}
        </span>
      )}
      {chips.map((of) => (
        <Chip {...of} />
      ))}
      {lengths.value && <span class="soft">sums cover all lengths</span>}
      {(chips.length > 0 || !isWhole.value) && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            selectedVcpus.value = null;
            reasons.value = null;
            chosen.value = null;
            lengths.value = null;
            selectAll();
          }}
        >
          Show everything
        </button>
      )}
      <Notes />
      <DialogButtons />
      {(!isAll.value || reasons.value || chosenCauses.value) && <Chosen />}
    </div>
  );
}
