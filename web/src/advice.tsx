// Advice, with the facts that say so; each leads to the chart in which it can be seen.
//
// Live, it changes while it is read: what is the same advice stays the same element, as open as it was, and where it is as
// long as somebody points at the list or has gone into it by keyboard.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { colors } from "./colors";
import { seeKind } from "./devices";
import { share } from "./format";
import { go } from "./shell";
import { data, fullRange } from "./selection";
import { DataTable, type Column } from "./table";
import type { AdviceReport, AdvisedCauseRow } from "./types.gen";

type Item = AdviceReport["advice"][number];
type Fact = AdviceReport["facts"][number];

/** A subject, which leads to those of its kind. */
const Subject = ({ of }: { of: NonNullable<AdvisedCauseRow["subject"]> }) => (
  <button type="button" class="plain" onClick={() => seeKind(of.kind)}>
    {of.text}
  </button>
);

const causeColumns: Column<AdvisedCauseRow>[] = [
  { title: "VM", text: true, value: (row) => row.vm ?? -1, show: (row) => `${row.vm_name ?? ""} ${row.vm ?? "-"}`.trim() },
  { title: "reason", text: true, value: (row) => row.reason ?? row.kind, show: (row) => row.reason ?? row.kind.replaceAll("_", " ") },
  { title: "subject", text: true, value: (row) => row.subject?.text ?? "", show: ({ subject }) => subject && <Subject of={subject} /> },
  { title: "of cost", value: (row) => row.share_of_cost ?? -1, show: (row) => (row.share_of_cost === null ? "" : share(row.share_of_cost)) },
  { title: "of vCPU time", value: (row) => row.share_of_time, show: (row) => share(row.share_of_time) },
  { title: "what the rules say", text: true, value: (row) => row.text, show: (row) => row.text },
];

/** Goes to where a fact can be seen, if the page has that. */
const see = (fact: Fact) => go(document.getElementById(fact.topic) ? fact.topic : "reasons");

function Gain({ item, most }: { item: Item; most: number }) {
  const { headline_ns_per_s: headline, low_ns_per_s: low, high_ns_per_s: high, method, source, text } = item.gain;
  return (
    <p class="gain">
      <span class="track" aria-hidden="true">
        <i style={{ width: `${(high / most) * 100}%`, background: colors.value.accent + "55" }} />
        <i style={{ width: `${(headline / most) * 100}%`, background: colors.value.accent + "99" }} />
        <i style={{ width: `${(low / most) * 100}%`, background: colors.value.accent }} />
      </span>
      Gain: <b>{text}</b> ({method}: {source})
    </p>
  );
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
  const items = [...(advice?.advice ?? [])];
  if (list.current?.matches(":hover, :focus-within")) {
    const place = (id: string): number => (order.current.indexOf(id) + 1 || Infinity) - 1;
    items.sort(({ id: a }, { id: b }) => (place(a) === place(b) ? 0 : place(a) - place(b)));
  }
  order.current = items.map((item) => item.id);
  const most = Math.max(1, ...(advice?.advice.map((item) => item.gain.high_ns_per_s) ?? []));
  const facts = (numbers: number[]) => (
    <ul class="facts">
      {numbers.map((number) => {
        const fact = advice!.facts.find((fact) => fact.number === number);
        return (
          fact && (
            <li>
              <button type="button" class="plain" onClick={() => see(fact)}>
                fact {number}
              </button>{" "}
              {fact.what}: <b>{fact.text}</b>
            </li>
          )
        );
      })}
    </ul>
  );
  return (
    <section id="advice" aria-label="Advice" ref={list}>
      <h2>What to change</h2>
      {!advice && <p class="note">Advice judges all that happens to a vCPU: it needs one recording, without a selection of reasons or lengths.</p>}
      {advice && <p class="note">Of {fullRange()}. Without evidence there is no advice; <code>exitscope advise --apply</code> sets what can be set on a running host.</p>}
      {advice?.advice.length === 0 && <p>No advice. Causes lists what costs most, and whether a rule judges it.</p>}
      {items.map((item) => (
        <article class="card wide" key={item.id}>
          <h3>
            {item.number}. {item.title}
          </h3>
          <p>{item.change}</p>
          <p class="soft">For {item.scope_text}. Takes effect: {item.takes_effect}.{item.instead_of !== undefined && ` Alternative to ${item.instead_of} for the same problem: apply one or the other, not both.`}</p>
          <Gain item={item} most={most} />
          <ul class="plain-list">
            {item.settings.map((of) => (
              <li>
                <code>{of.text}</code>
              </li>
            ))}
          </ul>
          <Fold name={item.id} first={item.number === 1} summary="Evidence, risk, who pays, undo">
            {facts(item.evidence)}
            <dl>
              <dt>Risk</dt>
              <dd>{item.risk}</dd>
              <dt>Who pays</dt>
              <dd>{item.who_pays}</dd>
              <dt>Undo</dt>
              <dd>{item.undo}</dd>
            </dl>
          </Fold>
        </article>
      ))}
      {advice && advice.causes.length > 0 && (
        <>
          <h3>Causes</h3>
          <p class="note">Causes above 5 % of the cost of their VM's exits, or 1 % of its vCPUs' time. What is not judged may have a remedy all the same.</p>
          <DataTable columns={causeColumns} rows={advice.causes} caption="Causes, and what the rules say of them" />
        </>
      )}
      {advice && advice.accepted_costs.length > 0 && (
        <Fold name="accepted costs" summary={`Accepted costs (${advice.accepted_costs.length})`}>
          {advice.accepted_costs.map((row) => (
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
                {row.what}: {row.missing}. {row.record && <code>{row.record}</code>}
              </li>
            ))}
          </ul>
        </Fold>
      )}
    </section>
  );
}
