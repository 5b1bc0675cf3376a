// The page of trials on a running host: what each tried setting came to, how that came about block by block, and what was
// predicted. Of several trials a table chooses the one that is shown.
import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { colors } from "./colors";
import { Curves, type Curve } from "./curve";
import type { ResultPage } from "./data";
import { count, ns, plural, quantity, unsigned } from "./format";
import { HeadlineBox } from "./headline";
import { Intervals, type IntervalRow } from "./intervals";
import { Shell } from "./shell";
import { DataTable, type Column } from "./table";
import type { DelayLevelRow, SensitivityRow, TrialCauseRow, TrialEffectRow, TrialReport, TriedSettingRow } from "./types.gen";
import { kept } from "./url_state";

/** The trial that is shown, by its place from 1 on; the last for none. */
const shown = kept<string>("trial", "");

/** Predictions that are drawn: the last ones. */
const MOST_PREDICTED = 12;

/** Blocks whose turns are listed. */
const ORDERS = 6;

/** A metric under a setting of a trial. */
interface Effect {
  trial: TrialReport;
  setting: TriedSettingRow;
  effect: TrialEffectRow;
}

const RULINGS = { better: "better", worse: "worse", no_difference: "no difference that matters", undecided: "undecided", not_judged: "not judged" } as const;
/** The state of a headline with that ruling. */
const STATES = { better: "better", worse: "worse", no_difference: "no_clear_difference", undecided: "cannot_tell", not_judged: "cannot_tell" } as const;

const isBroken = ({ verdict }: TrialReport): boolean => verdict.end === "aborted" || verdict.end === "stopped";
const inForce = (trial: TrialReport): string => trial.plan.settings[0] ?? "–";
const effectsOf = (trial: TrialReport): Effect[] => trial.verdict.settings.flatMap((setting) => setting.effects.map((effect) => ({ trial, setting, effect })));

/** A value in the metric's unit. */
function shownValue({ unit }: TrialEffectRow, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  switch (unit) {
    case "ns":
      return ns(value);
    case "percent":
      return `${value.toFixed(2)}%`;
    case "per_second":
      return quantity("1/s", value);
    case "number":
      return value > 0 && value < 1 ? value.toPrecision(3) : quantity("count", value);
  }
}

/** A change in per cent. */
function percent(value: number): string {
  const digits = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return unsigned(`${value > 0 ? "+" : ""}${value.toFixed(digits)}%`);
}

/** A change and its interval; the upper bound may be missing because there is none. */
function change({ change_percent: of, low_percent: low, high_percent: high }: TrialEffectRow): string {
  if (of === null) return "–";
  return low === null ? `${percent(of)} (too few blocks for an interval)` : `${percent(of)} (${percent(low)} to ${high === null ? "any" : percent(high)})`;
}

/** The means of both settings, with their own change: blocks with high values weigh more in it than in the change that decides. */
function means(effect: TrialEffectRow): string {
  const of = meansPercent(effect);
  return `means ${shownValue(effect, effect.in_force)} to ${shownValue(effect, effect.with)}${of === null ? "" : `, ${percent(of)}`}`;
}

/** The change of the means; a trial of an earlier version has the means alone. */
function meansPercent({ means_percent: of, in_force, with: other }: TrialEffectRow): number | null {
  return of ?? (in_force && other !== null ? (other / in_force - 1) * 100 : null);
}

/** What became of a prediction. */
const OUTCOMES = {
  held: "held",
  more: "missed: measured more",
  less: "missed: measured less",
  perhaps_more: "open: more, but not certainly",
  perhaps_less: "open: less, but not certainly",
} as const;

/** Whether the interval has only changes for the better, only for the worse, or both. */
function direction({ low_percent: low, high_percent: high, higher_is_better: higher }: TrialEffectRow): "better" | "worse" | "not certain" {
  if (low !== null && low > 0) return higher ? "better" : "worse";
  if (low !== null && high !== null && high < 0) return higher ? "worse" : "better";
  return "not certain";
}

const directionColor = (of: string): string => (of === "better" ? colors.value.parts.kernel_ns : of === "worse" ? colors.value.parts.user_space_ns : colors.value.other);

/** When it began, without the letters between date and time. */
const began = ({ began }: TrialReport): string => (began ? began.replace("T", " ").replace("Z", " UTC") : "not begun");

