// Gangs: who forced whom out of the guest (POWER7 and POWER8, whose virtual cores leave it together).
import { Bars } from "./bars";
import { reasonColor } from "./colors";
import { ForcedOutTimeline } from "./forced_out_timeline";
import { count, ns, share } from "./format";
import { data, fullRange } from "./selection";
import { DataTable } from "./table";
import type { GangRow } from "./types.gen";

const gangName = (row: GangRow) => `${row.vm_name ?? "VM"} ${row.vm ?? ""}${row.vcpus ? ` vCPUs ${row.vcpus.join(", ")}` : ""}`;

export function Gangs() {
  const gang = data.report.gang!;
  const causes = gang.causes.filter((row) => row.forced_exits > 0).sort((a, b) => b.forced_out_ns - a.forced_out_ns).slice(0, 16);
  const own = [...new Set(gang.causes.map((row) => row.reason))];
  return (
    <section id="gangs" aria-label="Gangs">
      <h2>Ganged exits</h2>
      <p class="note">
        The threads of a virtual core leave the guest together: one that has a reason to leave forces the others out, and they lose time in
        the guest. Bars and table are of {fullRange()}.
      </p>
      {data.forced_out && data.timelines.in_time && <ForcedOutTimeline />}
      <Bars
        id="gang"
        title="Time lost to gang exits, by cause"
        summary={() => (causes[0] ? `Most by vCPU ${causes[0].vcpu}, ${causes[0].reason}.` : "No vCPU was forced out.")}
        axis="Time lost by others"
        bars={() => causes.map((row) => ({ label: `vCPU ${row.vcpu} ${row.reason}`, parts: own.map((reason) => (reason === row.reason ? row.forced_out_ns : 0)), after: `${ns(row.forced_out_ns)}, ${count(row.forced_exits)} forced` }))}
        parts={own}
        fills={() => own.map((reason) => reasonColor(data.timelines.reasons.indexOf(reason)))}
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
          { title: "forced out", value: (row: GangRow) => row.forced_exits, show: (row: GangRow) => count(row.forced_exits) },
          { title: "time lost", value: (row: GangRow) => row.forced_out.sum_ns, show: (row: GangRow) => ns(row.forced_out.sum_ns) },
          { title: "time lost p50", value: (row: GangRow) => row.forced_out.p50_ns, show: (row: GangRow) => ns(row.forced_out.p50_ns) },
        ]}
      />
    </section>
  );
}
