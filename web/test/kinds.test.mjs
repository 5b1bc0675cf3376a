// Pages of comparisons, sweeps, experiments of the lab and fleets; gangs and yields.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { HOSTS, changed, corpus, csvOf, done, drawn, drawsAll, folder, frame, json, launch, micro, open, pageBy, pageOf, reveal, root, seriousOf, storeOf, withoutSql } from "./browser.mjs";
import { testWith } from "./skips.mjs";

const BEFORE = corpus("x86-svm/t4-none.dat.gz");
const AFTER = corpus("x86-svm/t4-zstd.data.gz");
const GANG = corpus("powerpc/p8_smt4_trace.dat.gz");
const SWEEP = ["sweep", join(root, "scenarios/first.toml"), "--vary", "halt_poll_ns=0,20us,50us,200us", "--vary", "host.cores=1,2", "--replicates", "3"];

const diff = () => pageBy("diff", "diff", BEFORE, AFTER);
const sweep = () => pageBy("sweep", ...SWEEP);
const gang = () => pageOf("gang", GANG);
const lab = (name = "lab", change = () => {}) => {
  const run = labRun();
  change(run);
  const saved = join(folder, `${name}.json`);
  writeFileSync(saved, JSON.stringify(run));
  return pageBy(name, "lab", "show", saved);
};

let store;
/** A fleet's store, and the arguments for its report. */
const fleetOf = () => ["fleet", "report", (store ??= storeOf("fleet", HOSTS)), "--by", "host"];
const fleetPage = () => pageBy("fleet", ...fleetOf());
/** Hosts that stand out need more hosts than there are recordings at hand. */
const fleet = () =>
  changed(fleetPage(), ({ fleet }) => {
    const [{ shape }] = fleet.comparisons;
    const out = (host, cost, score, reason) => ({ host, shape, hosts: 12, cost_ns_per_s: cost, median_ns_per_s: 9.8e6, score, reason, reason_ns_per_s: cost * 0.8, reason_median_ns_per_s: 4.1e6 });
    fleet.outliers = [out("web-17", 41e6, 9.2, "msr"), out("idle-1", 0.4e6, -3.9, "io")];
  });

/** A run of the lab as it is saved. */
function labRun() {
  const figure = (name, unit, value, half) => ({ name, unit, value, low: value - half, high: value + half, p5: value * 0.9, p95: value * 1.3, samples: 1000, outliers: 3, rounds: [value - 1, value, value + 1] });
  const row = (labels, ...figures) => ({ labels, figures, unavailable: null });
  return {
    schema: "exitscope.lab/1",
    experiment: "exits",
    description: "What an exit costs",
    manifest: { back_end: "kvm_intel", emulates_ring_0: false, vendor: "GenuineIntel", kernel: "6.18.0", tsc_hz: 2.8e9, cpus: 2, pinned: true, rounds: 10, duration_ns: 2e8 },
    summary: ["The cheapest exit is cpuid."],
    warnings: ["Other programs took 3 % of the CPUs"],
    tables: [
      {
        title: "Exits by what caused them and who answers",
        labels: ["exit", "handler"],
        rows: [
          row(["cpuid", "kernel"], figure("time", "ns", 1200, 40), figure("cycles", "cycles", 3400, 100)),
          row(["port write", "user space"], figure("time", "ns", 5200, 300), figure("cycles", "cycles", 14000, 800)),
          { labels: ["hypercall", "user space"], figures: [], unavailable: "this kernel does not pass it on" },
        ],
      },
      {
        title: "Round trips by the delay after each exit, in ns",
        labels: ["delay"],
        rows: [0, 100, 1000, 30000].map((delay) => row([String(delay)], figure("time", "ns", 9000 + 2 * delay, 50 + delay / 100), figure("round trips", "1/s", Math.round(1e9 / (9000 + 2 * delay)), 90))),
      },
    ],
  };
}