function details(setting: TriedSettingRow): string[] {
  const [first] = setting.effects;
  const lines = first ? [`${first.metric}: ${means(first)}; within blocks ${change(first)}`] : [];
  if (setting.ruling !== "undecided") return lines;
  if (setting.visible_percent !== null) lines.push(`changes from ${percent(setting.visible_percent).replace("+", "")} on would be certain`);
  if (setting.more_ns !== null) lines.push(`about ${ns(setting.more_ns)} more would be needed at this spread`);
  return lines;
}

/** The headlines: one for each setting, or what shorter exits are worth. */
function headlines({ sensitivity, verdict, plan }: TrialReport): { state: string; text: string; details: string[] }[] {
  if (sensitivity) return [{ state: "", text: sensitivity.text || "nothing was measured", details: [] }];
  return verdict.settings.map((setting) => ({
    state: STATES[setting.ruling],
    text: `${setting.setting} instead of ${plan.settings[0] ?? "–"}: ${RULINGS[setting.ruling]}`,
    details: details(setting),
  }));
}

function Overview({ trial }: { trial: TrialReport }) {
  const { verdict, left } = trial;
  const broken = isBroken(trial);
  const failed = left?.failed ?? [];
  const doubts = broken ? [`the trial was ${verdict.why.replace(/^stopped/, "ended")}`] : [];
  return (
    <section id="overview" aria-label="Overview">
      <h2 class="hidden">What was found</h2>
      {headlines(trial).map((headline) => (
        <HeadlineBox headline={{ ...headline, doubts, is_doubtful: broken }} />
      ))}
      <p>{`${plural(verdict.blocks, "block")}, ${plural(verdict.turns, "turn")} in ${ns(verdict.took_ns)}: ${verdict.why}.`}</p>
      {left && (
        <div class={failed.length > 0 ? "coverage bad" : "coverage"}>
          <p>
            <b>{trial.sensitivity ? "No setting was changed." : failed.length > 0 ? "Not all is restored." : left.kept ? `Left in force: ${verdict.keep ?? "a tried setting"}.` : left.unchanged ? "Not all is as it was before." : "The old value is restored."}</b>
          </p>
          <ul class="plain-list">
            {[...left.done, ...failed].map((line) => (
              <li>{line}</li>
            ))}
          </ul>
        </div>
      )}
    </section>
  );
}

const delayColumns = ({ verdict }: TrialReport): Column<DelayLevelRow>[] => {
  const metric = verdict.settings[0]?.effects[0];
  const undelayed = (row: DelayLevelRow): number => row.skipped + row.lost;
  return [
    { title: "delay", value: (row) => row.asked_ns, show: (row) => ns(row.asked_ns) },
    { title: "achieved", value: (row) => row.achieved_ns, show: (row) => (row.achieved_ns === null ? "–" : ns(row.achieved_ns)) },
    { title: "exits", value: (row) => row.exits + row.lost, show: (row) => count(row.exits + row.lost) },
    { title: "not delayed", value: (row) => (row.asked_ns === 0 ? null : undelayed(row)), show: (row) => (row.asked_ns === 0 ? "–" : count(undelayed(row))) },
    { title: "metric", value: (row) => row.mean, show: (row) => (metric ? shownValue(metric, row.mean) : "–") },
  ];
};

/** What each delay came to, and the metric over the delays. */
function Delays({ trial, sensitivity }: { trial: TrialReport; sensitivity: SensitivityRow }) {
  const { levels, vm, exits, reason, exits_per_s: rate } = sensitivity;
  const metric = trial.verdict.settings[0]?.effects[0];
  const measured = levels.filter((row) => row.achieved_ns !== null && row.mean !== null);
  const columns = delayColumns(trial);
  const which = reason ? `${reason} exit` : exits === "all" ? "exit" : "exit to user space";
  return (
    <section id="delays" aria-label="Delays">
      <h2>Delays</h2>
      <p class="note">{`Each ${which} of the VM ${vm} was made longer on purpose${rate === null || rate === undefined ? "" : `, ${count(rate)} each second`}. The slope is by the delays that were achieved, and assumed to be a straight line.`}</p>
      {metric && measured.length > 1 && (
        <Curves
          id="delays"
          title={`${metric.metric} over the delay of each ${which}`}
          summary={() => `The mean of the metric with each of ${plural(measured.length, "delay")}.`}
          places={measured.map((row) => ({ label: ns(row.achieved_ns ?? 0), value: row.achieved_ns }))}
          across="achieved delay"
          axis="Mean of the metric"
          of={trial}
          curves={() => [{ label: metric.metric, color: colors.value.reasons[0]!, points: measured.map((row, place) => ({ place, value: row.mean ?? 0, low: null, high: null })) }]}
          show={(value) => shownValue(metric, value)}
          height={260}
          twin={() => ({ columns, rows: levels })}
        />
      )}
      <DataTable columns={columns} rows={levels} caption="What each delay came to" />
    </section>
  );
}

