// One drawing, three outputs: a canvas on the screen, the same larger as PNG, and SVG.
import { shortened } from "./format";

export interface TextStyle {
  color: string;
  align?: "left" | "center" | "right";
  size?: number;
  bold?: boolean;
  /** Turned to read upwards. */
  up?: boolean;
  /** Cut to this width. */
  width?: number;
}

export interface Surface {
  /** `fill` is a colour, or one after `/`, `\\` or `:`: hatched in it, that way, or dotted. */
  rect(x: number, y: number, w: number, h: number, fill: string): void;
  frame(x: number, y: number, w: number, h: number, stroke: string): void;
  /** Through points x, y, x, y, …; filled if `fill`. */
  path(points: number[], stroke: string, width: number, fill?: string, dash?: boolean): void;
  dot(x: number, y: number, r: number, fill: string): void;
  /** `y` is the middle of the text. */
  text(x: number, y: number, text: string, style: TextStyle): void;
  clip(x: number, y: number, w: number, h: number, inside: () => void): void;
  /** Cells of equal width in rows, of which `rows` says top and height; the number of a cell's fill, or -1 for none. */
  cells(x: number, w: number, rows: { y: number; h: number }[], columns: number, cell: (row: number, column: number) => number, fills: string[]): void;
  /** What `inside` draws; a canvas keeps it as an image for as long as `key` is the same object. */
  kept(key: object, w: number, h: number, inside: (s: Surface) => void): void;
}

const images = new WeakMap<object, HTMLCanvasElement>();

/** Pixels from a line of hatching to the next, both across and down. */
const HATCH = 5;

/** The ends of the lines of one tile of hatching: through the tile, and through what is cut off at two of its corners; or of its dot. */
const hatches = (way: string): [number, number, number, number][] =>
  way === ":" ? [[1.75, 2.5, 3.25, 2.5]] : [-HATCH, 0, HATCH].map((at) => (way === "/" ? [at, HATCH, at + HATCH, 0] : [at, 0, at + HATCH, HATCH]));

/** The hatched fills of canvases, which hold for all of them. */
const hatched = new Map<string, CanvasPattern>();

function canvasFill(fill: string): string | CanvasPattern {
  if (!isHatched(fill)) return fill;
  let pattern = hatched.get(fill);
  if (!pattern) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = HATCH;
    const to = tile.getContext("2d")!;
    to.strokeStyle = fill.slice(1);
    to.lineWidth = 1.5;
    to.beginPath();
    for (const [x0, y0, x1, y1] of hatches(fill[0]!)) {
      to.moveTo(x0, y0);
      to.lineTo(x1, y1);
    }
    to.stroke();
    hatched.set(fill, (pattern = to.createPattern(tile, "repeat")!));
  }
  return pattern;
}

export const isHatched = (fill: string): boolean => "/\\:".includes(fill[0]!);

/** A fill as the background of an element. */
export function cssFill(fill: string): string {
  if (!isHatched(fill)) return fill;
  const [way, color] = [fill[0], fill.slice(1)];
  const lines = `linear-gradient(${way === "/" ? "-45deg" : "45deg"}, ${color} 18%, transparent 18% 50%, ${color} 50% 68%, transparent 68%)`;
  // Tiles of a whole number of pixels: a gradient over all of a wide bar shows stripes of its own.
  return `${way === ":" ? `radial-gradient(${color} 1px, transparent 1.3px)` : lines} 0 0 / ${HATCH}px ${HATCH}px`;
}

export const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const SIZE = 11;

const ruler = document.createElement("canvas").getContext("2d")!;

