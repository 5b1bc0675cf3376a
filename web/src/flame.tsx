// A flame graph, from the whole down: width is what things add up to. A click looks into a part, or at what it is in.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { Chart, type Pointing, type Tip, type Twin } from "./chart";
import { colors, mix } from "./colors";
import { share } from "./format";
import { textWidth, type Surface } from "./surface";

export interface Frame {
  label: string;
  value: number;
  color: string;
  parts: Frame[];
}

/** Height of a frame, and the least width of one that is drawn. */
const TALL = 24;
const LEAST = 0.4;

/** Black or white, whichever reads better on a colour. */
function onColor(color: string): string {
  const parts = color.startsWith("#") ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)) : (color.match(/\d+/g) ?? []).map(Number);
  const [r = 0, g = 0, b = 0] = parts.map((part) => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#101418" : "#ffffff";
}

/** A colour as numbers that can be mixed. */
function faded(color: string): string {
  return color.startsWith("#") ? mix(color, colors.value.ground, 0.75) : color.replace("rgb(", "rgba(").replace(")", ",0.25)");
}

/** The frames on a way down by labels, as far as it leads. */
function along(root: Frame, way: string[]): Frame[] {
  const found = [root];
  for (const label of way) {
    const next = found.at(-1)!.parts.find((part) => part.label === label);
    if (!next) break;
    found.push(next);
  }
  return found;
}

/** What of a frame is in parts that a text finds, none counted twice. */
function matching(frame: Frame, finds: (label: string) => boolean): number {
  return finds(frame.label) ? frame.value : frame.parts.reduce((sum, part) => sum + matching(part, finds), 0);
}

interface Props {
  id: string;
  title: string;
  root: () => Frame;
  /** How many frames lie under each other. */
  deep: number;
  show: (value: number) => string;
  twin: () => Twin;
  controls?: ComponentChildren;
  note?: ComponentChildren;
}

export function Flame({ id, title, root, deep, show, twin, controls, note }: Props) {
  const way = useSignal<string[]>([]);
  const text = useSignal("");
  const boxes = useRef<{ x: number; y: number; w: number; frame: Frame; way: string[] }[]>([]);
  const finds = (label: string) => text.value !== "" && label.toLowerCase().includes(text.value.toLowerCase());
  const draw = (s: Surface, w: number) => {
    boxes.current = [];
    const above = along(root(), way.value);
    const isFinding = text.value !== "";
    const box = (frame: Frame, x: number, wide: number, depth: number, of: string[], isInside: boolean) => {
      const y = depth * TALL;
      boxes.current.push({ x, y, w: wide, frame, way: of });
      const isLit = !isFinding || isInside || finds(frame.label);
      const fill = isLit ? frame.color : faded(frame.color);
      s.rect(x, y, Math.max(0.5, wide - 1), TALL - 1, fill);
      const label = `${frame.label} ${show(frame.value)}`;
      if (wide > 30) s.text(x + 5, y + TALL / 2, textWidth(label) < wide - 8 ? label : frame.label, { color: isLit ? onColor(fill) : colors.value.ink, width: wide - 8 });
      return isLit && isFinding;
    };
    const lay = (frame: Frame, x: number, wide: number, depth: number, of: string[], isInside: boolean) => {
      // A root whose label has the text would light all.
      const isLit = box(frame, x, wide, depth, of, isInside) && depth > 0;
      let at = x;
      for (const part of frame.parts) {
        const part_w = (part.value / (frame.value || 1)) * wide;
        if (part_w >= LEAST) lay(part, at, part_w, depth + 1, [...of, part.label], isLit);
        at += part_w;
      }
    };
    above.slice(0, -1).forEach((frame, depth) => box({ ...frame, color: faded(frame.color) }, 0, w, depth, way.value.slice(0, depth), false));
    lay(above.at(-1)!, 0, w, above.length - 1, way.value.slice(0, above.length - 1), false);
  };
  const under = (x: number, y: number) => boxes.current.findLast((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + TALL);
  const hit = (x: number, y: number): Tip | null => {
    const box = under(x, y);
    return box ? { title: box.way.join(" › ") || box.frame.label, lines: [["", show(box.frame.value)], ["of all", share(box.frame.value / (root().value || 1))]] } : null;
  };
  const [pointing] = useState<Pointing>(() => ({
    cursor: "pointer",
    down() {},
    up(x, y) {
      const box = under(x, y);
      if (box) way.value = box.way;
    },
  }));
  const found = text.value === "" ? null : root().parts.reduce((sum, part) => sum + matching(part, finds), 0) / (root().value || 1);
  return (
    <Chart
      id={id}
      title={title}
      summary={() => "A flame graph: width is the sum; downwards, the whole and its parts."}
      height={() => TALL * deep}
      draw={draw}
      hit={hit}
      twin={twin}
      pointing={pointing}
      of={root()}
      controls={
        <>
          {controls}
          <input type="search" placeholder="find in it" aria-label={`Find in ${title}`} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
          {found !== null && <span role="status">{`${share(found)} of all`}</span>}
          {way.value.length > 0 && (
            <button type="button" onClick={() => (way.value = [])}>
              Show all of it
            </button>
          )}
        </>
      }
      note={note}
    />
  );
}
