// Advice, with the facts that say so; each leads to the chart in which it can be seen.
//
// Live, it changes while it is read: what is the same advice stays the same element, as open as it was, and where it is as
// long as somebody points at the list or has gone into it by keyboard.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { colors } from "./colors";
import { count, ns, rate, share } from "./format";
import { go } from "./shell";
import { data, everything } from "./state";
import { DataTable, type Column } from "./table";
import type { Advised, AdvisedCauseRow, AdviceSettingRow } from "./types.gen";

type Item = Advised["advice"][number];
type Fact = Advised["facts"][number];

function figure(fact: Fact): string {
  const show: Record<string, (value: number) => string> = { per_s: (value) => `${rate(value)}/s`, ns, share, cpus: (value) => value.toFixed(2) };
  return (show[fact.unit] ?? count)(fact.value);
}

function setting(of: AdviceSettingRow): string {
  const { side, name, value } = of;
  switch (of.kind) {
    case "knob":
      return of.writable ? `${side}: ${name}=${value} in ${of.file ?? "the kernel"}` : `${side}: ${name}=${value} when the module is loaded (modprobe.d)`;
    case "module":
      return `${side}: load the module ${name} with ${value}`;
    case "libvirt": {
      const [first, ...others] = value.split("\n");
      const more = others.length > 0 ? ` and ${count(others.length)} more like it (exitscope advise --as libvirt)` : "";
      return `libvirt, in <${(of.within ?? "").replaceAll("/", "><")}>: ${first}${more}`;
    }
    case "qemu":
      return value.startsWith("-cpu …,") ? `QEMU: ${value} (… is the model that the VM has; another one would change what it can be migrated to)` : `QEMU: ${value}`;
    case "boot":
      return `guest kernel's command line: ${value}`;
    default:
      return value;
  }
}

/** What is said of a cause; not judged is not "nothing to do". */
function verdict({ verdict, advice, why }: AdvisedCauseRow): string {
  if (verdict === "can_be_changed") return advice.length > 0 ? `can be changed: see ${advice.join(", ")}` : `can be changed, with little to win: ${why ?? ""}`;
  return `${verdict.replace("_", " ")}: ${why ?? ""}`;
}

const causeColumns: Column<AdvisedCauseRow>[] = [
  { title: "VM", text: true, value: (row) => row.vm ?? -1, show: (row) => `${row.vm_name ?? ""} ${row.vm ?? "-"}`.trim() },
  { title: "reason", text: true, value: (row) => row.reason ?? row.of, show: (row) => row.reason ?? row.of.replace("_", " ") },
  { title: "subject", text: true, value: (row) => row.subject ?? "", show: (row) => row.subject ?? "" },
  { title: "of cost", value: (row) => row.share_of_cost ?? -1, show: (row) => (row.share_of_cost === null ? "" : share(row.share_of_cost)) },
  { title: "of vCPU time", value: (row) => row.share_of_time, show: (row) => share(row.share_of_time) },
  { title: "what the rules say", text: true, value: verdict, show: verdict },
];

/** The section in which a fact can be seen. */
function seenIn(fact: Fact): string {
  const what = fact.what.toLowerCase();
  if (/port|mmio|msr|cpuid|hypercall|register/.test(what)) return "devices";
  if (/poll|halt|wake|sleep/.test(what) && data.report.halt) return "halts";
  if (/yield|pause|lock/.test(what) && data.report.yield) return "yields";
  if (/forced|core run|ganged/.test(what) && data.report.gang) return "gangs";
  if (/idle|waited|cpu|wall/.test(what)) return "timeline";
  return "reasons";
}

/** What a gain is of. */
export const OF: Record<string, string> = {
  exits: "of vCPU time in exits",
  wake_ups: "from wake-ups to entries",
  host_cpu: "of the host's CPU time",
  waiting: "of waiting for a CPU",
  forced_out: "lost to other threads' exits",
};

const whose = (item: { scope: string; vm: number | null; vm_name: string | null }) =>
  item.scope === "host" ? "the host" : `VM ${item.vm_name ?? ""} ${item.vm ?? "(not named)"}`;

function Gain({ item, most }: { item: Item; most: number }) {
  const { low_ns_per_s: low, high_ns_per_s: high, how, source, of } = item.gain;
  const range = low === high ? ns(low) : `${ns(low)} to ${ns(high)}`;
  return (
    <p class="gain">
      <span class="track" aria-hidden="true">
        <i style={{ width: `${(high / most) * 100}%`, background: colors.value.states[0] + "55" }} />
        <i style={{ width: `${(low / most) * 100}%`, background: colors.value.states[0] }} />
      </span>
      Wins <b>{range}</b> {OF[of] ?? ""}, each second ({how}: {source})
    </p>
  );
}

