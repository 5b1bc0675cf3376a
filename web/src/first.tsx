// The first screen: the verdict, all vCPU time, and side by side what costs most, the slowest moments and what to change.
import type { ComponentChildren } from "preact";
import { causeName, chooseCause } from "./causes";
import { colors, partFills } from "./colors";
import { count, ns, share, shortened } from "./format";
import { around } from "./latency_heatmap";
import { parts, partName, slowest, timeOf, totalOf, type Sums } from "./aggregate";
import { anyStandsOut, momentsOf, slownessOf, type SlowMoment } from "./moments";
import { go } from "./shell";
import { chosen, data, fullRange, isAll, reasons, vms } from "./selection";
import { cssFill } from "./surface";
import { DataTable, type Column } from "./table";
import { vcpuName, zero } from "./timeline";
import type { AdviceReport, AdvisedCauseRow, SlowOne } from "./types.gen";

/** Rows of each list. */
const ROWS = 6;
/** A part has room for its name in the bar if it has so much of it for each letter. */
const OF_LETTER = 0.0075;

/** A sentence with its commands, which are between backquotes. */
function marked(text: string): ComponentChildren {
  return text.split("`").map((part, at) => (at % 2 === 1 ? <code>{part}</code> : part));
}

const Name = ({ text, most = 44, click }: { text: string; most?: number; click: () => void }) => (
  <button type="button" class="plain" title={text.length > most ? text : undefined} onClick={click}>
    {shortened(text, most)}
  </button>
);

/** A change's title, which is short; the change itself is its tip. */
const ChangeName = ({ text, tip }: { text: string; tip: string }) => (
  <button type="button" class="plain" title={tip} onClick={() => go("advice")}>
    {text}
  </button>
);

/** What the recording does not tell, and what was made of it. */
function missingEventKinds(): string | null {
  const { user_space, scheduler, all_steal, kvm_run } = data.report.event_kinds;
  const { coverage, traces } = data.report;
  // A simulation has nothing that it does not record.
  if (traces.some((trace) => trace.release === "simulated")) return null;
  const steal = scheduler ? !all_steal && "a part of steal" : "steal";
  const what = [!user_space && "user space", steal, user_space && !kvm_run && "entries into KVM_RUN"].filter(Boolean);
  return what.length === 0 || coverage.exits === 0 ? null : `${what.join(" and ")} not recorded`;
}

