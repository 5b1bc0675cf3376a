// The page of a comparison: what changed from one recording to another, and how long exits took in both.
import { HeadlineBox } from "./headline";
import { Changes, ChangesTable, changeOf, difference, isSignificant, nameOf, partText, signed, type Choice, type Sides } from "./change_chart";
import type { ResultPage } from "./data";
import { Lengths, reason } from "./diff_exit_times";
import { chosenBy, count, ns, share } from "./format";
import { Card, Shell } from "./shell";
import type { ReasonComparison, Comparison, SideRow } from "./types.gen";

/** Reasons that the overview names. */
const NAMED = 5;

function Overview({ diff }: { diff: Comparison }) {
  const reasons = diff.rows.filter((row) => row.reason !== null);
  const size = (row: ReasonComparison) => Math.abs(difference(changeOf(row, "cost_ns_per_s")) ?? 0);
  const sure = reasons.filter((row) => isSignificant(row, "cost_ns_per_s")).sort((a, b) => size(b) - size(a));
  return (
    <section id="overview" aria-label="Overview">
      <h2 class="hidden">What changed</h2>
      <HeadlineBox headline={diff.verdict}>
        <Coverage diff={diff} />
      </HeadlineBox>
      {!["cannot_tell", "recordings_differ", "undecided"].includes(diff.verdict.state) && (
        <div class="cards">
          <Card head="Reasons whose cost differs clearly, largest first">
            {sure.length === 0
              ? "None: chance may explain each."
              : sure.slice(0, NAMED).map((row, at) => (
                  <>
                    {at > 0 && "; "}
                    <b>{nameOf(row)}</b> {signed("cost_ns_per_s", difference(changeOf(row, "cost_ns_per_s")))} ({partText(changeOf(row, "cost_ns_per_s"))})
                  </>
                ))}
            {sure.length > NAMED && `; and ${count(sure.length - NAMED)} more`}
          </Card>
          <Card head="How sure that is">
            {`The cost of ${count(sure.length)} of ${count(reasons.length)} reasons differs clearly; that of the others may not differ. ${diff.confidence_percent} % is the confidence of each interval, and of all verdicts on the reasons' cost together. Figures are geometric means over a side's recordings; intervals cover the variation from recording to recording.`}
          </Card>
        </div>
      )}
    </section>
  );
}

const side = (of: SideRow): string => of.traces.map((trace) => trace.name.split("/").at(-1)).join(", ");

function Coverage({ diff }: { diff: Comparison }) {
  const bad = (of: SideRow) => of.lines.filter((line) => line.severity === "loss" || line.severity === "error");
  const sides: [string, SideRow][] = [
    ["Before", diff.before],
    ["After", diff.after],
  ];
  const lost = sides.some(([, of]) => bad(of).length > 0);
  const { selection } = diff;
  const chosen = chosenBy(selection);
  return (
    <div class={lost ? "coverage bad" : "coverage"}>
      {lost && <b>Coverage is incomplete.</b>}
      {sides.map(([title, of]) => (
        <p>
          <b>{title}:</b> {side(of)}, {ns(of.duration_ns)}, {ns(of.vcpu_ns)} of vCPU time, {count(of.exits)} exits of {count(of.events)} events
          {bad(of).map((line) => `; ${line.text.replace(/\.$/, "")}: ${count(line.count)}`)}.
        </p>
      ))}
      {chosen.length > 0 && <p>Only these exits of both recordings: {chosen.join("; ")}.</p>}
    </div>
  );
}

export function DiffPage({ diff, lengths, version }: Extract<ResultPage, { kind: "diff" }>) {
  const ofAll = (of: SideRow) => (of.traces[0] ? [of.traces[0].arch, of.traces[0].hostname, of.traces[0].release].filter(Boolean).join(" ") : "");
  const hosts = [...new Set([ofAll(diff.before), ofAll(diff.after)])].filter(Boolean);
  const names: [string, string] = ["before", "after"];
  const sides: Sides = { rows: diff.rows, confidence: diff.confidence_percent, names, where: names, second: "a second of vCPU time" };
  const choice: Choice = { reason: reason.value, choose: (of) => (reason.value = of) };
  return (
    <Shell
      title={`${side(diff.before)} → ${side(diff.after)}`}
      about={[`comparison`, ...hosts, `${share(diff.confidence_percent / 100)} confidence`].join(" · ")}
      sections={[
        { id: "overview", title: "Overview" },
        { id: "reasons", title: "Reasons" },
        { id: "lengths", title: "Lengths" },
      ]}
      version={version}
      made={
        <>
          as text: <code>exitscope diff BEFORE AFTER</code>, as JSON: <code>--format json</code>
        </>
      }
    >
      <Overview diff={diff} />
      <section id="reasons" aria-label="Reasons">
        <h2>Change by reason</h2>
        <Changes sides={sides} choice={choice} />
        <ChangesTable sides={sides} choice={choice} />
        {diff.rows_left_out > 0 && <p class="note">{diff.rows_left_out} further reasons were left out by --top.</p>}
      </section>
      <Lengths diff={diff} lengths={lengths} />
    </Shell>
  );
}
