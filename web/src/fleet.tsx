// The page of a fleet: what differs by kernel, host, week or day; which hosts stand out; what is advised most.
import type { ComponentChildren } from "preact";
import { HeadlineBox } from "./headline";
import { Bars, type Bar } from "./bars";
import { Changes, ChangesTable, changeOf, difference, interval, isSignificant, nameOf, part, partText, show, signed, Verdict, type Sides } from "./change_chart";
import { colors } from "./colors";
import type { ResultPage } from "./data";
import { count, ns, plural } from "./format";
import { kept } from "./url_state";
import { long } from "./live_bar";
import { Card, go, Shell } from "./shell";
import { DataTable, type Column } from "./table";
import type { ReasonComparison, Fleet, FleetAdvice, FleetComparison, FleetSide, Outlier, Shape } from "./types.gen";

const COST = "cost_ns_per_s";

/** Before a value, behind a figure. */
const WHERE = { kernel: "with", host: "on", week: "in", day: "on" } as const;

/** What a side consists of. */
const UNITS = { kernel: "host", host: "recording", week: "host", day: "host" } as const;

/** Hosts that are drawn; the table has all. */
const MOST_BARS = 20;

/** Fewer hosts than this cannot say who stands out. */
const FEWEST = 5;

/** Lines of a list at first. */
const MOST_LINES = 10;

/** The comparison that is shown, by its name. */
const chosen = kept<string>("comparison", "");

const shapeName = ({ arch, cpu, vcpus }: Shape): string =>
  `${vcpus === 0 ? "VMs" : `VMs of ${plural(vcpus, "vCPU")}`} on ${cpu || arch || "unknown CPUs"}`;
const keyOf = (of: FleetComparison): string => `${of.value}, ${shapeName(of.shape)}`;

/** Certain differences in cost of exits, the largest first. */
interface SignificantChange {
  of: FleetComparison;
  row: ReasonComparison;
}

const significantChangesOf = (of: FleetComparison): SignificantChange[] => of.rows.filter((row) => isSignificant(row, COST)).map((row) => ({ of, row }));
const change = ({ row }: SignificantChange): number => difference(changeOf(row, COST)) ?? 0;

function choose(of: FleetComparison): void {
  chosen.value = keyOf(of);
  go("comparisons");
}

/** Lines, of which the first are in sight. */
function Lines({ lines, what }: { lines: string[]; what: string }) {
  const list = (some: string[]) => (
    <ul class="plain-list">
      {some.map((line) => (
        <li>{line}</li>
      ))}
    </ul>
  );
  const more = lines.slice(MOST_LINES);
  return (
    <>
      {list(lines.slice(0, MOST_LINES))}
      {more.length > 0 && (
        <details>
          <summary>{`${count(more.length)} more ${what}`}</summary>
          {list(more)}
        </details>
      )}
    </>
  );
}

function Coverage({ fleet }: { fleet: Fleet }) {
  const { recordings, hosts, first_day, last_day, exits, lost, left_out } = fleet;
  const bad = lost > 0 || left_out.length > 0;
  const days = first_day === last_day ? first_day : `${first_day} to ${last_day}`;
  return (
    <div class={bad ? "coverage bad" : "coverage"}>
      {bad && <b>Coverage is incomplete.</b>}
      <p>
        {recordings === 0 ? "No recordings." : `${plural(recordings, "recording")} of ${plural(hosts, "host")}, ${days}: ${plural(exits, "exit")}, ${count(lost)} lost.`}
        {lost > 0 && " The recorders lost these events: counts are too low by about as many."}
      </p>
      {left_out.length > 0 && (
        <>
          <p>{`${plural(left_out.length, "file")} of the store could not be read; nothing in ${left_out.length === 1 ? "it" : "them"} is counted here:`}</p>
          <Lines lines={left_out.map((file) => `${file.path}: ${file.why}`)} what="files" />
        </>
      )}
    </div>
  );
}

/** Why there is nothing to compare. */
function nothing({ recordings, by, against, not_compared }: Fleet): string {
  if (recordings === 0) return "No recordings: the store has none, or none of these days.";
  if (not_compared.length > 0) return `No two sides have VMs of the same shape, so nothing is compared; “Not compared” lists what each ${by} has.`;
  return `All recordings are of one ${by}, ${against}: a comparison needs a second one. --by compares by kernel, host, week or day.`;
}

