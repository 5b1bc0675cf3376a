// Steps of exits: stacked bars by reason, and a flame graph of all.
import { useRef } from "preact/hooks";
import { Bars, type Bar } from "./bars";
import { Chart, type Tip } from "./chart";
import { colors, mix, reasonColor } from "./colors";
import { count, ns, share } from "./format";
import { handlers } from "./query";
import { data, everything } from "./state";
import type { Surface } from "./surface";
import { textWidth } from "./surface";
import { DataTable } from "./table";
import type { PhaseRow } from "./types.gen";

const STEPS: [keyof PhaseRow, string][] = [
  ["reaching_ns", "to the handler"],
  ["handling_ns", "handling"],
  ["leaving_ns", "leaving to user space"],
  ["user_ns", "user space"],
  ["asleep_ns", "asleep in user space"],
  ["entering_ns", "entering again"],
];
const of = (row: PhaseRow, step: keyof PhaseRow) => row[step] as number;
const cost = (row: PhaseRow) => STEPS.reduce((sum, [step]) => sum + of(row, step), 0);
const handler = (row: PhaseRow) => handlers()[row.outside ? 1 : 0];

interface Frame {
  label: string;
  value: number;
  color: string;
  parts: Frame[];
}

function tree(rows: PhaseRow[]): Frame {
  const reasons = new Map<string, Frame>();
  for (const row of rows) {
    const reason = row.reason ?? "";
    const color = reasonColor(data.over.reasons.indexOf(reason));
    let frame = reasons.get(reason);
    if (!frame) reasons.set(reason, (frame = { label: reason, value: 0, color, parts: [] }));
    const steps = STEPS.map(([step, label]) => ({ label, value: of(row, step), color: mix(color, colors.value.ground, 0.5), parts: [] }));
    frame.value += cost(row);
    frame.parts.push({
      label: `by ${handler(row)}`,
      value: cost(row),
      color: mix(color, colors.value.ground, 0.25),
      parts: steps.filter((step) => step.value > 0).sort((a, b) => b.value - a.value),
    });
  }
  const parts = [...reasons.values()].sort((a, b) => b.value - a.value);
  return { label: "cost of all exits", value: parts.reduce((sum, part) => sum + part.value, 0), color: colors.value.other, parts };
}

const DEEP = 26;

function Flame({ rows }: { rows: PhaseRow[] }) {
  const boxes = useRef<{ x: number; y: number; w: number; frame: Frame; path: string }[]>([]);
  const draw = (s: Surface, w: number) => {
    boxes.current = [];
    const root = tree(rows);
    const whole = root.value || 1;
    const lay = (frame: Frame, x: number, wide: number, depth: number, path: string) => {
      const y = 3 * DEEP - depth * DEEP;
      boxes.current.push({ x, y, w: wide, frame, path });
      s.rect(x, y, Math.max(0.5, wide - 1), DEEP - 1, frame.color);
      const ink = depth === 0 || depth === 1 ? "#ffffff" : colors.value.ink;
      const text = `${frame.label} ${ns(frame.value)}`;
      if (wide > 30) s.text(x + 5, y + DEEP / 2, textWidth(text) < wide - 8 ? text : frame.label, { color: depth < 2 ? onColor(frame.color) : ink, width: wide - 8 });
      let at = x;
      for (const part of frame.parts) {
        const part_w = (part.value / whole) * w;
        if (part_w >= 0.4) lay(part, at, part_w, depth + 1, `${path} › ${part.label}`);
        at += part_w;
      }
    };
    lay(root, 0, w, 0, root.label);
  };
  const hit = (x: number, y: number): Tip | null => {
    const box = boxes.current.findLast((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + DEEP);
    return box ? { title: box.path, lines: [["time", ns(box.frame.value)], ["of all", share(box.frame.value / (boxes.current[0]!.frame.value || 1))]] } : null;
  };
  const twin = () => ({
    columns: [
      { title: "reason", text: true, show: (row: PhaseRow) => row.reason, value: (row: PhaseRow) => row.reason },
      { title: "handled by", text: true, show: handler, value: handler },
      ...STEPS.map(([step, label]) => ({ title: `${label} (ns)`, show: (row: PhaseRow) => ns(of(row, step)), value: (row: PhaseRow) => of(row, step) })),
    ],
    rows,
  });
  return (
    <Chart
      id="flame"
      title="Cost of all exits: reason, handler, step"
      summary={() => "A flame graph: width is time; upwards, the cost of all exits, reasons, who handled them, steps."}
      height={DEEP * 4}
      draw={draw}
      hit={hit}
      twin={twin}
      note="Width is time. From below: all exits, their reason, who handled them, the steps."
    />
  );
}

/** Black or white, whichever reads better on a colour. */
function onColor(color: string): string {
  const parts = color.startsWith("#") ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)) : (color.match(/\d+/g) ?? []).map(Number);
  const [r = 0, g = 0, b = 0] = parts.map((part) => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#101418" : "#ffffff";
}

export function Phases() {
  const phases = data.report.phases!;
  const rows = phases.rows.filter((row) => cost(row) > 0);
  const bars = (): Bar[] =>
    rows.slice(0, 14).map((row) => ({
      label: `${row.reason} (${handler(row)})`,
      parts: STEPS.map(([step]) => of(row, step) / (row.timed || 1)),
      after: `${ns(cost(row) / (row.timed || 1))} × ${count(row.timed)}`,
    }));
  return (
    <section id="phases" aria-label="Phases">
      <h2>Steps of exits</h2>
      <p class="note">Of {everything()}. From leaving the guest to entering it, as far as the recorded events mark the steps; what is not marked counts as handling.</p>
      <Flame rows={rows} />
      <Bars
        id="steps"
        title="Mean cost of an exit, by step"
        summary={() => `The most costly: ${bars()[0]?.label ?? "none"}.`}
        axis="Mean time of an exit"
        bars={bars}
        parts={STEPS.map((step) => step[1])}
        fills={() => colors.value.steps}
        show={ns}
        first="reason (handled by)"
      />
      {phases.removable.length > 0 && (
        <details>
          <summary>What would take steps away</summary>
          <DataTable
            caption="What would take steps away"
            rows={phases.removable}
            columns={[
              { title: "change", text: true, value: (row) => row.change, show: (row) => <code>{row.change}</code> },
              { title: "exits", value: (row) => row.exits, show: (row) => count(row.exits) },
              { title: "takes away", value: (row) => row.removes_ns, show: (row) => ns(row.removes_ns) },
              { title: "how it is reckoned", text: true, value: (row) => row.rule, show: (row) => row.rule },
            ]}
          />
        </details>
      )}
    </section>
  );
}
