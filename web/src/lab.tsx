// The page of an experiment of the lab: every figure with its interval, as bars, or as a curve over what was varied.
import { HeadlineBox } from "./headline";
import { colors } from "./colors";
import { Curves, type Curve } from "./curve";
import type { ResultPage } from "./data";
import { count, ns, quantity, unitName } from "./format";
import { Intervals, type IntervalRow } from "./intervals";
import { kept } from "./url_state";
import { Shell } from "./shell";
import type { Column } from "./table";
import type { LabFigure, LabReport, LabTable } from "./types.gen";

type Row = LabTable["rows"][0];

/** Of which figure each table is, by name; and whether lengths are drawn by their logarithm. */
const figures = kept<string>("figures", "");
const log = kept<"" | "yes" | "no">("scale", "", ["", "yes", "no"]);

/** So many times the smallest, the largest needs a logarithm unless another is asked for. */
const WIDE = 30;

/** Values from which on a column of labels is an axis. */
const FEWEST = 4;

const UNITS: Record<string, number> = { "": 1, ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };

/** A label that is a number, or a length. */
function numberOf(label: string): number | null {
  const found = label.replaceAll(",", "").match(/^(\d+(?:\.\d+)?) ?(ns|µs|ms|s|)$/);
  return found ? Number(found[1]) * UNITS[found[2]!]! : null;
}

/** The column of labels that was varied in steps, if there is one. */
function varied(table: LabTable): number | null {
  const at = table.labels.findIndex((_, column) => {
    const values = table.rows.map((row) => row.labels[column] ?? "");
    return values.every((value) => numberOf(value) !== null) && new Set(values).size >= FEWEST;
  });
  return at < 0 ? null : at;
}

const figureNames = (table: LabTable): string[] => [...new Set(table.rows.flatMap((row) => row.figures.map((figure) => figure.name)))];
const find = (row: Row, name: string): LabFigure | undefined => row.figures.find((figure) => figure.name === name);
const range = (figure: LabFigure, low: number | null, high: number | null): string => (low === null || high === null ? "–" : `${quantity(figure.unit, low)} to ${quantity(figure.unit, high)}`);

function columns(table: LabTable, name: string): Column<Row>[] {
  const number = (title: string, of: (figure: LabFigure) => number | null, plain = false): Column<Row> => ({
    title,
    value: (row) => of(find(row, name) ?? ({} as LabFigure)) ?? null,
    show: (row) => {
      const figure = find(row, name);
      const value = figure ? of(figure) : null;
      return value === null || !figure ? "–" : plain ? count(value) : quantity(figure.unit, value);
    },
  });
  const unit = table.rows.map((row) => find(row, name)?.unit).find(Boolean) ?? "";
  const has = (of: (figure: LabFigure) => number | null) => table.rows.some((row) => row.figures.some((figure) => figure.name === name && of(figure) !== null));
  return [
    ...table.labels.map((title, at): Column<Row> => ({ title, text: true, value: (row) => row.labels[at] ?? "", show: (row) => row.labels[at] ?? "" })),
    number(`${name} (${unit})`, (figure) => figure.value),
    number("interval from", (figure) => figure.low),
    number("to", (figure) => figure.high),
    ...(has((figure) => figure.p5) ? [number("p5 of samples", (figure) => figure.p5), number("p95", (figure) => figure.p95)] : []),
    ...(has((figure) => figure.samples) ? [number("samples", (figure) => figure.samples, true), number("far out", (figure) => figure.outliers, true)] : []),
    ...(table.rows.some((row) => row.unavailable) ? [{ title: "not available", text: true, value: (row: Row) => row.unavailable ?? "", show: (row: Row) => row.unavailable ?? "" }] : []),
  ];
}

/** The figures that are chosen, a name for each table. */
function nameOf(lab: LabReport, at: number): string {
  const names = figureNames(lab.tables[at]!);
  const asked = figures.value.split(";")[at] ?? "";
  return names.includes(asked) ? asked : (names[0] ?? "");
}

function choose(lab: LabReport, at: number, name: string): void {
  figures.value = lab.tables.map((_, other) => (other === at ? name : nameOf(lab, other))).join(";");
}