const labelOf = ({ trial, setting, effect }: Effect): string => (trial.verdict.settings.length > 1 ? `${setting.setting}: ${effect.metric}` : effect.metric);

const effectColumns: Column<Effect>[] = [
  { title: "setting", text: true, value: ({ setting }) => setting.setting, show: ({ setting }) => setting.setting },
  { title: "metric", text: true, value: ({ effect }) => effect.metric, show: ({ effect }) => effect.metric },
  { title: "mean in force", value: ({ effect }) => effect.in_force, show: ({ effect }) => shownValue(effect, effect.in_force) },
  { title: "mean with the setting", value: ({ effect }) => effect.with, show: ({ effect }) => shownValue(effect, effect.with) },
  { title: "change of the means (%)", value: ({ effect }) => meansPercent(effect), show: ({ effect }) => orNone(meansPercent(effect)) },
  { title: "change within blocks (%)", value: ({ effect }) => effect.change_percent, show: ({ effect }) => (effect.change_percent === null ? "–" : percent(effect.change_percent)) },
  { title: "interval from", value: ({ effect }) => effect.low_percent, show: ({ effect }) => (effect.low_percent === null ? "–" : percent(effect.low_percent)) },
  { title: "to", value: ({ effect }) => effect.high_percent, show: ({ effect }) => (effect.high_percent === null ? "–" : percent(effect.high_percent)) },
  { title: "better if", text: true, value: ({ effect }) => (effect.higher_is_better ? "higher" : "lower"), show: ({ effect }) => (effect.higher_is_better ? "higher" : "lower") },
  { title: "interval says", text: true, value: ({ effect }) => direction(effect), show: ({ effect }) => <Direction effect={effect} /> },
];

function Direction({ effect }: { effect: TrialEffectRow }) {
  const of = direction(effect);
  return (
    <>
      <i class="swatch" style={{ background: directionColor(of) }} aria-hidden="true" />
      {of}
    </>
  );
}

/** The largest change that is drawn, in per cent: one of a figure that was nearly 0 would leave no room for the others. */
const MOST_DRAWN = 400;

/** What is drawn of a change: without an upper bound its interval has no ends, and an interval ends with the axis. */
function drawn({ change_percent: change, low_percent: low, high_percent: high }: TrialEffectRow): { value: number | null; low: number | null; high: number | null } {
  if (change === null || change > MOST_DRAWN) return { value: null, low: null, high: null };
  return high === null ? { value: change, low: null, high: null } : { value: change, low, high: Math.min(high, MOST_DRAWN) };
}

const isCut = ({ change_percent: change, high_percent: high }: TrialEffectRow): boolean => (change ?? 0) > MOST_DRAWN || (high ?? 0) > MOST_DRAWN;

