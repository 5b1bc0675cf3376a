// Curves with confidence bands: a figure over what was varied.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { bottomAxis, leftAxis, leftRoom, linear, logarithmic, startsAt, type Plot, type Scale } from "./axes";
import { Chart, type LegendItem, type Tip, type Twin } from "./chart";
import { colors } from "./colors";
import type { Surface } from "./surface";

export interface Place {
  label: string;
  /** `null` of what is no number: then places stand side by side. */
  value: number | null;
}

export interface CurvePoint {
  /** Which of the places. */
  place: number;
  value: number;
  low: number | null;
  high: number | null;
  /** Drawn larger. */
  marked?: boolean;
}

export interface Curve {
  label: string;
  color: string;
  points: CurvePoint[];
}

/** An axis starts at zero if the least value is this part of the greatest, or less. */
export const FROM_ZERO = 0.7;

interface Props {
  id: string;
  title: string;
  summary: () => string;
  places: Place[];
  across: string;
  axis: string;
  /** What was chosen, where no signal that is read says so. */
  of?: unknown;
  curves: () => Curve[];
  show: (value: number) => string;
  /** The axis begins at zero. */
  zero?: boolean;
  twin: () => Twin;
  legend?: () => LegendItem[];
  note?: ComponentChildren;
  controls?: ComponentChildren;
  height?: number;
}

/** Numbers by their size, if that shows each of them apart; other values side by side. */
function acrossScale(places: Place[], plot: Plot): Scale & { of: (place: number) => number } {
  const [left, right] = [plot.x + 14, plot.x + plot.w - 14];
  const values = places.map((place) => place.value);
  const numbers = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  const room = (scale: (value: number) => number) => Math.min(...numbers.slice(1).map((value, at) => scale(value) - scale(numbers[at]!)));
  const ticked = (scale: (value: number) => number): Scale & { of: (place: number) => number } => {
    const of = (place: number) => scale(values[place] ?? place);
    let free = -Infinity;
    const order = places.map((_, place) => place).sort((a, b) => of(a) - of(b));
    const ticks = order.map((place) => {
      const at = of(place);
      const apart = at - free > places[place]!.label.length * 6.5 + 8;
      if (apart) free = at;
      return { at, label: apart ? places[place]!.label : "", minor: !apart };
    });
    return Object.assign((value: number) => scale(value), { back: (at: number) => at, ticks, of });
  };
  if (numbers.length === places.length && places.length > 1) {
    const even = linear(numbers[0]!, numbers.at(-1)!, left, right, 5, String);
    if (room(even) > plot.w / places.length / 3) return ticked(even);
    if (numbers[0]! > 0) {
      const log = logarithmic(numbers[0]!, numbers.at(-1)!, left, right);
      if (room(log) > plot.w / places.length / 4) return ticked(log);
    }
  }
  const step = places.length > 1 ? (right - left) / (places.length - 1) : 0;
  const middle = places.length > 1 ? left : (left + right) / 2;
  const beside = ticked((value) => value);
  const of = (place: number) => middle + place * step;
  return Object.assign(beside, { of, ticks: places.map((place, at) => ({ at: of(at), label: place.label })) });
}

export function Curves(props: Props) {
  const { id, title, summary, places, across, axis, of, curves, show, zero, twin, legend, note, controls } = props;
  const last = useRef<{ plot: Plot; x: ReturnType<typeof acrossScale>; y: Scale; curves: Curve[] } | null>(null);
  const draw = (s: Surface, w: number, h: number) => {
    const list = curves();
    const plot = { x: 0, y: 8, w: 0, h: h - 46 };
    const values = list.flatMap((curve) => curve.points.flatMap((point) => [point.value, point.low ?? point.value, point.high ?? point.value]));
    const [least, most] = [Math.min(...values, Infinity), Math.max(...values, zero ? 0 : -Infinity)];
    // From zero, unless that would make all differences small.
    const isFromZero = zero || least <= most * FROM_ZERO;
    const from = isFromZero ? Math.min(0, least) : least;
    const room = (most - from || Math.abs(most) || 1) * 0.06;
    const start = from < 0 || !isFromZero ? from - room : 0;
    const y = values.length ? linear(start, most + room, plot.y + plot.h, plot.y, 5, show) : linear(0, 1, plot.y + plot.h, plot.y, 5, show);
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 14;
    const x = acrossScale(places, plot);
    leftAxis(s, plot, y, startsAt(axis, values.length ? start : 0, show));
    bottomAxis(s, plot, x, across);
    for (const { color, points } of list) {
      const sure = points.filter((point) => point.low !== null && point.high !== null);
      const at = (point: CurvePoint, value: number) => [x.of(point.place), y(value)];
      if (sure.length > 1)
        s.path([...sure.flatMap((point) => at(point, point.high!)), ...sure.toReversed().flatMap((point) => at(point, point.low!))], color, 0, color + "2e");
      for (const point of sure) s.path([...at(point, point.low!), ...at(point, point.high!)], color, 1.2);
      s.path(points.flatMap((point) => at(point, point.value)), color, 1.8);
      for (const point of points) {
        s.dot(x.of(point.place), y(point.value), point.marked ? 5.5 : 3, color);
        if (point.marked) s.dot(x.of(point.place), y(point.value), 2.5, colors.value.ground);
      }
    }
    last.current = { plot, x, y, curves: list };
  };
  const hit = (px: number, py: number): Tip | null => {
    const drawn = last.current;
    if (!drawn || px < drawn.plot.x || py > drawn.plot.y + drawn.plot.h) return null;
    let near = 0;
    places.forEach((_, place) => {
      if (Math.abs(drawn.x.of(place) - px) < Math.abs(drawn.x.of(near) - px)) near = place;
    });
    const lines = drawn.curves.flatMap(({ label, points }): [string, string][] =>
      points
        .filter((point) => point.place === near)
        .map((point) => [label, show(point.value) + (point.low !== null && point.high !== null ? ` (${show(point.low)} to ${show(point.high)})` : "")]),
    );
    return { title: `${across}: ${places[near]?.label ?? ""}`, lines: lines.length ? lines : [["nothing", "–"]] };
  };
  return (
    <Chart
      id={id}
      title={title}
      summary={summary}
      of={of}
      height={props.height ?? 250}
      draw={draw}
      hit={hit}
      legend={legend ?? (() => curves().map(({ label, color }) => ({ label, color, line: true })))}
      twin={twin}
      note={note}
      controls={controls}
    />
  );
}