function Table({ lab, at }: { lab: LabReport; at: number }) {
  const table = lab.tables[at]!;
  const name = nameOf(lab, at);
  const unit = table.rows.map((row) => find(row, name)?.unit).find(Boolean) ?? "count";
  const show = (value: number) => quantity(unit, value);
  const along = varied(table);
  const measured = table.rows.filter((row) => find(row, name));
  const values = measured.map((row) => find(row, name)!.value);
  const wide = Math.min(...values) > 0 && Math.max(...values) > WIDE * Math.min(...values);
  const asLog = along === null && unit !== "share" && values.some((value) => value > 0) && (log.value === "" ? wide : log.value === "yes");
  const controls = (
    <>
      {figureNames(table).length > 1 && (
        <span class="choice" role="group" aria-label="Which figure">
          {figureNames(table).map((other) => (
            <button type="button" aria-pressed={other === name} onClick={() => choose(lab, at, other)}>
              {other}
            </button>
          ))}
        </span>
      )}
      {along === null && unit !== "share" && (
        <button type="button" aria-pressed={asLog} onClick={() => (log.value = asLog ? "no" : "yes")}>
          log
        </button>
      )}
    </>
  );
  const common = {
    id: `table-${at}`,
    title: table.title,
    axis: `${name === unitName(unit) ? `${name}, median` : `${name} (${unitName(unit)})`}${asLog ? ", log" : ""}`,
    of: `${name} ${asLog}`,
    show,
    twin: () => ({ columns: columns(table, name), rows: table.rows }),
    controls,
    summary: () => `${name} of ${measured.length} rows, with 95 per cent intervals from round to round.`,
  };
  if (along !== null) return <Along {...common} table={table} column={along} name={name} />;
  const rows = (): IntervalRow[] =>
    table.rows.map((row) => {
      const figure = find(row, name);
      const color = colors.value.reasons[Math.max(0, [...new Set(table.rows.map((row) => row.labels.at(-1)))].indexOf(row.labels.at(-1))) % 8]!;
      return {
        label: row.labels.join(", "),
        value: figure?.value ?? null,
        low: figure?.low ?? null,
        high: figure?.high ?? null,
        color: table.labels.length > 1 ? color : colors.value.reasons[0]!,
        after: figure ? quantity(figure.unit, figure.value) + (figure.low !== null && figure.high !== null ? ` ±${quantity(figure.unit, (figure.high - figure.low) / 2)}` : "") : row.unavailable ? `not available: ${row.unavailable}` : "–",
        tip: figure
          ? ([
              [figure.name, quantity(figure.unit, figure.value)],
              ["95% interval", range(figure, figure.low, figure.high)],
              ["p5 to p95", range(figure, figure.p5, figure.p95)],
              ["samples", figure.samples === null ? "–" : count(figure.samples)],
              ["rounds", count(figure.rounds.length)],
            ] as [string, string][])
          : [["not available", row.unavailable ?? ""]],
      };
    });
  const legend = () =>
    table.labels.length > 1
      ? [...new Set(table.rows.map((row) => row.labels.at(-1) ?? ""))].slice(0, 8).map((label, at) => ({ label: `${table.labels.at(-1)}: ${label || "–"}`, color: colors.value.reasons[at % 8]! }))
      : [{ label: name, color: colors.value.reasons[0]! }];
  return <Intervals {...common} rows={rows} bars log={asLog} legend={legend} />;
}

interface AlongProps {
  id: string;
  title: string;
  axis: string;
  of: string;
  show: (value: number) => string;
  twin: () => { columns: Column<Row>[]; rows: Row[] };
  controls: preact.ComponentChildren;
  summary: () => string;
  table: LabTable;
  column: number;
  name: string;
}

/** A table with a column of numbers: a curve over it for each of the other labels. */
function Along({ table, column, name, ...common }: AlongProps) {
  const labels = [...new Set(table.rows.map((row) => row.labels[column]!))].sort((a, b) => numberOf(a)! - numberOf(b)!);
  const curves = (): Curve[] => {
    const found = new Map<string, Curve>();
    for (const row of table.rows) {
      const label = row.labels.filter((_, at) => at !== column).join(", ") || name;
      const curve = found.get(label) ?? { label, color: colors.value.reasons[found.size % 8]!, points: [] };
      found.set(label, curve);
      const figure = find(row, name);
      if (figure) curve.points.push({ place: labels.indexOf(row.labels[column]!), value: figure.value, low: figure.low, high: figure.high });
    }
    for (const curve of found.values()) curve.points.sort((a, b) => a.place - b.place);
    return [...found.values()];
  };
  return <Curves {...common} places={labels.map((label) => ({ label, value: numberOf(label) }))} across={table.labels[column]! + (/\bin ns$/.test(table.title) ? " (ns)" : "")} curves={curves} zero height={300} />;
}

export function LabPage({ lab, version }: Extract<ResultPage, { kind: "lab" }>) {
  const { manifest } = lab;
  return (
    <Shell
      title={`Lab: ${lab.experiment}`}
      about={["experiment on real KVM guests", manifest.back_end, manifest.vendor, manifest.kernel].join(" · ")}
      sections={[
        { id: "overview", title: "Overview" },
        { id: "figures", title: "Figures" },
      ]}
      version={version}
      made={
        <>
          as text: <code>exitscope lab {lab.experiment}</code>, as JSON, CSV or for benchstat: <code>--format</code>
        </>
      }
    >
      <section id="overview" aria-label="Overview">
        <h2 class="hidden">What was found</h2>
        <HeadlineBox headline={lab.verdict} />
        <p>{lab.description}.</p>
        <p class="note">
          {manifest.tsc_hz === 0 ? `By ${manifest.back_end}, ${manifest.rounds} runs.` : `Back end ${manifest.back_end}${manifest.emulates_ring_0 ? ", which emulates ring 0 of guests: these are the emulator's costs, not hardware's" : ""}; ${manifest.cpus} CPUs, clock ${(manifest.tsc_hz / 1e9).toFixed(3)} GHz; ${manifest.rounds} rounds in which all rows take turns, ${ns(manifest.duration_ns)} for each row${manifest.pinned ? ", each vCPU pinned to its own CPU if there are enough" : ""}.`}
        </p>
      </section>
      <section id="figures" aria-label="Figures">
        <h2>Figures</h2>
        <p class="note">Times are medians; intervals are of 95 %, from round to round.</p>
        {lab.tables.map((_, at) => (
          <Table lab={lab} at={at} />
        ))}
      </section>
    </Shell>
  );
}
