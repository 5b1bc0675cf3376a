// Two figures of all configurations against each other, and the front: those that no other beats in both.
import { useRef } from "preact/hooks";
import { bottomAxis, leftAxis, leftRoom, linear, startsAt, type Plot, type Scale } from "./axes";
import { Chart, type Tip } from "./chart";
import { colors } from "./colors";
import { FROM_ZERO } from "./curve";
import { quantity, unitName } from "./format";
import { kept } from "./url_state";
import type { Surface } from "./surface";
import { figure, settings } from "./sweep_rows";
import type { Sweep, SweepMetric } from "./types.gen";

const first = kept<string>("px", "");
const second = kept<string>("py", "");

interface Dot {
  at: number;
  x: number;
  y: number;
  onFront: boolean;
}

/** Larger is better. */
const merit = (metric: SweepMetric, value: number): number => (metric.higher_is_better ? value : -value);

export function Pareto({ sweep }: { sweep: Sweep }) {
  const { metrics, rows } = sweep;
  const directed = metrics.filter((metric) => metric.higher_is_better !== null);
  const usual = directed.length > 1 ? directed : metrics;
  const named = (name: string, other: SweepMetric) => metrics.find((metric) => metric.name === name) ?? other;
  const across = (): SweepMetric => named(first.value, usual[1] ?? metrics[1]!);
  const up = (): SweepMetric => named(second.value, usual[0] ?? metrics[0]!);
  const last = useRef<{ x: Scale; y: Scale; dots: Dot[] } | null>(null);
  const hasFront = () => across() !== up() && across().higher_is_better !== null && up().higher_is_better !== null;
  const dots = (): Dot[] => {
    const [a, b] = [across(), up()];
    const found = rows.flatMap((row, at) => {
      const [x, y] = [figure(row, a).mean, figure(row, b).mean];
      return x === null || y === null ? [] : [{ at, x, y, onFront: false }];
    });
    if (hasFront()) {
      const beats = (one: Dot, other: Dot) => {
        const [ax, bx, ay, by] = [merit(a, one.x), merit(a, other.x), merit(b, one.y), merit(b, other.y)];
        return ax >= bx && ay >= by && (ax > bx || ay > by);
      };
      for (const one of found) one.onFront = !found.some((other) => beats(other, one));
    }
    return found;
  };
  const draw = (s: Surface, w: number, h: number) => {
    const { reasons, other, accent, soft } = colors.value;
    const list = dots();
    const [a, b] = [across(), up()];
    const span = (metric: SweepMetric, of: (dot: Dot) => number): [number, number] => {
      const values = list.flatMap((dot) => {
        const { low, high } = figure(rows[dot.at]!, metric);
        return [of(dot), low ?? of(dot), high ?? of(dot)];
      });
      const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
      const room = (most - least || Math.abs(most) || 1) * 0.05;
      return [least >= 0 && least <= most * FROM_ZERO ? 0 : least - room, most + room];
    };
    const plot: Plot = { x: 0, y: 8, w: 0, h: h - 46 };
    const [acrossOf, upOf] = [span(a, (dot) => dot.x), span(b, (dot) => dot.y)];
    const y = linear(...upOf, plot.y + plot.h, plot.y, 6, (value) => quantity(b.unit, value));
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 16;
    const x = linear(...acrossOf, plot.x, plot.x + plot.w, Math.max(2, plot.w / 110), (value) => quantity(a.unit, value));
    const title = (metric: SweepMetric) => `${metric.name} (${unitName(metric.unit)}${metric.higher_is_better === null ? "" : metric.higher_is_better ? ", more is better" : ", less is better"})`;
    leftAxis(s, plot, y, startsAt(title(b), upOf[0], (value) => quantity(b.unit, value)));
    bottomAxis(s, plot, x, startsAt(title(a), acrossOf[0], (value) => quantity(a.unit, value)));
    s.clip(plot.x, plot.y, plot.w, plot.h, () => {
      const front = list.filter((dot) => dot.onFront).sort((one, other) => one.x - other.x);
      if (front.length > 1) s.path(front.flatMap((dot) => [x(dot.x), y(dot.y)]), accent, 1.5, undefined, true);
      for (const dot of list) {
        const [of, to] = [figure(rows[dot.at]!, a), figure(rows[dot.at]!, b)];
        const color = dot.onFront ? accent : other;
        if (of.low !== null && of.high !== null) s.path([x(of.low), y(dot.y), x(of.high), y(dot.y)], color + "88", 1);
        if (to.low !== null && to.high !== null) s.path([x(dot.x), y(to.low), x(dot.x), y(to.high)], color + "88", 1);
        s.dot(x(dot.x), y(dot.y), dot.onFront ? 4.5 : 3, color);
        if (rows[dot.at]!.best) s.dot(x(dot.x), y(dot.y), 2, reasons[3]!);
      }
      const named: [number, number][] = [];
      for (const dot of front) {
        // Where a name stands already there is no room for another.
        if (named.length >= 12 || named.some(([left, top]) => Math.abs(top - y(dot.y)) < 14 && Math.abs(left - x(dot.x)) < 200)) continue;
        named.push([x(dot.x), y(dot.y)]);
        s.text(x(dot.x) + 7, y(dot.y) - 8, settings(sweep, dot.at), { color: soft, size: 10, width: plot.x + plot.w - x(dot.x) - 8 });
      }
    });
    last.current = { x, y, dots: list };
  };
  const hit = (px: number, py: number): Tip | null => {
    let best: Dot | null = null;
    let near = 200;
    for (const dot of last.current?.dots ?? []) {
      const away = (last.current!.x(dot.x) - px) ** 2 + (last.current!.y(dot.y) - py) ** 2;
      if (away < near) [best, near] = [dot, away];
    }
    return best && { title: settings(sweep, best.at), lines: metrics.slice(0, 8).map((metric): [string, string] => [metric.name, quantity(metric.unit, figure(rows[best!.at]!, metric).mean)]) };
  };
  const twin = () => ({
    columns: [
      { title: "configuration", text: true, value: (dot: Dot) => settings(sweep, dot.at), show: (dot: Dot) => settings(sweep, dot.at) },
      { title: `${across().name} (${across().unit})`, value: (dot: Dot) => dot.x, show: (dot: Dot) => quantity(across().unit, dot.x) },
      { title: `${up().name} (${up().unit})`, value: (dot: Dot) => dot.y, show: (dot: Dot) => quantity(up().unit, dot.y) },
      { title: "on the front", text: true, value: (dot: Dot) => (dot.onFront ? "yes" : ""), show: (dot: Dot) => (dot.onFront ? "yes" : "") },
      { title: "on the Pareto front of all figures", text: true, value: (dot: Dot) => (rows[dot.at]!.pareto ? "yes" : ""), show: (dot: Dot) => (rows[dot.at]!.pareto ? "yes" : "") },
    ],
    rows: dots(),
  });
  const choice = (label: string, of: typeof first, now: SweepMetric) => (
    <label>
      {label}{" "}
      <select value={now.name} onChange={(event) => (of.value = event.currentTarget.value)}>
        {metrics.map((metric) => (
          <option value={metric.name}>{metric.name}</option>
        ))}
      </select>
    </label>
  );
  return (
    <section id="pareto" aria-label="Pareto front">
      <h2>Two figures, and the configurations that trade them</h2>
      <Chart
        id="front"
        title="Two figures against each other"
        summary={() => `${dots().filter((dot) => dot.onFront).length} of ${dots().length} configurations are on the front of ${across().name} and ${up().name}.`}
        height={380}
        draw={draw}
        hit={hit}
        twin={twin}
        legend={() => [
          { label: "on the front: no other is better in one and as good in the other", color: colors.value.accent },
          { label: "not on the front", color: colors.value.other },
          ...(rows.some((row) => row.best) ? [{ label: `best by ${metrics[0]!.name}`, color: colors.value.reasons[3]! }] : []),
        ]}
        note={hasFront() ? "The front is that of the means; lines through dots are intervals: where two overlap, chance may have ordered them." : "For one of these figures neither more nor less is better, so there is no front."}
        controls={
          <span class="choices">
            {choice("across", first, across())}
            {choice("up", second, up())}
          </span>
        }
      />
    </section>
  );
}
