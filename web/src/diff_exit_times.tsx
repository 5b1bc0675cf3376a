// How long exits took in two recordings, over each other.
import { useMemo } from "preact/hooks";
import { bucketOf, total } from "./buckets";
import { nameOf } from "./change_chart";
import { colors } from "./colors";
import { count, rate } from "./format";
import { Distribution, Percentiles, type LengthSeries } from "./exit_time_distribution";
import { kept } from "./url_state";
import type { Comparison, SideLengths } from "./types.gen";

/** Buckets to a doubling, as a power of two: those that the report's own percentiles come from. */
const BITS = 5;

/** Whose lengths are drawn; none for all reasons together. */
export const reason = kept<string>("reason", "");
const per = kept<"share" | "second">("per", "share", ["share", "second"]);

export function Lengths({ diff, lengths }: { diff: Comparison; lengths: SideLengths[] }) {
  const known = lengths.some((row) => row.reason === reason.value) ? reason.value : null;
  const both = useMemo(() => {
    const of = lengths.find((row) => row.reason === known)?.counts ?? [];
    const before = new Float64Array(2048);
    const after = new Float64Array(2048);
    for (const [low, was, is] of of) {
      const at = bucketOf(low, BITS);
      before[at] = was;
      after[at] = is;
    }
    return [
      { label: "before", counts: before, sum: total(before), duration: diff.before.vcpu_ns },
      { label: "after", counts: after, sum: total(after), duration: diff.after.vcpu_ns },
    ];
  }, [known]);
  const series = (): LengthSeries[] => {
    const fills = [colors.value.reasons[3]!, colors.value.reasons[0]!];
    return both
      .map(({ label, counts, sum, duration }, at) => ({ label, counts, color: fills[at]!, weight: per.value === "share" ? 100 / (sum || 1) : 1e9 / (duration || 1), sum }))
      .filter((one) => one.sum > 0);
  };
  const small = (value: number): string => (value === 0 ? "0" : value < 0.01 ? value.toExponential(0) : value < 10 ? value.toFixed(2) : value.toFixed(1));
  const shares = per.value === "share";
  return (
    <section id="lengths" aria-label="Lengths">
      <h2>How long exits took</h2>
      <p class="note">
        <label>
          Exits of{" "}
          <select value={known ?? ""} onChange={(event) => (reason.value = event.currentTarget.value)}>
            {lengths.map((row) => (
              <option value={row.reason ?? ""}>{row.reason ?? (diff.rows[0] ? nameOf(diff.rows[0]) : "")}</option>
            ))}
          </select>
        </label>
        {` before: ${count(both[0]!.sum)}, after: ${count(both[1]!.sum)}, timed.`}
      </p>
      <div class="pair">
        <Distribution
          id="distribution"
          title="Lengths, before and after"
          series={series}
          bits={BITS}
          unit={shares ? ["Share of exits (%)", "% of exits"] : ["Exits per second of vCPU time", "exits/s"]}
          show={(value) => (shares ? small(value) : value < 100 ? small(value) : rate(value))}
          controls={
            <span role="group" aria-label="What is drawn of exits" class="choice">
              <button type="button" aria-pressed={shares} onClick={() => (per.value = "share")}>
                share
              </button>
              <button type="button" aria-pressed={!shares} onClick={() => (per.value = "second")}>
                per second
              </button>
            </span>
          }
        />
        <Percentiles id="percentiles" title="Percentiles, before and after" series={series} bits={BITS} />
      </div>
    </section>
  );
}
