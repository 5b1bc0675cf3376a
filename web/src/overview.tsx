// The first screen, and where the time of each vCPU went.
import { useSignal } from "@preact/signals";
import { Bars, type Bar } from "./bars";
import { partFills } from "./colors";
import { Lists, TimeBar, Verdict } from "./first";
import { count, ns, plural, rate, share } from "./format";
import { byVcpu, COST, costliest, costOf, hasGuestTime, partName, parts, timeOf, totalOf, type Sums } from "./aggregate";
import { settledRange, data, isAll, isSettledWhole, isShownAlone, selectedVcpus, selectOnly, reasons, showAlone, vms } from "./selection";
import { DataTable, type Column } from "./table";
import { vcpuName, MoreVcpus } from "./timeline";

/** Where a vCPU's time went, and how many exits it had: of the whole recording the report's figures; of a range, the page's. */
function vcpuTimes(lane: number): { times: object; exits: number } {
  const row = isSettledWhole.value ? vcpuRow(lane) : undefined;
  if (row) return { times: row, exits: row.exits };
  const times = byVcpu.value.get(lane)!;
  return { times, exits: times.count! };
}

function vcpuRow(lane: number) {
  const of = data.timelines.vcpus[lane]!;
  return data.report.vcpus.find((row) => row.vm === of.vm && row.vcpu === of.vcpu && row.tid === of.tid && row.on_cpu === of.on_cpu);
}

/** vCPUs that are drawn unless all are asked for. */
const FIRST_VCPUS = 32;
/** Below this time, in nanoseconds, exits by second say nothing. */
const RATED = 1e6;

const shownLanes = () => data.timelines.vcpus.map((_, lane) => lane).filter((lane) => !selectedVcpus.value || selectedVcpus.value.has(lane));

/** The time of the vCPUs that are looked at. */
const shownTimes = () => shownLanes().map((lane) => vcpuTimes(lane).times);

const sumsOf = (all: object[]): Sums => Object.fromEntries(parts.value.map(({ column }) => [column, all.reduce((sum, times) => sum + timeOf(times, column), 0)]));

export function Overview() {
  return (
    <section id="overview" aria-label="Overview">
      <h2 class="hidden">Overview</h2>
      <Verdict />
      <TimeBar sums={sumsOf(shownTimes())} />
      <Lists />
    </section>
  );
}

interface VmRow {
  name: string;
  lanes: ReadonlySet<number>;
  exits: number;
  sums: Sums;
}

/** The VMs, where there are several. */
function Vms() {
  const rows: VmRow[] = vms().map(({ name, lanes: of }) => {
    const times = [...of].map(vcpuTimes);
    return { name, lanes: of, exits: times.reduce((sum, row) => sum + row.exits, 0), sums: sumsOf(times.map((row) => row.times)) };
  });
  if (rows.length < 2) return null;
  const part = (title: string, of: (row: VmRow) => number): Column<VmRow> => ({
    title,
    value: (row) => of(row) / (totalOf(row.sums) || 1),
    show: (row) => share(of(row) / (totalOf(row.sums) || 1)),
  });
  const columns: Column<VmRow>[] = [
    {
      title: "VM",
      text: true,
      value: (row) => row.name,
      show: (row) => (
        <button type="button" class="plain" onClick={() => showAlone(row.lanes)}>
          {row.name}
        </button>
      ),
    },
    { title: "vCPUs", value: (row) => row.lanes.size, show: (row) => count(row.lanes.size) },
    { title: "exits", value: (row) => row.exits, show: (row) => count(row.exits) },
    { title: "vCPU time", value: (row) => totalOf(row.sums), show: (row) => ns(totalOf(row.sums)) },
    part("cost", (row) => costOf(row.sums)),
    ...parts.value.filter(({ column }) => !COST.includes(column)).map((of) => part(partName(of), (row) => timeOf(row.sums, of.column))),
  ];
  return <DataTable columns={columns} rows={rows.sort((a, b) => costOf(b.sums) - costOf(a.sums))} caption="VMs" top={12} chosen={(row) => isShownAlone(row.lanes)} />;
}

export function Vcpus() {
  const sums = sumsOf(shownTimes());
  const wall = totalOf(sums) || 1;
  const shareOf = (column: string): string => share(timeOf(sums, column) / wall);
  const all = useSignal(false);
  const drawn = () => (all.value ? shownLanes() : costliest(shownLanes(), FIRST_VCPUS));
  const bar = (lane: number): Bar => {
    const { times, exits } = vcpuTimes(lane);
    const span = totalOf(times);
    const perSecond = span < RATED ? "" : `, ${rate((exits * 1e9) / span)}/s`;
    return { label: vcpuName(lane), parts: parts.value.map(({ column }) => timeOf(times, column)), after: `${plural(exits, "exit")}${perSecond}` };
  };
  return (
    <section id="vcpus" aria-label="vCPUs">
      <Vms />
      <Bars
        id="vcpus"
        title="Where the wall time of each vCPU went"
        summary={() => `${hasGuestTime() ? `Guests ran ${shareOf("guest_ns")}, halted` : "Halted"} ${shareOf("halted_ns")}.`}
        axis="Share of the vCPU's wall time (%)"
        bars={() => drawn().map(bar)}
        every={() => shownLanes().map(bar)}
        parts={parts.value.map(partName)}
        fills={() => partFills(parts.value)}
        show={ns}
        relative
        first="vCPU"
        note={isAll.value ? undefined : `Of ${ns(settledRange.value[1] - settledRange.value[0])}${selectedVcpus.value ? ", chosen vCPUs" : ""}${reasons.value ? ", all reasons" : ""}.`}
        click={data.timelines.vcpus.length <= 64 ? (at) => selectOnly(selectedVcpus, drawn()[at]!) : undefined}
        controls={<MoreVcpus all={all} first={FIRST_VCPUS} />}
      />
    </section>
  );
}