function Overview({ fleet }: { fleet: Fleet }) {
  const { by, against, comparisons, outliers, advice } = fleet;
  const values = new Set(comparisons.map((of) => of.value));
  const shapes = new Set(comparisons.map((of) => shapeName(of.shape)));
  const [out] = outliers;
  const [most] = advice;
  return (
    <section id="overview" aria-label="Overview">
      <h2 class="hidden">What differs</h2>
      <HeadlineBox headline={fleet.verdict}>
        <Coverage fleet={fleet} />
      </HeadlineBox>
      <div class="cards">
        <Card head={`Compared by ${by}`}>
          {comparisons.length === 0 ? (
            nothing(fleet)
          ) : (
            <>
              <b>{against}</b>
              {` against ${plural(values.size, `other ${by}`)}, among ${plural(shapes.size, "shape")} of VMs: ${plural(comparisons.length, "comparison")}.`}
            </>
          )}
        </Card>
        <Card head="Hosts that stand out">
          {out ? (
            <>
              {outliers.length > 1 && `${count(outliers.length)}, the farthest: `}
              <b>{out.host}</b>
              {`, ${ns(out.cost_ns_per_s)}/s instead of ${ns(out.median_ns_per_s)}/s; farthest from its own median: ${out.reason}.`}
            </>
          ) : (
            "None."
          )}
        </Card>
        <Card head="Advised on most hosts">{most ? `On ${plural(most.hosts, "host")}: ${most.change}.` : "Nothing."}</Card>
      </div>
    </section>
  );
}

function sureColumns({ by, against, comparisons }: Fleet): Column<SignificantChange>[] {
  const shapes = new Set(comparisons.map((of) => shapeName(of.shape)));
  const cost = ({ row }: SignificantChange) => changeOf(row, COST);
  return [
    {
      title: by,
      text: true,
      value: ({ of }) => of.value,
      show: ({ of }) => (
        <button type="button" class="plain" onClick={() => choose(of)}>
          {of.value}
        </button>
      ),
    },
    { title: "reason", text: true, value: ({ row }) => nameOf(row), show: ({ row }) => nameOf(row) },
    { title: "verdict", text: true, value: (row) => cost(row).verdict, show: (row) => <Verdict change={cost(row)} /> },
    { title: `cost ${WHERE[by]} ${against}`, value: (row) => cost(row).before, show: (row) => show(COST, cost(row).before) },
    { title: "its cost", value: (row) => cost(row).after, show: (row) => show(COST, cost(row).after) },
    { title: "change", value: change, show: (row) => signed(COST, change(row)) },
    { title: "in per cent", value: (row) => part(cost(row)), show: (row) => partText(cost(row)) },
    { title: "interval", value: (row) => cost(row).low, show: (row) => interval(COST, cost(row)) },
    ...(shapes.size > 1 ? [{ title: "VMs", text: true, value: ({ of }: SignificantChange) => shapeName(of.shape), show: ({ of }: SignificantChange) => shapeName(of.shape) }] : []),
  ];
}

/** What the intervals do not cover. */
function uncovered(by: Fleet["by"], { before, after }: FleetComparison): string {
  if (UNITS[by] === "recording") return Math.min(before.recordings, after.recordings) === 1 ? " One recording on a side: the intervals do not cover variation from one recording to the next." : "";
  return Math.min(before.hosts, after.hosts) === 1 ? " One host on a side: the intervals do not cover variation from host to host." : "";
}

const sideName = (value: string, { hosts, recordings, vcpu_ns }: FleetSide): string =>
  `${value}: ${plural(recordings, "recording")} of ${plural(hosts, "host")}, ${vcpu_ns < 120e9 ? ns(vcpu_ns) : long(vcpu_ns)} of vCPU time`;

