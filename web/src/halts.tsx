// Halts: how long vCPUs have nothing to do, and what a limit of polling would make of it.
import { useRef } from "preact/hooks";
import { bottomAxis, leftAxis, leftRoom, linear, logarithmic, type Scale } from "./axes";
import { Chart, type Tip } from "./chart";
import { colors } from "./colors";
import { count, ns, round, share } from "./format";
import { kept } from "./url_state";
import { data, fullRange } from "./selection";
import type { Surface } from "./surface";
import { DataTable, type Column } from "./table";
import { vcpuName } from "./timeline";
import type { HaltRow, PollRow } from "./types.gen";

/** Shorter gaps are drawn as such of this length. */
const SHORTEST = 1024;

/** Whose polling is replayed, and with which limit, in ns. */
const pollScope = kept<"host" | "guest">("polls", "host", ["host", "guest"]);
const limit = kept<string>("limit", "");

const haltColumns: Column<HaltRow>[] = [
  {
    title: "vCPU",
    text: true,
    value: (row) => name(row),
    show: (row) => name(row),
  },
  { title: "halts", value: (row) => row.halts, show: (row) => count(row.halts) },
  { title: "not blocked", value: (row) => row.not_blocked, show: (row) => (row.not_blocked === null ? "–" : count(row.not_blocked)) },
  { title: "gap p50", value: (row) => row.gaps.p50_ns, show: (row) => ns(row.gaps.p50_ns) },
  { title: "gap p99", value: (row) => row.gaps.p99_ns, show: (row) => ns(row.gaps.p99_ns) },
  { title: "wake-up p50", value: (row) => row.latency.p50_ns, show: (row) => ns(row.latency.p50_ns) },
  { title: "wake-up p99", value: (row) => row.latency.p99_ns, show: (row) => ns(row.latency.p99_ns) },
  { title: "in successful polls", value: (row) => row.poll_success_ns, show: (row) => ns(row.poll_success_ns) },
  { title: "in failed polls", value: (row) => row.poll_fail_ns, show: (row) => ns(row.poll_fail_ns) },
];

function name(row: HaltRow): string {
  const lane = data.timelines.vcpus.findIndex((of) => of.vm === row.vm && of.vcpu === row.vcpu && of.tid === row.tid);
  return lane >= 0 ? vcpuName(lane) : "all";
}

export function Halts() {
  const halt = data.report.halt!;
  const polls = data.polls;
  const ofGuest = () => polls !== null && polls.guest.length > 0 && pollScope.value === "guest";
  const rows = (): PollRow[] => (polls ? (ofGuest() ? polls.guest : polls.host) : []);
  const taken = halt.settings[0]?.halt_poll_assumed_ns ?? null;
  const first = Math.max(0, (polls?.host ?? []).findIndex((row) => row.value_ns === taken));
  const place = (): number => {
    const asked = rows().findIndex((row) => String(row.value_ns) === limit.value);
    return Math.min(asked < 0 ? first : asked, rows().length - 1);
  };
  const row = (): PollRow | undefined => rows()[place()];
  // Without sched_wakeup, a halt that blocked has no wake-up latency.
  const isExact = polls !== null && polls.inexact * 100 <= polls.halts;
  return (
    <section id="halts" aria-label="Halts">
      <h2>Halts and polling</h2>
      <p class="note">
        Of {fullRange()}. A gap is the time from a vCPU's exit for a halt until something wakes it; the wake-up latency is from there to its
        entry. A poll that lasts longer than a gap is successful: its vCPU does not block. Polling costs CPU time.
        {halt.guest_polls && " A guest polled by itself when this was recorded: the gaps that its successful polls ended are missing here."}
        {halt.of_vcores && " These are the halts of virtual cores."}
      </p>
      {polls && <Gaps limit={() => row()?.value_ns ?? 0} label={() => (ofGuest() ? "guest_halt_poll_ns" : "halt_poll_ns")} />}
      {polls && (
        <div class="card wide what-if">
          <h3>With another limit of polling</h3>
          <span role="group" aria-label="Who polls" class="choice">
            <button type="button" aria-pressed={!ofGuest()} onClick={() => (pollScope.value = "host")}>
              host (halt_poll_ns)
            </button>
            {polls.guest.length > 0 && (
              <button type="button" aria-pressed={ofGuest()} onClick={() => (pollScope.value = "guest")}>
                guest (guest_halt_poll_ns)
              </button>
            )}
          </span>
          <label>
            Limit: <b>{ns(row()?.value_ns ?? 0)}</b>
            <input
              type="range"
              min={0}
              max={rows().length - 1}
              step={1}
              value={place()}
              aria-valuetext={ns(row()?.value_ns ?? 0)}
              onInput={(event) => (limit.value = String(rows()[Number(event.currentTarget.value)]?.value_ns ?? ""))}
            />
          </label>
          <Compare now={polls.in_force} then={row()!} guest={ofGuest()} latencies={isExact} />
          <p class="note">
            {`The policy's own state machine ran over ${polls.replayed < polls.halts ? `the last ${count(polls.replayed)} of ` : ""}${count(polls.halts)} recorded halts, once for each value.`}
            {!isExact && ` The recording does not show when ${count(polls.inexact)} of them were woken (sched_wakeup): the gain of polls is unknown, and somewhat more of them would be successful.`}
            {" Gaps are replayed unchanged; an earlier wake-up would shift later ones."}
          </p>
          <Tradeoff rows={rows} at={place} latencies={isExact} />
        </div>
      )}
      <DataTable columns={haltColumns} rows={halt.vcpus} caption="Halts by vCPU" top={12} foot={halt.vcpus.length > 1 ? halt.all : undefined} />
    </section>
  );
}

