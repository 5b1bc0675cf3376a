// What is looked at: the range, VMs, vCPUs, reasons, cause and lengths that were chosen, as chips.
import { chosenCauses } from "./causes";
import { reasonName } from "./colors";
import { DialogButtons } from "./find";
import { ns, shortened } from "./format";
import { Notes } from "./notes";
import { calm, chosen, data, everything, isWhole, lanes, lengths, liveFor, lookAtAll, pan, range, reasons, toggle, vms, zoom } from "./state";
import { laneName, zero } from "./timeline";

/** What is chosen, and how to take it back. */
const Chip = ({ text, all, clear }: { text: string; all: string; clear: () => void }) => (
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
  return chosenNames(of, laneName, data.over.lanes.length, "vCPUs");
}

/** VMs and vCPUs up to these many have buttons. */
const VM_BUTTONS = 12;
const VCPU_BUTTONS = 32;

function VmButtons() {
  const all = vms();
  const isAlone = (vm: { lanes: ReadonlySet<number> }) => lanes.value?.size === vm.lanes.size && [...vm.lanes].every((lane) => lanes.value!.has(lane));
  return all.length > 1 && all.length <= VM_BUTTONS && all.length < data.over.lanes.length ? (
    <span class="choice lanes" role="group" aria-label="VMs">
      {all.map((vm) => (
        <button type="button" aria-pressed={isAlone(vm)} title={vm.name} onClick={() => (lanes.value = isAlone(vm) ? null : vm.lanes)}>
          {shortened(vm.name, 20)}
        </button>
      ))}
    </span>
  ) : null;
}

export function Filters() {
  const names = data.over.lanes;
  const [from, to] = range.value;
  const decimals = to - from < 1e6 ? 7 : 4;
  const at = (moment: number) => ((moment - zero()) / 1e9).toFixed(decimals);
  // Sums are of whole buckets.
  const isWider = calm.value[0] < from || calm.value[1] > to;
  return (
    <div class="filters" role="group" aria-label="What is looked at">
      {data.over.in_time && (
        <span class="range" aria-live={liveFor() ? "off" : "polite"}>
          {isWhole.value ? (
            `${everything()}${liveFor() === null ? ", first to last exit" : ""}: ${ns(to - from)}`
          ) : (
            <Chip text={`${at(from)} s to ${at(to)} s (${ns(to - from)})`} all={everything()} clear={lookAtAll} />
          )}
          {isWider && `; sums are of ${at(calm.value[0])} s to ${at(calm.value[1])} s`}
        </span>
      )}
      {data.over.in_time && (
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
            <button type="button" aria-pressed={!lanes.value || lanes.value.has(lane)} onClick={() => toggle(lanes, lane, names.length)}>
              {laneName(lane)}
            </button>
          ))}
        </span>
      )}
      {lanes.value && <Chip text={chosenLanes(lanes.value)} all="all vCPUs" clear={() => (lanes.value = null)} />}
      {reasons.value && (
        <Chip text={chosenNames(reasons.value, reasonName, data.over.reasons.length, "reasons")} all="all reasons" clear={() => (reasons.value = null)} />
      )}
      {chosenCauses.value && <Chip text={chosenCauses.value.name} all="all causes" clear={() => (chosen.value = null)} />}
      {lengths.value && <Chip text={`${ns(lengths.value[0])} to ${ns(lengths.value[1])} long`} all="all lengths" clear={() => (lengths.value = null)} />}
      {lengths.value && <span class="soft">sums are of all lengths</span>}
      {(lanes.value || reasons.value || chosenCauses.value || lengths.value || !isWhole.value) && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            lanes.value = null;
            reasons.value = null;
            chosen.value = null;
            lengths.value = null;
            lookAtAll();
          }}
        >
          Show everything
        </button>
      )}
      <Notes />
      <DialogButtons />
    </div>
  );
}