export function textWidth(text: string, size = SIZE): number {
  ruler.font = `${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

/** The text, without its middle if all of it does not fit. */
function cut(text: string, style: TextStyle): string {
  if (style.width === undefined || textWidth(text, style.size) <= style.width) return text;
  let long = text.length;
  while (long > 2 && textWidth(shortened(text, long), style.size) > style.width) long--;
  return long > 2 ? shortened(text, long) : "";
}

export class CanvasSurface implements Surface {
  constructor(private readonly to: CanvasRenderingContext2D) {}

  rect(x: number, y: number, w: number, h: number, fill: string): void {
    this.to.fillStyle = canvasFill(fill);
    this.to.fillRect(x, y, w, h);
  }

  frame(x: number, y: number, w: number, h: number, stroke: string): void {
    this.to.strokeStyle = stroke;
    this.to.lineWidth = 1;
    this.to.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  }

  path(points: number[], stroke: string, width: number, fill?: string, dash?: boolean): void {
    const { to } = this;
    to.beginPath();
    for (let at = 0; at < points.length; at += 2) to.lineTo(points[at]!, points[at + 1]!);
    if (fill) {
      to.fillStyle = fill;
      to.fill();
    }
    if (width > 0) {
      to.strokeStyle = stroke;
      to.lineWidth = width;
      to.setLineDash(dash ? [4, 3] : []);
      to.stroke();
      to.setLineDash([]);
    }
  }

  dot(x: number, y: number, r: number, fill: string): void {
    this.to.beginPath();
    this.to.arc(x, y, r, 0, Math.PI * 2);
    this.to.fillStyle = fill;
    this.to.fill();
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const { to } = this;
    to.font = `${style.bold ? "600 " : ""}${style.size ?? SIZE}px ${FONT}`;
    to.fillStyle = style.color;
    to.textAlign = style.align ?? "left";
    to.textBaseline = "middle";
    to.save();
    to.translate(x, y);
    if (style.up) to.rotate(-Math.PI / 2);
    to.fillText(cut(text, style), 0, 0.5);
    to.restore();
  }

  cells(x: number, w: number, rows: { y: number; h: number }[], columns: number, cell: (row: number, column: number) => number, fills: string[]): void {
    if (!rows.length) return;
    // A pixel for each cell, drawn larger: thousands of rectangles would take longer than a frame has.
    const colors = fills.map((fill) => (fill.match(/\d+/g) ?? []).map(Number));
    const pixels = new ImageData(columns, rows.length);
    for (let row = 0; row < rows.length; row++)
      for (let column = 0; column < columns; column++) {
        const color = colors[cell(row, column)];
        if (color) pixels.data.set([color[0]!, color[1]!, color[2]!, 255], (row * columns + column) * 4);
      }
    const image = document.createElement("canvas");
    image.width = columns;
    image.height = rows.length;
    image.getContext("2d")!.putImageData(pixels, 0, 0);
    this.to.imageSmoothingEnabled = false;
    rows.forEach(({ y, h }, row) => this.to.drawImage(image, 0, row, columns, 1, x, y, w, h));
    this.to.imageSmoothingEnabled = true;
  }

  kept(key: object, w: number, h: number, inside: (s: Surface) => void): void {
    const dense = this.to.getTransform().a;
    let image = images.get(key);
    if (!image || image.width !== Math.ceil(w * dense)) {
      image = document.createElement("canvas");
      image.width = Math.ceil(w * dense);
      image.height = Math.ceil(h * dense);
      const to = image.getContext("2d")!;
      to.scale(dense, dense);
      inside(new CanvasSurface(to));
      images.set(key, image);
    }
    this.to.drawImage(image, 0, 0, image.width / dense, image.height / dense);
  }

  clip(x: number, y: number, w: number, h: number, inside: () => void): void {
    this.to.save();
    this.to.beginPath();
    this.to.rect(x, y, w, h);
    this.to.clip();
    inside();
    this.to.restore();
  }
}

const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);
const short = (value: number): string => String(Math.round(value * 100) / 100);

export class SvgSurface implements Surface {
  private readonly parts: string[] = [];
  private clips = 0;
  private readonly hatched = new Map<string, string>();

  rect(x: number, y: number, w: number, h: number, fill: string): void {
    const paint = isHatched(fill) ? `url(#${this.pattern(fill)})` : fill;
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="${paint}"/>`);
  }

  private pattern(fill: string): string {
    let id = this.hatched.get(fill);
    if (!id) {
      // The same in every drawing, so that one may be put into another.
      this.hatched.set(fill, (id = `h${"/\\:".indexOf(fill[0]!)}${fill.slice(2)}`));
      const lines = hatches(fill[0]!).map(([x0, y0, x1, y1]) => `M${x0} ${y0}L${x1} ${y1}`);
      this.parts.push(
        `<pattern id="${id}" width="${HATCH}" height="${HATCH}" patternUnits="userSpaceOnUse"><path d="${lines.join("")}" stroke="${fill.slice(1)}" stroke-width="1.5"/></pattern>`,
      );
    }
    return id;
  }

  frame(x: number, y: number, w: number, h: number, stroke: string): void {
    this.parts.push(
      `<rect x="${short(x + 0.5)}" y="${short(y + 0.5)}" width="${short(w - 1)}" height="${short(h - 1)}" fill="none" stroke="${stroke}"/>`,
    );
  }

  path(points: number[], stroke: string, width: number, fill = "none", dash = false): void {
    const pairs: string[] = [];
    for (let at = 0; at < points.length; at += 2) pairs.push(`${short(points[at]!)},${short(points[at + 1]!)}`);
    this.parts.push(
      `<polyline points="${pairs.join(" ")}" fill="${fill}" stroke="${width > 0 ? stroke : "none"}" stroke-width="${width}"${dash ? ' stroke-dasharray="4 3"' : ""}/>`,
    );
  }

  dot(x: number, y: number, r: number, fill: string): void {
    this.parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${r}" fill="${fill}"/>`);
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    const turn = style.up ? ` transform="rotate(-90 ${short(x)} ${short(y)})"` : "";
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" dominant-baseline="central" text-anchor="${anchor}" font-size="${style.size ?? SIZE}"${style.bold ? ' font-weight="600"' : ""} fill="${style.color}"${turn}>${escaped(cut(text, style))}</text>`,
    );
  }

  cells(x: number, w: number, rows: { y: number; h: number }[], columns: number, cell: (row: number, column: number) => number, fills: string[]): void {
    rows.forEach(({ y, h }, row) => {
      for (let column = 0; column < columns; ) {
        const from = column;
        const now = cell(row, column);
        // Neighbours of one colour are one.
        do column++;
        while (column < columns && cell(row, column) === now);
        if (now >= 0) this.rect(x + (from * w) / columns, y, ((column - from) * w) / columns, h, fills[now]!);
      }
    });
  }

  kept(_key: object, _w: number, _h: number, inside: (s: Surface) => void): void {
    inside(this);
  }

  clip(x: number, y: number, w: number, h: number, inside: () => void): void {
    const id = `c${this.clips++}`;
    this.parts.push(
      `<clipPath id="${id}"><rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"/></clipPath><g clip-path="url(#${id})">`,
    );
    inside();
    this.parts.push("</g>");
  }

  finish(w: number, h: number): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" font-family="${escaped(FONT)}">${this.parts.join("")}</svg>`;
  }
}