/** A trial as it is kept: two settings, of which one is better and predicted. */
function trialReport() {
  const effect = (metric, unit, in_force, to, low, high, more) => ({ metric, unit, higher_is_better: false, in_force, with: to, means_percent: (to / in_force - 1) * 100, change_percent: (to / in_force - 1) * 100, low_percent: low, high_percent: high, ...more });
  const blocks = Array.from({ length: 12 }, (_, at) => {
    const of = (percent) => ({ block_percent: percent + ((at * 7) % 5) - 2, change_percent: percent, low_percent: at < 7 ? null : percent - 40 / at, high_percent: at < 7 ? null : percent + 40 / at });
    return { block: at + 1, settings: [of(-20), of(0.5)] };
  });
  return {
    schema: "exitscope.try/1",
    began: "2026-11-24T12:00:00Z",
    host: "vm",
    decided_by: "what `latency` prints",
    places: ["/sys/module/kvm/parameters/halt_poll_ns"],
    plan: { settings: ["halt_poll_ns=200000", "halt_poll_ns=0", "halt_poll_ns=50000"], settle_ns: 1e9, turn_ns: 1e10, length_ns: 792e9, alpha: 0.05, seed: 33, blocks: Array.from({ length: 12 }, () => [0, 1, 2, 2, 1, 0]) },
    verdict: {
      end: "time_over",
      why: "the time is over",
      blocks: 12,
      turns: 72,
      took_ns: 792e9,
      matters_percent: 1,
      settings: [
        {
          setting: "halt_poll_ns=0",
          ruling: "better",
          visible_percent: null,
          more_ns: null,
          effects: [
            effect("metric", "ns", 50e3, 40e3, -23.6, -16.4, { change_percent: -19.5 }),
            effect("polling", "percent", 12.5, 0.4, -99, null, { predicted: { in_force: 12, with: 0.5, low: 0.3, high: 0.7, outcome: "held" } }),
            effect("exits", "per_second", 2000, 2100, 1, 9),
            effect("wakeup", "ns", 42, 9370, null, null),
          ],
        },
        { setting: "halt_poll_ns=50000", ruling: "undecided", visible_percent: 3.6, more_ns: 120e9, effects: [effect("metric", "ns", 50e3, 50.25e3, -3.1, 4.1), effect("polling", "percent", 12.5, 6, null, null, { predicted: { in_force: 12, with: 4, low: 3, high: 5, outcome: "perhaps_more" } })] },
      ],
      keep: "halt_poll_ns=0",
    },
    blocks,
    predicted_from: { length_ns: 1e10, halts: 23456 },
    causes: [{ reason: "hlt", settings: [1.5, 1.25, 1.375].map((cost) => ({ per_s: cost * 1000, cost_percent: cost })) }],
    left: { kept: false, unchanged: false, done: ["restored: /sys/module/kvm/parameters/halt_poll_ns is 200000 again"], failed: [] },
  };
}

/** A trial of delays: the metric grows by 20 ns for each 10 ns of delay. */
function delayTrial() {
  const report = trialReport();
  const delays = [0, 200, 1000, 5000];
  report.began = "2026-11-26T12:00:00Z";
  report.plan.settings = delays.map((delay) => `delay=${delay}ns`);
  const [setting] = report.verdict.settings;
  report.verdict.settings = delays.slice(1).map((delay) => ({ ...setting, setting: `delay=${delay}ns`, ruling: "undecided", effects: [setting.effects[0]] }));
  report.verdict.keep = null;
  report.blocks = [];
  report.left = { kept: false, done: ["no exit is delayed any more"], failed: [] };
  report.sensitivity = {
    vm: "web01",
    exits: "to_user_space",
    reason: null,
    ruling: "found",
    percent_per_100ns: 0.22,
    low_percent: 0.16,
    high_percent: 0.27,
    text: "100ns less in each exit to user space is worth 0.22% (0.16% to 0.27%) of the metric here",
    exits_per_s: 12045,
    missed: 0,
    levels: delays.map((delay) => ({ asked_ns: delay, achieved_ns: delay * 1.02, mean: 91e3 + 2 * delay, exits: 600000, delayed: delay && 599000, skipped: delay && 1000, lost: 0 })),
  };
  return report;
}

/** The page of these trials, the oldest first. */
function trialsOf(name, trials) {
  const state = join(folder, name);
  mkdirSync(state, { recursive: true });
  writeFileSync(join(state, "trials.jsonl"), trials.map((trial) => JSON.stringify(trial) + "\n").join(""));
  return pageBy(name, "try", "--history", "--state", join(state, "applied.json"));
}
const trial = (name = "trial", change = () => {}) => {
  const report = trialReport();
  change(report);
  return trialsOf(name, [report]);
};

/** What a row of a comparison is called. */
const nameOf = (row) => row.reason ?? (row.without ? `all but ${row.without.join(", ")}` : "all exits");

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

test("a comparison has diff's figures, for each measure and reason", async () => {
  const compared = json("diff", BEFORE, AFTER);
  const page = await open(browser, diff());
  for (const [button, measure] of [["Cost", "cost_ns_per_s"], ["Rate", "rate_per_s"], ["p99", "p99_ns"]]) {
    await page.getByRole("group", { name: "What is compared" }).getByRole("button", { name: button, exact: true }).click();
    await frame(page);
    const rows = await csvOf(page, "changes");
    assert.equal(rows.length, compared.rows.length);
    compared.rows.forEach((row, at) => {
      const change = row.changes.find((change) => change.measure === measure);
      assert.equal(rows[at].reason, nameOf(row));
      assert.equal(Number(rows[at]["exits before"]), row.count_before);
      for (const [column, value] of [["after", change.after], ["interval from", change.low], ["to", change.high]]) assert.equal(rows[at][column], value === null ? "" : String(value), `${row.reason} ${column}`);
      assert.equal(rows[at].verdict, { more: "more", less: "less", unclear: "may be chance", "too few": "too few to tell", "not judged": "not judged" }[change.verdict]);
    });
  }
  // Lengths of one reason: all exits are in them, and the median is the one in the table.
  const one = compared.rows.find((row) => row.reason === "cpuid");
  await page.locator("#lengths select").selectOption("cpuid");
  await frame(page);
  const sum = (rows, name) => rows.reduce((sum, row) => sum + Number(row[name]), 0);
  const shares = await csvOf(page, "distribution");
  for (const side of ["before", "after"]) assert.ok(Math.abs(sum(shares, `${side} (% of exits)`) - 100) < 1e-6);
  await page.getByRole("button", { name: "per second" }).click();
  await frame(page);
  const rates = await csvOf(page, "distribution");
  assert.ok(Math.abs((sum(rates, "after (exits/s)") * compared.after.vcpu_ns) / 1e9 - one.count_after) < 1.5);
  const median = (await csvOf(page, "percentiles")).find((row) => row.percentile === "50");
  const p50 = one.changes.find((change) => change.measure === "p50_ns");
  for (const side of ["before", "after"]) assert.equal(median[side], String(p50[side]));
  // A link shows the same.
  await page.waitForFunction(() => location.hash.includes("per=second"));
  const again = await open(browser, diff(), { hash: await page.evaluate(() => location.hash) });
  assert.equal(await again.locator("#lengths select").inputValue(), "cpuid");
  assert.deepEqual(await csvOf(again, "distribution"), rates);
  assert.match(await again.locator("#chart-changes h3").textContent(), /p99/);
  await done(again);
  await done(page);
});

