// The page of a report.
import { AdviceView } from "./advice";
import { Devices } from "./devices";
import { count, ns } from "./format";
import { Gangs } from "./gangs";
import { Halts } from "./halts";
import { HeatMap, Slowest } from "./heat";
import { Overview } from "./overview";
import { Phases } from "./phases";
import { isXen } from "./query";
import { Reasons } from "./reasons";
import { Shell, type Section } from "./shell";
import { data } from "./state";
import { Filters, Strip, Timeline } from "./timeline";
import { Yields } from "./yields";

function sections(): Section[] {
  const { report, over } = data;
  return [
    { id: "overview", title: "Overview", there: true },
    { id: "reasons", title: "Reasons", there: report.total.count > 0 },
    { id: "timeline", title: "Timeline", there: over.in_time },
    { id: "slowest", title: "Slowest exits", there: over.slow.length > 0 },
    { id: "devices", title: "Devices", there: over.abouts.length > 0 },
    { id: "advice", title: "Advice", there: true },
    { id: "halts", title: "Halts", there: report.halt !== null },
    { id: "phases", title: "Phases", there: report.phases !== null },
    { id: "yields", title: "Yields", there: report.yield !== null },
    { id: "gangs", title: "Gangs", there: report.gang !== null },
  ];
}

export function Report() {
  const { traces, selection, duration_ns } = data.report;
  const first = traces[0];
  const vms = [...new Set(data.over.lanes.map((lane) => lane.vm_label))];
  const chosen = [
    selection.vms.length && `VM ${selection.vms.join(", ")}`,
    selection.vcpus.length && `vCPU ${selection.vcpus.join(", ")}`,
    selection.reasons.length && `reason ${selection.reasons.join(", ")}`,
    selection.longer_than_ns && `longer than ${ns(selection.longer_than_ns)}`,
  ].filter(Boolean);
  const about = [
    vms.length === 1 && vms[0] !== "-" && (/^\d+$/.test(vms[0]!) ? `${isXen() ? "domain" : "VM"} ${vms[0]}` : vms[0]),
    ...[first?.format, first?.arch, first?.hostname, first?.release],
    ns(duration_ns),
    `${count(data.report.total.count)} exits`,
    chosen.length > 0 && `only ${chosen.join("; ")}`,
  ];
  return (
    <Shell
      title={traces.map((trace) => trace.name.split("/").at(-1)).join(", ")}
      about={about.filter(Boolean).join(" · ")}
      sections={sections()}
      version={data.version}
      made={
        <>
          as text: <code>exitscope report FILE</code>, as JSON: <code>--format json</code>
        </>
      }
    >
      <div class="sticky">
        {data.over.in_time && <Strip />}
        <Filters />
      </div>
      <Overview />
      {data.report.total.count > 0 && <Reasons />}
      {data.over.in_time && (
        <section id="timeline" aria-label="Timeline">
          <h2>Over time</h2>
          <Timeline />
          <HeatMap />
        </section>
      )}
      {data.over.slow.length > 0 && <Slowest />}
      {data.over.abouts.length > 0 && <Devices />}
      <AdviceView />
      {data.report.halt && <Halts />}
      {data.report.phases && <Phases />}
      {data.report.yield && <Yields />}
      {data.report.gang && <Gangs />}
    </Shell>
  );
}
