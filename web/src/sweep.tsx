// The page of a sweep: what was best, every figure over what was varied, and what can be had for what.
import { HeadlineBox } from "./headline";
import { colors } from "./colors";
import { Curves, type Curve, type CurvePoint } from "./curve";
import type { ResultPage } from "./data";
import { count, ns, quantity, unitName } from "./format";
import { kept } from "./url_state";
import { Pareto } from "./pareto";
import { Shell } from "./shell";
import { figure, placesOf, settings } from "./sweep_rows";
import { DataTable, type Column } from "./table";
import type { Sweep, SweepMetric, SweepRow } from "./types.gen";

/** The key along the curves, the key that tells them apart, and the values of all others: numbers of keys and values. */
const across = kept<string>("x", "");
const apart = kept<string>("by", "");
const fixed = kept<string>("at", "");

const withInterval = (metric: SweepMetric, row: SweepRow): string => {
  const { mean, low, high } = figure(row, metric);
  return quantity(metric.unit, mean) + (low === null ? "" : ` (${quantity(metric.unit, low)} to ${quantity(metric.unit, high)})`);
};

const better = (metric: SweepMetric): string => (metric.higher_is_better === null ? "" : metric.higher_is_better ? ", more is better" : ", less is better");

interface Chosen {
  x: number;
  by: number | null;
  /** The value of each key. */
  at: number[];
}

function chosen(sweep: Sweep): Chosen {
  const keys = sweep.vary.map((axis) => axis.key);
  // The key with most values makes the longest curve.
  const most = sweep.vary.reduce((most, axis, key) => (axis.values.length > sweep.vary[most]!.values.length ? key : most), 0);
  const x = keys.includes(across.value) ? keys.indexOf(across.value) : most;
  const others = keys.map((_, key) => key).filter((key) => key !== x && sweep.vary[key]!.values.length > 1);
  const asked = others.find((key) => keys[key] === apart.value);
  const places = fixed.value.split(",").map(Number);
  const at = sweep.vary.map((axis, key) => (Number.isInteger(places[key]) && places[key]! >= 0 && places[key]! < axis.values.length ? places[key]! : 0));
  return { x, by: asked ?? others[0] ?? null, at };
}

/** The rows of each curve. */
function groups(sweep: Sweep): { label: string; color: string; rows: { row: SweepRow; place: number }[] }[] {
  const { x, by, at } = chosen(sweep);
  const labels = by === null ? [""] : sweep.vary[by]!.values.map((value) => `${sweep.vary[by]!.key}=${value}`);
  const fills = colors.value.reasons;
  const found = labels.map((label, number) => ({ label: label || "all runs", color: fills[number % fills.length]!, rows: [] as { row: SweepRow; place: number }[] }));
  sweep.rows.forEach((row, number) => {
    const places = placesOf(sweep, number);
    if (places.some((place, key) => key !== x && key !== by && place !== at[key])) return;
    found[by === null ? 0 : places[by]!]!.rows.push({ row, place: places[x]! });
  });
  return found;
}