function Comparisons({ fleet, sure }: { fleet: Fleet; sure: SignificantChange[] }) {
  const { by, comparisons, confidence_percent: confidence } = fleet;
  const against = fleet.against ?? "";
  const of = comparisons.find((of) => keyOf(of) === chosen.value) ?? sure[0]?.of ?? comparisons[0];
  if (!of) return <p>{nothing(fleet)}</p>;
  const names: [string, string] = [against, of.value];
  const where: [string, string] = [`${WHERE[by]} ${against}`, `${WHERE[by]} ${of.value}`];
  const sides: Sides = { rows: of.rows, confidence, names, where, second: "a second of a vCPU" };
  const option = (one: FleetComparison) => {
    const found = significantChangesOf(one).length;
    return <option value={keyOf(one)}>{`${against} → ${one.value}${found ? ` (${found} certain)` : ""}`}</option>;
  };
  const shapes = [...new Set(comparisons.map((one) => shapeName(one.shape)))];
  return (
    <>
      <h3>Certain differences in cost</h3>
      <DataTable columns={sureColumns(fleet)} rows={sure} caption="Certain differences in cost" top={MOST_LINES} chosen={(row) => row.of === of} />
      <p class="note">{`Cost is per second of a vCPU. A row has a verdict where chance does not explain its change at ${confidence} %, and no side is a single ${UNITS[by]}; the headline is corrected for all comparisons.`}</p>
      {comparisons.length > 1 && (
        <p class="choices">
          <label>
            Comparison{" "}
            <select value={keyOf(of)} onChange={(event) => (chosen.value = event.currentTarget.value)}>
              {shapes.map((shape) => (
                <optgroup label={shape}>{comparisons.filter((one) => shapeName(one.shape) === shape).map(option)}</optgroup>
              ))}
            </select>
          </label>
        </p>
      )}
      <h3 id="comparison">{`${against} → ${of.value}, ${shapeName(of.shape)}`}</h3>
      <p class="note">{`${sideName(against, of.before)}. ${sideName(of.value, of.after)}.${uncovered(by, of)}`}</p>
      <Changes sides={sides} title={`, ${against} → ${of.value}`} />
      <ChangesTable sides={sides} />
      {of.rows_left_out > 0 && <p class="note">{`${plural(of.rows_left_out, "further reason")} left out by --top.`}</p>}
    </>
  );
}

const times = (out: Outlier): string => {
  const of = out.cost_ns_per_s / (out.median_ns_per_s || NaN);
  return Number.isFinite(of) ? `${of < 0.1 ? of.toPrecision(1) : of.toFixed(of < 10 ? 1 : 0)} × the median; ` : "";
};

const outlierColumns = (): Column<Outlier>[] => {
  const cost = (title: string, of: (row: Outlier) => number): Column<Outlier> => ({ title, value: of, show: (row) => `${ns(of(row))}/s` });
  return [
    { title: "host", text: true, value: (row) => row.host, show: (row) => row.host },
    cost("cost", (row) => row.cost_ns_per_s),
    cost("median", (row) => row.median_ns_per_s),
    { title: "score", value: (row) => row.score, show: (row) => (row.score > 0 ? "+" : "") + row.score.toFixed(1) },
    { title: "farthest reason", text: true, value: (row) => row.reason, show: (row) => row.reason },
    cost("its cost", (row) => row.reason_ns_per_s),
    cost("its median", (row) => row.reason_median_ns_per_s),
    { title: "hosts with such VMs", value: (row) => row.hosts, show: (row) => count(row.hosts) },
    { title: "VMs", text: true, value: (row) => shapeName(row.shape), show: (row) => shapeName(row.shape) },
  ];
};

