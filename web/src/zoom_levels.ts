// Tables with wider buckets of time, made when they are first looked at, so that no frame goes through more rows than it
// has pixels for.
import { rowAt, type Table } from "./data";

/** A table, and the same with buckets 2, 5, 10, 20, … times as wide. */
export interface Levels {
  table: Table;
  /** Columns that tell rows of a bucket apart; all others are sums. */
  keys: string[];
  /** The number of each row's key. */
  key: Uint32Array;
  /** How many keys there are. */
  size: number;
  wider: Map<number, Levels>;
}

const known = new WeakMap<Table, Levels>();

/** The levels of a table; prepared once. */
export function levelsOf(table: Table, keys: string[]): Levels {
  let found = known.get(table);
  if (!found) known.set(table, (found = prepared(table, keys)));
  return found;
}

function prepared(table: Table, keys: string[]): Levels {
  const numbers = new Map<number, number>();
  const columns = keys.map((name) => table.col[name]!);
  // Places of keys, as far as they are used.
  const spans = columns.map((column) => 1 + column.reduce((most, value) => Math.max(most, value), 0));
  const key = new Uint32Array(table.rows);
  for (let row = 0; row < table.rows; row++) {
    let joined = 0;
    for (let at = 0; at < columns.length; at++) joined = joined * spans[at]! + columns[at]![row]!;
    let number = numbers.get(joined);
    if (number === undefined) numbers.set(joined, (number = numbers.size));
    key[row] = number;
  }
  return { table, keys, key, size: numbers.size, wider: new Map() };
}

/** The table with buckets `factor` times as wide. Its rows are in order of buckets. */
export function level(of: Levels, factor: number): Table {
  if (factor <= 1) return of.table;
  let found = of.wider.get(factor);
  if (!found) {
    // From the widest that divides it: there is less to go through.
    const from = Math.max(1, ...[...of.wider.keys()].filter((width) => factor % width === 0));
    const base = from === 1 ? of : of.wider.get(from)!;
    of.wider.set(factor, (found = widened(base, factor / from)));
  }
  return found.table;
}

function widened(of: Levels, factor: number): Levels {
  const { table, key, size } = of;
  const bucket = table.col.bucket!;
  const names = Object.keys(table.col);
  const sums = names.filter((name) => name !== "bucket" && !of.keys.includes(name));
  const from = names.map((name) => table.col[name]!);
  // Which row of the wider bucket in hand a key has.
  const place = new Int32Array(size).fill(-1);
  const target = new Uint32Array(table.rows);
  let rows = 0;
  let first = 0;
  let now = NaN;
  for (let row = 0; row < table.rows; row++) {
    const wide = Math.floor(bucket[row]! / factor);
    if (wide !== now) {
      now = wide;
      first = rows;
    }
    if (place[key[row]!]! < first) place[key[row]!] = rows++;
    target[row] = place[key[row]!]!;
  }
  const col: Table["col"] = {};
  const keyOf = new Uint32Array(rows);
  names.forEach((name, at) => {
    const column = new Float64Array(rows);
    const source = from[at]!;
    if (sums.includes(name)) for (let row = 0; row < table.rows; row++) column[target[row]!]! += source[row]!;
    else if (name === "bucket") for (let row = 0; row < table.rows; row++) column[target[row]!] = Math.floor(source[row]! / factor);
    else for (let row = 0; row < table.rows; row++) column[target[row]!] = source[row]!;
    col[name] = column;
  });
  for (let row = 0; row < table.rows; row++) keyOf[target[row]!] = key[row]!;
  return { table: { width: table.width * factor, rows, col }, keys: of.keys, key: keyOf, size, wider: new Map() };
}

/** A table of the rows that `keep` names, with `keys` alone to tell rows of a bucket apart, and this sum. */
export function collapsed(table: Table, keep: (row: number) => boolean, keys: string[], sum: string): Table {
  const kept = new Uint32Array(table.rows);
  let rows = 0;
  for (let row = 0; row < table.rows; row++) if (keep(row)) kept[rows++] = row;
  const col: Table["col"] = {};
  for (const name of ["bucket", ...keys, sum]) {
    const column = new Float64Array(rows);
    const source = table.col[name]!;
    for (let row = 0; row < rows; row++) column[row] = source[kept[row]!]!;
    col[name] = column;
  }
  const all = { width: table.width, rows, col };
  return widened(prepared(all, keys), 1).table;
}

/** The rows of a table within a range. */
export const rowsIn = (table: Table, [from, to]: [number, number]): [number, number] => [rowAt(table, from), rowAt(table, to)];