function Figure({ sweep, metric, number }: { sweep: Sweep; metric: SweepMetric; number: number }) {
  const { x } = chosen(sweep);
  const axis = sweep.vary[x]!;
  const values = axis.values.map((_, place) => sweep.rows.find((_, at) => placesOf(sweep, at)[x] === place)?.[axis.column]);
  const places = axis.values.map((label, place) => ({ label, value: typeof values[place] === "number" ? (values[place] as number) : null }));
  const curves = (): Curve[] =>
    groups(sweep).map(({ label, color, rows }) => ({
      label,
      color,
      points: rows
        .map(({ row, place }) => ({ place, ...figure(row, metric), marked: number === 0 && row.best }))
        .filter((point): point is typeof point & { mean: number } => point.mean !== null)
        .map(({ mean, ...rest }): CurvePoint => ({ ...rest, value: mean })),
    }));
  const twin = () => {
    const rows = groups(sweep).flatMap((group) => group.rows.map(({ row, place }) => ({ group: group.label, place, row })));
    type Row = (typeof rows)[0];
    const value = (title: string, of: "mean" | "low" | "high"): Column<Row> => ({
      title: `${title}${metric.unit === "ns" ? " (ns)" : metric.unit === "1/s" ? " (1/s)" : ""}`,
      value: ({ row }) => figure(row, metric)[of],
      show: ({ row }) => quantity(metric.unit, figure(row, metric)[of]),
    });
    return {
      columns: [
        { title: axis.key, text: true, value: ({ place }: Row) => axis.values[place]!, show: ({ place }: Row) => axis.values[place]! },
        { title: "curve", text: true, value: ({ group }: Row) => group, show: ({ group }: Row) => group },
        value("mean", "mean"),
        value("interval from", "low"),
        value("to", "high"),
      ],
      rows,
    };
  };
  return (
    <Curves
      id={`figure-${number}`}
      title={metric.name}
      summary={() => `${metric.name} over ${axis.key}, with ${sweep.confidence_percent} per cent intervals.`}
      places={places}
      across={axis.column.endsWith("_ns") ? `${axis.key} (time)` : axis.key}
      axis={`${unitName(metric.unit)}${better(metric)}`}
      of={axis}
      curves={curves}
      show={(value) => quantity(metric.unit, value)}
      zero={metric.unit === "share"}
      twin={twin}
      note={number === 0 && sweep.rows.some((row) => row.best) ? "Rings: the best, and those whose intervals overlap it." : undefined}
    />
  );
}

function Choices({ sweep }: { sweep: Sweep }) {
  const { x, by, at } = chosen(sweep);
  const several = sweep.vary.map((axis, key) => ({ axis, key })).filter(({ axis }) => axis.values.length > 1);
  if (several.length < 2) return null;
  return (
    <p class="choices">
      <label>
        Along the curves{" "}
        <select value={sweep.vary[x]!.key} onChange={(event) => (across.value = event.currentTarget.value)}>
          {several.map(({ axis }) => (
            <option value={axis.key}>{axis.key}</option>
          ))}
        </select>
      </label>
      <label>
        a curve for each{" "}
        <select value={by === null ? "" : sweep.vary[by]!.key} onChange={(event) => (apart.value = event.currentTarget.value)}>
          {several
            .filter(({ key }) => key !== x)
            .map(({ axis }) => (
              <option value={axis.key}>{axis.key}</option>
            ))}
        </select>
      </label>
      {several
        .filter(({ key }) => key !== x && key !== by)
        .map(({ axis, key }) => (
          <label>
            {axis.key}{" "}
            <select
              value={String(at[key])}
              onChange={(event) => (fixed.value = at.map((place, other) => (other === key ? event.currentTarget.value : place)).join(","))}
            >
              {axis.values.map((value, place) => (
                <option value={String(place)}>{value}</option>
              ))}
            </select>
          </label>
        ))}
    </p>
  );
}

function Overview({ sweep }: { sweep: Sweep }) {
  const { scenario, metrics, rows, verdict } = sweep;
  const directed = metrics.filter((metric) => metric.higher_is_better !== null);
  const best = verdict.state === "best" ? rows.find((row) => row.best) : undefined;
  const failed = rows.map((row, at) => ({ row, at })).filter(({ row }) => row.error !== null);
  const pareto = rows.filter((row) => row.pareto).length;
  return (
    <section id="overview" aria-label="Overview">
      <h2 class="hidden">What was best</h2>
      <HeadlineBox headline={verdict}>
        {failed.length > 0 && (
          <ul>
            {failed.slice(0, 10).map(({ row, at }) => (
              <li>
                <code>{settings(sweep, at)}</code>: {row.error}
              </li>
            ))}
          </ul>
        )}
      </HeadlineBox>
      <div class="cards">
        {best && (
          <div class="card">
            <h3>Other figures of the best</h3>
            <p>
              {metrics
                .slice(1, 6)
                .map((metric) => `${metric.name} ${quantity(metric.unit, figure(best, metric).mean)}`)
                .join("; ") || "There is no other figure (--metric)."}
            </p>
          </div>
        )}
        <div class="card">
          <h3>What else is on the Pareto front</h3>
          <p>
            {directed.length < 2
              ? "There is only one figure."
              : `By their means, ${pareto} of ${rows.length} configurations are on the Pareto front of ${directed.length} figures: for each of them, no other configuration has a better mean in one figure without a worse mean in another.`}
          </p>
        </div>
        <div class="card">
          <h3>What ran</h3>
          <p>
            {`${(scenario.description || scenario.name).replace(/\.$/, "")}. ${scenario.sockets} × ${scenario.cores} × ${scenario.threads} CPUs (${scenario.arch}), ${scenario.vms === 1 ? "1 VM" : `${scenario.vms} VMs`} with ${scenario.vcpus} vCPUs, ${ns(scenario.duration_ns)} simulated, ${sweep.replicates} runs of each of ${count(rows.length)} configurations, seeds from ${scenario.seed}.`}
            {scenario.set.length > 0 && (
              <>
                {" Set: "}
                <code>{scenario.set.join(" ")}</code>.
              </>
            )}
          </p>
        </div>
      </div>
    </section>
  );
}