test("a comparison begins with its verdict, A stands before B, and small rows are folded", async () => {
  const compared = json("diff", BEFORE, AFTER);
  const page = await open(browser, diff());
  assert.equal(await page.locator("main .verdict .sentence").first().textContent(), `${compared.verdict.text}.`);
  assert.equal(await page.evaluate(() => document.querySelector("main section").querySelector("div").className.split(" ")[0]), "verdict");
  const shown = await page.locator(".verdict").first().textContent();
  for (const text of [...compared.verdict.doubts, ...compared.verdict.details]) assert.ok(shown.includes(text), text);
  assert.match(await page.locator("h1").textContent(), /^t4-none\.dat\.gz → t4-zstd\.data\.gz$/);
  const small = compared.rows.filter((row) => row.share_of_cost !== null && row.share_of_cost < 0.01).length;
  assert.ok(small > 0 && small < compared.rows.length);
  const table = page.getByRole("region", { name: "Change by reason", exact: true }).last();
  assert.equal(await table.locator("tbody tr").count(), compared.rows.length - small);
  await table.getByRole("button", { name: `${small} further row` }).click();
  assert.equal(await table.locator("tbody tr").count(), compared.rows.length);
  await done(page);
  // The same the other way round, and with itself.
  const back = json("diff", AFTER, BEFORE).verdict;
  assert.deepEqual([back.total.count_before, back.total.count_after], [compared.verdict.total.count_after, compared.verdict.total.count_before]);
  const same = await open(browser, pageBy("diff-same", "diff", BEFORE, BEFORE));
  assert.equal(await same.locator(".sentence").first().textContent(), "No difference: every figure is the same on both sides.");
  await done(same);
});

test("a sweep in which all tie says so and marks nobody", async () => {
  const args = ["sweep", join(root, "scenarios/first.toml"), "--vary", "seed=1,2", "--replicates", "3"];
  const swept = json(...args);
  assert.equal(swept.verdict.state, "tie", swept.verdict.text);
  const page = await open(browser, pageBy("sweep-tie", ...args));
  assert.equal(await page.locator(".sentence").first().textContent(), `${swept.verdict.text}.`);
  assert.equal(await page.locator("tr.chosen").count(), 0);
  assert.doesNotMatch(await page.locator("main").textContent(), /Other figures of the best|best by|Rings/);
  await done(page);
  const best = await open(browser, sweep());
  const found = json(...SWEEP);
  assert.equal(await best.locator(".sentence").first().textContent(), `${found.verdict.text}.`);
  assert.equal(found.rows.some((row) => row.best), ["best", "ahead"].includes(found.verdict.state));
  await done(best);
});

test("a sweep has its figures along any key, and the front of any two", async () => {
  const swept = json(...SWEEP);
  const [first] = swept.metrics;
  const page = await open(browser, sweep());
  const rows = await csvOf(page, "figure-0");
  assert.equal(rows.length, swept.rows.length);
  for (const row of swept.rows) {
    const poll = micro(swept.vary[0].values[[0, 20000, 50000, 200000].indexOf(row.halt_poll_ns)]);
    const shown = rows.find((shown) => shown.halt_poll_ns === poll && shown.curve === `host.cores=${row["host.cores"]}`);
    const unit = { ns: " (ns)", "1/s": " (1/s)" }[first.unit] ?? "";
    assert.equal(Number(shown[`mean${unit}`]), row[`${first.name}_mean`]);
    assert.equal(Number(shown[`interval from${unit}`]), row[`${first.name}_low`]);
  }
  await page.getByLabel("Along the curves").selectOption("host.cores");
  await frame(page);
  assert.deepEqual([...new Set((await csvOf(page, "figure-0")).map((row) => row.curve))], swept.vary[0].values.map((value) => `halt_poll_ns=${micro(value)}`));
  // The front, reckoned here anew.
  const directed = swept.metrics.filter((metric) => metric.higher_is_better !== null);
  const merit = (row, metric) => row[`${metric.name}_mean`] * (metric.higher_is_better ? 1 : -1);
  const [a, b] = directed;
  const beats = (one, other) => merit(one, a) >= merit(other, a) && merit(one, b) >= merit(other, b) && (merit(one, a) > merit(other, a) || merit(one, b) > merit(other, b));
  const front = swept.rows.map((row) => !swept.rows.some((other) => beats(other, row)));
  assert.deepEqual((await csvOf(page, "front")).map((row) => row["on the front"] === "yes"), front);
  const names = swept.metrics.map((metric) => metric.name);
  await page.getByLabel("across").selectOption(names.at(-1));
  await page.waitForFunction(() => location.hash.includes("px=") && location.hash.includes("x=host.cores"));
  const again = await open(browser, sweep(), { hash: await page.evaluate(() => location.hash) });
  assert.equal(await again.getByLabel("across").inputValue(), names.at(-1));
  assert.equal(await again.getByLabel("Along the curves").inputValue(), "host.cores");
  await done(again);
  const best = await page.$$eval("#runs tr.chosen", (rows) => rows.length);
  assert.equal(best, swept.rows.filter((row) => row.best).length);
  await done(page);
});

