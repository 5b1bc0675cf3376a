// What changed from one side of a comparison to the other, reason by reason: chart, table, and a sentence.
import { colors } from "./colors";
import { count, ns, rate, shortened, unsigned } from "./format";
import { Intervals, type IntervalRow } from "./intervals";
import { kept } from "./url_state";
import { DataTable, type Column } from "./table";
import type { ChangeRow, ReasonComparison } from "./types.gen";

const MEASURES = ["cost_ns_per_s", "rate_per_s", "mean_ns", "p50_ns", "p99_ns"] as const;
type Measure = (typeof MEASURES)[number];

const TITLES: Record<Measure, string> = { cost_ns_per_s: "Cost", rate_per_s: "Rate", mean_ns: "Mean", p50_ns: "p50", p99_ns: "p99" };

/** What is measured; `second` is whose seconds rates are of. */
const unit = (of: Measure, second: string): string =>
  ({
    cost_ns_per_s: `time that exits cost in ${second}`,
    rate_per_s: `exits in ${second}`,
    mean_ns: "mean length, from exit to entry",
    p50_ns: "median length, from exit to entry",
    p99_ns: "99th percentile of length, from exit to entry",
  })[of];

const measure = kept<Measure>("measure", "cost_ns_per_s", MEASURES);
const relative = kept<"" | "yes">("relative", "", ["", "yes"]);

/** Reasons that are drawn; all together are a row besides. */
const TOP = 20;

/** Letters of a reason's name in a table. */
const LETTERS = 40;

/** Rows that cost less than this part of all on either side are folded. */
const SMALL = 0.01;
const isSmall = (row: ReasonComparison): boolean => row.share_of_cost !== null && row.share_of_cost < SMALL;

/** The rows that are in sight at first, and how many are not. */
function unfolded(rows: ReasonComparison[]): { large: ReasonComparison[]; small: ReasonComparison[] } {
  return { large: rows.filter((row) => !isSmall(row)), small: rows.filter(isSmall) };
}

export function show(of: Measure, value: number | null): string {
  if (value === null) return "–";
  const sign = value < 0 ? "-" : "";
  if (of === "rate_per_s") return unsigned(`${sign}${Math.abs(value) < 100 && value !== 0 ? Math.abs(value).toFixed(Math.abs(value) < 10 ? 2 : 1) : rate(Math.abs(value))}/s`);
  return unsigned(of === "cost_ns_per_s" ? `${ns(value)}/s` : ns(value));
}

export const signed = (of: Measure, value: number | null): string => (value === null ? "–" : unsigned((value > 0 ? "+" : "") + show(of, value)));

function percent(value: number): string {
  const size = Math.abs(value * 100);
  return unsigned(`${value > 0 ? "+" : value < 0 ? "-" : ""}${size >= 99.95 ? count(size) : size.toFixed(1)}%`);
}

export const difference = (change: ChangeRow): number | null => (change.before === null || change.after === null ? null : change.after - change.before);
export const part = (change: ChangeRow): number | null => (change.before ? (difference(change) ?? NaN) / change.before : null);
export const partText = (change: ChangeRow): string => {
  const found = part(change);
  return found === null || Number.isNaN(found) ? "–" : percent(found);
};
export const interval = (of: Measure, change: ChangeRow): string => (change.low === null ? "–" : `${signed(of, change.low)} to ${signed(of, change.high)}`);

const VERDICTS = { more: "more", less: "less", unclear: "may be chance", "too few": "too few to tell", "not judged": "not judged" } as const;

function verdictColor(change: ChangeRow): string {
  const { parts, other } = colors.value;
  return change.verdict === "more" ? parts.user_space_ns : change.verdict === "less" ? parts.kernel_ns : other;
}

export const nameOf = (row: ReasonComparison): string => row.reason ?? (row.without ? `all but ${row.without.join(", ")}` : "all exits");
export const changeOf = (row: ReasonComparison, of: Measure = measure.value): ChangeRow =>
  row.changes.find((change) => change.measure === of) ?? { measure: of, before: null, after: null, low: null, high: null, p_value: null, needed: null, verdict: "too few" };

/** Whether a measure changed by more than chance explains. */
export const isSignificant = (row: ReasonComparison, of: Measure = measure.value): boolean => ["more", "less"].includes(changeOf(row, of).verdict);

/** What is compared, and how the two sides are called. */
export interface Sides {
  rows: ReasonComparison[];
  confidence: number;
  /** What was measured first, and what is held against it: `before`, `after`. */
  names: [string, string];
  /** The same behind a figure: `with 6.1.0`. */
  where: [string, string];
  /** Whose seconds rates are of: `a second`. */
  second: string;
}

/** Which reason is chosen, where one can be. */
export interface Choice {
  reason: string;
  choose(reason: string): void;
}

export function Verdict({ change }: { change: ChangeRow }) {
  return (
    <>
      <i class="swatch" style={{ background: verdictColor(change) }} aria-hidden="true" />
      {VERDICTS[change.verdict]}
    </>
  );
}

