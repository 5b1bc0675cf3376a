// Yields: who yields to whom, who got the CPU, which vCPUs were preempted meanwhile.
import { Bars } from "./bars";
import { colors, mix } from "./colors";
import { count, ns } from "./format";
import { Matrix } from "./matrix";
import { data, fullRange } from "./selection";
import { DataTable } from "./table";
import { vcpuName } from "./timeline";
import type { PreemptedRow, YieldRow } from "./types.gen";

function nameOf(row: Pick<YieldRow, "vm" | "vcpu" | "tid">): string {
  const lane = data.timelines.vcpus.findIndex((of) => of.vm === row.vm && of.vcpu === row.vcpu && of.tid === row.tid);
  return lane >= 0 ? vcpuName(lane) : `vCPU ${row.vcpu ?? "?"}`;
}

/** Yields that name a vCPU: callers down, those they name across. */
function Directed() {
  const all = data.timelines.directed_yields;
  const one = new Set(all.map((row) => row.vm)).size === 1;
  return (
    <Matrix
      id="matrix"
      title="Who yields to whom"
      summary={() => `${new Set(all.map((row) => row.vm + row.from)).size} vCPUs name ${new Set(all.map((row) => row.to)).size}.`}
      down="yields"
      across="to"
      pairs={() => all.map((row) => ({ from: one ? `vCPU ${row.from}` : `${row.vm} / ${row.from}`, to: `vCPU ${row.to}`, value: row.count, tip: [] }))}
      what="yields"
      show={count}
      note="Yields that name a vCPU: the caller waits for it, or wakes it."
    />
  );
}

const labelOf = (row: YieldRow): string => `${nameOf(row)} ${row.call ?? ""}`;

/** First depths of the queue that stand for those up to the next: no more than have shades that can be told apart. */
const DEPTHS = [0, 1, 2, 4];

/** Time by how many vCPUs were runnable without a CPU. The last time is of so many and more. */
function queueDepths(times: number[]): { name: string; time: number }[] {
  return DEPTHS.filter((from) => from < times.length).map((from, at) => {
    const to = Math.min(DEPTHS[at + 1] ?? times.length, times.length);
    const name = to === times.length ? `${from} and more` : to === from + 1 ? String(from) : `${from} to ${to - 1}`;
    return { name, time: times.slice(from, to).reduce((sum, time) => sum + time, 0) };
  });
}

export function Yields() {
  const yields = data.report.yield!;
  const { queue } = yields;
  const depths = queue ? queueDepths(queue.time_ns) : [];
  return (
    <section id="yields" aria-label="Yields">
      <h2>Yields and steal</h2>
      <p class="note">Of {fullRange()}. A vCPU that spins on a lock yields; that a sibling was preempted just then is what lock-holder preemption looks like.</p>
      {data.timelines.directed_yields.length > 0 && <Directed />}
      {yields.vcpus.length > 0 && (
        <Bars
          id="found"
          title="Yields, by where the siblings were"
          summary={() => `${count(yields.vcpus.reduce((sum, row) => sum + row.count, 0))} yields.`}
          axis="Yields"
          bars={() =>
            yields.vcpus.slice(0, 16).map((row: YieldRow) => {
              const known = row.sibling_preempted + row.sibling_runnable + row.no_runnable_sibling;
              return { label: labelOf(row), parts: [row.sibling_preempted, row.sibling_runnable, row.no_runnable_sibling, row.count - known] };
            })
          }
          parts={["a sibling was preempted", "a sibling was runnable", "no sibling was runnable", "not known"]}
          fills={() => [colors.value.parts.steal_ns, colors.value.parts.user_space_ns, colors.value.parts.guest_ns, colors.value.parts.unknown_ns]}
          show={count}
          first="vCPU and call"
          note="A yield that names no vCPU may let any sibling run; a preempted sibling may have held the lock."
        />
      )}
      {yields.vcpus.some((row) => row.gave_target + row.gave_sibling + row.gave_other > 0) && (
        <Bars
          id="gave"
          title="Yields, by who got the CPU"
          summary={() => "Whether yields brought a sibling onto the CPU."}
          axis="Yields"
          bars={() =>
            yields.vcpus.slice(0, 16).map((row: YieldRow) => {
              const known = row.gave_target + row.gave_sibling + row.gave_other + row.kept_cpu;
              return { label: labelOf(row), parts: [row.gave_target, row.gave_sibling, row.gave_other, row.kept_cpu, Math.max(0, row.count - known)] };
            })
          }
          parts={["the vCPU it named", "another of its VM", "another VM or no vCPU", "nobody: the caller went on", "not known"]}
          fills={() => [colors.value.parts.guest_ns, colors.value.parts.kernel_ns, colors.value.parts.steal_ns, colors.value.parts.user_space_ns, colors.value.parts.unknown_ns]}
          show={count}
          first="vCPU and call"
        />
      )}
      {yields.preempted.some((row) => row.yields > 0) && (
        <Bars
          id="waited-for"
          title="Preempted vCPUs, by their siblings' yields meanwhile"
          summary={() => `Most for ${nameOf([...yields.preempted].sort((a, b) => b.yields - a.yields)[0]!)}.`}
          axis="Yields of siblings"
          bars={() =>
            [...yields.preempted]
              .filter((row) => row.yields > 0)
              .sort((a, b) => b.yields - a.yields)
              .slice(0, 16)
              .map((row) => ({ label: nameOf(row), parts: [row.yields], after: `${count(row.yields)} in ${count(row.with_sibling_yields)} of ${count(row.preemptions)} times; they waited ${ns(row.sibling_wait.sum_ns)}` }))
          }
          parts={["yields of siblings"]}
          fills={() => [colors.value.parts.steal_ns]}
          show={count}
          first="preempted vCPU"
        />
      )}
      {queue && (
        <Bars
          id="queue"
          title="How many vCPUs were runnable without a CPU"
          summary={() => `Mean ${queue.mean.toFixed(2)}, at most ${queue.max}.`}
          axis="Share of the CPUs' time (%)"
          relative
          bars={() => [{ label: "all CPUs", parts: depths.map(({ time }) => time) }]}
          parts={depths.map(({ name }) => name)}
          fills={() => depths.map((_, at) => mix(colors.value.heat[0]!, colors.value.heat[1]!, (at + 0.5) / (depths.length - 0.5)))}
          show={ns}
          first="CPUs"
        />
      )}
      {yields.preempted.length > 0 && (
        <DataTable
          caption="Preempted vCPUs"
          rows={yields.preempted}
          columns={[
            { title: "preempted vCPU", text: true, value: nameOf, show: nameOf },
            { title: "times", value: (row: PreemptedRow) => row.preemptions, show: (row: PreemptedRow) => count(row.preemptions) },
            { title: "steal p50", value: (row: PreemptedRow) => row.steal.p50_ns, show: (row: PreemptedRow) => ns(row.steal.p50_ns) },
            { title: "steal p99", value: (row: PreemptedRow) => row.steal.p99_ns, show: (row: PreemptedRow) => ns(row.steal.p99_ns) },
            { title: "siblings yielded", value: (row: PreemptedRow) => row.with_sibling_yields, show: (row: PreemptedRow) => count(row.with_sibling_yields) },
            { title: "yields", value: (row: PreemptedRow) => row.yields, show: (row: PreemptedRow) => count(row.yields) },
            { title: "they waited", value: (row: PreemptedRow) => row.sibling_wait.sum_ns, show: (row: PreemptedRow) => ns(row.sibling_wait.sum_ns) },
          ]}
        />
      )}
    </section>
  );
}
