// Yields: who yields to whom, which vCPUs had lost their CPU meanwhile. And gangs: who forced whom out of the guest.
import { Bars } from "./bars";
import { Chart, type Tip } from "./chart";
import { colors, mix, reasonColor } from "./colors";
import { count, ns, share } from "./format";
import { data } from "./state";
import type { Surface } from "./surface";
import { DataTable } from "./table";
import { laneName } from "./timeline";
import type { GangRow, PreemptedRow, Who, YieldRow } from "./types";

function nameOf(row: Who): string {
  const lane = data.over.lanes.findIndex((of) => of.vm === row.vm && of.vcpu === row.vcpu && of.tid === row.tid);
  return lane >= 0 ? laneName(lane) : `vCPU ${row.vcpu ?? "?"}`;
}

const CELL = 26;

/** Callers down, those they name across. */
function Matrix() {
  const all = data.over.named;
  const froms = [...new Set(all.map((row) => `${row.vm} / ${row.from}`))];
  const tos = [...new Set(all.map((row) => row.to))].sort((a, b) => a - b);
  const most = Math.max(1, ...all.map((row) => row.count));
  const left = 160;
  const draw = (s: Surface, w: number) => {
    const wide = Math.min(CELL * 2, (w - left - 10) / tos.length);
    const [cold, hot] = colors.value.heat as [string, string];
    tos.forEach((to, at) => s.text(left + at * wide + wide / 2, 30, String(to), { color: colors.value.soft, align: "center" }));
    s.text(left + (tos.length * wide) / 2, 10, "yields to vCPU", { color: colors.value.soft, align: "center" });
    froms.forEach((from, at) => s.text(left - 8, 40 + at * CELL + CELL / 2, from, { color: colors.value.ink, align: "right", width: left - 12 }));
    for (const row of all) {
      const [x, y] = [left + tos.indexOf(row.to) * wide, 40 + froms.indexOf(`${row.vm} / ${row.from}`) * CELL];
      const part = Math.log(1 + row.count) / Math.log(1 + most);
      s.rect(x, y, wide - 1, CELL - 1, mix(cold, hot, 0.1 + 0.9 * part));
      if (wide > 24) s.text(x + wide / 2, y + CELL / 2, count(row.count), { color: part > 0.5 ? colors.value.ground : colors.value.ink, align: "center" });
    }
  };
  const hit = (_x: number, y: number): Tip | null => {
    const from = froms[Math.floor((y - 40) / CELL)];
    const rows = all.filter((row) => `${row.vm} / ${row.from}` === from);
    return from ? { title: from, lines: rows.slice(0, 12).map((row): [string, string] => [`to vCPU ${row.to}`, count(row.count)]) } : null;
  };
  const twin = () => ({
    columns: [
      { title: "from", text: true, show: (row: (typeof all)[0]) => `${row.vm} / ${row.from}`, value: (row: (typeof all)[0]) => `${row.vm} / ${row.from}` },
      { title: "to vCPU", show: (row: (typeof all)[0]) => row.to, value: (row: (typeof all)[0]) => row.to },
      { title: "yields", show: (row: (typeof all)[0]) => count(row.count), value: (row: (typeof all)[0]) => row.count },
    ],
    rows: all,
  });
  return <Chart id="matrix" title="Who yields to whom" summary={() => `${froms.length} callers name ${tos.length} vCPUs.`} height={52 + froms.length * CELL} draw={draw} hit={hit} twin={twin} />;
}