function columns(sweep: Sweep): Column<number>[] {
  const mark = (title: string, of: (row: SweepRow) => boolean): Column<number> => ({
    title,
    text: true,
    value: (at) => (of(sweep.rows[at]!) ? "yes" : ""),
    show: (at) => (of(sweep.rows[at]!) ? "yes" : ""),
  });
  return [
    ...sweep.vary.map((axis, key): Column<number> => {
      const label = (at: number) => axis.values[placesOf(sweep, at)[key]!]!;
      return { title: axis.key, text: true, value: (at) => (sweep.rows[at]![axis.column] as number | string | null) ?? label(at), show: label };
    }),
    ...sweep.metrics.map(
      (metric): Column<number> => ({
        title: metric.name,
        value: (at) => figure(sweep.rows[at]!, metric).mean,
        show: (at) => <span title={withInterval(metric, sweep.rows[at]!)}>{quantity(metric.unit, figure(sweep.rows[at]!, metric).mean)}</span>,
      }),
    ),
    ...(sweep.rows.some((row) => row.best) ? [mark("best", (row) => row.best)] : []),
    mark("Pareto, by means", (row) => row.pareto),
  ];
}

export function SweepPage({ sweep, version }: Extract<ResultPage, { kind: "sweep" }>) {
  const { scenario, metrics } = sweep;
  const scatter = metrics.length > 1;
  return (
    <Shell
      title={`${scenario.name}: ${sweep.vary.map((axis) => axis.key).join(", ")}`}
      about={["sweep", scenario.file.split("/").at(-1), `${sweep.rows.length} configurations`, `${sweep.confidence_percent}% intervals`].join(" · ")}
      sections={[
        { id: "overview", title: "Overview" },
        { id: "curves", title: "Curves" },
        { id: "pareto", title: "Pareto front", there: scatter },
        { id: "runs", title: "All runs" },
      ]}
      version={version}
      made={
        <>
          as text: <code>exitscope sweep SCENARIO --vary KEY=VALUES</code>, as JSON or CSV: <code>--format</code>
        </>
      }
    >
      <Overview sweep={sweep} />
      <section id="curves" aria-label="Curves">
        <h2>Figures over what was varied</h2>
        <p class="note">{`Means over ${sweep.replicates} runs with seeds of their own; bands are ${sweep.confidence_percent} % intervals of the mean.`}</p>
        <Choices sweep={sweep} />
        <div class="pair">
          {metrics.map((metric, number) => (
            <Figure sweep={sweep} metric={metric} number={number} />
          ))}
        </div>
      </section>
      {scatter && <Pareto sweep={sweep} />}
      <section id="runs" aria-label="All runs">
        <h2>All configurations</h2>
        <DataTable columns={columns(sweep)} rows={sweep.rows.map((_, at) => at)} caption="All configurations" chosen={(at) => sweep.rows[at]!.best} />
      </section>
    </Shell>
  );
}
