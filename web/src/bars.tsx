// Lying bars, stacked: one a row. Used wherever a whole divides into parts.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { bottomAxis, linear, type Plot, type Scale } from "./axes";
import { Chart, type LegendItem, type Tip, type Twin } from "./chart";
import { colors } from "./colors";
import { share } from "./format";
import { textWidth } from "./surface";
import type { Column } from "./table";

export interface Bar {
  label: string;
  parts: number[];
  /** What the whole may be held against: a stroke across. */
  mark?: number;
  /** Shown behind the bar. */
  after?: string;
}

interface Props {
  id: string;
  title: string;
  summary: () => string;
  axis: string;
  bars: () => Bar[];
  /** For the table, if not all of it is drawn. */
  every?: () => Bar[];
  parts: string[];
  /** What marks are. */
  mark?: string;
  fills: () => string[];
  show: (value: number) => string;
  /** Every bar is as long as its whole; otherwise as its sum. */
  relative?: boolean;
  first: string;
  /** If there is more to say than bars show. */
  twin?: () => Twin;
  note?: ComponentChildren;
  click?: (at: number) => void;
  controls?: ComponentChildren;
}

const ROW = 24;

export function Bars(props: Props) {
  const { id, title, summary, axis, bars, every, parts, mark, fills, show, relative, first, note, click, controls, twin } = props;
  const last = useRef<{ plot: Plot; scale: Scale; rows: Bar[] } | null>(null);
  const sum = (bar: Bar) => bar.parts.reduce((sum, part) => sum + part, 0);
  const draw = (s: Parameters<import("./chart").ChartProps["draw"]>[0], w: number, h: number) => {
    const rows = bars();
    const left = Math.min(w * 0.4, Math.max(40, ...rows.map((bar) => textWidth(bar.label) + 20)));
    const right = Math.max(10, ...rows.map((bar) => textWidth(bar.after ?? "") + 16));
    const plot = { x: left, y: 2, w: w - left - right, h: h - 40 };
    const most = relative ? 1 : Math.max(1, ...rows.map(sum), ...rows.map((bar) => bar.mark ?? 0));
    const scale = linear(0, most, plot.x, plot.x + plot.w, Math.max(2, plot.w / 90), (value) => (relative ? `${Math.round(value * 100)}%` : show(value)));
    bottomAxis(s, plot, scale, axis);
    const colours = fills();
    rows.forEach((bar, at) => {
      const y = plot.y + at * ROW + 3;
      const whole = relative ? sum(bar) || 1 : 1;
      s.text(left - 8, y + (ROW - 6) / 2, bar.label, { color: colors.value.ink, align: "right", width: left - 12 });
      let x = plot.x;
      bar.parts.forEach((part, place) => {
        const long = scale(part / whole) - scale(0);
        if (long > 0) s.rect(x, y, Math.max(long, 0.5), ROW - 7, colours[place]!);
        x += long;
      });
      if (bar.mark !== undefined) {
        const at = scale(bar.mark);
        s.path([at, y - 2, at, y + ROW - 5], colors.value.ink, 2);
        x = Math.max(x, at);
      }
      if (bar.after) s.text(x + 6, y + (ROW - 6) / 2, bar.after, { color: colors.value.soft });
    });
    last.current = { plot, scale, rows };
  };
  const rowAt = (y: number) => (last.current ? Math.floor((y - last.current.plot.y) / ROW) : -1);
  const hit = (x: number, y: number): Tip | null => {
    const bar = last.current?.rows[rowAt(y)];
    if (!bar || x > last.current!.plot.x + last.current!.plot.w + 60) return null;
    const whole = sum(bar) || 1;
    const lines = parts.map((part, at): [string, string] => [part, `${show(bar.parts[at]!)} (${share(bar.parts[at]! / whole)})`]).filter((_, at) => bar.parts[at]! > 0);
    return { title: bar.label, lines: bar.mark === undefined ? lines : [...lines, [mark ?? "", show(bar.mark)]] };
  };
  const ownTwin = () => {
    const columns: Column<Bar>[] = [
      { title: first, text: true, show: (bar) => bar.label, value: (bar) => bar.label },
      ...parts.map((part, at) => ({ title: part, show: (bar: Bar) => show(bar.parts[at]!), value: (bar: Bar) => bar.parts[at]! })),
    ];
    return { columns, rows: (every ?? bars)() };
  };
  const legend = (): LegendItem[] => [
    ...(parts.length < 2 ? [] : parts.map((label, at) => ({ label, color: fills()[at]! }))),
    ...(mark ? [{ label: mark, color: colors.value.ink, line: true }] : []),
  ];
  return (
    <Chart
      id={id}
      title={title}
      summary={summary}
      height={() => Math.max(1, bars().length) * ROW + 44}
      draw={draw}
      hit={hit}
      legend={legend}
      twin={twin ?? ownTwin}
      note={note}
      controls={controls}
      pointing={click && { cursor: "pointer", down: () => undefined, up: (_x, y) => last.current?.rows[rowAt(y)] && click(rowAt(y)) }}
    />
  );
}