function columns({ names, where }: Sides, choice?: Choice): Column<ReasonComparison>[] {
  const of = measure.value;
  const number = (title: string, value: (change: ChangeRow) => number | null, text: (change: ChangeRow) => string): Column<ReasonComparison> => ({
    title,
    value: (row) => value(changeOf(row)),
    show: (row) => text(changeOf(row)),
  });
  return [
    {
      title: "reason",
      text: true,
      value: nameOf,
      show: (row) => {
        const name = nameOf(row);
        const shown = <span title={name.length > LETTERS ? name : undefined}>{shortened(name, LETTERS)}</span>;
        if (!choice) return shown;
        return (
          <button type="button" class="reason" aria-pressed={choice.reason === (row.reason ?? "")} onClick={() => choice.choose(row.reason ?? "")}>
            {shown}
          </button>
        );
      },
    },
    { title: `exits ${where[0]}`, value: (row) => row.count_before, show: (row) => count(row.count_before) },
    { title: `exits ${where[1]}`, value: (row) => row.count_after, show: (row) => count(row.count_after) },
    number(`${TITLES[of]} ${where[0]}`, (change) => change.before, (change) => show(of, change.before)),
    number(where[1], (change) => change.after, (change) => show(of, change.after)),
    number("change", difference, (change) => signed(of, difference(change))),
    number(`of ${names[0]}`, part, partText),
    number("interval from", (change) => change.low, (change) => signed(of, change.low)),
    number("to", (change) => change.high, (change) => signed(of, change.high)),
    { title: "verdict", text: true, value: (row) => VERDICTS[changeOf(row).verdict], show: (row) => <Verdict change={changeOf(row)} /> },
  ];
}

interface Props {
  sides: Sides;
  /** Behind the title of the chart. */
  title?: string;
  choice?: Choice;
}

/** The chart. */
export function Changes({ sides, title = "", choice }: Props) {
  const { rows: all, confidence, names, second } = sides;
  const { large, small } = unfolded(all);
  const drawn = large.slice(0, TOP + 1);
  const rows = (): IntervalRow[] => {
    const of = measure.value;
    return drawn.map((row) => {
      const change = changeOf(row);
      const scale = relative.value ? (change.before ? 1 / change.before : NaN) : 1;
      const scaled = (value: number | null) => (value === null || !Number.isFinite(value * scale) ? null : value * scale);
      return {
        label: nameOf(row),
        value: scaled(difference(change)),
        low: scaled(change.low),
        high: scaled(change.high),
        color: verdictColor(change),
        after: `${show(of, change.before)} → ${show(of, change.after)}, ${partText(change)}`,
        tip: [
          [names[0], show(of, change.before)],
          [names[1], show(of, change.after)],
          ["change", `${signed(of, difference(change))} (${partText(change)})`],
          [`${confidence}% interval`, interval(of, change)],
          ["verdict", VERDICTS[change.verdict]],
          ["exits", `${count(row.count_before)} → ${count(row.count_after)}`],
        ],
      };
    });
  };
  const minus = `${names[1]} minus ${names[0]}`;
  return (
    <Intervals
      id="changes"
      title={`Change by reason: ${TITLES[measure.value]}${title}`}
      summary={() => `${minus}, with the ${confidence} per cent interval; ${all.filter((row) => isSignificant(row)).length} of ${all.length} rows have a verdict.`}
      axis={`Change, ${minus}: ${unit(measure.value, second)}${relative.value ? `, as a share of ${names[0]} (%)` : ""}`}
      of={all}
      rows={rows}
      show={(value) => (relative.value ? percent(value) : signed(measure.value, value))}
      click={choice && ((at) => choice.choose(drawn[at]?.reason ?? ""))}
      legend={() => {
        const { parts, other } = colors.value;
        return [
          { label: `more than ${names[0]}`, color: parts.user_space_ns },
          { label: `less than ${names[0]}`, color: parts.kernel_ns },
          { label: "may be chance, or too few", color: other },
        ];
      }}
      twin={() => ({ columns: columns(sides, choice), rows: all })}
      note={`The line is the ${confidence} % interval of the change: where it holds zero, it may be chance. ${large.length > TOP + 1 ? `The ${TOP} reasons that cost most; the table has all.` : ""}${small.length > 0 ? `${count(small.length)} further ${small.length === 1 ? "row" : "rows"} under 1 % of the cost on either side: the table has them.` : ""}`}
      controls={
        <>
          <span role="group" aria-label="What is compared" class="choice">
            {MEASURES.map((of) => (
              <button type="button" aria-pressed={measure.value === of} onClick={() => (measure.value = of)}>
                {TITLES[of]}
              </button>
            ))}
          </span>
          <button type="button" aria-pressed={relative.value !== ""} onClick={() => (relative.value = relative.value ? "" : "yes")}>
            as a share of {names[0]}
          </button>
        </>
      }
    />
  );
}

/** The table. */
export function ChangesTable({ sides, choice }: Props) {
  const { large, small } = unfolded(sides.rows);
  const more = small.length > 0 ? `${count(small.length)} further ${small.length === 1 ? "row" : "rows"} under 1 % of the cost on either side: show all` : undefined;
  return <DataTable columns={columns(sides, choice)} rows={[...large, ...small]} caption="Change by reason" top={large.length} more={more} chosen={choice && ((row: ReasonComparison) => choice.reason === (row.reason ?? ""))} />;
}