function Changes({ trial }: { trial: TrialReport }) {
  const effects = effectsOf(trial);
  const rows = (): IntervalRow[] =>
    effects.map((of) => {
      const { effect } = of;
      return {
        label: labelOf(of),
        ...drawn(effect),
        color: directionColor(direction(effect)),
        after: `means ${shownValue(effect, effect.in_force)} → ${shownValue(effect, effect.with)}`,
        tip: [
          ["mean in force", shownValue(effect, effect.in_force)],
          ["mean with the setting", shownValue(effect, effect.with)],
          ["change of the means", orNone(meansPercent(effect))],
          ["change within blocks", change(effect)],
          ["interval says", direction(effect)],
        ],
      };
    });
  return (
    <section id="changes" aria-label="Changes">
      <h2>Changes</h2>
      <Intervals
        id="changes"
        title="Change of each metric"
        summary={() => `The change of ${plural(effects.length, "metric")} in per cent of the value in force, with its interval.`}
        axis="Change in per cent of the value in force"
        of={trial}
        rows={rows}
        show={percent}
        legend={() => (["better", "worse", "not certain"] as const).map((label) => ({ label, color: directionColor(label) }))}
        twin={() => ({ columns: effectColumns, rows: effects })}
        note={`The change is the mean over the blocks, of which each counts alike; in the change of the means, blocks with high values weigh more. The line is the interval of the change, which holds at whatever moment one looks; the chance that the verdict is a false alarm is at most ${quantity("count", trial.plan.alpha * 100)} %. ${trial.sensitivity ? "The slope decides, not these changes." : `The first metric decides, and changes from ${quantity("count", trial.verdict.matters_percent)} % on matter.`} Intervals of the others are not corrected for their number.${effects.some(({ effect }) => isCut(effect)) ? ` What is beyond +${MOST_DRAWN} % is in the table alone.` : ""}`}
      />
      <DataTable columns={effectColumns} rows={effects} caption="Change of each metric" />
    </section>
  );
}

/** A block of a setting. */
interface BlockOf {
  block: number;
  setting: string;
  of: TrialReport["blocks"][0]["settings"][0];
}

const orNone = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : percent(value));

const blockColumns: Column<BlockOf>[] = [
  { title: "block", value: (row) => row.block, show: (row) => count(row.block) },
  { title: "setting", text: true, value: (row) => row.setting, show: (row) => row.setting },
  { title: "change in the block (%)", value: (row) => row.of.block_percent, show: (row) => orNone(row.of.block_percent) },
  { title: "of all so far (%)", value: (row) => row.of.change_percent, show: (row) => orNone(row.of.change_percent) },
  { title: "interval from", value: (row) => row.of.low_percent, show: (row) => orNone(row.of.low_percent) },
  { title: "to", value: (row) => row.of.high_percent, show: (row) => orNone(row.of.high_percent) },
];

function Blocks({ trial }: { trial: TrialReport }) {
  const settings = trial.verdict.settings.map((of) => of.setting);
  const [at, setAt] = useState(0);
  const chosen = Math.min(at, settings.length - 1);
  const rows = trial.blocks.flatMap((row) => row.settings.map((of, setting): BlockOf => ({ block: row.block, setting: settings[setting] ?? "–", of })));
  const own = trial.blocks.map((row) => row.settings[chosen]!);
  const curves = (): Curve[] => {
    const { reasons, other } = colors.value;
    const block = own.flatMap((of, place) => (of.block_percent === null ? [] : [{ place, value: of.block_percent, low: null, high: null }]));
    const running = own.flatMap((of, place) => (of.change_percent === null ? [] : [{ place, value: of.change_percent, low: of.high_percent === null ? null : of.low_percent, high: of.high_percent }]));
    return [
      { label: "change in the block", color: other, points: block },
      { label: "of all blocks so far, with its interval", color: reasons[0]!, points: running },
    ];
  };
  return (
    <section id="blocks" aria-label="Blocks">
      <h2>Block by block</h2>
      <Curves
        id="blocks"
        title={`Change of ${trial.verdict.settings[chosen]?.effects[0]?.metric ?? "the first metric"} with ${settings[chosen] ?? "–"}`}
        summary={() => `The change in each of ${plural(trial.verdict.blocks, "block")}, and that of all blocks so far with its interval.`}
        places={trial.blocks.map((row) => ({ label: count(row.block), value: row.block }))}
        across="block"
        axis="Change in per cent of the value in force"
        of={`${shown.value} ${chosen}`}
        curves={curves}
        show={percent}
        zero
        height={280}
        twin={() => ({ columns: blockColumns, rows })}
        note="A block has each value twice, in random order and then in reverse. The interval begins where it excludes anything: at the eighth block or later. What was certain before the last block is judged by the blocks until then."
        controls={
          settings.length > 1 && (
            <span class="choice" role="group" aria-label="Which setting">
              {settings.map((setting, of) => (
                <button type="button" aria-pressed={of === chosen} onClick={() => setAt(of)}>
                  {setting}
                </button>
              ))}
            </span>
          )
        }
      />
    </section>
  );
}