function Outliers({ fleet: { outliers, hosts } }: { fleet: Fleet }) {
  if (outliers.length === 0)
    return (
      <p>
        {hosts < FEWEST
          ? `It takes ${FEWEST} hosts with VMs of the same shape to say who stands out; here ${hosts === 1 ? "is one" : `are ${hosts}`}.`
          : `None, among the shapes of VMs that ${FEWEST} hosts or more have.`}
      </p>
    );
  const several = new Set(outliers.map((out) => shapeName(out.shape))).size > 1;
  const bars = (): Bar[] =>
    outliers.slice(0, MOST_BARS).map((out) => ({
      label: several ? `${out.host}, ${shapeName(out.shape)}` : out.host,
      parts: [out.reason_ns_per_s, Math.max(0, out.cost_ns_per_s - out.reason_ns_per_s)],
      mark: out.median_ns_per_s,
      after: `${times(out)}farthest: ${out.reason}`,
    }));
  return (
    <>
      <Bars
        id="outliers"
        title="Hosts that stand out, against the median"
        summary={() => `What exits cost on ${plural(outliers.length, "host")}, with the median of all hosts with such VMs.`}
        axis="Time that exits cost in a second of a vCPU"
        bars={bars}
        parts={["the reason that is farthest from its own median", "all other reasons"]}
        mark="median of the hosts with such VMs"
        fills={() => [colors.value.reasons[5]!, colors.value.other]}
        show={(value) => `${ns(value)}/s`}
        first="host"
        twin={() => ({ columns: outlierColumns(), rows: outliers })}
        note={`Score: how far a host is from all others with VMs of the same shape, in parts of what is certain at 95 % for all of them together; above 1 or below -1 for those listed.${outliers.length > MOST_BARS ? ` The ${MOST_BARS} farthest; the table has all.` : ""}`}
      />
      <DataTable columns={outlierColumns()} rows={outliers} caption="Hosts that stand out" />
    </>
  );
}

const adviceColumns: Column<FleetAdvice>[] = [
  { title: "hosts", value: (row) => row.hosts, show: (row) => count(row.hosts) },
  { title: "wins at least", value: (row) => row.low_ns_per_s, show: (row) => `${ns(row.low_ns_per_s)}/s` },
  { title: "at most", value: (row) => row.high_ns_per_s, show: (row) => `${ns(row.high_ns_per_s)}/s` },
  { title: "gain of", text: true, value: (row) => row.gain_kind, show: (row) => row.gain_kind.replaceAll("_", " ") },
  { title: "method", text: true, value: (row) => row.method, show: (row) => row.method },
  { title: "change", text: true, value: (row) => row.change, show: (row) => row.change },
];

function Part({ id, title, children }: { id: string; title: string; children: ComponentChildren }) {
  return (
    <section id={id} aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

export function FleetPage({ fleet, version }: Extract<ResultPage, { kind: "fleet" }>) {
  const { by, advice, not_compared, comparisons } = fleet;
  const anything = comparisons.length + not_compared.length > 0;
  const sure = comparisons.flatMap(significantChangesOf).sort((a, b) => Math.abs(change(b)) - Math.abs(change(a)));
  return (
    <Shell
      title={`What differs by ${by}`}
      about={["fleet", plural(fleet.hosts, "host"), plural(fleet.recordings, "recording"), `${fleet.confidence_percent}% confidence`].join(" · ")}
      sections={[
        { id: "overview", title: "Overview" },
        { id: "comparisons", title: "Differences" },
        { id: "outliers", title: "Outliers" },
        { id: "advice", title: "Advice" },
        { id: "not-compared", title: "Not compared", there: anything },
      ]}
      version={version}
      made={
        <>
          as text: <code>exitscope fleet report DIR</code>, as JSON: <code>--format json</code>
        </>
      }
    >
      <Overview fleet={fleet} />
      <Part id="comparisons" title={`What differs by ${by}`}>
        <Comparisons fleet={fleet} sure={sure} />
      </Part>
      <Part id="outliers" title="Hosts that stand out">
        <Outliers fleet={fleet} />
      </Part>
      <Part id="advice" title="What is advised">
        <p class="note">
          By the newest recording of each host, as it was when that was added; gains are of all these hosts together, in each second. <code>exitscope advise</code> on that recording says
          how, with what evidence, and who pays.
        </p>
        {advice.length > 0 ? <DataTable columns={adviceColumns} rows={advice} caption="What is advised" /> : <p>Nothing, by any of these recordings.</p>}
      </Part>
      {anything && (
        <Part id="not-compared" title="Not compared">
          {not_compared.length === 0 ? (
            <p>Everything that was looked at is compared.</p>
          ) : (
            <>
              <p class="note">Only VMs of the same shape (CPU model, number of vCPUs) are compared: these are on one side only.</p>
              <Lines lines={not_compared.map((text) => text.replace(/^not compared: /, ""))} what="shapes and sides" />
            </>
          )}
        </Part>
      )}
    </Shell>
  );
}