test("a saved run of the lab: bars with intervals, a curve over what was varied, and what could not be measured", async () => {
  const run = labRun();
  const page = await open(browser, lab());
  const bars = await csvOf(page, "table-0");
  assert.deepEqual(bars.map((row) => [row.exit, row["time (ns)"], row["interval from"], row["not available"]]), [
    ["cpuid", "1200", "1160", ""],
    ["port write", "5200", "4900", ""],
    ["hypercall", "", "", "this kernel does not pass it on"],
  ]);
  assert.equal(await page.locator("#chart-table-1 .choice button").count(), 2);
  await page.locator("#chart-table-1").getByRole("button", { name: "round trips" }).click();
  await frame(page);
  const curve = await csvOf(page, "table-1");
  assert.deepEqual(curve.map((row) => Number(row["round trips (1/s)"])), run.tables[1].rows.map((row) => row.figures[1].value));
  assert.equal(await page.locator(".sentence").first().textContent(), run.summary[0]);
  for (const text of [...run.summary, ...run.warnings]) assert.ok((await page.locator("#overview").textContent()).includes(text));
  await page.waitForFunction(() => location.hash.includes("figures="));
  const again = await open(browser, lab(), { hash: await page.evaluate(() => location.hash) });
  assert.deepEqual(await csvOf(again, "table-1"), curve);
  await done(again);
  await done(page);
});

test("who forced whom out: all that was lost, and that of a range", async () => {
  const report = json("report", GANG);
  const lost = report.gang.vms.reduce((sum, row) => sum + row.forced_out.sum_ns, 0);
  const page = await open(browser, gang());
  const sum = (rows, name) => rows.reduce((sum, row) => sum + Number(row[name]), 0);
  const rows = await csvOf(page, "drags");
  // Shared time is rounded down, to a nanosecond for each that shares.
  assert.ok(Math.abs(sum(rows, "lost (ns)") - lost) <= rows.length, `${sum(rows, "lost (ns)")} ${lost}`);
  for (const cause of report.gang.causes.slice(0, 4)) {
    const own = rows.filter((row) => row.by === `vCPU ${cause.vcpu}` && row.reason === cause.reason);
    assert.ok(Math.abs(sum(own, "lost (ns)") - cause.forced_out_ns) <= own.length, `${cause.vcpu} ${cause.reason}`);
  }
  const pairs = await csvOf(page, "forced");
  assert.equal(sum(pairs, "time lost"), sum(rows, "lost (ns)"));
  await reveal(page, "#chart-drags");
  await page.locator("#chart-drags canvas").focus();
  for (const key of ["+", "+", "+"]) await page.keyboard.press(key);
  await frame(page);
  const [from, to] = await page.evaluate(async () => {
    await new Promise((done) => setTimeout(done, 400));
    const hash = new URLSearchParams(location.hash.slice(1));
    return [Number(hash.get("from")), Number(hash.get("to"))];
  });
  assert.ok(to > from);
  const fewer = await csvOf(page, "drags");
  assert.ok(fewer.length > 0 && fewer.length < rows.length);
  assert.equal(sum(await csvOf(page, "forced"), "time lost"), sum(fewer, "lost (ns)"));
  await done(page);
});

test("yields: whom they name, and what came of them", async () => {
  const report = json("report", GANG);
  const page = await open(browser, gang());
  const named = await csvOf(page, "matrix");
  for (const target of report.yield.targets) {
    const own = named.filter((row) => row.to === `vCPU ${target.vcpu}`);
    assert.equal(own.reduce((sum, row) => sum + Number(row.yields), 0), target.count);
  }
  await done(page);
  const trace = corpus("xen/pvh2_contend_sched_hvm.xentrace.gz");
  const xen = json("report", trace, "--tsc-hz", "2596120000");
  const other = await open(browser, pageOf("yield", trace, "--tsc-hz", "2596120000"));
  const gave = await csvOf(other, "gave");
  assert.ok(gave.length > 0);
  xen.yield.vcpus.slice(0, gave.length).forEach((row, at) => {
    assert.equal(Number(gave[at]["another of its VM"]), row.gave_sibling);
    assert.equal(Number(gave[at]["another VM or no vCPU"]), row.gave_other);
  });
  await done(other);
});

