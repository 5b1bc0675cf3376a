// Values with their intervals, one a row: bars from zero, or dots where there is no zero to start from.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { bottomAxis, linear, logarithmic, type Plot, type Scale } from "./axes";
import { Chart, type LegendItem, type Tip, type Twin } from "./chart";
import { colors } from "./colors";
import { textWidth, type Surface } from "./surface";

export interface IntervalRow {
  label: string;
  /** `null` where there is none. */
  value: number | null;
  low: number | null;
  high: number | null;
  color: string;
  /** Behind the row. */
  after: string;
  tip: [string, string][];
}

interface Props {
  id: string;
  title: string;
  summary: () => string;
  axis: string;
  /** What was chosen, where `rows` reads no signal that says so. */
  of?: unknown;
  rows: () => IntervalRow[];
  show: (value: number) => string;
  /** Bars from zero; otherwise dots. */
  bars?: boolean;
  log?: boolean;
  legend?: () => LegendItem[];
  twin: () => Twin;
  note?: ComponentChildren;
  controls?: ComponentChildren;
  click?: (at: number) => void;
}

const ROW = 22;

export function Intervals(props: Props) {
  const { id, title, summary, axis, of, rows, show, bars, log, legend, twin, note, controls, click } = props;
  const last = useRef<{ plot: Plot; rows: IntervalRow[] } | null>(null);
  const draw = (s: Surface, w: number, h: number) => {
    const { ink, soft, line } = colors.value;
    const list = rows();
    const left = Math.min(w * 0.4, Math.max(40, ...list.map((row) => textWidth(row.label) + 20)));
    const right = Math.min(w * 0.35, Math.max(10, ...list.map((row) => textWidth(row.after) + 18)));
    const plot = { x: left, y: 2, w: w - left - right, h: h - 40 };
    const scale = scaleOf(list, plot);
    bottomAxis(s, plot, scale, axis);
    if (!log) s.rect(Math.round(scale(0)), plot.y, 1, plot.h, soft);
    list.forEach((row, at) => {
      const y = plot.y + at * ROW + ROW / 2 - 1;
      s.text(left - 8, y, row.label, { color: ink, align: "right", width: left - 12 });
      s.text(plot.x + plot.w + 8, y, row.after, { color: soft, width: right - 10 });
      if (row.value === null) return;
      const x = scale(row.value);
      if (bars && !log) s.rect(Math.min(x, scale(0)), y - 7, Math.max(1, Math.abs(x - scale(0))), 14, row.color + "99");
      if (row.low !== null && row.high !== null) {
        const [from, to] = [scale(row.low), scale(row.high)];
        const stroke = bars && !log ? ink : row.color;
        s.path([from, y, to, y], stroke, 1.6);
        // By a logarithm, what reaches to zero has no end.
        for (const end of log && row.low <= 0 ? [to] : [from, to]) s.path([end, y - 4, end, y + 4], stroke, 1.6);
      }
      if (!bars || log) s.dot(x, y, 4, row.color);
    });
    if (list.length === 0) s.text(plot.x + plot.w / 2, plot.y + 12, "none", { color: line, align: "center" });
    last.current = { plot, rows: list };
  };
  const scaleOf = (list: IntervalRow[], plot: Plot): Scale => {
    const values = list.flatMap((row) => [row.value, row.low, row.high]).filter((value): value is number => value !== null);
    const ticks = Math.max(2, plot.w / 90);
    if (log) {
      const above = values.filter((value) => value > 0);
      const [least, most] = [Math.min(...above, 1e3), Math.max(...above, 1)];
      return logarithmic(least * 0.8, Math.max(most, least) * 1.25, plot.x, plot.x + plot.w, show);
    }
    const [least, most] = [Math.min(0, ...values), Math.max(0, ...values)];
    const room = (most - least || 1) * 0.04;
    return linear(least < 0 ? least - room : 0, most > 0 ? most + room : 0, plot.x, plot.x + plot.w, ticks, show);
  };
  const rowAt = (y: number) => (last.current ? Math.floor((y - last.current.plot.y) / ROW) : -1);
  const hit = (_x: number, y: number): Tip | null => {
    const row = last.current?.rows[rowAt(y)];
    return row ? { title: row.label, lines: row.tip } : null;
  };
  return (
    <Chart
      id={id}
      title={title}
      summary={summary}
      of={of}
      height={() => Math.max(1, rows().length) * ROW + 44}
      draw={draw}
      hit={hit}
      legend={legend}
      twin={twin}
      note={note}
      controls={controls}
      pointing={click && { cursor: "pointer", down: () => undefined, up: (_x, y) => last.current?.rows[rowAt(y)] && click(rowAt(y)) }}
    />
  );
}
