// A chart: title, legend, drawing, hover, table twin, copies as PNG, SVG and CSV.
import { signal, useSignal, useSignalEffect, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Scale } from "./axes";
import { colors } from "./colors";
import { PAPER } from "./print";
import { CanvasSurface, cssFill, SvgSurface, type Surface } from "./surface";
import { csvOf, DataTable, type Column } from "./table";

export interface Tip {
  title: string;
  lines: [string, string][];
}

export interface LegendItem {
  label: string;
  color: string;
  line?: boolean;
  off?: boolean;
  click?: () => void;
}

/** A table twin, computed when it is asked for. */
export interface Twin {
  columns: Column<any>[];
  rows: any[];
}

export interface Pointing {
  down?(x: number, y: number, event: PointerEvent): void;
  move?(x: number, y: number, event: PointerEvent): void;
  up?(x: number, y: number, event: PointerEvent): void;
  wheel?(x: number, y: number, event: WheelEvent): void;
  double?(): void;
  key?(event: KeyboardEvent): boolean;
  cursor?: string;
}

export interface ChartProps {
  id: string;
  title: string;
  /** What it shows, in a sentence: for who cannot see it. */
  summary: () => string;
  height: number | (() => number);
  /** What was chosen, where `draw` reads no signal that says so. */
  of?: unknown;
  /** Draws; called anew when a signal that it reads changes, or `of`. */
  draw(s: Surface, w: number, h: number): void;
  hit?(x: number, y: number): Tip | null;
  legend?: () => LegendItem[];
  twin: () => Twin;
  pointing?: Pointing;
  /** The scale of time along it, of the last drawing: all such charts have one cursor. */
  time?: () => Scale | null;
  /** Where it is higher than it is shown: by how many pixels, and where it is scrolled to. */
  scroll?: { more: () => number; top: Signal<number> };
  controls?: ComponentChildren;
  /** Below the title. */
  note?: ComponentChildren;
}

/** The moment under the pointer, in whichever chart over time it is. */
const cursor = signal<number | null>(null);

/** A line at the moment under the pointer. */
function Cursor({ time, width }: { time: () => Scale | null; width: number }) {
  const at = cursor.value;
  const scale = at === null ? null : time();
  const x = scale ? scale(at!) : -1;
  return x >= 0 && x <= width ? <i class="cursor" aria-hidden="true" style={{ left: `${x}px` }} /> : null;
}

/** What was copied last, for everybody to hear. */
export const said = signal("");

async function give(name: string, type: string, what: Blob): Promise<void> {
  try {
    // A file that is opened from disk may use the clipboard in some browsers; where it may not, it is saved.
    const item = type === "image/svg+xml" || type === "text/csv" ? { "text/plain": new Blob([await what.text()], { type: "text/plain" }) } : { [type]: what };
    await navigator.clipboard.write([new ClipboardItem(item)]);
    said.value = `Copied ${name}`;
  } catch {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(what);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    said.value = `Saved ${name}`;
  }
  setTimeout(() => (said.value = ""), 4000);
}

