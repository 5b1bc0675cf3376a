// The first screen: what the recording is worth, where the time went, which cause costs most, the slowest exit, what to change.
import { useSignal } from "@preact/signals";
import { Bars, type Bar } from "./bars";
import { partFills, reasonName } from "./colors";
import { aboutName } from "./devices";
import { clock, count, ns, plural, rate, share } from "./format";
import { go } from "./shell";
import { byAbout, byLane, byReason, COST, costliest, costOf, handlers, partName, parts, slowest, timeOf, totalOf, type Sums } from "./query";
import { calm, data, isAll, isCalmWhole, lanes, only, reasons } from "./state";
import { laneName, MoreVcpus, zero } from "./timeline";

/** What the recording does not tell, and what was made of it. */
function untold(): string | null {
  const { told, coverage } = data.report;
  const [near, far] = handlers();
  const what = [!told.user && `what ${far} did`, !told.scheduler && "steal"].filter(Boolean);
  if (what.length === 0 || coverage.exits === 0) return null;
  return `Not recorded: ${what.join(" and ")}. That time is counted as ${told.user ? `that of ${near}, ${far} or the halt` : `${near} time`}.`;
}

/** What is missing from the recording; first where figures suffer. */
export function CoverageNote() {
  const { coverage, traces } = data.report;
  const bad = coverage.lines.filter((line) => line.severity === "loss" || line.severity === "error");
  return (
    <div class={bad.length ? "coverage bad" : "coverage"} role={bad.length ? "alert" : undefined}>
      {bad.length > 0 ? (
        <>
          <b>Figures are affected by what is missing:</b>
          <ul>
            {bad.map((line) => (
              <li>
                {line.text.replace(/\.$/, "")}: {count(line.count)}
              </li>
            ))}
          </ul>
        </>
      ) : (
        <>
          <b>{coverage.lost === null ? "Losses unknown." : "Nothing lost."}</b> {count(coverage.events)} events read, {count(coverage.exits)} exits made, {count(coverage.timed_exits)} timed.
        </>
      )}
      {untold() && <p>{untold()}</p>}
      {traces.length > 1 && <p>{traces.length} traces together: there is no common time, so nothing is shown over time.</p>}
    </div>
  );
}

