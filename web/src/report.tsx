// The page of a report.
import { useEffect } from "preact/hooks";
import { AdviceView } from "./advice";
import { Devices } from "./devices";
import { chosenBy, count, ns, plural } from "./format";
import { Filters, PrintedChoices } from "./filters";
import { dialogKey, Dialogs } from "./find";
import { Gangs } from "./gang_section";
import { Halts } from "./halts";
import { HeatMap, Slowest } from "./latency_heatmap";
import { hasIdentities, Identities } from "./identities";
import { hasInterrupts, Interrupts } from "./interrupts";
import { Overview, Vcpus } from "./overview";
import { Phases } from "./phases";
import { Inspector } from "./inspector";
import { Timeline } from "./lanes";
import { Pivot } from "./pivot";
import { isXen } from "./aggregate";
import { Reasons } from "./reasons";
import { Panel, Shell, TabBar, type Tab } from "./shell";
import { pick, picked } from "./single";
import { data, takeBack } from "./selection";
import { Strip, timeKey } from "./timeline";
import { Yields } from "./yields";

/** POWER9 has no core runs. */
const hasGangs = (): boolean => (data.report.gang?.vms.length ?? 0) > 0;
/** Whether KVM halted any vCPU: user space may, too. */
const hasHalts = (): boolean => (data.report.halt?.all.halts ?? 0) > 0;

function tabs(): Tab[] {
  const { report, timelines: over } = data;
  return [
    {
      id: "timeline",
      title: "Timeline",
      sections: [
        { id: "timeline", title: "Over time", there: over.in_time },
        { id: "slowest", title: "Slowest exits", there: over.slow_exits.length > 0 },
      ],
    },
    {
      id: "breakdown",
      title: "Breakdown",
      sections: [
        { id: "vcpus", title: "vCPUs", there: over.vcpus.length > 0 },
        { id: "identities", title: "VMs", there: hasIdentities() },
        { id: "pivot", title: "Exits by …", there: report.total.count > 0 },
        { id: "reasons", title: "Reasons", there: report.total.count > 0 },
        { id: "devices", title: "Devices", there: over.subjects.length > 0 },
      ],
    },
    {
      id: "mechanisms",
      title: "Mechanisms",
      sections: [
        { id: "halts", title: "Halts", there: hasHalts() },
        { id: "phases", title: "Phases", there: report.phases !== null },
        { id: "yields", title: "Yields", there: report.yield !== null },
        { id: "interrupts", title: "Interrupts", there: hasInterrupts() },
        { id: "gangs", title: "Gangs", there: hasGangs() },
      ],
    },
    { id: "advice", title: "Advice", sections: [{ id: "advice", title: "Advice" }] },
  ];
}

/** Keys that work wherever the focus is, but where text is typed; arrows and Home scroll the page outside charts. */
function anywhere(event: KeyboardEvent): void {
  const isTyped = event.target instanceof Element && event.target.closest("input, select, textarea, dialog") !== null;
  if (event.defaultPrevented || isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
  if (dialogKey(event.key)) event.preventDefault();
  else if (event.key === "Escape") picked.value ? pick(null) : takeBack();
  else if (data.timelines.in_time && /^[wasd+=0-]$/.test(event.key) && timeKey(event)) event.preventDefault();
}

export function Report() {
  useEffect(() => {
    addEventListener("keydown", anywhere);
    return () => removeEventListener("keydown", anywhere);
  }, []);
  const { traces, selection, duration_ns } = data.report;
  const first = traces[0];
  const { vcpus } = data.report;
  // Xen's domain 0 has no exits.
  const counted = new Set(vcpus.map((row) => row.vm));
  const vms = [...new Set(data.timelines.vcpus.filter((lane) => counted.has(lane.vm)).map((lane) => lane.vm_label))];
  const seen = vcpus.reduce((most, row) => Math.max(most, row.span_ns), 0);
  // Where a single VM came late or ended early, rates and shares are of its time.
  const isPart = vms.length === 1 && seen * 20 < duration_ns * 19;
  const chosen = chosenBy(selection);
  const about = [
    vms.length === 1 && vms[0] !== "-" && (/^\d+$/.test(vms[0]!) ? `${isXen() ? "domain" : "VM"} ${vms[0]}` : vms[0]),
    vms.length > 1 && `${vms.length} VMs`,
    vcpus.length > 0 && plural(vcpus.length, "vCPU"),
    ...[first?.format, first?.arch, first?.hostname, first?.release],
    isPart ? `${ns(seen)} of ${ns(duration_ns)}` : ns(duration_ns),
    `${count(data.report.total.count)} exits`,
    chosen.length > 0 && `only ${chosen.join("; ")}`,
  ];
  return (
    <Shell
      title={traces.map((trace) => trace.name.split("/").at(-1)).join(", ")}
      about={about.filter(Boolean).join(" · ")}
      sections={tabs()}
      version={data.version}
      made={
        <>
          as text: <code>exitscope report FILE</code>, as JSON: <code>--format json</code>
        </>
      }
    >
      <PrintedChoices />
      <Overview />
      <div class="sticky">
        <TabBar />
        {data.timelines.in_time && <Strip />}
        <Filters />
      </div>
      <Panel id="timeline" with={picked.value && "inspected"}>
        {data.timelines.in_time && (
          <section id="timeline" aria-label="Timeline">
            <h2>Over time</h2>
            <Timeline />
            <Inspector />
            <HeatMap />
          </section>
        )}
        {data.timelines.slow_exits.length > 0 && <Slowest />}
      </Panel>
      <Panel id="breakdown">
        {data.timelines.vcpus.length > 0 && <Vcpus />}
        {hasIdentities() && <Identities />}
        {data.report.total.count > 0 && <Pivot />}
        {data.report.total.count > 0 && <Reasons />}
        {data.timelines.subjects.length > 0 && <Devices />}
      </Panel>
      <Panel id="mechanisms">
        {hasHalts() && <Halts />}
        {data.report.phases && <Phases />}
        {data.report.yield && <Yields />}
        {hasInterrupts() && <Interrupts />}
        {hasGangs() && <Gangs />}
      </Panel>
      <Panel id="advice">
        <AdviceView />
      </Panel>
      <Dialogs />
    </Shell>
  );
}
