// Exits by any of VM, vCPU, reason, subject, handler, CPU and place in the guest, one within the other: as a flame graph and a table.
import { computed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { aboutOf, chooseSubject, reasonOf } from "./causes";
import { condition, lengthWords, type Condition } from "./condition";
import { colors, mix, reasonColor, reasonName } from "./colors";
import { subjectName } from "./devices";
import { Flame, type Frame } from "./flame";
import { count, ns, share } from "./format";
import { kept } from "./url_state";
import { COST, costOf, handlers, eachCauseSum, isShown, timeOf, waitParts, type Sums } from "./aggregate";
import { askGroups, canAsk, groupsOf, type GroupKey, type Wanted } from "./groups";
import type { Places } from "./server_events";
import { eachSingle, functionName, hasAllSingles, ripName } from "./single";
import { settledRange, data, fullRange, isAll, selectedVcpus, lengths, selectOnly, reasons, vms } from "./selection";
import { DataTable, type Column } from "./table";
import { vcpuName } from "./timeline";

/** What exits are told apart by; named as `report --by` names it. */
interface Dimension {
  name: string;
  title: string;
  /** Whether sums over time tell it; else single exits do. */
  isSummed: boolean;
  /** Of exits of a vCPU and a cause: a text that is the same for what is together. */
  of(exit: Keys): string;
  /** Chooses what exits have in common, where it can be chosen. */
  choose?(exit: Keys): void;
}

/** What is known of exits that are summed up together. */
interface Keys {
  lane: number;
  cause: number;
  toUser: number;
  cpu: number;
  rip: number;
  /** What its place in the guest is a number of. */
  places: Places;
}

const NO_PLACES: Places = { rips: [], functions: [], rip_functions: [], rip_offsets: [] };

const NO_SUBJECT = "no subject";

function nameOfSubject(cause: number): string {
  const about = aboutOf(cause);
  return data.timelines.causes[cause]?.is_further ? "further subjects" : about === null ? NO_SUBJECT : subjectName(about);
}

const DIMENSIONS: Dimension[] = [
  { name: "vm", title: "VM", isSummed: true, of: ({ lane }) => data.timelines.vcpus[lane]?.vm_label ?? "further VMs" },
  { name: "vcpu", title: "vCPU", isSummed: true, of: ({ lane }) => vcpuName(lane), choose: ({ lane }) => selectOnly(selectedVcpus, lane) },
  { name: "reason", title: "reason", isSummed: true, of: ({ cause }) => reasonName(reasonOf(cause)), choose: ({ cause }) => selectOnly(reasons, reasonOf(cause)) },
  {
    name: "subject",
    title: "subject",
    isSummed: true,
    of: ({ cause }) => nameOfSubject(cause),
    choose: ({ cause }) => {
      const about = aboutOf(cause);
      if (about !== null) chooseSubject(about);
    },
  },
  { name: "handler", title: "handler", isSummed: true, of: ({ toUser }) => handlers()[toUser]! },
  { name: "cpu", title: "CPU", isSummed: false, of: ({ cpu }) => `CPU ${cpu}` },
  { name: "rip", title: "place in the guest", isSummed: false, of: ({ rip, places }) => ripName(rip, places) ?? "not recorded" },
  { name: "function", title: "function of the guest", isSummed: false, of: ({ rip, places }) => functionName(rip, places) ?? (ripName(rip, places) === null ? "not recorded" : "not known") },
];

const named = (name: string): Dimension | undefined => DIMENSIONS.find((of) => of.name === name);

/** Whether every single exit is known, of the page or of its server. */
const knowsAll = (): boolean => data.singles !== null && (hasAllSingles() || canAsk());

/** Those that this recording can be divided by. */
const possible = (): Dimension[] =>
  DIMENSIONS.filter((of) => {
    if (of.name === "handler") return data.report.event_kinds.user_space;
    if (of.name === "vm") return vms().length > 1;
    if (of.name === "rip") return knowsAll() && data.singles!.head.rips.length > 0;
    if (of.name === "function") return knowsAll() && data.singles!.head.functions.length > 0;
    return of.isSummed || knowsAll();
  });

/** The dimensions that were chosen, from the whole down. */
const by = kept<string>("by", "reason,subject");

const dimensions = computed<Dimension[]>(() => {
  const chosen = by.value.split(",").flatMap((name) => possible().find((of) => of.name === name) ?? []);
  return chosen.length > 0 ? [...new Set(chosen)] : [named("reason")!];
});

/** A condition on exits, as it was typed. */
const where = kept<string>("where", "");

/** What it means, or what is wrong with it. */
const asked = computed<{ condition: Condition | null; wrong: string | null }>(() => {
  try {
    const found = condition(where.value, possible().map((of) => of.name));
    const lengths = lengthWords();
    if (found?.words.some((word) => lengths.includes(word)) && !knowsAll()) throw new Error("lengths are those of single exits, and this page does not have all of them");
    return { condition: found, wrong: null };
  } catch (error) {
    return { condition: null, wrong: error instanceof Error ? error.message : String(error) };
  }
});

/** What the condition and what divides are about. */
const words = (): string[] => [...(asked.value.condition?.words ?? []), ...dimensions.value.map((of) => of.name)];

/** Whether that needs single exits: sums over time do not say who handled exits that halt, wait or lose the CPU. */
const needsSingles = (): boolean => words().some((word) => !named(word)?.isSummed || (word === "handler" && knowsAll()));

/** What the server is to say; `null` if the page can. */
const wanted = computed<Wanted | null>(() => {
  if (!needsSingles() || hasAllSingles() || !canAsk() || asked.value.wrong) return null;
  const keys: Record<string, GroupKey> = { handler: "to_user", cpu: "cpu", rip: "rip", function: "rip" };
  const [least, below] = lengths.value ?? [];
  return {
    at: settledRange.value,
    keys: new Set(words().flatMap((word) => keys[word] ?? [])),
    limits: [
      ...(asked.value.condition?.limits ?? []),
      ...(least === undefined ? [] : [{ word: "exit_time", sign: ">=", ns: least }]),
      ...(below === undefined ? [] : [{ word: "exit_time", sign: "<", ns: below }]),
    ],
  };
});

interface Group {
  keys: Keys;
  names: string[];
  sums: Sums;
}

/** What is looked at, by the dimensions that were chosen. */
const groups = computed<Group[]>(() => {
  const of = dimensions.value;
  const found = new Map<string, Group>();
  const condition = asked.value.condition;
  const textsOf = (keys: Keys) => Object.fromEntries((condition?.words ?? []).flatMap((word) => (named(word) ? [[word, named(word)!.of(keys)]] : [])));
  const add = (keys: Keys, sums: Sums) => {
    const names = of.map((dimension) => dimension.of(keys));
    const key = names.join("\0");
    const group = found.get(key);
    if (!group) found.set(key, { keys, names, sums: { ...sums } });
    else for (const [name, value] of Object.entries(sums)) group.sums[name] = (group.sums[name] ?? 0) + value;
  };
  const places = data.singles?.head ?? NO_PLACES;
  if (wanted.value) {
    const answer = groupsOf(wanted.value)?.of;
    for (const { keys: { lane, cause, to_user, cpu, rip }, sums } of answer?.rows ?? []) {
      const keys = { lane, cause, toUser: to_user, cpu, rip, places: answer!.places };
      if ((!selectedVcpus.value || selectedVcpus.value.has(lane)) && isShown(cause) && (!condition || condition.holdsOf(textsOf(keys)))) add(keys, sums);
    }
  } else if (!needsSingles())
    eachCauseSum((lane, cause, toUser, sums) => {
      const keys = { lane, cause, toUser, cpu: 0, rip: 0, places };
      if (!condition || condition.holds({ texts: textsOf(keys), numbers: {} })) add(keys, sums);
    });
  else {
    const texts = new Map<string, Record<string, string>>();
    const singles = new Map<string, { keys: Keys; sums: Sums }>();
    eachSingle(settledRange.value, (chunk, row) => {
      const keys = { lane: chunk.lane[row]!, cause: chunk.cause[row]!, toUser: chunk.toUser[row]!, cpu: chunk.cpu[row]!, rip: chunk.rip[row]!, places };
      const id = `${keys.lane} ${keys.cause} ${keys.toUser} ${keys.cpu} ${keys.rip}`;
      const others = chunk.others.get(row);
      if (condition) {
        if (!texts.has(id)) texts.set(id, textsOf(keys));
        const [kernel, user] = [chunk.kernel[row]!, chunk.user[row]!];
        const numbers: Record<string, number> = { cost: kernel + user, exit_time: chunk.total[row]!, [COST[0]!.replace(/_ns$/, "")]: kernel, [COST[1]!.replace(/_ns$/, "")]: user };
        if (others) for (const [part, value] of Object.entries(others)) numbers[part.replace(/_ns$/, "")] = value;
        if (!condition.holds({ texts: texts.get(id)!, numbers })) return;
      }
      let group = singles.get(id);
      if (!group) singles.set(id, (group = { keys, sums: { count: 0, timed: 0, kernel_ns: 0, user_space_ns: 0 } }));
      const { sums } = group;
      sums.count!++;
      sums.timed!++;
      sums.kernel_ns! += chunk.kernel[row]!;
      sums.user_space_ns! += chunk.user[row]!;
      if (others) for (const [part, value] of Object.entries(others)) sums[part] = (sums[part] ?? 0) + value;
    });
    for (const { keys, sums } of singles.values()) add(keys, sums);
  }
  return [...found.values()].sort((a, b) => costOf(b.sums) - costOf(a.sums) || b.sums.count! - a.sums.count!);
});

/** How it stands with what the server is asked. */
function asking(): string | null {
  if (!wanted.value) return null;
  const answer = groupsOf(wanted.value);
  return answer ? answer.wrong : "All exits are being read …";
}

/** What frames are as wide as. */
const measure = kept<"cost" | "exits">("measure", "cost", ["cost", "exits"]);

const valueOf = (sums: Sums): number => (measure.value === "cost" ? costOf(sums) : (sums.count ?? 0));

const tree = computed<Frame>(() => {
  const root: Frame & { byLabel: Map<string, Frame> } = { label: asking() ?? (measure.value === "cost" ? "cost of all exits" : "all exits"), value: 0, color: colors.value.other, parts: [], byLabel: new Map() };
  for (const { keys, names, sums } of groups.value) {
    const value = valueOf(sums);
    if (value <= 0) continue;
    let at = root as Frame & { byLabel: Map<string, Frame> };
    root.value += value;
    // Below its reason, a frame has the reason's colour, paler.
    const color = reasonColor(reasonOf(keys.cause));
    const reasonAt = dimensions.value.findIndex((of) => of.name === "reason");
    names.forEach((label, depth) => {
      let next = at.byLabel.get(label) as (Frame & { byLabel: Map<string, Frame> }) | undefined;
      const pale = reasonAt < 0 ? 0.3 + 0.12 * (depth % 4) : depth < reasonAt ? 1 : Math.min(0.6, 0.2 * (depth - reasonAt));
      if (!next) {
        const of = reasonAt < 0 ? mix(colors.value.accent, colors.value.ground, pale) : pale === 1 ? colors.value.other : mix(color.startsWith("#") ? color : colors.value.other, colors.value.ground, pale);
        next = { label, value: 0, color: of, parts: [], byLabel: new Map() };
        at.byLabel.set(label, next);
        at.parts.push(next);
      }
      next.value += value;
      at = next;
    });
  }
  const sort = (frame: Frame): void => {
    frame.parts.sort((a, b) => b.value - a.value);
    frame.parts.forEach(sort);
  };
  sort(root);
  return root;
});

const number = (title: string, value: (row: Group) => number | null, show: (value: number) => string = ns): Column<Group> => ({
  title,
  value,
  show: (row) => {
    const found = value(row);
    return found === null ? "–" : show(found);
  },
});

function columns(): Column<Group>[] {
  const of = dimensions.value;
  const all = groups.value.reduce((sum, row) => sum + costOf(row.sums), 0) || 1;
  const waits = words().includes("handler") && !needsSingles() ? [] : waitParts();
  return [
    ...of.map(
      (dimension, at): Column<Group> => ({
        title: dimension.title,
        text: true,
        value: (row) => row.names[at]!,
        show: (row) =>
          dimension.choose && row.names[at] !== NO_SUBJECT ? (
            <button type="button" class="plain" onClick={() => dimension.choose!(row.keys)}>
              {row.names[at]}
            </button>
          ) : (
            row.names[at]
          ),
      }),
    ),
    number("exits", (row) => row.sums.count ?? 0, count),
    number("cost", (row) => costOf(row.sums)),
    number("share of cost", (row) => costOf(row.sums) / all, share),
    number(handlers()[0], (row) => timeOf(row.sums, "kernel_ns")),
    number(handlers()[1], (row) => timeOf(row.sums, "user_space_ns")),
    number("mean cost", (row) => (row.sums.timed ? costOf(row.sums) / row.sums.timed : null)),
    ...waits.map(({ name, column }) => number(name, (row) => timeOf(row.sums, column))),
  ];
}

/** Puts a dimension in at the end, or out. */
function toggle(name: string): void {
  const now = dimensions.value.map((of) => of.name);
  const next = now.includes(name) ? now.filter((of) => of !== name) : [...now, name];
  if (next.length > 0) by.value = next.join(",");
}

export function Pivot() {
  useEffect(() => askGroups(() => wanted.value), []);
  const chosen = dimensions.value;
  const place = (name: string) => chosen.findIndex((of) => of.name === name);
  const untimed = groups.value.reduce((sum, row) => sum + (row.sums.count ?? 0) - (row.sums.timed ?? 0), 0);
  const notes = [
    isAll.value ? `Of ${fullRange()}.` : "Of the selection above.",
    untimed > 0 && `${count(untimed)} exits have no length, and so no cost.`,
    wanted.value && "The server reads all exits again for this.",
    !knowsAll() && data.singles !== null && "Only single exits have a CPU and a place in the guest, and this page does not have all of them.",
  ];
  return (
    <section id="pivot" aria-label="Pivot">
      <h2>Exits by …</h2>
      <Flame
        id="pivot"
        title={`Exits by ${chosen.map((of) => of.title).join(", then ")}`}
        root={() => tree.value}
        deep={chosen.length + 1}
        show={(value) => (asking() !== null ? "" : measure.value === "cost" ? ns(value) : count(value))}
        twin={() => ({ columns: columns(), rows: groups.value })}
        controls={
          <>
            <span class="choice" role="group" aria-label="Divided by">
              {possible().map((of) => (
                <button type="button" aria-pressed={place(of.name) >= 0} onClick={() => toggle(of.name)}>
                  {of.title}
                  {place(of.name) >= 0 && chosen.length > 1 && <sup>{place(of.name) + 1}</sup>}
                </button>
              ))}
            </span>
            <span class="choice" role="group" aria-label="Width">
              {(["cost", "exits"] as const).map((of) => (
                <button type="button" aria-pressed={measure.value === of} onClick={() => (measure.value = of)}>
                  {of}
                </button>
              ))}
            </span>
          </>
        }
        note={notes.filter(Boolean).join(" ")}
      />
      <label class="where">
        where{" "}
        <input
          type="text"
          placeholder="reason = io and cost > 100µs and subject ~ PCI"
          aria-invalid={asked.value.wrong !== null}
          aria-describedby="where-wrong"
          value={where.value}
          onChange={(event) => (where.value = event.currentTarget.value.trim())}
        />
      </label>
      <p id="where-wrong" role="status" class={asked.value.wrong ? "wrong" : "soft"}>
        {asked.value.wrong ?? asking() ?? (where.value !== "" && `${count(groups.value.reduce((sum, row) => sum + (row.sums.count ?? 0), 0))} exits.`)}
      </p>
      <DataTable columns={columns()} rows={groups.value} caption="Exits by the chosen columns" top={12} />
    </section>
  );
}
