// gzip( length of the JSON │ JSON │ columns ), in the page as base64 → the page's data, columns as typed arrays.
import { asShown } from "./format";
import type { OverTimeHead, PageData } from "./types.gen";

/** One table of columns, ordered by bucket of time. */
export interface Table {
  /** Width of a bucket in ns. */
  width: number;
  rows: number;
  /** By name. */
  col: Record<string, Float64Array>;
}

/** What pages of all but reports show. */
export type ResultPage = Exclude<PageData, { kind: "report" }>;

/** Single exits, packed. */
export interface Packed {
  head: NonNullable<OverTimeHead["singles"]>;
  bytes: Uint8Array;
}

export interface Data extends Extract<PageData, { kind: "report" }> {
  tables: Record<"states" | "exits" | "waits" | "lengths", Table>;
  singles: Packed | null;
  /** From the base: first and last moment that has anything, in ns. */
  from: number;
  to: number;
  /** The widest bucket of all tables: ranges are whole numbers of it, so that all panels can say the same. */
  snap: number;
}

/** Reads numbers as crates/analysis/src/over_time/columns.rs packs them, from a place on. */
export class Numbers {
  constructor(
    private readonly bytes: Uint8Array,
    public at = 0,
  ) {}

  next(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }
}

/** Keys of rows, beside `bucket`; all other columns are sums. */
export const KEYS = ["lane", "cause", "reason", "to_user", "length"];

/** Adds the reason of each row's cause; and of rows of exits that went to user space, their number as a sum. */
function withReason(col: Table["col"], over: OverTimeHead): void {
  const reasons = over.causes.map((cause) => cause.reason ?? over.reasons.length);
  col.reason = col.cause!.map((cause) => reasons[cause] ?? over.reasons.length);
  if (col.to_user) col.user_exits = col.count!.map((count, row) => count * col.to_user![row]!);
}

function columns(over: OverTimeHead, bytes: Uint8Array): Pick<Data, "tables" | "singles"> {
  const numbers = new Numbers(bytes);
  const tables: Record<string, Table> = {};
  for (const head of over.tables) {
    const col: Table["col"] = {};
    head.columns.forEach((name, place) => {
      const column = new Float64Array(head.rows);
      let before = 0;
      for (let row = 0; row < head.rows; row++) {
        const value = numbers.next();
        column[row] = place === 0 ? (before += value) : value;
      }
      col[name] = column;
    });
    if (col.cause) withReason(col, over);
    tables[head.name] = { width: head.width_ns, rows: head.rows, col };
  }
  const singles = over.singles ? { head: over.singles, bytes: bytes.subarray(numbers.at) } : null;
  return { tables: tables as Data["tables"], singles };
}

/** What a page may show. */
export type Shown = Data | ResultPage;

/** The text between the page's data tags, as bytes. */
export function inText(text: string): Uint8Array<ArrayBuffer> {
  // A loop, because a function called for each byte takes half a second for a few megabytes.
  const letters = atob(text.trim());
  const packed = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) packed[at] = letters.charCodeAt(at);
  return packed;
}

/** Unpacks JSON and the columns behind it. */
export async function opened(packed: Uint8Array<ArrayBuffer>): Promise<{ json: unknown; columns: Uint8Array }> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  return { json: asShown(JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as unknown), columns: bytes.subarray(4 + length) };
}

/** Unpacks what a page shows. */
export async function unpack(packed: Uint8Array<ArrayBuffer>): Promise<Shown> {
  const { json, columns: bytes } = await opened(packed);
  const page = json as PageData;
  if (page.kind !== "report") return page;
  const { tables, singles } = columns(page.timelines, bytes);
  const ends = Object.values(tables).flatMap((table) =>
    table.rows ? [[table.col.bucket![0]! * table.width, (table.col.bucket![table.rows - 1]! + 1) * table.width]] : [],
  );
  const snap = Math.max(1, ...page.timelines.tables.map((table) => table.width_ns));
  return {
    ...page,
    tables,
    singles,
    snap,
    from: Math.min(...ends.map((end) => end[0]!), Infinity) === Infinity ? 0 : Math.floor(Math.min(...ends.map((end) => end[0]!)) / snap) * snap,
    to: Math.ceil(Math.max(...ends.map((end) => end[1]!), snap) / snap) * snap,
  };
}

/** The first row of a table whose bucket is not before `at` (in ns from the base). */
export function rowAt(table: Table, at: number): number {
  const bucket = table.col.bucket!;
  const wanted = Math.ceil(at / table.width - 1e-9);
  let low = 0;
  let high = table.rows;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bucket[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The bucket of exits that are not timed. */
export const UNTIMED = 511;