/** What tells an advice from the others, also when its figures change: numbers are left out, but not those of devices. */
function keyed(items: Item[]): [string, Item][] {
  const seen = new Map<string, number>();
  return items.map((item) => {
    const text = `${item.scope}/${item.vm}/${item.change.replace(/\b\d[\d,.]*\b/g, "#")}`;
    const times = seen.get(text) ?? 0;
    seen.set(text, times + 1);
    return [`${text}/${times}`, item];
  });
}

/** What was shown open or closed last. */
const opened = new Map<string, boolean>();

/** Something to unfold, which stays as it is when it is gone for a while, or no longer what `first` holds of. */
function Fold({ name, first = false, summary, children }: { name: string; first?: boolean; summary: string; children: ComponentChildren }) {
  return (
    <details open={opened.get(name) ?? first} onToggle={(event) => opened.set(name, event.currentTarget.open)}>
      <summary>{summary}</summary>
      {children}
    </details>
  );
}

export function AdviceView() {
  const { advice } = data;
  const list = useRef<HTMLElement>(null);
  const order = useRef<string[]>([]);
  const items = keyed(advice?.advice ?? []);
  if (list.current?.matches(":hover, :focus-within")) {
    const place = (key: string): number => (order.current.indexOf(key) + 1 || Infinity) - 1;
    items.sort(([a], [b]) => (place(a) === place(b) ? 0 : place(a) - place(b)));
  }
  order.current = items.map(([key]) => key);
  const most = Math.max(1, ...(advice?.advice.map((item) => item.gain.high_ns_per_s) ?? []));
  const facts = (numbers: number[]) => (
    <ul class="facts">
      {numbers.map((number) => {
        const fact = advice!.facts.find((fact) => fact.number === number);
        return (
          fact && (
            <li>
              <button type="button" class="plain" onClick={() => go(seenIn(fact))}>
                fact {number}
              </button>{" "}
              {fact.what}: <b>{figure(fact)}</b>
            </li>
          )
        );
      })}
    </ul>
  );
  return (
    <section id="advice" aria-label="Advice" ref={list}>
      <h2>What to change</h2>
      {!advice && <p class="note">Advice is about all that happened to a vCPU: it needs one recording, all its reasons and lengths.</p>}
      {advice && <p class="note">Of {everything()}. Without evidence there is no advice; <code>exitscope advise --apply</code> sets what can be set on a running host.</p>}
      {advice?.advice.length === 0 && <p>No advice. What weighs most, and whether any rule looks at it, is listed under Causes.</p>}
      {items.map(([key, item]) => (
        <article class="card wide" key={key}>
          <h3>
            {item.number}. {item.change}
          </h3>
          <p class="soft">For {whose(item)}. Acts: {item.acts}.</p>
          <Gain item={item} most={most} />
          <ul class="plain-list">
            {item.settings.map((of) => (
              <li>
                <code>{setting(of)}</code>
              </li>
            ))}
          </ul>
          <Fold name={key} first={item.number === 1} summary="Why, risk, price, undoing">
            {facts(item.evidence)}
            <dl>
              <dt>Risk</dt>
              <dd>{item.risk}</dd>
              <dt>Paid by</dt>
              <dd>{item.payer}</dd>
              <dt>Undo</dt>
              <dd>{item.undo}</dd>
            </dl>
          </Fold>
        </article>
      ))}
      {advice && advice.causes.length > 0 && (
        <>
          <h3>Causes</h3>
          <p class="note">What takes more than 5 % of the cost of its VM's exits, or 1 % of its vCPUs' time. Not judged does not say that nothing is to be done: no rule looks at it.</p>
          <DataTable columns={causeColumns} rows={advice.causes} caption="Causes, and what the rules say of them" />
        </>
      )}
      {advice && advice.left_alone.length > 0 && (
        <Fold name="left alone" summary={`Costs, and is best left as it is (${advice.left_alone.length})`}>
          {advice.left_alone.map((row) => (
            <div>
              <p>{row.why}</p>
              {facts(row.evidence)}
            </div>
          ))}
        </Fold>
      )}
      {advice && advice.not_judged.length > 0 && (
        <Fold name="not judged" summary={`Not judged, because of what is missing (${advice.not_judged.length})`}>
          <ul class="plain-list">
            {advice.not_judged.map((row) => (
              <li>
                {row.what}: {row.missing}. <code>{row.record}</code>
              </li>
            ))}
          </ul>
        </Fold>
      )}
    </section>
  );
}