export function Yields() {
  const yields = data.report.yield!;
  const { queue } = yields;
  return (
    <section id="yields" aria-label="Yields">
      <h2>Yields and waiting for CPUs</h2>
      <p class="note">Of the whole recording. A vCPU that spins on a lock yields; that a sibling had lost its CPU just then is what the preemption of a lock's holder looks like.</p>
      {data.over.named.length > 0 && <Matrix />}
      {yields.vcpus.length > 0 && (
        <Bars
          id="found"
          title="Yields, by where the siblings were"
          summary={() => `${count(yields.vcpus.reduce((sum, row) => sum + row.count, 0))} yields.`}
          axis="Yields"
          bars={() =>
            yields.vcpus.slice(0, 16).map((row: YieldRow) => {
              const known = row.sibling_preempted + row.sibling_woken + row.nobody_waited;
              return { label: `${nameOf(row)} ${row.call ?? ""}`, parts: [row.sibling_preempted, row.sibling_woken, row.nobody_waited, row.count - known] };
            })
          }
          parts={["a sibling had lost its CPU", "a sibling was woken and waited", "no sibling waited for a CPU", "not known"]}
          fills={() => [colors.value.states[3]!, colors.value.states[2]!, colors.value.states[0]!, colors.value.other]}
          show={count}
          first="vCPU"
        />
      )}
      {queue && (
        <Bars
          id="queue"
          title="How many vCPUs waited for a CPU"
          summary={() => `Mean ${queue.mean.toFixed(2)}, at most ${queue.most}.`}
          axis="Share of the CPUs' time (%)"
          relative
          bars={() => [{ label: "all CPUs", parts: queue.time_ns }]}
          parts={queue.time_ns.map((_, depth) => (depth === queue.time_ns.length - 1 ? `${depth} and more` : String(depth)))}
          fills={() => queue.time_ns.map((_, depth) => mix(colors.value.states[4]!, colors.value.states[3]!, depth / (queue.time_ns.length - 1)))}
          show={ns}
          first="CPUs"
        />
      )}
      {yields.preempted.length > 0 && (
        <DataTable
          caption="vCPUs that lost their CPU"
          rows={yields.preempted}
          columns={[
            { title: "vCPU that lost its CPU", text: true, value: nameOf, show: nameOf },
            { title: "times", value: (row: PreemptedRow) => row.preemptions, show: (row: PreemptedRow) => count(row.preemptions) },
            { title: "waited p50", value: (row: PreemptedRow) => row.waits.p50_ns, show: (row: PreemptedRow) => ns(row.waits.p50_ns) },
            { title: "waited p99", value: (row: PreemptedRow) => row.waits.p99_ns, show: (row: PreemptedRow) => ns(row.waits.p99_ns) },
            { title: "siblings yielded", value: (row: PreemptedRow) => row.yielded_for, show: (row: PreemptedRow) => count(row.yielded_for) },
            { title: "yields", value: (row: PreemptedRow) => row.yields, show: (row: PreemptedRow) => count(row.yields) },
            { title: "they waited", value: (row: PreemptedRow) => row.blocked.sum_ns, show: (row: PreemptedRow) => ns(row.blocked.sum_ns) },
          ]}
        />
      )}
    </section>
  );
}

const gangName = (row: GangRow) => `${row.vm_name ?? "VM"} ${row.vm ?? ""}${row.vcpus ? ` vCPUs ${row.vcpus.join(", ")}` : ""}`;

export function Gangs() {
  const gang = data.report.gang!;
  const causes = gang.causes.filter((row) => row.forced > 0).sort((a, b) => b.lost_ns - a.lost_ns).slice(0, 16);
  const own = [...new Set(gang.causes.map((row) => row.reason))];
  return (
    <section id="gangs" aria-label="Gangs">
      <h2>Ganged exits</h2>
      <p class="note">
        Of the whole recording. The threads of a virtual core leave the guest together: who has a reason of its own forces the others out, and their useful time is
        lost.
      </p>
      <Bars
        id="gang"
        title="Time that others lost, by who forced them out"
        summary={() => (causes[0] ? `Most by vCPU ${causes[0].vcpu}, ${causes[0].reason}.` : "Nobody was forced out.")}
        axis="Time lost by others"
        bars={() => causes.map((row) => ({ label: `vCPU ${row.vcpu} ${row.reason}`, parts: own.map((reason) => (reason === row.reason ? row.lost_ns : 0)), after: `${ns(row.lost_ns)}, ${count(row.forced)} forced` }))}
        parts={own}
        fills={() => own.map((reason) => reasonColor(data.over.reasons.indexOf(reason)))}
        show={ns}
        first="vCPU and reason"
      />
      <DataTable
        caption="Virtual cores"
        rows={[...gang.vms, ...gang.vcores]}
        columns={[
          { title: "VM or virtual core", text: true, value: gangName, show: gangName },
          { title: "runs", value: (row: GangRow) => row.runs, show: (row: GangRow) => count(row.runs) },
          { title: "ganged", value: (row: GangRow) => row.ganged, show: (row: GangRow) => count(row.ganged) },
          { title: "share", value: (row: GangRow) => row.ganged / (row.runs || 1), show: (row: GangRow) => share(row.ganged / (row.runs || 1)) },
          { title: "forced out", value: (row: GangRow) => row.forced, show: (row: GangRow) => count(row.forced) },
          { title: "time lost", value: (row: GangRow) => row.lost.sum_ns, show: (row: GangRow) => ns(row.lost.sum_ns) },
          { title: "lost p50", value: (row: GangRow) => row.lost.p50_ns, show: (row: GangRow) => ns(row.lost.p50_ns) },
        ]}
      />
    </section>
  );
}
