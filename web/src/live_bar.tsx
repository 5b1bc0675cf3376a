// A served page: what it gets is shown in place of what it had, and a bar says how that stands.
import { batch } from "@preact/signals";
import { rankReasons, ranked, reasonName } from "./colors";
import type { Data } from "./data";
import { count, rate } from "./format";
import { retryLoad, changed, isConnected, paused, serverUrls, tick, loadError } from "./server_events";
import { data, selectedVcpus, selectRange, range, reasons, replace } from "./selection";

/** A length of time of some minutes or hours. */
export function long(nanos: number): string {
  const seconds = Math.round(nanos / 1e9);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${+(seconds / 60).toFixed(1)} min`;
  return `${+(seconds / 3600).toFixed(1)} h`;
}

const laneNames = (): string[] => data.timelines.vcpus.map((lane) => `${lane.vm}/${lane.tid}/${lane.vcpu_label}`);

/** The same things under the numbers that they have now. */
function renumbered(numbers: ReadonlySet<number> | null, before: string[], now: string[]): ReadonlySet<number> | null {
  if (!numbers) return null;
  const found = [...numbers].map((number) => now.indexOf(before[number] ?? "")).filter((number) => number >= 0);
  return found.length ? new Set(found) : null;
}

/** Shows newer data, in the way that the old was looked at: the same vCPUs, reasons and colours, and the same moments, unless
 * the last ones are looked at: then those that are the last now. */
export function applyNewData(of: Data): void {
  batch(() => {
    const [from, to] = range.value;
    const before = { all: from <= data.from && to >= data.to, last: to >= data.to, base: data.timelines.base_ns, lanes: laneNames(), reasons: data.timelines.reasons };
    const colored = ranked.map(reasonName);
    replace(of);
    selectedVcpus.value = renumbered(selectedVcpus.value, before.lanes, laneNames());
    reasons.value = renumbered(reasons.value, before.reasons, of.timelines.reasons);
    rankReasons(colored);
    const moved = before.last ? of.to - to : Number(BigInt(before.base) - BigInt(of.timelines.base_ns));
    if (before.all) selectRange(of.from, of.to);
    else selectRange(from + moved, to + moved);
  });
}

function Live({ keep }: { keep: number }) {
  return (
    <>
      <span>
        <b>{paused.value ? "Paused" : "Live"}</b>
        {tick.value &&
          (paused.value
            ? `: what happens meanwhile is kept for ${long(keep)}`
            : `, the last ${long(keep)} · ${rate(tick.value.exits_per_s)} exits/s now · ${count(tick.value.exits)} exits since the beginning`)}
      </span>
      {tick.value && tick.value.lost > 0 && (
        <span class="bad">{`${count(tick.value.lost)} events lost: figures are too low by about as much (a larger ring is --buffer 16M)`}</span>
      )}
      <button type="button" aria-pressed={paused.value} onClick={() => (paused.value = !paused.value)}>
        {paused.value ? "Go on" : "Pause"}
      </button>
    </>
  );
}

/** How it stands between the page and its server; nothing if it has none. */
export function ServedBar() {
  if (!serverUrls.value?.data) return null;
  const { files, keep_ns, notes } = serverUrls.value;
  const list = files && <a href="/">All recordings</a>;
  if (!notes) {
    return (
      <div class="served">
        {list}
        <span>The state when this page was loaded; reload it to see what was added since.</span>
      </div>
    );
  }
  return (
    <div class="served" role="region" aria-label="Server">
      {list}
      {keep_ns !== undefined && <Live keep={keep_ns} />}
      <span role="status">
        {!isConnected.value && <b class="bad">No connection to exitscope: what is shown is out of date. Trying again …</b>}
        {isConnected.value && loadError.value && <b class="bad">{`Refresh failed: ${loadError.value}`}</b>}
        {isConnected.value && changed.value === "gone" && <b class="bad">The file is gone. What is shown was read before.</b>}
        {isConnected.value && changed.value === "changed" && "The file has changed since it was read."}
      </span>
      {isConnected.value && changed.value === "changed" && (
        <button type="button" onClick={() => void retryLoad()}>
          Read it again
        </button>
      )}
    </div>
  );
}
