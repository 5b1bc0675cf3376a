// Lanes of virtual cores over time: when each vCPU was forced out of the guest, by whom, and for how long; and the same as
// a matrix.
import { computed, useSignal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { bottomAxis, timeScale, type Plot, type Scale } from "./axes";
import { Chart, type Tip } from "./chart";
import { colors, mix } from "./colors";
import { count, ns, share } from "./format";
import { Matrix } from "./matrix";
import { statesOver, stepFor } from "./aggregate";
import { settledRange, data, fullRange, isSettledWhole, range } from "./selection";
import type { Surface } from "./surface";
import { brushing, drawBrush, timePlot, vcpuName, timeAxis, zero } from "./timeline";

interface ForcedOutInterval {
  /** In ns from the base. */
  at: number;
  /** Lanes; -1 where nobody knows. */
  lane: number;
  cause: number;
  reason: string;
  forced: number;
  lost: number;
}

/** Up to so many drags within the range, each is drawn with who forced it; more are summed up. */
const SINGLE = 300;
const TALL = 36;
const GAP = 14;
/** Virtual cores that are drawn unless all are asked for. */
const FIRST = 4;

/** All drags, in order of time. */
export const forcedOut = computed<ForcedOutInterval[]>(() => {
  const of = data.forced_out;
  if (!of) return [];
  const shift = Number(BigInt(of.base_ns) - BigInt(data.timelines.base_ns));
  const lane = (vm: number | null, vcpu: number | null) => (vcpu === null ? -1 : data.timelines.vcpus.findIndex((row) => (row.vm ?? null) === vm && row.vcpu === vcpu));
  const triples = of.forced_pairs.map((row) => ({ lane: lane(row.vm, row.vcpu), cause: lane(row.vm, row.cause), reason: row.reason ?? "not known" }));
  let bucket = 0;
  return of.bucket.map((more, at) => {
    bucket += more;
    return { at: shift + bucket * of.width_ns, ...triples[of.triple[at]!]!, forced: of.forced[at]!, lost: of.lost[at]! };
  });
});

const within = ([from, to]: [number, number]): ForcedOutInterval[] => forcedOut.value.filter((drag) => drag.at + drag.lost >= from && drag.at < to);

/** The lanes of each virtual core. */
const cores = computed<{ name: string; lanes: number[] }[]>(() => {
  const found = data.report.gang!.vcores.map((core) => ({
    name: `vCPUs ${core.vcpus?.join(", ") ?? ""}`,
    lanes: (core.vcpus ?? []).map((vcpu) => data.timelines.vcpus.findIndex((row) => (row.vm ?? null) === core.vm && row.vcpu === vcpu)).filter((lane) => lane >= 0),
  }));
  const known = new Set(forcedOut.value.map((drag) => drag.lane));
  return found.filter((core) => core.lanes.some((lane) => known.has(lane)));
});

/** A vCPU's colour: by its place in its virtual core. */
function colorOf(lane: number): string {
  const core = cores.value.find((core) => core.lanes.includes(lane));
  return core ? colors.value.reasons[core.lanes.indexOf(lane) % 8]! : colors.value.other;
}

const who = (lane: number): string => (lane < 0 ? "not known" : vcpuName(lane));

function Lanes() {
  const all = useSignal(false);
  const brush = useSignal<[number, number] | null>(null);
  const last = useRef<{ scale: Scale; plots: { lane: number; plot: Plot }[]; drags: ForcedOutInterval[]; step: number } | null>(null);
  const [pointing] = useState(() => brushing(() => last.current?.scale ?? null, brush));
  const drawn = () => (all.value ? cores.value : cores.value.slice(0, FIRST));
  const draw = (s: Surface, w: number, h: number) => {
    const { ink, line, parts, ground } = colors.value;
    const outer = timePlot(w, 4, h - 42);
    const left = outer.x;
    const scale = timeScale(range.value[0], range.value[1], outer.x, outer.x + outer.w, zero());
    bottomAxis(s, outer, scale, timeAxis());
    const list = within(range.value);
    const single = list.reduce((sum, drag) => sum + drag.forced, 0) <= SINGLE;
    const running = statesOver(range.value, outer.w / 2, data.timelines.parts.filter((part) => part.column === "guest_ns"));
    const step = stepFor(data.snap, range.value, outer.w / 3);
    const plots: { lane: number; plot: Plot }[] = [];
    let y = outer.y;
    for (const core of drawn()) {
      for (const lane of core.lanes) {
        plots.push({ lane, plot: { x: outer.x, y: y + 2, w: outer.w, h: TALL - 5 } });
        y += TALL;
      }
      y += GAP;
    }
    let most = 0;
    const place = new Map(plots.map(({ lane, plot }) => [lane, plot]));
    s.clip(outer.x, 0, outer.w, h, () => {
      for (const { lane, plot } of plots) {
        // In the guest: above; lost: below.
        const of = running.get(lane);
        for (let group = 0; group < (of?.groups ?? 0); group++) {
          const part = of!.values[0]![group]! / of!.step;
          const x = scale(of!.from + group * of!.step);
          if (part > 0) s.rect(x, plot.y, Math.max(0.7, scale(of!.from + (group + 1) * of!.step) - x), plot.h * 0.4, mix(ground, parts.guest_ns, Math.min(1, part)));
        }
        s.rect(plot.x, plot.y + plot.h, plot.w, 1, line);
      }
      if (single) drawSingle(s, list, scale, place);
      else most = drawSums(s, list, scale, place, step);
    });
    for (const { lane, plot } of plots) {
      s.text(left - 8, plot.y + plot.h / 2, vcpuName(lane), { color: ink, align: "right", width: left - 22 });
      s.rect(left - 5, plot.y + plot.h / 2 - 4, 4, 8, colorOf(lane));
      if (most > 0) s.text(plot.x + plot.w + 4, plot.y + plot.h * 0.55, share(most), { color: colors.value.soft, size: 10, width: 50 });
    }
    last.current = { scale, plots, drags: list, step: single ? 0 : step };
    drawBrush(s, outer, scale, brush.value);
  };
  const hit = (x: number, y: number): Tip | null => {
    const found = last.current?.plots.find(({ plot }) => y >= plot.y && y <= plot.y + plot.h && x >= plot.x && x <= plot.x + plot.w);
    if (!found || !last.current) return null;
    const at = last.current.scale.back(x);
    const { step } = last.current;
    const own = last.current.drags.filter((drag) => drag.lane === found.lane);
    if (step) {
      const from = Math.floor(at / step) * step;
      const by = new Map<string, number>();
      own.filter((drag) => drag.at >= from && drag.at < from + step).forEach((drag) => by.set(`${who(drag.cause)} ${drag.reason}`, (by.get(`${who(drag.cause)} ${drag.reason}`) ?? 0) + drag.lost));
      return { title: `${vcpuName(found.lane)}, ${((from - zero()) / 1e9).toFixed(6)} s + ${ns(step)}`, lines: by.size ? [...by].map(([name, lost]): [string, string] => [`lost to ${name}`, `${ns(lost)} (${share(lost / step)})`]) : [["lost", "0"]] };
    }
    const near = own.filter((drag) => drag.at <= at && at <= drag.at + Math.max(drag.lost, data.forced_out!.width_ns));
    return near.length
      ? { title: `${vcpuName(found.lane)} was forced out`, lines: near.flatMap((drag): [string, string][] => [["by", `${who(drag.cause)}, ${drag.reason}`], ["at", `${((drag.at - zero()) / 1e9).toFixed(6)} s`], ["lost", ns(drag.lost)]]) }
      : null;
  };
  const twin = () => ({
    columns: [
      { title: "when (s)", value: (drag: ForcedOutInterval) => (drag.at - zero()) / 1e9, show: (drag: ForcedOutInterval) => ((drag.at - zero()) / 1e9).toFixed(6) },
      { title: "forced out", text: true, value: (drag: ForcedOutInterval) => who(drag.lane), show: (drag: ForcedOutInterval) => who(drag.lane) },
      { title: "by", text: true, value: (drag: ForcedOutInterval) => who(drag.cause), show: (drag: ForcedOutInterval) => who(drag.cause) },
      { title: "reason", text: true, value: (drag: ForcedOutInterval) => drag.reason, show: (drag: ForcedOutInterval) => drag.reason },
      { title: "times", value: (drag: ForcedOutInterval) => drag.forced, show: (drag: ForcedOutInterval) => count(drag.forced) },
      { title: "lost (ns)", value: (drag: ForcedOutInterval) => drag.lost, show: (drag: ForcedOutInterval) => ns(drag.lost) },
    ],
    rows: within(range.value),
  });
  const widest = () => cores.value.reduce((most, core) => (core.lanes.length > most.lanes.length ? core : most), cores.value[0] ?? { name: "", lanes: [] });
  const lanesOf = () => drawn().reduce((sum, core) => sum + core.lanes.length, 0);
  return (
    <Chart
      id="drags"
      title="Who forced whom out of the guest, over time"
      summary={() => `${lanesOf()} vCPUs of ${drawn().length} virtual cores; ${count(within(settledRange.value).reduce((sum, drag) => sum + drag.forced, 0))} exits were forced.`}
      height={() => lanesOf() * TALL + drawn().length * GAP + 46}
      draw={draw}
      hit={hit}
      twin={twin}
      pointing={pointing}
      time={() => last.current?.scale ?? null}
      legend={() => [
        { label: "in the guest", color: colors.value.parts.guest_ns },
        ...widest().lanes.map((lane, at) => ({ label: cores.value.length === 1 ? `lost to ${vcpuName(lane)}` : `lost to vCPU ${at + 1} of the core`, color: colors.value.reasons[at % 8]! })),
      ]}
      note="Above in each lane: time in the guest. Below: time lost after it was forced out, in the colour of the vCPU that forced it out, up to the share of time at the right; zoomed in far enough, each loss is drawn, with a line from that vCPU."
      controls={
        cores.value.length > FIRST ? (
          <button type="button" onClick={() => (all.value = !all.value)}>
            {all.value ? `First ${FIRST} virtual cores` : `All ${cores.value.length} virtual cores`}
          </button>
        ) : undefined
      }
    />
  );
}

/** Each drag: a bar as long as what was lost, and a line from the vCPU that forced it. */
function drawSingle(s: Surface, list: ForcedOutInterval[], scale: Scale, place: Map<number, Plot>): void {
  // Of one loss, those who share it stand above each other.
  const losses = new Map<string, ForcedOutInterval[]>();
  for (const drag of list) {
    const key = `${drag.lane} ${drag.at}`;
    losses.set(key, [...(losses.get(key) ?? []), drag]);
  }
  for (const shared of losses.values()) {
    const { lane, at } = shared[0]!;
    const to = place.get(lane);
    if (!to) continue;
    const x = scale(at);
    const wide = Math.max(1.5, scale(at + shared.reduce((sum, drag) => sum + drag.lost, 0)) - x);
    const tall = (to.h * 0.5) / shared.length;
    shared.forEach((drag, number) => {
      const color = drag.cause < 0 ? colors.value.other : colorOf(drag.cause);
      const y = to.y + to.h * 0.45 + number * tall;
      s.rect(x, y, wide, tall, color);
      const from = place.get(drag.cause);
      if (!from) return;
      const aside = x + number * 2;
      s.path([aside, from.y + from.h / 2, aside, y + tall / 2], color, 1);
      s.dot(aside, from.y + from.h / 2, 2.5, color);
    });
  }
}

/** Time lost in each step, stacked by who forced it; the share of a step that all of a lane's lower half stands for. */
function drawSums(s: Surface, list: ForcedOutInterval[], scale: Scale, place: Map<number, Plot>, step: number): number {
  const sums = new Map<string, { drag: ForcedOutInterval; lost: number }>();
  for (const drag of list) {
    const key = `${drag.lane} ${drag.cause} ${Math.floor(drag.at / step)}`;
    const sum = sums.get(key);
    if (sum) sum.lost += drag.lost;
    else sums.set(key, { drag, lost: drag.lost });
  }
  const steps = new Map<string, number>();
  for (const { drag, lost } of sums.values()) {
    const key = `${drag.lane} ${Math.floor(drag.at / step)}`;
    steps.set(key, (steps.get(key) ?? 0) + lost);
  }
  // What was lost may reach into the next step.
  const most = Math.min(step, [...steps.values()].reduce((most, lost) => Math.max(most, lost), 1));
  const below = new Map<string, number>();
  for (const { drag, lost } of sums.values()) {
    const plot = place.get(drag.lane);
    if (!plot) continue;
    const group = Math.floor(drag.at / step);
    const key = `${drag.lane} ${group}`;
    const before = below.get(key) ?? 0;
    const full = plot.h * 0.5;
    const tall = Math.min(full - before, (lost / most) * full);
    below.set(key, before + tall);
    const x = Math.round(scale(group * step));
    if (tall > 0) s.rect(x, plot.y + plot.h - before - tall, Math.max(1, Math.round(scale((group + 1) * step)) - x), tall, drag.cause < 0 ? colors.value.other : colorOf(drag.cause));
  }
  return most / step;
}

export function ForcedOutTimeline() {
  const pairs = () => {
    const sums = new Map<string, { from: string; to: string; value: number; forced: number }>();
    for (const drag of within(settledRange.value)) {
      const key = `${drag.cause} ${drag.lane}`;
      const sum = sums.get(key) ?? { from: who(drag.cause), to: who(drag.lane), value: 0, forced: 0 };
      sum.value += drag.lost;
      sum.forced += drag.forced;
      sums.set(key, sum);
    }
    return [...sums.values()].map(({ forced, ...pair }) => ({ ...pair, tip: [["times", count(forced)]] as [string, string][] }));
  };
  return (
    <>
      <Lanes />
      <Matrix
        id="forced"
        title="Who forced whom out"
        summary={() => {
          const most = pairs().sort((a, b) => b.value - a.value)[0];
          return most ? `${most.to} lost most, to ${most.from}.` : "No vCPU was forced out.";
        }}
        down="vCPU that had a reason to leave"
        across="vCPU that it forced out"
        pairs={pairs}
        what="time lost"
        show={ns}
        note={`Of ${isSettledWhole.value ? fullRange() : "the range"}. Time from being forced out until back in the guest; where several vCPUs had a reason to leave, they share it equally.`}
      />
    </>
  );
}