testWith("sql", "a fleet has its report's figures, for any comparison", async () => {
  const report = json(...fleetOf());
  assert.deepEqual(report.comparisons.map((of) => of.value), ["host-b", "host-c"]);
  const page = await open(browser, fleetPage());
  for (const of of report.comparisons) {
    const name = await page.locator("option", { hasText: `host-a → ${of.value}` }).getAttribute("value");
    await page.locator("#comparisons select").selectOption(name);
    await page.getByRole("group", { name: "What is compared" }).getByRole("button", { name: "Mean" }).click();
    await frame(page);
    const rows = await csvOf(page, "changes");
    assert.equal(rows.length, of.rows.length);
    of.rows.forEach((row, at) => {
      const change = row.changes.find((change) => change.measure === "mean_ns");
      assert.equal(rows[at].reason, nameOf(row));
      assert.equal(Number(rows[at][`exits on ${of.value}`]), row.count_after);
      for (const [column, value] of [[`on ${of.value}`, change.after], ["Mean on host-a", change.before], ["interval from", change.low], ["to", change.high]]) assert.equal(rows[at][column], value === null ? "" : String(value), `${row.reason} ${column}`);
    });
  }
  // A link shows the same.
  await page.waitForFunction(() => /comparison=host-c.*measure=mean_ns|measure=mean_ns.*comparison=host-c/.test(location.hash));
  const shown = await csvOf(page, "changes");
  const again = await open(browser, fleetPage(), { hash: await page.evaluate(() => location.hash) });
  assert.deepEqual(await csvOf(again, "changes"), shown);
  await done(again);
  // With one recording on a side there is no verdict.
  assert.match(await page.locator("#overview").textContent(), /Doubtful: fewer than 2 recordings on a side/);
  assert.ok(report.comparisons.every((of) => of.too_few && of.rows.every((row) => row.changes.every((change) => change.verdict === "too few"))));
  // What is certain is what has a verdict, and leads to its comparison.
  const certain = await open(
    browser,
    changed(fleetPage(), ({ fleet }) =>
      fleet.comparisons.forEach((of) => {
        of.too_few = false;
        for (const change of of.rows.flatMap((row) => row.changes)) if (change.low > 0 || change.high < 0) change.verdict = change.low > 0 ? "more" : "less";
      }),
    ),
  );
  const verdict = ({ low, high }) => low > 0 || high < 0;
  const sure = report.comparisons.flatMap((of) => of.rows.filter((row) => verdict(row.changes.find((change) => change.measure === "cost_ns_per_s"))).map((row) => [of.value, nameOf(row)]));
  const table = certain.getByRole("region", { name: "Certain differences in cost" });
  const showAll = table.getByRole("button", { name: "Show all" });
  if (await showAll.count()) await showAll.click();
  const listed = await table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent.trim())));
  assert.deepEqual(listed.map(String).sort(), sure.map(String).sort());
  await table.getByRole("button", { name: "host-b" }).first().click();
  assert.match(await certain.locator("#chart-changes h3").textContent(), /host-a → host-b/);
  await done(certain);
  assert.deepEqual(await page.locator("#advice tbody td:last-child").allTextContents(), report.advice.map((of) => of.change));
  for (const text of report.not_compared.slice(0, 10)) assert.ok((await page.locator("#not-compared").textContent()).includes(text.replace("not compared: ", "")), text);
  assert.match(await page.locator("#outliers").textContent(), /It takes 5 hosts .* here are 4/);
  await done(page);
});

testWith("sql", "of a fleet it is said what is missing", async () => {
  const one = await open(browser, pageBy("fleet-one", ...fleetOf().slice(0, 3), "--before", "2026-11-11"));
  assert.match(await one.locator("#comparisons").textContent(), /All recordings are of one kernel, 6\.1\.0.* a comparison needs a second one/);
  assert.equal(await one.locator("#chart-changes, #not-compared, [role=alert]").count(), 0);
  await done(one);
  const none = await open(browser, pageBy("fleet-none", ...fleetOf(), "--before", "2020-01-01"));
  assert.match(await none.locator("#comparisons").textContent(), /No recordings: the store has none/);
  await done(none);
  // A file that was cut off.
  const place = storeOf("fleet-cut", { a: HOSTS["host-a"], b: HOSTS["host-b"] });
  const file = readdirSync(place, { recursive: true }).find((path) => path.startsWith("reason_stats/host=b/") && path.endsWith(".parquet"));
  truncateSync(join(place, file), 100);
  const cut = await open(browser, pageBy("fleet-cut", "fleet", "report", place, "--by", "host", "--no-verify"));
  const alert = await cut.locator("[role=alert]").textContent();
  assert.ok(alert.includes("1 file of the store could not be read") && alert.includes(file), alert);
  await done(cut);
});