export function Chart(props: ChartProps) {
  const { id, title, summary, draw, hit, legend, twin, pointing, time, scroll, controls, note } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSignal<[number, number]>([0, 1]);
  const inSight = useSignal(false);
  const isEarly = useSignal(false);
  const wasDrawn = useRef(false);
  const [tip, setTip] = useState<{ tip: Tip; x: number; y: number } | null>(null);
  const [open, setOpen] = useState(false);
  const latest = useRef(props);
  latest.current = props;
  const heightOf = () => {
    const { height } = latest.current;
    return typeof height === "number" ? height : height();
  };
  const of = useSignal(props.of);
  of.value = props.of;

  useEffect(() => {
    const element = canvas.current!;
    const resized = new ResizeObserver(() => (size.value = [element.clientWidth, devicePixelRatio || 1]));
    const seen = new IntersectionObserver((entries) => (inSight.value = entries.at(-1)!.isIntersecting), { rootMargin: "200px" });
    resized.observe(element);
    seen.observe(element);
    const idle = window.requestIdleCallback?.(() => (isEarly.value = true), { timeout: 4000 });
    // What was never in sight is printed, too.
    const print = () => paint(...PAPER);
    const printed = () => {
      wasDrawn.current = false;
      size.value = [element.clientWidth, devicePixelRatio || 1];
    };
    addEventListener("beforeprint", print);
    addEventListener("afterprint", printed);
    return () => {
      resized.disconnect();
      seen.disconnect();
      if (idle) cancelIdleCallback(idle);
      removeEventListener("beforeprint", print);
      removeEventListener("afterprint", printed);
    };
  }, []);

  const paint = (w: number, dense: number) => {
    const element = canvas.current!;
    const h = heightOf();
    if (element.width !== Math.round(w * dense) || element.height !== Math.round(h * dense)) {
      element.width = Math.round(w * dense);
      element.height = Math.round(h * dense);
    }
    const to = element.getContext("2d")!;
    to.setTransform(dense, 0, 0, dense, 0, 0);
    to.clearRect(0, 0, w, h);
    latest.current.draw(new CanvasSurface(to), w, h);
  };

  useSignalEffect(() => {
    const element = canvas.current;
    const [w, dense] = size.value;
    void of.value;
    if (!element) return;
    const h = heightOf();
    element.style.height = `${h}px`;
    const { scroll } = latest.current;
    if (scroll) {
      const scroller = element.parentElement!;
      scroller.style.height = `${h}px`;
      (scroller.lastElementChild as HTMLElement).style.height = `${scroll.more()}px`;
      if (Math.abs(scroller.scrollTop - scroll.top.value) > 1) scroller.scrollTop = scroll.top.value;
    }
    if (w < 20 || (!inSight.value && (wasDrawn.current || !isEarly.value))) return;
    wasDrawn.current = true;
    paint(w, dense);
  });

  const place = (event: MouseEvent): [number, number] => {
    const box = canvas.current!.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const hover = (event: PointerEvent) => {
    const [x, y] = place(event);
    pointing?.move?.(x, y, event);
    if (time) cursor.value = time()?.back(x) ?? null;
    const found = hit?.(x, y);
    setTip(found ? { tip: found, x, y } : null);
  };
  useEffect(() => {
    const element = canvas.current!;
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      const [x, y] = place(event);
      event.preventDefault();
      latest.current.pointing?.wheel?.(x, y, event);
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);

  const [w] = size.value;
  const heading = (s: Surface) => s.text(8, 14, title, { color: colors.value.ink, bold: true, size: 13 });
  const outline = (): [number, number] => [canvas.current!.clientWidth, heightOf()];
  const png = () => {
    const [w, h] = outline();
    const sheet = document.createElement("canvas");
    sheet.width = w * 2;
    sheet.height = (h + 48) * 2;
    const to = sheet.getContext("2d")!;
    to.scale(2, 2);
    const s = new CanvasSurface(to);
    paper(s, w, h);
    to.translate(0, 48);
    draw(s, w, h);
    sheet.toBlob((blob) => blob && give(`${id}.png`, "image/png", blob));
  };
  const paper = (s: Surface, w: number, h: number) => {
    s.rect(0, 0, w, h + 48, colors.value.ground);
    heading(s);
    let x = 8;
    for (const item of legend?.() ?? []) {
      s.rect(x, 30, 10, 10, item.color);
      s.text(x + 14, 35, item.label, { color: colors.value.ink });
      x += 30 + item.label.length * 6.2;
    }
  };
  const svg = () => {
    const [w, h] = outline();
    const s = new SvgSurface();
    draw(s, w, h);
    const inside = s.finish(w, h);
    const outer = new SvgSurface();
    paper(outer, w, h);
    const text = outer.finish(w, h + 48).replace("</svg>", `<g transform="translate(0 48)">${inside.replace(/<\/?svg[^>]*>/g, "")}</g></svg>`);
    void give(`${id}.svg`, "image/svg+xml", new Blob([text], { type: "image/svg+xml" }));
  };
  const csv = () => {
    const { columns, rows } = twin();
    void give(`${id}.csv`, "text/csv", new Blob([csvOf(columns, rows)], { type: "text/csv" }));
  };
  const items = legend?.() ?? [];
  const table = open ? twin() : null;
  return (
    <figure class="chart" id={`chart-${id}`}>
      <figcaption>
        <h3>{title}</h3>
        <div class="tools">
          {controls}
          <span class="copy" role="group" aria-label={`Copy ${title} as`}>
            <button type="button" onClick={png}>PNG</button>
            <button type="button" onClick={svg}>SVG</button>
            <button type="button" onClick={csv}>CSV</button>
          </span>
        </div>
      </figcaption>
      {note && <p class="note">{note}</p>}
      {items.length > 0 && (
        <ul class="legend">
          {items.map((item) => (
            <li class={item.off ? "off" : ""}>
              {item.click ? (
                <button type="button" aria-pressed={!item.off} onClick={item.click}>
                  <Swatch {...item} />
                  {item.label}
                </button>
              ) : (
                <span>
                  <Swatch {...item} />
                  {item.label}
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
      <div class="canvas">
        <Scroller top={scroll?.top}>
        <canvas
          ref={canvas}
          role="img"
          aria-label={`${title}. ${summary()}${pointing?.key ? " Arrow keys move, plus and minus zoom, Home shows all." : ""} The table below has the same figures.`}
          tabIndex={pointing?.key ? 0 : undefined}
          style={{ cursor: pointing?.cursor ?? "default", touchAction: pointing?.down ? "pan-y" : "auto" }}
          onPointerMove={hover}
          onPointerLeave={() => (setTip(null), (cursor.value = null))}
          onPointerDown={(event) => {
            if (!pointing?.down || event.button !== 0) return;
            canvas.current!.setPointerCapture(event.pointerId);
            pointing.down(...place(event), event);
          }}
          onPointerUp={(event) => pointing?.up?.(...place(event), event)}
          onDblClick={() => pointing?.double?.()}
          onKeyDown={(event) => pointing?.key?.(event) && event.preventDefault()}
        />
        </Scroller>
        {time && <Cursor time={time} width={w} />}
        {tip && (
          <div class="tip" style={{ left: `${Math.min(Math.max(0, w - 250), tip.x + 14)}px`, top: `${tip.y + 14}px` }}>
            <b>{tip.tip.title}</b>
            {tip.tip.lines.map(([name, value]) => (
              <span>
                {name}
                <i>{value}</i>
              </span>
            ))}
          </div>
        )}
      </div>
      <details onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
        <summary>Table<span class="hidden"> of {title}</span></summary>
        {table && <DataTable columns={table.columns} rows={table.rows} caption={title} top={12} />}
      </details>
    </figure>
  );
}

/** Scrolls what is higher than it is shown; the canvas itself stays, and draws what is in sight. */
const Scroller = ({ top, children }: { top: Signal<number> | undefined; children: ComponentChildren }) =>
  top ? (
    <div class="scroller" onScroll={(event) => (top.value = event.currentTarget.scrollTop)}>
      {children}
      <div />
    </div>
  ) : (
    <>{children}</>
  );

function Swatch({ color, line }: LegendItem) {
  return <i class={line ? "swatch line" : "swatch"} style={{ background: cssFill(color) }} aria-hidden="true" />;
}
