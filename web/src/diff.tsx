// The page of a comparison: what changed from one recording to another, and how long exits took in both.
import { Changes, ChangesTable, Sentence, changeOf, difference, isSure, nameOf, partText, signed, type Choice, type Sides } from "./changes";
import type { Other } from "./data";
import { Lengths, reason } from "./diff_lengths";
import { chosenBy, count, ns, share } from "./format";
import { Card, Shell } from "./shell";
import type { Compared, Comparison, SideRow } from "./types.gen";

function Overview({ diff }: { diff: Comparison }) {
  const [all, ...reasons] = diff.rows;
  const size = (row: Compared) => Math.abs(difference(changeOf(row, "cost_ns_per_s")) ?? 0);
  const sure = reasons.filter((row) => isSure(row, "cost_ns_per_s")).sort((a, b) => size(b) - size(a));
  const unsure = reasons.length - sure.length;
  return (
    <section id="overview" aria-label="Overview">
      <h2>What changed</h2>
      <Coverage diff={diff} />
      <div class="cards">
        <Card head={`Cost of ${all ? nameOf(all) : "all exits"}`}>{all && <Sentence row={all} of="cost_ns_per_s" />}</Card>
        <Card head={`Exits per second, ${all ? nameOf(all) : "all exits"}`}>{all && <Sentence row={all} of="rate_per_s" />}</Card>
        <Card head="Where most of it comes from">
          {sure.length === 0
            ? "No reason's cost changed by more than chance explains."
            : sure.slice(0, 3).map((row, at) => (
                <>
                  {at > 0 && "; "}
                  <b>{nameOf(row)}</b> {signed("cost_ns_per_s", difference(changeOf(row, "cost_ns_per_s")))} ({partText(changeOf(row, "cost_ns_per_s"))})
                </>
              ))}
        </Card>
        <Card head="How sure that is">
          {`${diff.confidence_percent} % intervals, from blocks of time drawn anew 2,000 times. Of ${reasons.length} reasons, the cost of ${sure.length} changed; that of ${unsure} may be as before.`}
          {diff.before.traces.length + diff.after.traces.length === 2 && " One recording a side: what differs from run to run is not in it; give several with --before and --after."}
        </Card>
      </div>
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
    <div class={lost ? "coverage bad" : "coverage"} role={lost ? "alert" : undefined}>
      {lost && <b>Figures are affected by what is missing.</b>}
      {sides.map(([title, of]) => (
        <p>
          <b>{title}:</b> {side(of)}, {ns(of.duration_ns)}, {count(of.exits)} exits of {count(of.events)} events
          {bad(of).map((line) => `; ${line.text.replace(/\.$/, "")}: ${count(line.count)}`)}.
        </p>
      ))}
      {chosen.length > 0 && <p>Of both only {chosen.join("; ")}.</p>}
    </div>
  );
}

export function DiffPage({ diff, lengths, version }: Extract<Other, { kind: "diff" }>) {
  const ofAll = (of: SideRow) => (of.traces[0] ? [of.traces[0].arch, of.traces[0].hostname, of.traces[0].release].filter(Boolean).join(" ") : "");
  const hosts = [...new Set([ofAll(diff.before), ofAll(diff.after)])].filter(Boolean);
  const names: [string, string] = ["before", "after"];
  const sides: Sides = { rows: diff.rows, confidence: diff.confidence_percent, names, where: names, second: "a second" };
  const choice: Choice = { reason: reason.value, choose: (of) => (reason.value = of) };
  return (
    <Shell
      title={`${side(diff.after)} against ${side(diff.before)}`}
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