test("a trial has its verdicts, changes, blocks and predictions", async () => {
  const report = trialReport();
  const page = await open(browser, trial());
  const [better, undecided] = await page.locator(".verdict").allTextContents();
  assert.match(better, /^halt_poll_ns=0 instead of halt_poll_ns=200000: better\.metric: means 50\.0µs to 40\.0µs, -20\.0%; within blocks -19\.5% \(-23\.6% to -16\.4%\)/);
  assert.match(undecided, /^halt_poll_ns=50000 .*: undecided\..*changes from 3\.60% on would be certain.*about 120s more would be needed/);
  assert.match(await page.locator(".verdict").first().getAttribute("class"), /good/);
  assert.match(await page.locator("#overview").textContent(), /12 blocks, 72 turns in 792s: the time is over\.The old value is restored\.restored: \/sys/);
  const changes = await csvOf(page, "changes");
  const effects = report.verdict.settings.flatMap((setting) => setting.effects.map((effect) => ({ setting, effect })));
  assert.equal(changes.length, effects.length);
  const text = (value) => (value === null ? "" : String(value));
  effects.forEach(({ setting, effect }, at) => {
    assert.equal(changes[at].setting, setting.setting);
    for (const [column, value] of [["mean in force", effect.in_force], ["mean with the setting", effect.with], ["change of the means (%)", effect.means_percent], ["change within blocks (%)", effect.change_percent], ["interval from", effect.low_percent], ["to", effect.high_percent]]) assert.equal(changes[at][column], text(value), `${effect.metric} ${column}`);
  });
  // What has no upper bound is not certain to be better.
  assert.deepEqual(changes.map((row) => row["interval says"]), ["better", "not certain", "worse", "not certain", "not certain", "not certain"]);
  // One figure that grew a hundredfold does not squeeze the others.
  assert.match(await page.locator("#changes").textContent(), /What is beyond \+400 % is in the table alone/);
  assert.equal(changes[3]["change within blocks (%)"], String((9370 / 42 - 1) * 100));
  const blocks = await csvOf(page, "blocks");
  assert.equal(blocks.length, 24);
  report.blocks.forEach(({ settings }, at) => assert.equal(blocks[2 * at + 1]["of all so far (%)"], String(settings[1].change_percent)));
  const first = await drawn(page, "blocks");
  await page.locator("#chart-blocks").getByRole("button", { name: "halt_poll_ns=50000" }).click();
  await frame(page);
  assert.match(await page.locator("#chart-blocks h3").textContent(), /with halt_poll_ns=50000/);
  assert.notEqual(await drawn(page, "blocks"), first);
  assert.deepEqual((await csvOf(page, "predicted")).map((row) => [row.predicted, row.achieved, row.within, row.prediction]), [["0.5", "0.4", "yes", "held"], ["4", "6", "no", "open: more, but not certainly"]]);
  assert.match(await page.locator("#predicted").textContent(), /1 of 2 figures within the interval that was predicted\. Predicted from 23,456 halts, recorded for 10\.0s/);
  assert.equal(await page.locator("#exits tbody tr td").first().textContent(), "1.50%");
  assert.match(await page.locator("#plan").textContent(), /what `latency` prints.*A B C C B A \| .*seed 33/);
  assert.equal(await page.locator("#trials").count(), 0);
  await done(page);
});

test("a trial of delays has what shorter exits are worth, and the metric over the delays", async () => {
  const report = delayTrial();
  const page = await open(browser, trialsOf("delays", [trialReport(), report]));
  assert.equal(await page.locator("h1").first().textContent(), "Delays of exits of web01");
  assert.deepEqual(await page.locator(".verdict").allTextContents(), [report.sensitivity.text + "."]);
  assert.match(await page.locator("#overview").textContent(), /No setting was changed\.no exit is delayed any more/);
  const rows = await csvOf(page, "delays");
  assert.deepEqual(rows.map((row) => [row.delay, row.achieved, row.metric]), report.sensitivity.levels.map((row) => [row.asked_ns, row.achieved_ns, row.mean].map(String)));
  assert.deepEqual(rows.map((row) => row["not delayed"]), ["", "1000", "1000", "1000"]);
  assert.match(await page.locator("#delays").textContent(), /Each exit to user space of the VM web01 was made longer on purpose, 12,045 each second/);
  const first = await page.locator("#trials tbody tr").first().evaluate((row) => [...row.cells].map((cell) => cell.textContent));
  assert.equal(await page.locator("#trials tbody tr").count(), 3);
  assert.deepEqual([first[1], first[4], first[7], first[8]], ["delays of exits, per 100 ns less", "+0.22%", "found", "–"]);
  await done(page);
});