function Coverage() {
  const { coverage, traces, verdict } = data.report;
  const bad = coverage.lines.filter((line) => line.severity === "loss" || line.severity === "error");
  const words = [
    `${count(coverage.events)} events`,
    coverage.lost === null ? "losses unknown" : coverage.lost === 0 ? "none lost" : `${count(coverage.lost)} lost`,
    `${count(coverage.exits)} exits, ${count(coverage.timed_exits)} timed`,
    missingEventKinds(),
    ...(verdict.sure ? verdict.doubts : []),
    traces.length > 1 && `${traces.length} recordings share no clock: nothing is shown over time`,
  ];
  return (
    <details class={bad.length ? "coverage bad" : "coverage"}>
      <summary>
        Coverage: {words.filter(Boolean).join(", ")}
        {bad.length > 0 && <b>{`, ${bad.length} ${bad.length === 1 ? "warning" : "warnings"}`}</b>}
      </summary>
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

const severalVms = (): boolean => vms().length > 1;

export function Verdict() {
  const { text, doubts, is_doubtful, is_good, is_advised, share: size, best_change: best, amount, worst_vcpu: worst, sure, not_seen: notSeen } = data.report.verdict;
  return (
    <div class={`verdict ${is_doubtful ? "doubtful" : is_good ? "good" : "told"}`} role={is_doubtful ? "alert" : undefined}>
      <p class="sentence">
        {marked(text)}.{!isAll.value && <span class="soft"> Of {fullRange()}.</span>}
      </p>
      {amount && <p>Is that much? {amount}.{worst && ` Worst vCPU: ${worst}.`}</p>}
      {best && (
        <p>
          Best change{severalVms() && ` for ${best.scope}`}: <ChangeName text={best.title} tip={best.change} />, gain <b>{best.gain}</b>. Risk: {best.risk}.
        </p>
      )}
      {!best && is_advised && size !== null && <p>No change is advised.</p>}
      {is_doubtful && doubts.length > 0 && (
        <p>
          <b>Doubtful:</b> {marked(doubts.join("; "))}.
        </p>
      )}
      {sure && <p>How sure? {sure}.</p>}
      {notSeen.length > 0 && <p class="soft">Not seen: {notSeen.join("; ")}.</p>}
      <Coverage />
      <details>
        <summary>Plain text for a mail</summary>
        <pre>{data.mail}</pre>
      </details>
    </div>
  );
}

/** All vCPU time as one bar. */
export function TimeBar({ sums }: { sums: Sums }) {
  const wall = totalOf(sums) || 1;
  const fills = partFills(parts.value);
  const shown = parts.value.map((part, at) => ({ name: partName(part), part: timeOf(sums, part.column) / wall, fill: cssFill(fills[at]!) })).filter(({ part }) => part > 0);
  const hasRoom = ({ name, part }: { name: string; part: number }) => part >= (name.length + 8) * OF_LETTER;
  return (
    <div class="timebar">
      <div class="whole" role="img" aria-label={`All vCPU time: ${shown.map(({ name, part }) => `${name} ${share(part)}`).join(", ")}.`}>
        {shown.map(({ name, part, fill }) => (
          <div style={{ width: `${part * 100}%`, background: fill }} title={`${name} ${share(part)}`}>
            {hasRoom({ name, part }) && <span aria-hidden="true">{`${name} ${share(part)}`}</span>}
          </div>
        ))}
      </div>
      <ul class="legend">
        {shown.map((of) => (
          <li class={hasRoom(of) ? "inside" : undefined}>
            <i class="swatch" style={{ background: of.fill }} aria-hidden="true" />
            {`${of.name} ${share(of.part)}`}
          </li>
        ))}
        <li class="soft">{`100 % = ${ns(wall)} of vCPU time${isAll.value ? "" : ", as selected"}`}</li>
      </ul>
    </div>
  );
}

/** A cause's exits, chosen; steal and the like are seen over time. */
export const choose = (row: AdvisedCauseRow): void => (row.reason ? chooseCause(row) : go("timeline"));

const causeColumns = (most: number): Column<AdvisedCauseRow>[] => [
  {
    title: "cause",
    text: true,
    value: causeName,
    show: (row) => <Name text={causeName(row)} click={() => choose(row)} />,
  },
  {
    title: "vCPU time",
    value: (row) => row.share_of_time,
    show: (row) => (
      <span class="share">
        <i style={{ width: `${(row.share_of_time / most) * 24}px`, background: colors.value.accent }} />
        {share(row.share_of_time)}
      </span>
    ),
  },
  { title: "exits", value: (row) => row.exits, show: (row) => (row.exits ? count(row.exits) : "–") },
  { title: "p50", value: (row) => row.p50_ns, show: (row) => (row.p50_ns === null ? "–" : ns(row.p50_ns)) },
  { title: "p99", value: (row) => row.p99_ns, show: (row) => (row.p99_ns === null ? "–" : ns(row.p99_ns)) },
  ...(data.report.verdict.is_advised ? [{ title: "advice, gain", text: true, value: (row: AdvisedCauseRow) => row.brief, show: (row: AdvisedCauseRow) => (row.advice.length > 0 ? <Name text={row.brief} click={() => go("advice")} /> : row.brief) }] : []),
];

const when = (exit: SlowOne): string => `${((exit.after_ns - zero()) / 1e9).toFixed(4)} s`;

const momentColumns = (): Column<SlowMoment>[] => {
  const { scheduler } = data.report.event_kinds;
  const steal = ({ exit }: SlowMoment) => timeOf(exit, "steal_ns");
  return [
    {
      title: "when",
      value: ({ exit }) => exit.after_ns,
      show: ({ exit }) => (data.timelines.in_time ? <Name text={when(exit)} click={() => (around(exit), go("timeline"))} /> : "–"),
    },
    { title: scheduler ? "cost and steal" : "cost", value: ({ exit }) => slownessOf(exit), show: ({ exit }) => ns(slownessOf(exit)) },
    ...(scheduler ? [{ title: "of it steal", value: steal, show: (of: SlowMoment) => ns(steal(of)) }] : []),
    {
      title: "exit",
      text: true,
      value: ({ exit }) => exit.reason,
      show: ({ exit, others }) => {
        const text = `${exit.reason}${exit.subject ? `: ${exit.subject}` : ""}, ${vcpuName(exit.lane)}`;
        return (
          <span title={others ? `${text}; ${count(others)} more slow exits then` : text}>
            {shortened(text, 52)}
            {others > 0 && <span class="soft">{` +${count(others)} more`}</span>}
          </span>
        );
      },
    },
  ];
};

/** Why there are no slowest moments, if there are none. */
function noMoments(): string | null {
  const slow = slowest.value;
  if (slow.length === 0) return "No timed exit.";
  if (anyStandsOut(slow)) return null;
  const most = slow.reduce((most, exit) => Math.max(most, slownessOf(exit)), 0);
  return `None stands out: the slowest took ${ns(most)}, about as long as other slow ones.`;
}

type Change = AdviceReport["advice"][number];

const changeColumns: Column<Change>[] = [
  {
    title: "change",
    text: true,
    value: (row) => row.title,
    show: (row) => <ChangeName text={`[${row.number}] ${severalVms() ? `${row.scope_text}: ` : ""}${row.title}`} tip={row.change} />,
  },
  {
    title: "gain",
    value: (row) => row.gain.headline_ns_per_s,
    show: ({ gain }) => gain.range_text,
  },
];

function List<Row>({ head, note, columns, rows, none, chosen }: { head: string; note?: string; columns: Column<Row>[]; rows: Row[]; none: string; chosen?: (row: Row) => boolean }) {
  return (
    <div class={`list ${head.toLowerCase().replace(" ", "-")}`}>
      <h3>
        {head} {note && <span class="soft">{note}</span>}
      </h3>
      {rows.length > 0 ? <DataTable columns={columns} rows={rows} caption={head} top={ROWS} chosen={chosen} /> : <p class="soft">{none}</p>}
    </div>
  );
}

/** What costs most, the slowest moments, what to change. */
export function Lists() {
  const causes = [...data.report.causes].sort((a, b) => b.time_ns - a.time_ns);
  const { advice } = data;
  const of = isAll.value && reasons.value === null && chosen.value === null ? undefined : fullRange();
  const changes = !advice ? "Advice needs one recording, without a selection of reasons or lengths." : "None. Advice lists what costs most, and whether a rule judges it.";
  const isTimed = data.report.coverage.timed_exits > 0;
  const none = isTimed ? "None takes 5 % of the cost, or 1 % of vCPU time." : "No exit has a length.";
  return (
    <div class="lists">
      <List head="Costliest causes" note={of} columns={causeColumns(causes[0]?.share_of_time || 1)} rows={causes} none={none} chosen={(row) => row.reason !== null && causeName(row) === chosen.value} />
      <List head="Slowest moments" columns={momentColumns()} rows={noMoments() ? [] : momentsOf(slowest.value).slice(0, 100)} none={noMoments() ?? ""} />
      <List head="Changes" note={of} columns={changeColumns} rows={advice?.advice ?? []} none={isTimed ? changes : "No exit has a length."} />
    </div>
  );
}