function Compare({ now, then, guest, latencies }: { now: PollRow; then: PollRow; guest: boolean; latencies: boolean }) {
  const figures: [string, (row: PollRow) => string][] = [
    [guest ? "exits avoided" : "halts not blocked", (row) => `${count(row.caught)} of ${count(row.halts)} (${share(row.caught / (row.halts || 1))})`],
    ["polling, CPU time", (row) => ns(row.polling_ns)],
    ["of it in failed polls", (row) => ns(row.missed_ns)],
  ];
  if (latencies)
    figures.push(
      ["wake-up mean", (row) => ns(row.latency.mean_ns)],
      ["wake-up p50", (row) => ns(row.latency.p50_ns)],
      ["wake-up p99", (row) => ns(row.latency.p99_ns)],
    );
  return (
    <table class="compare">
      <caption class="hidden">As recorded, and with this limit</caption>
      <thead>
        <tr>
          <th scope="col" class="text">figure</th>
          <th scope="col">host's polling as it was</th>
          <th scope="col">with this limit</th>
        </tr>
      </thead>
      <tbody>
        {figures.map(([title, show]) => (
          <tr>
            <th scope="row" class="text">{title}</th>
            <td>{show(now)}</td>
            <td class="then">{show(then)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Gaps by length, five lengths to a doubling or fewer, with the limit drawn. */
function Gaps({ limit, label }: { limit: () => number; label: () => string }) {
  const polls = data.polls!;
  const hasWakeups = data.report.halt!.all.has_wakeup_events;
  const STEP = 4;
  const bins = new Map<number, [number, number]>();
  for (const [low, width, notBlocked, blocked] of polls.gaps) {
    const bin = Math.floor(Math.log2(Math.max(SHORTEST, low + width / 2)) * STEP);
    const sums = bins.get(bin) ?? [0, 0];
    bins.set(bin, [sums[0] + notBlocked, sums[1] + blocked]);
  }
  const keys = [...bins.keys()].sort((a, b) => a - b);
  const [from, to] = [2 ** ((keys[0] ?? 40) / STEP), 2 ** (((keys.at(-1) ?? 80) + 1) / STEP)];
  const most = Math.max(1, ...[...bins.values()].map((sums) => sums[0] + sums[1]));
  const titles = ["not blocked", hasWakeups ? "blocked" : "halts"];
  const last = useRef<Scale | null>(null);
  const draw = (s: Surface, w: number, h: number) => {
    const { parts, accent } = colors.value;
    const plot = { x: 0, y: 18, w: 0, h: h - 58 };
    const y = linear(0, most * 1.05, plot.y + plot.h, plot.y, 5, count);
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 14;
    const x = logarithmic(Math.min(from, 5_000), Math.max(to, 2_000_000), plot.x, plot.x + plot.w);
    leftAxis(s, plot, y, "Halts");
    bottomAxis(s, plot, x, "Gap (log)");
    for (const [bin, [notBlocked, blocked]] of bins) {
      const left = x(2 ** (bin / STEP));
      const wide = x(2 ** ((bin + 1) / STEP)) - left - 1;
      s.rect(left, y(notBlocked), wide, plot.y + plot.h - y(notBlocked), parts.polling_ns);
      s.rect(left, y(notBlocked + blocked), wide, y(notBlocked) - y(notBlocked + blocked), parts.halted_ns);
    }
    const line = limit();
    if (line > 0) {
      const at = x(line);
      s.path([at, plot.y, at, plot.y + plot.h], accent, 2, undefined, true);
      const right = at > plot.x + plot.w * 0.7;
      s.text(at + (right ? -5 : 5), 9, `${label()} ${ns(line)}`, { color: accent, align: right ? "right" : "left", bold: true });
    } else s.text(plot.x + 4, 9, `${label()} 0: no polling`, { color: accent, bold: true });
    last.current = x;
  };
  const hit = (px: number): Tip | null => {
    if (!last.current) return null;
    const bin = Math.floor(Math.log2(Math.max(1, last.current.back(px))) * STEP);
    const [notBlocked, blocked] = bins.get(bin) ?? [0, 0];
    return { title: `gaps of ${bin === Math.log2(SHORTEST) * STEP ? "0" : ns(2 ** (bin / STEP))} to ${ns(2 ** ((bin + 1) / STEP))}`, lines: [[titles[0]!, count(notBlocked)], [titles[1]!, count(blocked)]] };
  };
  const twin = () => ({
    columns: [
      { title: "gap from", show: (bin: number) => ns(2 ** (bin / STEP)), value: (bin: number) => Math.round(2 ** (bin / STEP)) },
      { title: "to", show: (bin: number) => ns(2 ** ((bin + 1) / STEP)), value: (bin: number) => Math.round(2 ** ((bin + 1) / STEP)) },
      { title: titles[0]!, show: (bin: number) => count(bins.get(bin)![0]), value: (bin: number) => bins.get(bin)![0] },
      { title: titles[1]!, show: (bin: number) => count(bins.get(bin)![1]), value: (bin: number) => bins.get(bin)![1] },
    ],
    rows: keys,
  });
  return (
    <Chart
      id="gaps"
      title="Gaps by length"
      summary={() => `${count(polls.halts)} halts; the limit of polling is drawn at ${ns(limit())}.`}
      height={240}
      draw={draw}
      hit={hit}
      twin={twin}
      legend={() => [
        { label: titles[0]!, color: colors.value.parts.polling_ns },
        { label: titles[1]!, color: colors.value.parts.halted_ns },
        { label: "limit of polling", color: colors.value.accent, line: true },
      ]}
    />
  );
}

/** What each limit costs, and how long waking up takes then. */
function Tradeoff({ rows, at, latencies }: { rows: () => PollRow[]; at: () => number; latencies: boolean }) {
  const draw = (s: Surface, w: number, h: number) => {
    const { parts, accent, ink, soft } = colors.value;
    const list = rows();
    const most = Math.max(1, ...list.map((row) => row.polling_ns));
    const slow = Math.max(1, ...list.map((row) => row.latency.mean_ns ?? 0));
    const plot = { x: 0, y: 8, w: 0, h: h - 46 };
    const y = linear(0, most * 1.05, plot.y + plot.h, plot.y, 4, (value) => ns(value));
    plot.x = leftRoom(y);
    plot.w = w - plot.x - 66;
    const right = linear(0, slow * 1.05, plot.y + plot.h, plot.y, 4, (value) => ns(value));
    leftAxis(s, plot, y, "Polling, CPU time");
    const x = (place: number) => plot.x + (plot.w * (place + 0.5)) / list.length;
    s.rect(x(at()) - plot.w / list.length / 2, plot.y, plot.w / list.length, plot.h, colors.value.grid);
    const line = (of: (row: PollRow) => number, scale: Scale, color: string) => {
      s.path(list.flatMap((row, place) => [x(place), scale(of(row))]), color, 1.8);
      list.forEach((row, place) => s.dot(x(place), scale(of(row)), 3, color));
    };
    line((row) => row.polling_ns, y, parts.polling_ns);
    if (latencies) line((row) => row.latency.mean_ns ?? 0, right, accent);
    list.forEach((row, place) => s.text(x(place), plot.y + plot.h + 11, round(row.value_ns ?? 0), { color: place === at() ? ink : soft, align: "center", bold: place === at() }));
    if (latencies) {
      for (const tick of right.ticks) s.text(plot.x + plot.w + 5, tick.at, tick.label, { color: accent });
      s.text(w - 8, plot.y + plot.h / 2, "Wake-up, mean", { color: soft, align: "center", up: true });
    }
    s.text(plot.x + plot.w / 2, plot.y + plot.h + 27, "Limit of polling", { color: soft, align: "center" });
  };
  const twin = () => ({
    columns: [
      { title: "limit", show: (row: PollRow) => ns(row.value_ns), value: (row: PollRow) => row.value_ns },
      { title: "not blocked", show: (row: PollRow) => count(row.caught), value: (row: PollRow) => row.caught },
      { title: "polling (ns)", show: (row: PollRow) => ns(row.polling_ns), value: (row: PollRow) => row.polling_ns },
      { title: "in failed polls (ns)", show: (row: PollRow) => ns(row.missed_ns), value: (row: PollRow) => row.missed_ns },
      ...(latencies
        ? [
            { title: "wake-up mean (ns)", show: (row: PollRow) => ns(row.latency.mean_ns), value: (row: PollRow) => row.latency.mean_ns },
            { title: "wake-up p99 (ns)", show: (row: PollRow) => ns(row.latency.p99_ns), value: (row: PollRow) => row.latency.p99_ns },
          ]
        : []),
    ],
    rows: rows(),
  });
  return (
    <Chart
      id="tradeoff"
      title={latencies ? "CPU time of polls, and wake-up latency" : "CPU time of polls"}
      summary={() => (latencies ? "CPU time of polls and mean wake-up latency for each limit." : "CPU time of polls for each limit.")}
      height={200}
      draw={draw}
      twin={twin}
      legend={() => [
        { label: "polling, CPU time (left)", color: colors.value.parts.polling_ns, line: true },
        ...(latencies ? [{ label: "wake-up latency, mean (right)", color: colors.value.accent, line: true }] : []),
      ]}
    />
  );
}
