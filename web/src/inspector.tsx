// What is known of one exit, and what was before and after it on its vCPU.
import { arrowText, arrowsOf, longest } from "./arrows";
import { colors, partFills, reasonColor, reasonName } from "./colors";
import { subjectName } from "./devices";
import { clock, count, ns, plural, share } from "./format";
import { handlers, parts, partName } from "./aggregate";
import { neighbours, phasesOf, pick, picked, type Single } from "./single";
import { data, selectRange, range, recording } from "./selection";
import { cssFill } from "./surface";
import { vcpuName, zero } from "./timeline";

const name = (exit: Single): string => reasonName(exit.reason) + (exit.about === null ? "" : `: ${subjectName(exit.about)}`);

/** Looks into another exit, in view. */
function goTo(exit: Single): void {
  const [from, to] = range.value;
  pick(exit);
  if (exit.at >= from && exit.at + exit.total <= to) return;
  const long = Math.max(to - from, exit.total * 2);
  selectRange(exit.at - long / 4, exit.at + long * 0.75);
}

const Other = ({ exit, than, what }: { exit: Single; than: Single; what?: string }) => (
  <li>
    <i class="swatch" style={{ background: reasonColor(exit.reason) }} aria-hidden="true" />
    <button type="button" class="plain" onClick={() => goTo(exit)}>
      {name(exit)}
    </button>{" "}
    {ns(exit.total)}, {exit.at < than.at ? `${ns(than.at - exit.at)} earlier` : `${ns(exit.at - than.at)} later`}
    {what}
  </li>
);

/** Wake-ups, preemptions and the like of an exit that are said. */
const MOST_ARROWS = 6;

/** How the command line shows the same. */
function command(exit: Single): string {
  const lane = data.timelines.vcpus[exit.lane]!;
  const at = (after: number) => clock(data.timelines.base_ns, after);
  const tid = lane.tid === undefined || lane.tid === null ? "" : ` --tid ${lane.tid}`;
  return `exitscope events ${recording()}${tid} --from ${at(exit.at)} --to ${at(exit.at + exit.total)}`;
}

export function Inspector() {
  if (!picked.value) return null;
  const found = neighbours.value;
  const close = (
    <button type="button" aria-label="Close" onClick={() => pick(null)}>
      ×
    </button>
  );
  if (!found)
    return (
      <aside class="inspector" aria-label="The exit">
        <div class="head">
          <h3>This exit is not in the page</h3>
          {close}
        </div>
        <p class="note">The recording has more exits than a page holds: this page has those around the slowest.</p>
      </aside>
    );
  const { exit, before, after, lastOfKind, nextOfKind, meanwhile } = found;
  const phases = phasesOf(exit);
  const of = arrowsOf(exit);
  const fills = partFills(parts.value);
  const rows = parts.value.map((part, at) => ({ part, fill: fills[at]!, time: exit.times[part.column] ?? 0 })).filter((row) => row.time > 0);
  return (
    <aside class="inspector" aria-label="The exit">
      <div class="head">
        <h3>{name(exit)}</h3>
        {close}
      </div>
      <p>
        {vcpuName(exit.lane)}, at {((exit.at - zero()) / 1e9).toFixed(6)} s ({clock(data.timelines.base_ns, exit.at)} on the trace's clock).{" "}
        {data.report.event_kinds.user_space && `Handler: ${exit.toUser ? handlers()[1] : handlers()[0]}. `}
        On CPU {exit.cpu}
        {exit.rip !== null && (
          <>
            , in the guest at <code>{exit.rip}</code>
          </>
        )}
        .
      </p>
      <table>
        <caption class="hidden">Parts of this exit</caption>
        <tbody>
          {rows.map(({ part, fill, time }) => (
            <tr>
              <th scope="row" class="text">
                <i class="swatch" style={{ background: cssFill(fill) }} aria-hidden="true" />
                {partName(part)}
              </th>
              <td>{ns(time)}</td>
              <td>{share(time / (exit.total || 1))}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" class="text">exit time</th>
            <td>{ns(exit.total)}</td>
            <td />
          </tr>
        </tfoot>
      </table>
      {phases && (
        <>
          <h3>Phases of its cost, in this order</h3>
          <ol class="phases">
            {phases.map(({ name, step, ns: long }) => (
              <li>
                <i class="swatch" style={{ background: colors.value.phases[step]! }} aria-hidden="true" />
                {name} {ns(long)}
              </li>
            ))}
          </ol>
        </>
      )}
      {(of.arrows.length > 0 || of.isPart) && (
        <>
          <h3>Wake-ups and preemptions in it</h3>
          <ul class="plain-list">
            {longest(of.arrows, MOST_ARROWS).map((arrow) => (
              <li>{arrowText(arrow, exit)}</li>
            ))}
          </ul>
          {of.arrows.length > MOST_ARROWS && <p class="soft">The longest {MOST_ARROWS} of {count(of.arrows.length)}.</p>}
          {of.isPart && <p class="soft">This page does not have the wake-ups and preemptions of some of this time.</p>}
        </>
      )}
      {meanwhile.size > 0 && (
        <>
          <h3>On CPU {exit.cpu} meanwhile</h3>
          <ul class="plain-list">
            {[...meanwhile]
              .sort((a, b) => b[1] - a[1])
              .slice(0, 5)
              .map(([lane, exits]) => (
                <li>
                  {vcpuName(lane)}: {plural(exits, "exit")}
                </li>
              ))}
          </ul>
        </>
      )}
      {(lastOfKind || nextOfKind) && (
        <>
          <h3>The same kind on this vCPU</h3>
          <ul class="plain-list">
            {lastOfKind && <Other exit={lastOfKind} than={exit} />}
            {nextOfKind && <Other exit={nextOfKind} than={exit} />}
          </ul>
        </>
      )}
      <h3>Before it on this vCPU</h3>
      {before.length > 0 ? (
        <ul class="plain-list">
          {before.map((other) => (
            <Other exit={other} than={exit} />
          ))}
        </ul>
      ) : (
        <p class="soft">The page has no such exit.</p>
      )}
      {after.length > 0 && (
        <>
          <h3>After it</h3>
          <ul class="plain-list">
            {after.map((other) => (
              <Other exit={other} than={exit} />
            ))}
          </ul>
        </>
      )}
      <p class="soft">
        All its events: <code>{command(exit)}</code>
      </p>
    </aside>
  );
}

