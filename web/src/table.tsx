// Tables: the twin of every chart, and tables in their own right. Sorted by the button in a heading.
import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { csvField } from "./format";

export interface Column<Row> {
  /** With its unit, if values do not carry theirs. */
  title: string;
  /** As it is shown. */
  show(row: Row): ComponentChildren;
  /** For order and CSV; text otherwise as shown. */
  value(row: Row): number | string | null;
  /** Numbers stand right. */
  text?: boolean;
}

export function csvOf<Row>(columns: Column<Row>[], rows: Row[]): string {
  const lines = [columns.map((column) => csvField(column.title))];
  for (const row of rows) lines.push(columns.map((column) => csvField(column.value(row))));
  return lines.map((line) => line.join(",") + "\n").join("");
}

interface Props<Row> {
  columns: Column<Row>[];
  rows: Row[];
  caption: string;
  /** Rows at first. */
  top?: number;
  /** What shows the others. */
  more?: string;
  /** Marks rows, and makes them choose something. */
  chosen?: (row: Row) => boolean;
  foot?: Row;
}

export function DataTable<Row>({ columns, rows, caption, top = 20, more, chosen, foot }: Props<Row>) {
  const [order, setOrder] = useState<[number, 1 | -1] | null>(null);
  const [all, setAll] = useState(false);
  let sorted = rows;
  if (order) {
    const [at, way] = order;
    const of = columns[at]!;
    sorted = [...rows].sort((a, b) => {
      const [x, y] = [of.value(a), of.value(b)];
      if (typeof x === "string" || typeof y === "string") return way * String(x).localeCompare(String(y), "en", { numeric: true });
      return way * ((x ?? -1) - (y ?? -1));
    });
  }
  const shown = all ? sorted : sorted.slice(0, top);
  const cells = (row: Row) =>
    columns.map((column, at) =>
      at === 0 ? (
        <th scope="row" class={column.text ? "text" : ""}>{column.show(row)}</th>
      ) : (
        <td class={column.text ? "text" : ""}>{column.show(row)}</td>
      ),
    );
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column, at) => (
              <th
                scope="col"
                class={column.text ? "text" : ""}
                aria-sort={order?.[0] === at ? (order[1] === 1 ? "ascending" : "descending") : undefined}
              >
                <button
                  type="button"
                  onClick={() => setOrder(order?.[0] === at ? [at, order[1] === 1 ? -1 : 1] : [at, column.text ? 1 : -1])}
                >
                  {column.title}
                  {order?.[0] === at ? (order[1] === 1 ? " ▲" : " ▼") : ""}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr class={chosen?.(row) ? "chosen" : ""}>{cells(row)}</tr>
          ))}
        </tbody>
        {foot && (
          <tfoot>
            <tr>{cells(foot)}</tr>
          </tfoot>
        )}
      </table>
      {rows.length === 0 && <p class="soft">None.</p>}
      {shown.length < rows.length && <p class="printed soft">{`The first ${shown.length} of ${rows.length} rows.`}</p>}
      {rows.length > top && (
        <button type="button" class="plain" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : (more ?? `Show all ${rows.length}`)}
        </button>
      )}
    </div>
  );
}