/** A prediction beside what was achieved, as changes in per cent of the value in force; `null` where that is 0. */
function predicted({ effect }: Effect) {
  const { predicted: of, in_force, with: achieved } = effect;
  const change = (to: number | null | undefined, from: number | null | undefined) => (from && to !== null && to !== undefined ? (to / from - 1) * 100 : null);
  return {
    change: change(of?.with, of?.in_force),
    low: change(of?.low, of?.in_force),
    high: change(of?.high, of?.in_force),
    achieved: change(achieved, in_force),
    outcome: of?.outcome ? OUTCOMES[of.outcome] : "–",
    isWithin: of !== undefined && achieved !== null && of.low <= achieved && achieved <= of.high,
  };
}

const predictedColumns: Column<Effect>[] = [
  { title: "began", text: true, value: ({ trial }) => trial.began, show: ({ trial }) => began(trial) },
  { title: "setting", text: true, value: ({ setting }) => setting.setting, show: ({ setting }) => setting.setting },
  { title: "metric", text: true, value: ({ effect }) => effect.metric, show: ({ effect }) => effect.metric },
  { title: "recorded before", value: ({ effect }) => effect.predicted?.in_force ?? null, show: ({ effect }) => shownValue(effect, effect.predicted?.in_force) },
  { title: "predicted", value: ({ effect }) => effect.predicted?.with ?? null, show: ({ effect }) => shownValue(effect, effect.predicted?.with) },
  { title: "interval from", value: ({ effect }) => effect.predicted?.low ?? null, show: ({ effect }) => shownValue(effect, effect.predicted?.low) },
  { title: "to", value: ({ effect }) => effect.predicted?.high ?? null, show: ({ effect }) => shownValue(effect, effect.predicted?.high) },
  { title: "in force", value: ({ effect }) => effect.in_force, show: ({ effect }) => shownValue(effect, effect.in_force) },
  { title: "achieved", value: ({ effect }) => effect.with, show: ({ effect }) => shownValue(effect, effect.with) },
  { title: "within", text: true, value: (of) => (predicted(of).isWithin ? "yes" : "no"), show: (of) => (predicted(of).isWithin ? "yes" : "no") },
  { title: "prediction", text: true, value: (of) => predicted(of).outcome, show: (of) => predicted(of).outcome },
];

function Predicted({ trials }: { trials: TrialReport[] }) {
  const all = trials.flatMap(effectsOf).filter(({ effect }) => effect.predicted && effect.with !== null);
  const drawn = all.slice(-MOST_PREDICTED);
  const several = trials.length > 1;
  const rows = (): IntervalRow[] => {
    const { reasons } = colors.value;
    return drawn.flatMap((of): IntervalRow[] => {
      const { effect } = of;
      const { change, low, high, achieved } = predicted(of);
      const name = several ? `${of.setting.setting}: ${effect.metric}` : labelOf(of);
      const tip: [string, string][] = [
        ["trial", began(of.trial)],
        ["predicted", `${shownValue(effect, effect.predicted?.with)} (${shownValue(effect, effect.predicted?.low)} to ${shownValue(effect, effect.predicted?.high)})`],
        ["achieved", shownValue(effect, effect.with)],
        ["prediction", predicted(of).outcome],
      ];
      return [
        { label: `${name}, predicted`, value: change, low, high, color: reasons[1]!, after: `${shownValue(effect, effect.predicted?.in_force)} → ${shownValue(effect, effect.predicted?.with)}`, tip },
        { label: "achieved", value: achieved, low: null, high: null, color: reasons[0]!, after: `${shownValue(effect, effect.in_force)} → ${shownValue(effect, effect.with)}`, tip },
      ];
    });
  };
  const within = all.filter((of) => predicted(of).isWithin).length;
  const from = several ? undefined : trials[0]?.predicted_from;
  return (
    <section id="predicted" aria-label="Predicted and achieved">
      <h2>Predicted and achieved</h2>
      <Intervals
        id="predicted"
        title="Predicted and achieved change"
        summary={() => `${within} of ${plural(all.length, "figure")} within the interval that was predicted.`}
        axis="Change in per cent of the value in force"
        of={trials}
        rows={rows}
        show={percent}
        legend={() => [
          { label: "predicted, with its 95 % interval", color: colors.value.reasons[1]! },
          { label: "achieved", color: colors.value.reasons[0]! },
        ]}
        twin={() => ({ columns: predictedColumns, rows: all })}
        note={`${within} of ${plural(all.length, "figure")} within the interval that was predicted.${from ? ` Predicted from ${plural(from.halts, "halt")}, recorded for ${ns(from.length_ns)} before the trial.` : ""}${all.length > drawn.length ? ` The last ${MOST_PREDICTED}; the table has all.` : ""}`}
      />
      <DataTable columns={predictedColumns} rows={all} caption="Predicted and achieved" />
    </section>
  );
}