test("of several trials a table chooses one, and a link shows the same", async () => {
  const aborted = trialReport();
  aborted.began = "2026-11-25T12:00:00Z";
  Object.assign(aborted.verdict, { end: "aborted", why: "aborted by metric>5ms: found 6.00ms with halt_poll_ns=0", keep: null });
  aborted.left.failed = ["cannot restore /sys/module/kvm/parameters/halt_poll_ns"];
  for (const setting of aborted.verdict.settings) setting.effects.forEach((effect) => delete effect.predicted);
  // Of an earlier version, without blocks.
  delete aborted.blocks;
  const file = trialsOf("trials", [trialReport(), aborted]);
  const page = await open(browser, file);
  assert.match(await page.locator("header").textContent(), /trial on vm · 2026-11-25 12:00:00 UTC · trial 2 of 2/);
  assert.match(await page.locator("[role=alert]").first().textContent(), /Doubtful: the trial was aborted by metric>5ms: found 6\.00ms/);
  assert.match(await page.locator("#overview").textContent(), /Not all is restored\..*cannot restore/);
  assert.equal(await page.locator("#chart-blocks").count(), 0);
  assert.deepEqual(await page.locator("#trials tbody tr").evaluateAll((rows) => rows.map((row) => row.cells[8].textContent)), ["not restored", "not restored", "restored", "restored"]);
  await page.locator("#trials").getByRole("button", { name: "2026-11-24 12:00:00 UTC" }).first().click();
  await frame(page);
  assert.equal(await page.locator("[role=alert]").count(), 0);
  assert.equal(await page.locator("#chart-blocks").count(), 1);
  assert.equal(await page.locator("#trials tr.chosen").count(), 2);
  await page.waitForFunction(() => location.hash.includes("trial=1"));
  const again = await open(browser, file, { hash: await page.evaluate(() => location.hash) });
  assert.match(await again.locator("header").textContent(), /trial 1 of 2/);
  await done(again);
  await done(page);
  const none = await open(browser, trialsOf("no-trials", []));
  assert.match(await none.locator("main").textContent(), /No trial was made here yet/);
  await done(none);
});

/** The contents mark what is read, from a page's begin to its end. */
async function marksWhatIsRead(page) {
  const marked = () => page.locator(".body > nav a[aria-current]").allInnerTexts();
  const links = await page.locator(".body > nav a").allInnerTexts();
  const all = await page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
  const places = [];
  for (const part of [0, 0.05, 0.3, 0.6, 0.9, 1, 0]) {
    await page.evaluate((top) => scrollTo(0, top), all * part);
    await frame(page);
    const now = await marked();
    assert.equal(now.length, 1);
    places.push(links.indexOf(now[0]));
  }
  assert.equal(places.pop(), 0);
  assert.equal(places[0], 0);
  assert.ok(places.every((place, at) => place >= (places[at - 1] ?? 0)), places.join());
  assert.equal(places.at(-1), links.length - 1, places.join());
}

const kinds = { diff, sweep, lab, fleet, trial: () => trial(), delays: () => trialsOf("delays-kind", [delayTrial()]) };
for (const [kind, file] of Object.entries(kinds)) {
  const part = kind === "fleet" ? "sql" : null;
  for (const colorScheme of ["light", "dark"]) {
    testWith(part, `a page of a ${kind}, ${colorScheme}: every chart draws, no serious finding of axe`, async () => {
      const page = await open(browser, file(), { colorScheme });
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), colorScheme === "dark" ? "rgb(21, 24, 28)" : "rgb(255, 255, 255)");
      if (colorScheme === "light") await marksWhatIsRead(page);
      await drawsAll(page);
      assert.deepEqual(await seriousOf(page), []);
      await done(page);
    });
  }

  testWith(part, `a page of a ${kind} can be walked through by keyboard, and its charts be copied`, async () => {
    const page = await open(browser, file());
    const met = new Set();
    for (let step = 0; step < 300; step++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const element = document.activeElement;
        if (!element || element === document.body) return null;
        if (getComputedStyle(element).outlineStyle === "none") return `no outline: ${element.outerHTML.slice(0, 100)}`;
        return element.closest("figure")?.id ?? element.closest("section")?.id ?? element.closest("nav, header, main")?.tagName ?? element.className;
      });
      if (at === null) break;
      assert.ok(!at.startsWith("no outline"), at);
      met.add(at);
    }
    const charts = await page.$$eval("figure.chart", (charts) => charts.map((chart) => chart.id));
    for (const place of ["skip", "HEADER", "NAV", ...charts]) assert.ok(met.has(place), `${place} of ${[...met]}`);
    await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
    for (const id of charts) {
      const saved = page.waitForEvent("download");
      await reveal(page, `#${id}`);
      await page.locator(`#${id} .copy button`, { hasText: "SVG" }).click();
      const parts = [];
      for await (const part of await (await saved).createReadStream()) parts.push(part);
      const svg = Buffer.concat(parts).toString();
      const broken = await page.evaluate((text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")?.textContent, svg);
      assert.equal(broken, undefined, id);
      assert.match(svg, /<text/);
      assert.doesNotMatch(svg, /NaN|undefined|Infinity/, id);
      assert.doesNotMatch(svg, />[-−]0(\.0+)?[^\d.<]*</, `${id}: -0`);
    }
    await done(page);
  });
}

