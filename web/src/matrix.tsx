// Who does something to whom: a cell for each pair, the darker the more.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Chart, type Tip } from "./chart";
import { colors, mix } from "./colors";
import { textWidth, type Surface } from "./surface";
import type { Column } from "./table";

export interface Pair {
  /** Down, and across. */
  from: string;
  to: string;
  value: number;
  tip: [string, string][];
}

interface Props {
  id: string;
  title: string;
  summary: () => string;
  /** What stands down, and across. */
  down: string;
  across: string;
  pairs: () => Pair[];
  /** Of the value, for table and legend. */
  what: string;
  show: (value: number) => string;
  note?: ComponentChildren;
}

const CELL = 26;
const TOP = 46;

const inOrder = (names: string[]): string[] => [...new Set(names)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));

export function Matrix({ id, title, summary, down, across, pairs, what, show, note }: Props) {
  const last = useRef<{ left: number; wide: number; froms: string[]; tos: string[]; pairs: Pair[] } | null>(null);
  const heat = (part: number) => mix(colors.value.heat[0]!, colors.value.heat[1]!, 0.08 + 0.92 * part);
  const draw = (s: Surface, w: number) => {
    const { ink, soft, ground } = colors.value;
    const list = pairs();
    const [froms, tos] = [inOrder(list.map((pair) => pair.from)), inOrder(list.map((pair) => pair.to))];
    const most = Math.max(1, ...list.map((pair) => pair.value));
    const left = Math.min(w * 0.4, Math.max(textWidth(down) + 34, ...froms.map((name) => textWidth(name) + 20)));
    const wide = Math.min(90, (w - left - 10) / Math.max(1, tos.length));
    s.text(left, 10, `${across} →`, { color: soft });
    s.text(left - 8, TOP - 12, `${down} ↓`, { color: soft, align: "right", width: left - 10 });
    tos.forEach((to, at) => s.text(left + at * wide + wide / 2, TOP - 12, to, { color: ink, align: "center", width: wide - 2 }));
    froms.forEach((from, at) => s.text(left - 8, TOP + at * CELL + CELL / 2, from, { color: ink, align: "right", width: left - 12 }));
    for (const pair of list) {
      const [x, y] = [left + tos.indexOf(pair.to) * wide, TOP + froms.indexOf(pair.from) * CELL];
      const part = Math.sqrt(pair.value / most);
      s.rect(x, y, wide - 1, CELL - 1, heat(part));
      if (wide > 34) s.text(x + wide / 2, y + CELL / 2, show(pair.value), { color: part > 0.5 ? ground : ink, align: "center", width: wide - 4 });
    }
    last.current = { left, wide, froms, tos, pairs: list };
  };
  const hit = (x: number, y: number): Tip | null => {
    const drawn = last.current;
    if (!drawn) return null;
    const [from, to] = [drawn.froms[Math.floor((y - TOP) / CELL)], drawn.tos[Math.floor((x - drawn.left) / drawn.wide)]];
    const pair = drawn.pairs.find((pair) => pair.from === from && pair.to === to);
    return pair ? { title: `${pair.from} → ${pair.to}`, lines: [[what, show(pair.value)], ...pair.tip] } : null;
  };
  const twin = () => {
    const list = pairs();
    const columns: Column<Pair>[] = [
      { title: down, text: true, value: (pair) => pair.from, show: (pair) => pair.from },
      { title: across, text: true, value: (pair) => pair.to, show: (pair) => pair.to },
      { title: what, value: (pair) => pair.value, show: (pair) => show(pair.value) },
      ...(list[0]?.tip ?? []).map(([title], at): Column<Pair> => ({ title, value: (pair) => pair.tip[at]?.[1] ?? null, show: (pair) => pair.tip[at]?.[1] ?? "" })),
    ];
    return { columns, rows: list };
  };
  return (
    <Chart
      id={id}
      title={title}
      summary={summary}
      height={() => TOP + 6 + new Set(pairs().map((pair) => pair.from)).size * CELL}
      draw={draw}
      hit={hit}
      twin={twin}
      note={note}
      legend={() => [
        { label: `least ${what}`, color: heat(0) },
        { label: `most ${what}`, color: heat(1) },
      ]}
    />
  );
}
