// Phases of exits: stacked bars by reason, and a flame graph of all.
import { Bars, type Bar } from "./bars";
import { colors, mix, reasonColor } from "./colors";
import { Flame, type Frame } from "./flame";
import { count, ns } from "./format";
import { handlers } from "./aggregate";
import { data, fullRange } from "./selection";
import { DataTable } from "./table";
import type { PhaseRow } from "./types.gen";

const steps = (): [keyof PhaseRow, string][] => [
  ["to_handler_ns", "to the handler"],
  ["handler_ns", "handler"],
  ["to_user_space_ns", `return to ${handlers()[1]}`],
  ["user_space_ns", handlers()[1]],
  ["user_space_asleep_ns", `${handlers()[1]}, asleep`],
  ["reentry_ns", "re-entry"],
];
const of = (row: PhaseRow, step: keyof PhaseRow) => row[step] as number;
const cost = (row: PhaseRow) => steps().reduce((sum, [step]) => sum + of(row, step), 0);
const handler = (row: PhaseRow) => handlers()[row.in_user_space ? 1 : 0];

function tree(rows: PhaseRow[]): Frame {
  const reasons = new Map<string, Frame>();
  for (const row of rows) {
    const reason = row.reason ?? "";
    const color = reasonColor(data.timelines.reasons.indexOf(reason));
    let frame = reasons.get(reason);
    if (!frame) reasons.set(reason, (frame = { label: reason, value: 0, color, parts: [] }));
    const parts = steps().map(([step, label]) => ({ label, value: of(row, step), color: mix(color, colors.value.ground, 0.5), parts: [] }));
    frame.value += cost(row);
    frame.parts.push({
      label: `by ${handler(row)}`,
      value: cost(row),
      color: mix(color, colors.value.ground, 0.25),
      parts: parts.filter((step) => step.value > 0).sort((a, b) => b.value - a.value),
    });
  }
  const parts = [...reasons.values()].sort((a, b) => b.value - a.value);
  return { label: "cost of all exits", value: parts.reduce((sum, part) => sum + part.value, 0), color: colors.value.other, parts };
}

const flameTwin = (rows: PhaseRow[]) => () => ({
  columns: [
    { title: "reason", text: true, show: (row: PhaseRow) => row.reason, value: (row: PhaseRow) => row.reason },
    { title: "handler", text: true, show: handler, value: handler },
    ...steps().map(([step, label]) => ({ title: `${label} (ns)`, show: (row: PhaseRow) => ns(of(row, step)), value: (row: PhaseRow) => of(row, step) })),
  ],
  rows,
});

export function Phases() {
  const phases = data.report.phases!;
  const rows = phases.rows.filter((row) => cost(row) > 0);
  const bars = (): Bar[] =>
    rows.slice(0, 14).map((row) => ({
      label: `${row.reason} (${handler(row)})`,
      parts: steps().map(([step]) => of(row, step) / (row.timed || 1)),
      after: `${ns(cost(row) / (row.timed || 1))} × ${count(row.timed)}`,
    }));
  return (
    <section id="phases" aria-label="Phases">
      <h2>Phases of exits</h2>
      <p class="note">Of {fullRange()}. From leaving the guest to entering it, as far as the recorded events mark the phases; what is not marked counts as the handler's.</p>
      <Flame
        id="flame"
        title="Cost of all exits: reason, handler, phase"
        root={() => tree(rows)}
        deep={4}
        show={ns}
        twin={flameTwin(rows)}
        note="Width is time: all exits, their reason, their handler, the phases. Click to look into one, or at what it is in."
      />
      <Bars
        id="steps"
        title="What the cost of exits is made of, by phase"
        summary={() => `The most costly: ${bars()[0]?.label ?? "none"}.`}
        axis="Share of the cost of these exits (%)"
        relative
        note="Those that cost most first; at the right their mean cost, and how many they are."
        bars={bars}
        parts={steps().map((step) => step[1])}
        fills={() => colors.value.phases}
        show={ns}
        first="reason (handler)"
      />
      {phases.removable.length > 0 && (
        <details>
          <summary>What changes would avoid</summary>
          <DataTable
            caption="What changes would avoid"
            rows={phases.removable}
            columns={[
              { title: "change", text: true, value: (row) => row.change, show: (row) => <code>{row.change}</code> },
              { title: "exits", value: (row) => row.exits, show: (row) => count(row.exits) },
              { title: "avoidable, at most", value: (row) => row.avoidable_ns, show: (row) => ns(row.avoidable_ns) },
              { title: "rule", text: true, value: (row) => row.rule, show: (row) => row.rule },
            ]}
          />
        </details>
      )}
    </section>
  );
}
