// What is looked at: the range, vCPUs and reasons that were chosen, as chips.
import { reasonName } from "./colors";
import { DialogButtons } from "./find";
import { ns, shortened } from "./format";
import { calm, data, everything, isWhole, lanes, liveFor, lookAtAll, pan, range, reasons, toggle, zoom } from "./state";
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
      {names.length > 1 && names.length <= 32 && (
        <span class="choice lanes" role="group" aria-label="vCPUs">
          {names.map((_, lane) => (
            <button type="button" aria-pressed={!lanes.value || lanes.value.has(lane)} onClick={() => toggle(lanes, lane, names.length)}>
              {laneName(lane)}
            </button>
          ))}
        </span>
      )}
      {lanes.value && <Chip text={chosenNames(lanes.value, laneName, names.length, "vCPUs")} all="all vCPUs" clear={() => (lanes.value = null)} />}
      {reasons.value && (
        <Chip text={chosenNames(reasons.value, reasonName, data.over.reasons.length, "reasons")} all="all reasons" clear={() => (reasons.value = null)} />
      )}
      {(lanes.value || reasons.value || !isWhole.value) && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            lanes.value = null;
            reasons.value = null;
            lookAtAll();
          }}
        >
          Show everything
        </button>
      )}
      <DialogButtons />
    </div>
  );
}