const causeColumns = ({ plan }: TrialReport): Column<TrialCauseRow>[] => [
  { title: "reason", text: true, value: (row) => row.reason, show: (row) => row.reason },
  ...plan.settings.flatMap((setting, at): Column<TrialCauseRow>[] => [
    { title: `cost with ${setting} (%)`, value: (row) => row.settings[at]?.cost_percent ?? null, show: (row) => (row.settings[at] ? `${row.settings[at].cost_percent.toFixed(2)}%` : "–") },
    { title: `exits/s with ${setting}`, value: (row) => row.settings[at]?.per_s ?? null, show: (row) => (row.settings[at] ? count(row.settings[at].per_s) : "–") },
  ]),
];

function Plan({ trial }: { trial: TrialReport }) {
  const { plan } = trial;
  const letters = (turns: number[]) => turns.map((at) => String.fromCharCode(65 + at)).join(" ");
  const order = plan.blocks.slice(0, ORDERS).map(letters).join(" | ") + (plan.blocks.length > ORDERS ? " | …" : "");
  const rows: [string, ComponentChildren][] = [
    ["settings", plan.settings.map((setting, at) => `${String.fromCharCode(65 + at)}: ${setting}${at === 0 ? " (in force)" : ""}`).join("; ")],
    ["set in", trial.places.join("; ")],
    ...(trial.decided_by ? ([["decided by", trial.decided_by]] as [string, string][]) : []),
    ["turns", `${ns(plan.settle_ns)} to settle, then ${ns(plan.turn_ns)} measured`],
    ["blocks", `at most ${count(plan.blocks.length)} of ${plural(2 * plan.settings.length, "turn")}, ${ns(plan.length_ns)} in all`],
    ["order", `${order} (seed ${plan.seed})`],
    ["false alarms", `about ${quantity("count", plan.alpha * 100)} % of trials at most`],
    ["matters", `changes from ${quantity("count", trial.verdict.matters_percent)} % on`],
    ...((plan.could_find ?? []).map((of) => ["could find", `changes from ${of.change_percent.toFixed(1)} % on, if turns of one value differ by ${of.turns_differ_percent} %`]) as [string, string][]),
  ];
  return (
    <section id="plan" aria-label="Plan">
      <h2>Plan</h2>
      <dl>
        {rows.map(([title, text]) => (
          <>
            <dt>{title}</dt>
            <dd>{text}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

/** A setting of a trial, in the table of all. */
interface Tried {
  at: number;
  trial: TrialReport;
  setting: TriedSettingRow;
}

/** A trial of delays has one row, for its slope. */
const slopeOf = ({ trial }: Tried): SensitivityRow | undefined => trial.sensitivity;
const tried = (of: Tried): string => (slopeOf(of) ? "delays of exits, per 100 ns less" : of.setting.setting);
const ruling = (of: Tried): string => {
  const text = slopeOf(of)?.ruling ?? RULINGS[of.setting.ruling];
  return isBroken(of.trial) ? `${text} (${of.trial.verdict.end})` : text;
};
const found = (of: Tried): { change: number | null; low: number | null; high: number | null } => {
  const slope = slopeOf(of);
  if (slope) return { change: slope.percent_per_100ns, low: slope.low_percent, high: slope.high_percent };
  const effect = first(of);
  return { change: effect?.change_percent ?? null, low: effect?.low_percent ?? null, high: effect?.high_percent ?? null };
};
const first = ({ setting }: Tried): TrialEffectRow | undefined => setting.effects[0];
const left = ({ trial, setting }: Tried): string => {
  if (!trial.left || trial.sensitivity) return "–";
  if (trial.left.kept) return trial.verdict.keep === setting.setting ? "kept" : "not kept";
  if (trial.left.failed.length > 0) return "not restored";
  return trial.left.unchanged ? "set by somebody else" : "restored";
};

const triedColumns: Column<Tried>[] = [
  {
    title: "began",
    text: true,
    value: ({ trial }) => trial.began,
    show: ({ trial, at }) => (
      <button type="button" class="plain" onClick={() => (shown.value = String(at + 1))}>
        {began(trial)}
      </button>
    ),
  },
  { title: "setting", text: true, value: tried, show: tried },
  { title: "instead of", text: true, value: ({ trial }) => inForce(trial), show: ({ trial }) => inForce(trial) },
  { title: "metric", text: true, value: (of) => first(of)?.metric ?? "", show: (of) => first(of)?.metric ?? "–" },
  { title: "change (%)", value: (of) => found(of).change, show: (of) => orNone(found(of).change) },
  { title: "interval from", value: (of) => found(of).low, show: (of) => orNone(found(of).low) },
  { title: "to", value: (of) => found(of).high, show: (of) => orNone(found(of).high) },
  { title: "verdict", text: true, value: ruling, show: ruling },
  { title: "left", text: true, value: left, show: left },
];

function History({ trials, at }: { trials: TrialReport[]; at: number }) {
  const rows = trials.map((trial, at) => trial.verdict.settings.slice(0, trial.sensitivity ? 1 : undefined).map((setting): Tried => ({ at, trial, setting }))).reverse().flat();
  return (
    <section id="trials" aria-label="Trials">
      <h2>Trials of this host</h2>
      <p class="note">The newest first. A trial that is chosen here is the one that is shown.</p>
      <DataTable columns={triedColumns} rows={rows} caption="Trials of this host" chosen={(row) => row.at === at} />
    </section>
  );
}

const hasPrediction = (trials: TrialReport[]): boolean => trials.flatMap(effectsOf).some(({ effect }) => effect.predicted && effect.with !== null);

export function TrialPage({ trials, version }: Extract<ResultPage, { kind: "trial" }>) {
  const asked = Number(shown.value) - 1;
  const at = trials[asked] ? asked : trials.length - 1;
  const trial = trials[at];
  const several = trials.length > 1;
  if (!trial)
    return (
      <Shell title="Trials" about="trials on this host" sections={[{ id: "overview", title: "Overview" }]} version={version}>
        <section id="overview" aria-label="Overview">
          <h2 class="hidden">Trials</h2>
          <p>No trial was made here yet.</p>
        </section>
      </Shell>
    );
  const compared = several ? trials : [trial];
  return (
    <Shell
      title={trial.sensitivity ? `Delays of exits of ${trial.sensitivity.vm}` : `Trial of ${trial.verdict.settings.map((of) => of.setting).join(", ")}`}
      about={[`trial on ${trial.host}`, began(trial), ...(several ? [`trial ${count(at + 1)} of ${count(trials.length)}`] : [])].join(" · ")}
      sections={[
        { id: "overview", title: "Overview" },
        { id: "trials", title: "Trials", there: several },
        { id: "delays", title: "Delays", there: trial.sensitivity !== undefined },
        { id: "changes", title: "Changes" },
        { id: "blocks", title: "Blocks", there: trial.blocks.length > 0 },
        { id: "predicted", title: "Predicted", there: hasPrediction(compared) },
        { id: "exits", title: "Exits", there: trial.causes.length > 0 },
        { id: "plan", title: "Plan" },
      ]}
      version={version}
      made={
        <>
          as text: <code>exitscope try --history</code>, as JSON: <code>--format json</code>
        </>
      }
    >
      <Overview trial={trial} />
      {several && <History trials={trials} at={at} />}
      {trial.sensitivity && <Delays trial={trial} sensitivity={trial.sensitivity} />}
      <Changes trial={trial} />
      {trial.blocks.length > 0 && <Blocks trial={trial} />}
      {hasPrediction(compared) && <Predicted trials={compared} />}
      {trial.causes.length > 0 && (
        <section id="exits" aria-label="Exits by reason">
          <h2>Exits by reason</h2>
          <p class="note">In per cent and per second of vCPU time, in the turns of each setting.</p>
          <DataTable columns={causeColumns(trial)} rows={trial.causes} caption="Exits by reason" />
        </section>
      )}
      <Plan trial={trial} />
    </Shell>
  );
}