export function CoverageTable() {
  const { coverage } = data.report;
  return (
    <details>
      <summary>What was seen and not used ({coverage.lines.length})</summary>
      <ul class="plain-list">
        {coverage.lines.map((line) => (
          <li>
            <i class={`severity ${line.severity}`}>{line.severity}</i> {line.text.replace(/\.$/, "")}: {count(line.count)}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Where a vCPU's time went, and how many exits it had: of the whole recording the report's figures; of a range, the page's. */
function vcpuTimes(lane: number): { times: object; exits: number } {
  const row = isCalmWhole.value ? vcpuRow(lane) : undefined;
  if (row) return { times: row, exits: row.exits };
  const times = byLane.value.get(lane)!;
  return { times, exits: times.count! };
}

function vcpuRow(lane: number) {
  const of = data.over.lanes[lane]!;
  return data.report.vcpus.find((row) => row.vm === of.vm && row.vcpu === of.vcpu && row.tid === of.tid && row.on_cpu === of.on_cpu);
}

/** vCPUs that are drawn unless all are asked for. */
const FIRST_VCPUS = 32;
/** Below this time, in nanoseconds, exits by second say nothing. */
const RATED = 1e6;

/** Whether time in guests can be told from time in the kernel. */
const guestsTold = (): boolean => !data.report.coverage.lines.some((line) => line.id === "no_kvm_exit");

const shownLanes = () => data.over.lanes.map((_, lane) => lane).filter((lane) => !lanes.value || lanes.value.has(lane));

function Sentence({ to, head, children }: { to: string; head: string; children: preact.ComponentChildren }) {
  return (
    <div class="card">
      <h3>{head}</h3>
      <p>{children}</p>
      <button type="button" class="plain" onClick={() => go(to)}>
        {`Look at ${({ reasons: "reasons", timeline: "the timeline", devices: "devices", slowest: "the slowest exits", advice: "advice" } as Record<string, string>)[to]}`}
      </button>
    </div>
  );
}

export function Overview() {
  const lanesTimes = shownLanes().map((lane) => vcpuTimes(lane).times);
  const sums: Sums = Object.fromEntries(parts.value.map(({ column }) => [column, lanesTimes.reduce((sum, times) => sum + timeOf(times, column), 0)]));
  const [near, far] = handlers();
  const wall = totalOf(sums) || 1;
  const shareOf = (column: string): string => share(timeOf(sums, column) / wall);
  const rest = parts.value.filter((part) => part.column !== "guest_ns" && !COST.includes(part.column));
  const ranked = [...byReason.value].filter(([, sums]) => costOf(sums) > 0).sort((a, b) => costOf(b[1]) - costOf(a[1]));
  const cost = ranked.reduce((sum, row) => sum + costOf(row[1]), 0) || 1;
  const about = [...byAbout.value].sort((a, b) => b[1].cost - a[1].cost);
  const door = about.find(([at]) => ["port", "mmio"].includes(data.over.abouts[at]?.kind ?? ""));
  const slow = slowest.value[0];
  const advice = data.advice?.advice ?? [];
  const all = useSignal(false);
  const drawn = () => (all.value ? shownLanes() : costliest(shownLanes(), FIRST_VCPUS));
  const bar = (lane: number): Bar => {
    const { times, exits } = vcpuTimes(lane);
    const span = totalOf(times);
    const perSecond = span < RATED ? "" : `, ${rate((exits * 1e9) / span)}/s`;
    return { label: laneName(lane), parts: parts.value.map(({ column }) => timeOf(times, column)), after: `${plural(exits, "exit")}${perSecond}` };
  };
  return (
    <section id="overview" aria-label="Overview">
      <h2>Overview</h2>
      <CoverageNote />
      <div class="cards">
        <Sentence to="reasons" head="Where the time went">
          {`Of ${ns(wall)} of vCPU time, ${guestsTold() ? `guests ran ${shareOf("guest_ns")}` : "how much guests ran is not known"}. Exits cost ${share(costOf(sums) / wall)}${data.report.told.user ? ` (${near} ${shareOf("kernel_ns")}, ${far} ${shareOf("user_ns")})` : ""}`}
          {ranked.length > 0 ? ", most of it for " : "."}
          {ranked.slice(0, 2).map(([reason, of], at) => (
            <>
              {at > 0 && " and "}
              <b>{reasonName(reason)}</b> {share(costOf(of) / cost)}
            </>
          ))}
          {ranked.length > 0 && "."}
        </Sentence>
        <Sentence to="timeline" head="Halts, steal and the rest">
          {rest.length > 0 ? `No cost: ${rest.map((part) => `${part.name} ${shareOf(part.column)}`).join(", ")} of the time.` : "All time is the guests' or cost."}
          {data.report.told.scheduler || " Steal was not recorded."}
        </Sentence>
        <Sentence to="devices" head="Costliest cause">
          {about[0] ? (
            <>
              <b>{aboutName(about[0][0])}</b>
              {`: ${plural(about[0][1].count, "exit")} cost ${ns(about[0][1].cost)}, ${share(about[0][1].cost / cost)} of the cost of all exits.`}
              {door && door !== about[0] && (
                <>
                  {" Of ports and devices, "}
                  <b>{aboutName(door[0])}</b>
                  {`: ${plural(door[1].count, "exit")}, ${ns(door[1].cost)}.`}
                </>
              )}
            </>
          ) : (
            "The recording does not say what exits were about."
          )}
        </Sentence>
        <Sentence to="slowest" head="Slowest exit">
          {slow ? (
            <>
              <b>{slow.reason}</b>
              {` ${slow.detail ?? ""} on ${laneName(slow.lane)}: ${ns(costOf(slow))} of cost${timeOf(slow, "steal_ns") ? ` and ${ns(timeOf(slow, "steal_ns"))} of steal` : ""}`}
              {data.over.in_time && ` at ${((slow.after_ns - zero()) / 1e9).toFixed(4)}\u00a0s (${clock(data.over.base_ns, slow.after_ns)} on the trace's clock)`}
              {"."}
            </>
          ) : (
            "No timed exit."
          )}
        </Sentence>
        <Sentence to="advice" head="What to change">
          {data.advice === null
            ? "Advice needs one recording, all its reasons and lengths."
            : advice.length === 0
              ? "No advice. The causes that weigh most, and whether any rule looks at them, are listed there."
              : `${advice[0]!.change[0]!.toUpperCase()}${advice[0]!.change.slice(1)}${advice.length > 1 ? `; and ${advice.length - 1} more` : ""}.`}
        </Sentence>
      </div>
      <Bars
        id="vcpus"
        title="Where the wall time of each vCPU went"
        summary={() => `${guestsTold() ? `Guests ran ${shareOf("guest_ns")}, halted` : "Halted"} ${shareOf("halted_ns")}.`}
        axis="Share of the vCPU's wall time (%)"
        bars={() => drawn().map(bar)}
        every={() => shownLanes().map(bar)}
        parts={parts.value.map(partName)}
        fills={() => partFills(parts.value)}
        show={ns}
        relative
        first="vCPU"
        note={isAll.value ? undefined : `Of ${ns(calm.value[1] - calm.value[0])}${lanes.value ? ", chosen vCPUs" : ""}${reasons.value ? ", all reasons" : ""}.`}
        click={data.over.lanes.length <= 64 ? (at) => only(lanes, drawn()[at]!) : undefined}
        controls={<MoreVcpus all={all} first={FIRST_VCPUS} />}
      />
      <CoverageTable />
    </section>
  );
}