test("what is chosen is drawn", async () => {
  const choices = [
    [lab(), "table-0", (page) => page.locator("#chart-table-0").getByRole("button", { name: "cycles" }).click()],
    [lab(), "table-0", (page) => page.locator("#chart-table-0").getByRole("button", { name: "log" }).click()],
    [lab(), "table-1", (page) => page.locator("#chart-table-1").getByRole("button", { name: "round trips" }).click()],
    [sweep(), "figure-0", (page) => page.getByLabel("Along the curves").selectOption("host.cores")],
    [sweep(), "front", (page) => page.getByLabel("across").selectOption(json(...SWEEP).metrics.at(-1).name)],
    [diff(), "changes", (page) => page.getByRole("button", { name: "p99" }).click()],
    ...(withoutSql ? [] : [[fleetPage(), "changes", (page) => page.locator("#comparisons select").selectOption({ index: 0 })]]),
    ...(withoutSql ? [] : [[fleetPage(), "changes", (page) => page.locator("#comparisons select").selectOption({ index: 1 })]]),
  ];
  const seen = new Set();
  for (const [file, id, choose] of choices) {
    const page = await open(browser, file);
    const before = await drawn(page, id);
    await choose(page);
    const after = await drawn(page, id);
    // As if it were drawn for the first time.
    const again = await open(browser, file, { hash: await page.evaluate(() => new Promise((done) => setTimeout(() => done(location.hash), 400))) });
    assert.ok((await drawn(again, id)) === after, `${id} of ${file}`);
    if (before !== after) seen.add(`${file} ${choose}`);
    await done(again);
    await done(page);
  }
  // One of the two comparisons is there at first.
  assert.equal(seen.size, choices.length - (withoutSql ? 0 : 1), [...seen].join("; "));
});

test("every chart answers to the pointer", async () => {
  for (const file of [diff(), sweep(), lab(), trial(), gang(), ...(withoutSql ? [] : [fleet()])]) {
    const page = await open(browser, file);
    for (const id of await page.$$eval("figure.chart:not(#chart-strip)", (charts) => charts.map((chart) => chart.id))) {
      await reveal(page, `#${id}`);
      const canvas = page.locator(`#${id} canvas`);
      await canvas.evaluate((canvas) => canvas.scrollIntoView({ block: "center" }));
      await frame(page);
      const box = await canvas.boundingBox();
      let said = "";
      for (let step = 0; step < 2000 && !said; step++) {
        // In steps of a size that meets single dots, too.
        const [x, y] = [60 + 23 * (step % 53), 12 + 18 * Math.floor(step / 53)];
        if (x >= box.width || y >= box.height) continue;
        await page.mouse.move(box.x + x, box.y + y);
        said = await page.evaluate((id) => document.querySelector(`#${id} .tip`)?.textContent ?? "", id);
      }
      assert.ok(said.length > 3, `${id} of ${file}`);
      assert.doesNotMatch(said, /NaN|undefined/);
    }
    await done(page);
  }
});

test("names out of hostile files are shown, and run nothing", async () => {
  const bad = "<img src=x onerror=alert(1)>";
  const traces = ["before", "after"].map((side, at) => {
    const to = join(folder, `${side} <b onclick=alert(4)>&"'`);
    copyFileSync([BEFORE, AFTER][at], to);
    return to;
  });
  const pages = [
    pageBy("hostile-diff", "diff", ...traces),
    lab("hostile-lab", (run) => {
      run.description = run.summary[0] = run.warnings[0] = run.manifest.kernel = run.tables[0].title = bad;
      run.tables[0].labels[0] = run.tables[0].rows[0].labels[0] = run.tables[0].rows[0].figures[0].name = bad;
      run.tables[0].rows[2].unavailable = "</script><script>alert(2)</script>";
    }),
    trial("hostile-trial", (report) => {
      report.host = report.decided_by = report.places[0] = report.plan.settings[0] = report.verdict.why = report.left.done[0] = bad;
      report.verdict.settings[0].setting = report.verdict.settings[0].effects[0].metric = "</script><script>alert(6)</script>";
      report.causes[0].reason = bad;
    }),
  ];
  if (!withoutSql) {
    // What hosts, kernels, files and rules are called.
    const page = changed(fleetPage(), ({ fleet }) => {
      fleet.against = "</script><script>alert(3)</script>";
      fleet.comparisons.forEach((of) => (of.value = of.shape.cpu = "<b onclick=alert(5)>&\"'"));
      fleet.comparisons[0].rows[1].reason = bad;
      fleet.left_out = [{ path: bad, why: bad }];
      fleet.not_compared.push(bad);
      fleet.advice[0].change = fleet.advice[0].gain_kind = fleet.advice[0].method = bad;
      fleet.outliers = [{ ...fleet.comparisons[0], host: bad, hosts: 5, cost_ns_per_s: 9e6, median_ns_per_s: 1e6, score: 4, reason: bad, reason_ns_per_s: 8e6, reason_median_ns_per_s: 1e6 }];
    });
    pages.push(page);
  }
  for (const file of pages) {
    const page = await open(browser, file);
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    await drawsAll(page);
    assert.equal(await page.evaluate(() => document.querySelectorAll("img, script:not(body > script), b[onclick]").length), 0);
    await done(page);
  }
  const page = await open(browser, pages[0]);
  assert.ok((await page.locator("h1").textContent()).includes("<b onclick=alert(4)>"));
  await done(page);
});
