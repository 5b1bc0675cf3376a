// The page shows what the report says, whatever is chosen, and in every form.
import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { changed, corpus, csvOf, dataOf, done, drawsAll, folder, frame, json, launch, micro, open, pageOf, printed, reveal, run, seriousIn, seriousOf, svgOf, tableOf, thousands } from "./browser.mjs";

const T2 = corpus("x86-svm/t2.data.gz");
const XEN = ["--tsc-hz", "2596120000"];
const boot = () => pageOf("t2", T2);
const halts = () => pageOf("t4", corpus("x86-svm/t4-none.dat.gz"));

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

test("a page is one file below 1.5 MB and data, and loads nothing", async () => {
  const text = readFileSync(boot(), "utf8");
  const data = text.match(/<script type="text\/plain" id="data">([^<]*)/)[1];
  assert.ok(text.length - data.length < 1_500_000);
  assert.ok(data.length < statSync(T2).size, "the data is smaller than the trace, packed");
  assert.match(text, /Content-Security-Policy" content="default-src 'none'; script-src 'sha256-/);
  assert.doesNotMatch(text, /unsafe-inline|unsafe-eval/);
  const page = await open(browser, boot());
  await done(page);
});

test("what the page says of reasons, vCPUs and devices is what the report says", async () => {
  const report = json("report", T2);
  const page = await open(browser, boot());
  await reveal(page, "#reasons");
  await page.locator("#reasons").getByRole("button", { name: `Show all ${report.rows.length}` }).click();
  const rows = await tableOf(page, "Exits by reason");
  assert.equal(Object.keys(rows).length, report.rows.length);
  // The same text as the terminal's, for the same numbers.
  const lines = run("report", T2, "--top", "all").split("\n");
  const titles = lines.find((line) => line.startsWith("  reason ")).trim().split(/\s{2,}/);
  const { parts } = timelinesOf(page);
  for (const row of report.rows) {
    const shown = rows[row.reason];
    assert.equal(shown.exits, thousands(row.count), row.reason);
    const line = lines.find((line) => line.startsWith(`  ${row.reason} `) && line.includes(thousands(row.count)));
    const of = line.trim().split(/\s{2,}/);
    const terminal = Object.fromEntries(titles.map((name, at) => [name, of[at]]));
    const waits = parts.filter((part) => part.of_exits && !COST.includes(part.column) && titles.includes(part.name));
    for (const name of [...waits.map((part) => part.name), "cost", "mean", "p50", "p99", "p99.9", "max", "to user space"]) assert.equal(shown[name], micro(terminal[name]), `${row.reason}: ${name}`);
  }
  const vcpus = await csvOf(page, "vcpus");
  report.vcpus.forEach((row, at) => {
    for (const part of parts) assert.equal(Number(vcpus[at][part.name] ?? 0), row[part.column], part.name);
    assert.equal(parts.reduce((sum, part) => sum + row[part.column], 0), row.span_ns);
  });
  const ports = await tableOf(page, "I/O ports");
  for (const row of report.subjects.filter((row) => row.subject_kind === "port").slice(0, 8)) {
    const label = Object.keys(ports).find((label) => label.startsWith(`0x${row.subject_key.toString(16)} ${row.direction}`));
    assert.equal(ports[label].exits, thousands(row.count), label);
  }
  await done(page);
});

test("a range that is chosen has the report's figures of that range, in every panel", async () => {
  const page = await open(browser, boot());
  // Drag over the middle of the timeline.
  const canvas = page.locator("#chart-timeline canvas");
  // What is above it may still be drawn: a hover waits until it stands still.
  await canvas.hover({ position: { x: 40, y: 30 } });
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 30, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes("from="));
  const hash = new URLSearchParams((await page.evaluate(() => location.hash)).slice(1));
  const { base_ns, parts } = timelinesOf(page);
  const base = BigInt(base_ns);
  const moment = (after) => {
    const at = base + BigInt(after);
    return `${at / 1000000000n}.${(at % 1000000000n).toString().padStart(9, "0")}`;
  };
  const report = json("report", T2, "--from", moment(hash.get("from")), "--to", moment(Number(hash.get("to")) - 1));
  assert.ok(report.total.count > 100 && report.total.count < 16000);
  const rows = await tableOf(page, "Exits by reason");
  for (const row of report.rows.slice(0, 8)) assert.equal(rows[row.reason].exits, thousands(row.count), row.reason);
  // The line below the chips says so in a line, and the command in it is that of the same exits.
  const line = page.locator(".chosen-line");
  assert.ok((await line.innerText()).startsWith(`${thousands(report.total.count)} exits, cost `));
  const command = (await line.getByRole("button").getAttribute("title")).split(" ").slice(1);
  assert.deepEqual(JSON.parse(run(...command, "--format", "json")).total, report.total);
  const vcpus = await csvOf(page, "vcpus");
  report.vcpus.forEach((row, at) => {
    // Of exits on the edge, parts are shared out; to a few nanoseconds for each.
    for (const { name, column } of parts) assert.ok(Math.abs(Number(vcpus[at][name] ?? 0) - row[column]) <= 1000, `${name} ${vcpus[at][name]} ${row[column]}`);
  });
  const msrs = await tableOf(page, "MSRs");
  const first = report.subjects.find((row) => row.subject_kind === "msr");
  assert.equal(Object.values(msrs)[0].exits, thousands(first.count));
  const slow = await csvOf(page, "slow");
  assert.ok(slow.length > 0);
  await done(page);
});

const COST = ["kernel_ns", "user_space_ns"];

/** What the page holds over time, but for the columns. */
function timelinesOf(page) {
  return dataOf(fileURLToPath(page.url().replace(/#.*/, ""))).timelines;
}

test("zoom, pan and a link to what is shown", async () => {
  const page = await open(browser, boot());
  await page.locator("#chart-timeline canvas").focus();
  for (const key of ["+", "+", "ArrowRight"]) await page.keyboard.press(key);
  await page.getByRole("button", { name: "vCPU 1" }).first().click();
  await reveal(page, "#reasons");
  await page.locator("button.reason", { hasText: "npf" }).click();
  await page.waitForFunction(() => location.hash.includes("reason="));
  const [hash, shown] = await page.evaluate(() => [location.hash, document.querySelector(".filters").textContent]);
  assert.match(hash, /from=\d+.*to=\d+.*vcpu=qemu-system-x86\+121%2F1&reason=npf/);
  const exits = (await tableOf(page, "Exits by reason")).npf.exits;
  const again = await open(browser, boot(), { hash });
  assert.equal(await again.evaluate(() => document.querySelector(".filters").textContent), shown);
  assert.equal((await tableOf(again, "Exits by reason")).npf.exits, exits);
  await done(again);
  await reveal(page, "#timeline");
  await page.locator("#chart-timeline canvas").focus();
  await page.keyboard.press("Home");
  await page.getByRole("button", { name: "Show everything" }).click();
  assert.match(await page.locator(".filters").textContent(), /whole recording/);
  await done(page);
});

test("one reason alone: lengths, heat map and slowest exits follow", async () => {
  const report = json("report", T2);
  const page = await open(browser, boot());
  await reveal(page, "#reasons");
  await page.locator("button.reason", { hasText: "cpuid" }).click();
  await frame(page);
  const cpuid = report.rows.find((row) => row.reason === "cpuid");
  const sum = (rows, name) => rows.reduce((sum, row) => sum + Number(row[name]), 0);
  assert.equal(sum(await csvOf(page, "distribution"), "cpuid (exits)"), cpuid.timed);
  assert.equal(sum(await csvOf(page, "heat"), "exits"), cpuid.timed);
  assert.ok((await csvOf(page, "slow")).every((row) => row.reason === "cpuid"));
  for (const stack of ["Exits by reason", "Cost by reason"]) {
    await reveal(page, "#timeline");
    await page.getByRole("group", { name: "What is stacked" }).getByRole("button", { name: stack }).click();
    await frame(page);
  }
  assert.equal(Math.round(sum(await csvOf(page, "timeline"), "cpuid (ns)")), cpuid.cost_ns);
  await done(page);
});

test("the slider replays other limits of polling: the replay's own figures", async () => {
  const trace = corpus("x86-svm/t4-none.dat.gz");
  const replay = json("replay", trace, "--policy", "guest_halt_poll", "--vary", "guest_halt_poll_ns=50us,500us");
  const page = await open(browser, halts());
  await reveal(page, "#halts");
  await page.getByRole("button", { name: "guest (guest_halt_poll_ns)" }).click();
  const slider = page.locator(".what-if input[type=range]");
  for (const [value, row] of [["50.0µs", replay.rows[2]], ["500µs", replay.rows[3]]]) {
    await slider.focus();
    await page.keyboard.press("Home");
    for (let step = 0; step < 10 && (await slider.getAttribute("aria-valuetext")) !== value; step++) await page.keyboard.press("ArrowRight");
    assert.equal(await slider.getAttribute("aria-valuetext"), value);
    const table = await tableOf(page, "As recorded, and with this limit");
    assert.ok(table["exits avoided"]["with this limit"].startsWith(`${thousands(row.exits_avoided)} of `), `${value}: ${table["exits avoided"]["with this limit"]}`);
  }
  const rows = await csvOf(page, "tradeoff");
  const of = rows.find((row) => row.limit === "500000");
  assert.equal(Number(of["polling (ns)"]), replay.rows[3].polling_ns);
  await done(page);
});

test("advice is the adviser's, and its facts lead to charts", async () => {
  const trace = corpus("x86-svm/t4-zstd.data.gz");
  const advised = json("advise", trace);
  assert.ok(advised.advice.length > 0);
  const page = await open(browser, pageOf("zstd", trace));
  const cards = page.locator("#advice article");
  assert.equal(await cards.count(), advised.advice.length);
  assert.equal(await cards.first().locator("h3").textContent(), `1. ${advised.advice[0].title}`);
  assert.equal(await cards.first().locator("p").first().textContent(), advised.advice[0].change);
  const { text, topic } = advised.facts[advised.advice[0].evidence[0] - 1];
  assert.equal(await cards.first().locator(".facts b").first().textContent(), text);
  await reveal(page, "#advice");
  await cards.first().getByRole("button", { name: /^fact/ }).first().click();
  await page.waitForFunction((topic) => location.hash.includes(`view=${topic}`), topic);
  // What a cause is about leads to the table of its kind.
  const { subject } = advised.causes.find((cause) => cause.subject);
  await reveal(page, "#advice");
  await page.locator("#advice td").getByRole("button", { name: subject.text, exact: true }).first().click();
  assert.ok(await page.locator(`#devices-${subject.kind}`).evaluate((of) => of.open && of.querySelector("table") !== null));
  await done(page);
});

test("dark by the system, and by the button", async () => {
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const page = await open(browser, boot(), { colorScheme: "dark" });
  assert.equal(await ground(page), "rgb(21, 24, 28)");
  await page.getByRole("button", { name: "Colours: auto" }).click();
  assert.equal(await ground(page), "rgb(255, 255, 255)");
  await page.getByRole("button", { name: "Colours: light" }).click();
  assert.equal(await ground(page), "rgb(21, 24, 28)");
  await done(page);
});

test("everything can be reached by keyboard, and seen to be", async () => {
  const page = await open(browser, boot());
  const met = new Set();
  const tabs = await page.$$eval("[role=tab]", (tabs) => tabs.map((tab) => tab.textContent));
  for (const tab of tabs) {
    await page.evaluate(() => document.activeElement.blur());
    for (let step = 0; step < 400; step++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const element = document.activeElement;
        if (!element || element === document.body) return null;
        const style = getComputedStyle(element);
        if (style.outlineStyle === "none") return `no outline: ${element.outerHTML.slice(0, 100)}`;
        if (element.role === "tab") return `tab ${element.textContent}`;
        return element.closest("section")?.id ?? element.closest("nav, header, main")?.tagName ?? element.className;
      });
      if (at === null) break;
      assert.ok(!at.startsWith("no outline"), at);
      met.add(at);
    }
    // Only the tab that is shown is on the way; arrows lead to the others.
    await page.getByRole("tab", { name: tab }).focus();
    await page.keyboard.press("ArrowRight");
    await frame(page);
    met.add(`tab ${await page.evaluate(() => document.activeElement.textContent)}`);
  }
  for (const place of ["skip", "HEADER", "NAV", "overview", "vcpus", "reasons", "timeline", "slowest", "devices", "advice", "halts", "phases", ...tabs.map((tab) => `tab ${tab}`)])
    assert.ok(met.has(place), `${place} of ${[...met]}`);
  await page.getByRole("tab", { name: "Mechanisms" }).click();
  await page.locator("nav a", { hasText: "Phases" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("phases").getBoundingClientRect().top < 300);
  const table = page.locator("#chart-flame details summary");
  await table.focus();
  await page.keyboard.press("Enter");
  await page.locator("#chart-flame table").waitFor();
  await done(page);
});

test("the first screen answers: what is wrong, how large, where, when, what to change", async () => {
  for (const file of ["x86-svm/t2.data.gz", "lab/contended.data.gz", "powerpc/p8_smt4_two_vms.data.gz", "arm64/arm.dat.gz"]) {
    const { verdict, causes } = json("report", corpus(file));
    const page = await open(browser, pageOf(`first-${file.replace(/\W/g, "-")}`, corpus(file)));
    assert.equal(await page.evaluate(() => scrollY), 0);
    const told = await page.locator(".verdict").innerText();
    assert.ok(told.replaceAll("\n", " ").includes(verdict.text.replaceAll("`", "")), `${file}: ${told}`);
    assert.ok(!verdict.best_change || told.includes(verdict.best_change.gain), told);
    assert.equal(await page.locator(".verdict.doubtful[role=alert]").count(), Number(verdict.is_doubtful), file);
    // All of it is in sight, and so are the tabs.
    for (const of of [".verdict", ".timebar", ".lists", ".tabs"]) assert.ok((await page.locator(of).boundingBox()).y + (await page.locator(of).boundingBox()).height <= 800, `${file}: ${of}`);
    const costliest = [...causes].sort((a, b) => b.time_ns - a.time_ns)[0];
    const first = page.locator(".list").first().locator("tbody tr").first();
    assert.ok((await first.innerText()).includes(`${(costliest.share_of_time * 100).toFixed(1)}%`), file);
    assert.ok((await first.innerText()).includes(costliest.brief), file);
    await done(page);
  }
  const page = await open(browser, boot());
  const bar = await page.locator(".timebar .whole").getAttribute("aria-label");
  const parts = [...bar.matchAll(/ (<?[\d.]+)%/g)].map(([, part]) => (part.startsWith("<") ? 0.05 : Number(part)));
  assert.ok(Math.abs(parts.reduce((a, b) => a + b) - 100) < 0.5, bar);
  // A moment leads to it, a cause to its exits, a change to its advice.
  await page.locator(".list", { hasText: "Slowest moments" }).locator("tbody button").first().click();
  await page.waitForFunction(() => location.hash.includes("from=") && location.hash.includes("view=timeline"));
  const slow = await csvOf(page, "slow");
  assert.equal(slow[0].subject, "0xcfc out PCI config data");
  await page.locator(".list", { hasText: "Costliest causes" }).getByRole("button", { name: "npf: memory faults" }).click();
  await page.waitForFunction(() => location.hash.includes("cause=npf"));
  await page.locator(".list", { hasText: "Changes" }).locator("tbody button").first().click();
  await page.locator("#advice article").first().waitFor();
  await done(page);
});

test("the slowest moments are sorted by what is shown, one for each incident, and none where all exits are alike", async () => {
  const slowness = (exit) => exit.kernel_ns + exit.user_space_ns + (exit.steal_ns ?? 0);
  const page = await open(browser, boot());
  const list = page.locator(".list", { hasText: "Slowest moments" });
  await list.getByRole("button", { name: /^Show all/ }).click();
  const shown = await list.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const slow = timelinesOf(page).slow_exits;
  const units = { µs: 1e3, ms: 1e6, s: 1e9 };
  const sums = shown.map(([, sum]) => parseFloat(sum) * units[sum.replace(/[\d.]/g, "")]);
  assert.ok(sums.length > 50 && sums.every((sum, at) => at === 0 || sum <= sums[at - 1]), sums.join());
  assert.ok(Math.abs(sums[0] - Math.max(...slow.map(slowness))) < sums[0] / 100);
  // No two are of the same time, on whichever vCPUs.
  const first = json("report", T2).traces[0].first_ns - timelinesOf(page).base_ns;
  const moments = shown.map(([when], at) => slow.find((exit) => Math.abs((exit.after_ns - first) / 1e9 - parseFloat(when)) < 6e-5 && Math.abs(slowness(exit) - sums[at]) < sums[at] / 100));
  const times = moments.map((exit) => [exit.after_ns + exit.exit_time_ns - slowness(exit), exit.after_ns + exit.exit_time_ns]).sort((a, b) => a[0] - b[0]);
  times.forEach(([from], at) => assert.ok(at === 0 || from > times[at - 1][1], `${times[at - 1]} ${times[at]}`));
  assert.match(shown[0][3], / \+\d+ more$/);
  await done(page);
  const alike = changed(boot(), ({ timelines }) => timelines.slow_exits.forEach((exit, at) => Object.assign(exit, { kernel_ns: 5000 + (at % 7), user_space_ns: 0, steal_ns: 0 })));
  const none = await open(browser, alike);
  const text = await none.locator(".list", { hasText: "Slowest moments" }).innerText();
  assert.match(text, /None stands out: the slowest took 5\.0\dµs, about as long as other slow ones\.$/);
  assert.equal(await none.locator(".slowest-moments tbody tr").count(), 0);
  await done(none);
});

test("one long exit leaves the phases of all others to be seen", async () => {
  const file = changed(boot(), ({ report: { phases } }) => {
    const [row] = phases.rows;
    const none = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, name.endsWith("_ns") ? 0 : value]));
    phases.rows = [
      { ...none, reason: "msr", in_user_space: false, exits: 65325, timed: 65325, handler_ns: 65325 * 3000, reentry_ns: 65325 * 1000 },
      { ...none, reason: "npf", in_user_space: true, exits: 1, timed: 1, user_space_ns: 7.55e6 },
    ];
  });
  const page = await open(browser, file, { hash: "#view=phases&tab=mechanisms" });
  const { steps } = await page.evaluate(() => ({ steps: [...document.querySelectorAll("#chart-steps .legend .swatch")].map((of) => of.style.background) }));
  const bars = [...(await svgOf(page, "steps")).split('<g transform="translate(0 48)">')[1].matchAll(/<rect x="[^"]*" y="([^"]*)" width="([^"]*)" height="17" fill="(#[^"]*)"/g)];
  const rgb = (fill) => `rgb(${[1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16)).join(", ")})`;
  const [handler, reentry, asked] = [1, 5, 3].map((step) => Number(bars.find(([, , , fill]) => rgb(fill) === steps[step])[2]));
  assert.ok(Math.abs(handler / reentry - 3) < 0.1 && Math.abs(handler + reentry - asked) < 1 && asked > 300, `${handler} ${reentry} ${asked}`);
  await done(page);
});

test("every moment that is listed as slowest can be looked into, in every kind of recording", async () => {
  for (const [name, file, ...flags] of [
    ["hvm1", "xen/hvm1_dm_sched_hvm.xentrace.gz", ...XEN],
    ["pvh2", "xen/pvh2_contend_sched_hvm.xentrace.gz", ...XEN],
    ["p8", "powerpc/p8_smt4_two_vms.data.gz"],
    ["arm", "arm64/arm.dat.gz"],
    ["contended", "lab/contended.data.gz"],
  ]) {
    const page = await open(browser, pageOf(name, corpus(file), ...flags));
    const moments = page.locator(".list", { hasText: "Slowest moments" }).locator("tbody button");
    const inspector = page.getByRole("complementary", { name: "The exit" });
    const [seen, listed] = [new Set(), await moments.count()];
    for (let at = 0; at < listed; at++) {
      await moments.nth(at).click();
      await inspector.waitFor();
      await frame(page);
      seen.add(await inspector.innerText());
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Show everything" }).click();
      await frame(page);
    }
    assert.ok(listed > 2 && seen.size === listed, `${name}: ${seen.size} of ${listed}`);
    await done(page);
  }
});

test("the slowest exit, and what ran before it, are two clicks away; a link shows the same", async () => {
  const page = await open(browser, boot());
  const events = run("events", T2, "--format", "json").trim().split("\n").map((line) => JSON.parse(line));
  const [slowest] = json("report", T2).slowest;
  // One: the moment.
  await page.locator(".list", { hasText: "Slowest moments" }).locator("tbody button").first().click();
  const inspector = page.getByRole("complementary", { name: "The exit" });
  await inspector.waitFor();
  const told = await inspector.innerText();
  assert.match(told, /io: port 0xcfc out PCI config data/);
  assert.match(told, new RegExp(`${Math.floor(slowest.at_ns / 1e9)}\\.${String(slowest.at_ns % 1e9).padStart(9, "0")} on the trace's clock`));
  const part = async (name) => inspector.locator("tr", { hasText: name }).locator("td").first().innerText();
  assert.deepEqual([await part("user space"), await part("steal"), await part("exit time")], ["72.0ms", "34.1ms", "106ms"]);
  // What was before it is what the recording has.
  const exits = events.filter((event) => event.kind === "exit" && event.vcpu === 0 && event.at_ns < slowest.at_ns).slice(-2);
  const before = inspector.locator("h3", { hasText: "Before it" }).locator("xpath=following-sibling::ul[1]").locator("li");
  for (const [at, event] of exits.reverse().entries()) {
    const text = await before.nth(at).innerText();
    assert.ok(text.startsWith(event.reason) && text.includes(`${Math.round((slowest.at_ns - event.at_ns) / 1e3)}µs earlier`), `${text}: ${JSON.stringify(event)}`);
  }
  await page.waitForFunction(() => location.hash.includes("exit="));
  const first = await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("exit"));
  // Two: the one before it.
  await before.first().getByRole("button").click();
  await frame(page);
  assert.match(await inspector.innerText(), /^io: port 0xcf8 out PCI config address/);
  await page.waitForFunction((first) => ![null, first].includes(new URLSearchParams(location.hash.slice(1)).get("exit")), first);
  const again = await open(browser, boot(), { hash: await page.evaluate(() => location.hash) });
  assert.equal(await again.getByRole("complementary", { name: "The exit" }).innerText(), await inspector.innerText());
  await done(again);
  // Keys zoom in until exits are of microseconds; one that is clicked is looked into.
  await page.keyboard.press("Escape");
  assert.equal(await inspector.count(), 0);
  await page.getByRole("tab", { name: "Timeline" }).focus();
  for (let step = 0; step < 12; step++) await page.keyboard.press("w");
  await frame(page);
  const [from, to] = await page.evaluate(async () => (await new Promise((done) => setTimeout(done, 300)), ["from", "to"].map((name) => Number(new URLSearchParams(location.hash.slice(1)).get(name)))));
  assert.ok(to - from < 1e6, `${from} to ${to}`);
  assert.match(await page.locator(".filters").textContent(), /sums cover/);
  await page.locator("#chart-timeline canvas").evaluate((of) => of.scrollIntoView({ block: "center" }));
  const box = await page.locator("#chart-timeline canvas").boundingBox();
  for (let x = 0.2; x < 0.9 && (await inspector.count()) === 0; x += 0.05) await page.mouse.click(box.x + box.width * x, box.y + 30);
  assert.equal(await inspector.count(), 1);
  await done(page);
});

const hashHas = (page, name, wanted = true) => page.waitForFunction(([name, wanted]) => new URLSearchParams(location.hash.slice(1)).has(name) === wanted, [name, wanted]);

test("what is chosen is chips: they are taken away, and Back, Forward and Esc do so too", async () => {
  const page = await open(browser, boot());
  const chips = async () => (await page.locator(".chip").allInnerTexts()).map((text) => text.replace(/\s*×$/, ""));
  assert.deepEqual(await chips(), []);
  await page.locator(".list", { hasText: "Costliest causes" }).getByRole("button", { name: "npf: memory faults" }).click();
  await hashHas(page, "cause");
  await page.getByRole("button", { name: "vCPU 1" }).first().click();
  await hashHas(page, "vcpu");
  assert.deepEqual(await chips(), ["vCPU 1", "npf: memory faults"]);
  await page.goBack();
  await hashHas(page, "vcpu", false);
  assert.deepEqual(await chips(), ["npf: memory faults"]);
  await page.goBack();
  await hashHas(page, "cause", false);
  assert.deepEqual(await chips(), []);
  await page.goForward();
  await hashHas(page, "cause");
  assert.deepEqual(await chips(), ["npf: memory faults"]);
  await page.keyboard.press("w");
  assert.equal((await chips()).length, 2);
  await page.getByRole("button", { name: "Show all causes" }).click();
  assert.match((await chips()).join(), /^[\d.]+ s to [\d.]+ s \([\d.]+s\)$/);
  await page.keyboard.press("Escape");
  assert.deepEqual(await chips(), []);
  await done(page);
});

test("names are found by their words, and keys are listed", async () => {
  const page = await open(browser, boot());
  await page.keyboard.press("/");
  const dialog = page.getByRole("dialog", { name: "Find a name" });
  await dialog.getByRole("searchbox").fill("wasd port 0xcfc");
  assert.match(await dialog.innerText(), /No name matches/);
  // Keys that are typed are not those that move the range.
  assert.equal(await page.locator(".chip").count(), 0);
  await dialog.getByRole("searchbox").fill("faults npf");
  assert.deepEqual(await dialog.getByRole("button").allInnerTexts(), ["npf: memory faults"]);
  assert.deepEqual(await seriousIn(page), []);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "hidden" });
  await hashHas(page, "cause");
  await page.keyboard.press("/");
  await dialog.getByRole("searchbox").fill("0xcfc");
  assert.ok((await dialog.getByRole("button").count()) > 0);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("view=devices") && location.hash.includes("cause=port%2F0xcfc"));
  const line = page.locator(".chosen-line");
  const command = (await line.getByRole("button").getAttribute("title")).match(/'[^']*'|\S+/g).map((word) => word.replaceAll("'", ""));
  const { total } = JSON.parse(run(...command.slice(1), "--format", "json"));
  assert.ok(command.includes("--where") && total.count > 0, command);
  assert.ok((await line.innerText()).startsWith(`${thousands(total.count)} exits, cost `), await line.innerText());
  await page.keyboard.press("?");
  const keys = page.getByRole("dialog", { name: "Keys" });
  assert.match(await keys.innerText(), /the whole recording/);
  assert.deepEqual(await seriousIn(page), []);
  await page.keyboard.press("Escape");
  await keys.waitFor({ state: "hidden" });
  assert.equal(await page.locator(".chip").count(), 1, "Esc closes the dialog and leaves the choice");
  await done(page);
});

/** What the pivot's rows add up to. */
async function pivotSums(page) {
  const rows = await csvOf(page, "pivot");
  return { rows, exits: sum(rows, "exits"), cost: sum(rows, "cost") };
}

const sum = (rows, column) => rows.reduce((sum, row) => sum + Number(row[column]), 0);

test("a cause that is chosen has the exits and the cost that its row has, in every recording", async () => {
  for (const file of ["x86-svm/t2.data.gz", "x86-svm/t4-none.dat.gz", "lab/contended.data.gz", "powerpc/p8_smt4_two_vms.data.gz", "powerpc/p9_smt2_two_vms.data.gz", "arm64/arm.dat.gz"]) {
    const { causes, total } = json("report", corpus(file));
    const page = await open(browser, pageOf(`first-${file.replace(/\W/g, "-")}`, corpus(file)));
    const all = await pivotSums(page);
    assert.equal(all.exits, total.count, file);
    for (const row of causes.filter((row) => row.reason)) {
      const name = row.subject ? `${row.reason}: ${row.subject.text}` : row.reason;
      await page.evaluate((name) => (location.hash = `#view=pivot&tab=breakdown&cause=${encodeURIComponent(name)}`), name);
      await page.locator(".chip").waitFor();
      const { exits, cost } = await pivotSums(page);
      assert.deepEqual([exits, cost], [row.exits, row.time_ns], `${file}: ${name}`);
    }
    await done(page);
  }
});

test("every slow exit is among the single ones, at its moment, in every recording", async () => {
  const files = ["x86-svm/t2.data.gz", "lab/contended.data.gz", "powerpc/p8_smt4_two_vms.data.gz", "powerpc/p9_smt2_two_vms.data.gz", "arm64/arm.dat.gz"];
  for (const file of files) {
    const page = await open(browser, pageOf(`first-${file.replace(/\W/g, "-")}`, corpus(file)), { hash: "#tab=timeline" });
    const slow = timelinesOf(page).slow_exits;
    assert.ok(slow.length > 100, file);
    // The last ones, too: what comes before adds up to their moments.
    for (const of of [...slow.slice(0, 10), ...[...slow].sort((a, b) => b.after_ns - a.after_ns).slice(0, 10)]) {
      await page.evaluate(([lane, at]) => (location.hash = `#tab=timeline&exit=${encodeURIComponent(lane)}@${at}`), [laneId(page, of.lane), of.after_ns]);
      await frame(page);
      const text = await page.getByRole("complementary", { name: "The exit" }).innerText();
      assert.ok(text.startsWith(of.reason), `${file}: ${of.reason} at ${of.after_ns}: ${text.slice(0, 60)}`);
    }
    await done(page);
  }
});

test("a link that is opened while a choice is about to be kept is followed", async () => {
  const page = await open(browser, boot(), { hash: "#tab=timeline" });
  await page.evaluate(() => {
    setTimeout(() => (location.hash = "#tab=breakdown"), 100);
    document.querySelector(".costliest-causes tbody button").click();
    // Longer than a choice rests before it is kept: that is due when the link is opened, and before the page is told of it.
    for (const end = performance.now() + 400; performance.now() < end; );
  });
  await page.waitForTimeout(400);
  assert.match(await page.evaluate(() => location.hash), /tab=breakdown/);
  await done(page);
});

/** What a link calls a vCPU, where no two have one name. */
const laneId = (page, lane) => {
  const row = timelinesOf(page).vcpus[lane];
  return `${row.vm_label}/${row.vcpu_label}`;
};

test("a page says nothing of mechanisms that its recording cannot show", async () => {
  // Xen does not poll; nothing of this recording says what woke vCPUs when; POWER9 has no core runs.
  const xen = await open(browser, pageOf("xen-halts", corpus("xen/pvh2_contend_sched_hvm.xentrace.gz"), "--tsc-hz", "2596120000"), { hash: "#tab=mechanisms" });
  assert.equal(await xen.locator("#halts").count(), 1);
  assert.equal(await xen.locator(".what-if").count(), 0);
  await done(xen);
  const arm = await open(browser, pageOf("first-arm64-arm-dat-gz", corpus("arm64/arm.dat.gz")), { hash: "#tab=mechanisms" });
  assert.match(await arm.locator(".what-if").innerText(), /the gain of polls is unknown/);
  assert.doesNotMatch(await arm.locator(".what-if").innerText(), /wake-up (mean|p50|latency)/i);
  await done(arm);
  const p9 = await open(browser, pageOf("first-powerpc-p9-smt2-two-vms-data-gz", corpus("powerpc/p9_smt2_two_vms.data.gz")), { hash: "#tab=mechanisms" });
  assert.equal(await p9.locator("#gangs").count(), 0);
  await done(p9);
});

test("exits are divided by what is chosen, from sums and from single exits alike", async () => {
  const page = await open(browser, boot(), { hash: "#view=pivot&tab=breakdown&by=reason" });
  const report = json("report", T2);
  const { rows } = await pivotSums(page);
  assert.deepEqual(rows.map((row) => [row.reason, Number(row.exits)]).sort(), report.rows.map((row) => [row.reason, row.count]).sort());
  // By the place in the guest, which single exits alone tell.
  const button = (name) => page.getByRole("group", { name: "Divided by" }).getByRole("button", { name });
  await button("place in the guest").click();
  await button("reason").click();
  const [top] = json("report", T2, "--by", "rip", "--sort", "cost").rows;
  const [first] = (await pivotSums(page)).rows;
  assert.deepEqual([Number(first["place in the guest"]), Number(first.exits)], [top.rip, top.count]);
  // Under a condition, from sums and from single exits.
  const under = async (where) => {
    await page.locator(".where input").fill(where);
    await page.keyboard.press("Enter");
    await frame(page);
    return (await pivotSums(page)).exits;
  };
  const events = run("export", T2, "--format", "csv").trim().split("\n");
  const head = events[0].split(",");
  const exits = events.slice(1).map((line) => Object.fromEntries(line.split(",").map((field, at) => [head[at], field])));
  const [kernel, user] = [head.find((name) => name === "kernel_ns"), head.find((name) => /^user(_space)?_ns$/.test(name))];
  const cost = (exit) => Number(exit[kernel]) + Number(exit[user]);
  assert.equal(await under("reason = npf"), report.rows.find((row) => row.reason === "npf").count);
  assert.equal(await under("reason = io and cost > 1ms"), exits.filter((exit) => exit.reason === "io" && cost(exit) > 1e6).length);
  assert.equal(await under("reason != io and vcpu = 1 and steal >= 10µs"), exits.filter((exit) => exit.reason !== "io" && exit.vcpu === "1" && Number(exit.steal_ns) >= 10_000).length);
  for (const where of ["subject ~ PCI", "handler = user space and cpu = CPU 1 and cost >= 0", "subject = no subject and vcpu = 0 and cost >= 0"])
    assert.equal(await under(where), json("report", T2, "--where", where).total.count, where);
  await under("cots > 1ms");
  assert.match(await page.locator("#where-wrong").innerText(), /^cots is unknown here: /);
  await under("cost > 5");
  assert.match(await page.locator("#where-wrong").innerText(), /^5 is no length: write it like 100µs/);
  await under("");
  // A click looks into a frame; what is searched lights up.
  await button("reason").click();
  await button("place in the guest").click();
  await page.locator("#pivot").getByRole("searchbox").fill("npf");
  const npf = report.rows.find((row) => row.reason === "npf");
  assert.equal(await page.locator("#chart-pivot [role=status]").innerText(), `${((npf.cost_ns / report.total.cost_ns) * 100).toFixed(1)}% of all`);
  const box = await page.locator("#chart-pivot canvas").boundingBox();
  await page.mouse.click(box.x + 20, box.y + 36);
  await page.locator("#pivot").getByRole("button", { name: "Show all of it" }).click();
  await done(page);
});

test("lengths that are chosen are those of the timeline and of the slowest exits; VMs are chosen whole", async () => {
  const page = await open(browser, boot());
  await page.evaluate(() => (location.hash = "#lengths=40000000-90000000"));
  await page.locator(".chip", { hasText: "40.0ms to 90.0ms" }).waitFor();
  const slow = await csvOf(page, "slow");
  assert.ok(slow.length > 0);
  await page.keyboard.press("Escape");
  assert.ok((await csvOf(page, "slow")).length > slow.length);
  await done(page);
  const two = await open(browser, pageOf("p8-vms", corpus("powerpc/p8_smt4_two_vms.data.gz")));
  const report = json("report", corpus("powerpc/p8_smt4_two_vms.data.gz"));
  const vm = two.getByRole("group", { name: "VMs" }).getByRole("button").first();
  const name = await vm.getAttribute("title");
  await vm.click();
  assert.equal(await two.locator(".chip").first().evaluate((chip) => chip.title), `VM ${name}`);
  const own = report.vcpus.filter((row) => name.endsWith(String(row.vm)));
  assert.equal((await pivotSums(two)).exits, own.reduce((sum, row) => sum + row.exits, 0));
  await done(two);
});

test("all charts are printed, in light colours; tables fit on paper, and the range is named", async () => {
  const page = await open(browser, boot(), { colorScheme: "dark", hash: `#from=2000000000&to=4000000000&vcpu=${encodeURIComponent("qemu-system-x86 121/0")}` });
  const charts = await page.$$eval("main figure.chart:not(.sticky *) canvas", (all) => all.map((canvas) => canvas.ariaLabel));
  assert.ok(charts.length > 10);
  const { pictures, drawn } = await printed(page);
  assert.deepEqual(charts.filter((label) => !pictures.get(label)), []);
  // The dark ground is nowhere: neither behind the text nor in a chart.
  const dark = [0x15, 0x18, 0x1c].map((part) => (part / 255).toFixed(3).slice(1));
  assert.equal(new RegExp(dark.map((part) => `0?\\${part}\\d*`).join(" ") + " (rg|RG|scn)").test(drawn), false);
  // What is blank is not found.
  const flame = await page.evaluate(() => {
    const canvas = document.querySelector("#chart-flame canvas");
    addEventListener("beforeprint", () => (canvas.width = canvas.width));
    return canvas.ariaLabel;
  });
  assert.equal((await printed(page)).pictures.get(flame), 0);
  assert.equal(await page.locator("[role=tabpanel]:visible").count(), 1);
  await page.setViewportSize({ width: 703, height: 1000 });
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => document.querySelectorAll("details").forEach((of) => (of.open = true)));
  const cut = await page.$$eval(".scroll", (all) => all.filter((of) => of.clientWidth > 0 && of.scrollWidth > of.clientWidth).map((of) => `${of.ariaLabel}: ${of.scrollWidth} of ${of.clientWidth}`));
  assert.deepEqual(cut, []);
  const rows = await page.$$eval("tbody tr", (all) => all.filter((of) => getComputedStyle(of).breakInside !== "avoid").length);
  assert.equal(rows, 0);
  const named = page.locator("p.printed").first();
  assert.match(await named.innerText(), /^Range: \d+\.\d{4} s to \d+\.\d{4} s \(2\.00s\), of the whole recording \(9\.\d\ds\)\. Only vCPU 0\.$/);
  await page.emulateMedia({ media: "screen" });
  assert.equal(await named.isVisible(), false);
  await done(page);
});

for (const colorScheme of ["light", "dark"]) {
  test(`no serious finding of axe, ${colorScheme}`, async () => {
    for (const file of [boot(), pageOf("gang", corpus("powerpc/p8_smt4_trace.dat.gz")), pageOf("yield", corpus("xen/pvh2_contend_sched_hvm.xentrace.gz"), ...XEN)]) {
      const page = await open(browser, file, { colorScheme });
      assert.deepEqual(await seriousOf(page), []);
      await done(page);
    }
  });
}

test("every kind of recording has its views, and each chart draws something", async () => {
  const kinds = [
    [boot(), ["overview", "reasons", "timeline", "slowest", "devices", "advice", "halts", "phases"]],
    [pageOf("gang", corpus("powerpc/p8_smt4_trace.dat.gz")), ["gangs", "timeline"]],
    [pageOf("yield", corpus("xen/pvh2_contend_sched_hvm.xentrace.gz"), ...XEN), ["yields", "phases"]],
    [pageOf("arm", corpus("arm64/arm.dat.gz")), ["reasons", "timeline"]],
    [pageOf("two", corpus("powerpc/p8_smt4_two_vms.data.gz"), corpus("powerpc/p9_smt2_two_vms.data.gz")), ["overview", "reasons"]],
  ];
  for (const [file, sections] of kinds) {
    const page = await open(browser, file);
    for (const id of sections) assert.equal(await page.locator(`main section#${id}`).count(), 1, `${file}: ${id}`);
    await drawsAll(page);
    await done(page);
  }
});

test("an exit says who preempted its vCPU and who woke it, and where the page leaves that out", async () => {
  const trace = join(folder, "woken.txt");
  const line = (comm, tid, cpu, at, event) => `  ${comm}-${tid}  [00${cpu}] d..2. 100.${String(at).padStart(6, "0")}: ${event}\n`;
  const vcpu = (number, at, event) => line(`CPU ${number}/KVM`, 2001 + number, number, at, event);
  const exit = "kvm_exit: reason HLT rip 0xffffffff81000000 info 0 0";
  const lines = [
    ...[0, 1].map((number) => vcpu(number, 100 + number, exit.replace("HLT", "CPUID")) + vcpu(number, 110 + number, `kvm_entry: vcpu ${number}, rip 0x2`)),
    vcpu(0, 200, exit.replace("HLT", "EXTERNAL_INTERRUPT")),
    vcpu(0, 210, "sched_switch: prev_comm=CPU 0/KVM prev_pid=2001 prev_prio=120 prev_state=R ==> next_comm=backup next_pid=77 next_prio=120"),
    line("backup", 77, 0, 260, "sched_switch: prev_comm=backup prev_pid=77 prev_prio=120 prev_state=S ==> next_comm=CPU 0/KVM next_pid=2001 next_prio=120"),
    vcpu(0, 270, "kvm_entry: vcpu 0, rip 0x2"),
    vcpu(0, 300, exit),
    vcpu(0, 310, "sched_switch: prev_comm=CPU 0/KVM prev_pid=2001 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120"),
    vcpu(1, 400, exit.replace("HLT", "MSR_WRITE")),
    vcpu(1, 410, "sched_wakeup: comm=CPU 0/KVM pid=2001 prio=120 target_cpu=000"),
    vcpu(1, 420, "kvm_entry: vcpu 1, rip 0x2"),
    line("<idle>", 0, 0, 425, "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=2001 next_prio=120"),
    vcpu(0, 430, "kvm_entry: vcpu 0, rip 0x2"),
    vcpu(0, 500, exit.replace("HLT", "CPUID")),
    vcpu(0, 510, "kvm_entry: vcpu 0, rip 0x2"),
  ];
  writeFileSync(trace, `# tracer: nop\n#\n${lines.join("")}`);
  const file = pageOf("woken", trace);
  const textOf = async (page, reason) => {
    await page.evaluate((hash) => (location.hash = hash), `#tab=timeline&exit=${encodeURIComponent(laneId(page, 0))}@${timelinesOf(page).slow_exits.find((of) => of.reason === reason).after_ns}`);
    await frame(page);
    return page.getByRole("complementary", { name: "The exit" }).innerText();
  };
  const page = await open(browser, file);
  assert.match(await textOf(page, "EXTERNAL_INTERRUPT"), /Wake-ups and preemptions in it\nPreempted after 10\.0µs by backup \(77\); ran again 50\.0µs later\./);
  assert.match(await textOf(page, "HLT"), /Woken after 110µs by vCPU 1, or an interrupt while that ran; ran 15\.0µs later\./);
  assert.doesNotMatch(await textOf(page, "CPUID"), /Wake-ups and preemptions in it/);
  await drawsAll(page);
  const note = await page.locator("#chart-timeline .note").innerText();
  assert.match(note, /solid: woken, until it ran; dashed: preempted, until it ran again/);
  assert.doesNotMatch(note, /not stored here|does not have the wake-ups/);
  await done(page);
  const without = await open(browser, changed(file, (data) => data.timelines.singles.chunks.forEach((chunk) => (chunk.waits = null))));
  assert.match(await textOf(without, "HLT"), /This page does not have the wake-ups and preemptions of some of this time/);
  await done(without);
});

test("functions of the guest have names, in the pivot as in the report, and beside an address", async () => {
  const [trace, symbols] = [corpus("arm64/arm.dat.gz"), join(folder, "kallsyms")];
  writeFileSync(symbols, "0000000040000000 T _start\n0000000040000068 t putc\n0000000040000078 t next\n");
  const page = await open(browser, pageOf("named", trace, "--guestkallsyms", symbols), { hash: "#view=pivot&tab=breakdown&by=function" });
  const report = json("report", trace, "--by", "rip", "--guestkallsyms", symbols, "--top", "all");
  const expected = report.rows.filter((row) => row.function).map((row) => [row.function, row.timed]);
  const { rows } = await pivotSums(page);
  assert.deepEqual(rows.map((row) => [row["function of the guest"], Number(row.exits)]).filter(([name]) => expected.some(([of]) => of === name)).sort(), expected.sort());
  await page.evaluate(() => (location.hash = "#view=pivot&tab=breakdown&by=rip&where=rip%20~%20putc"));
  await frame(page);
  const places = (await pivotSums(page)).rows.map((row) => row["place in the guest"]);
  assert.ok(places.includes("0x4000006c putc+0x4") && places.every((place) => / putc\+0x[0-9a-f]$/.test(place)), places.join());
  const at = timelinesOf(page).slow_exits.find((of) => of.reason === "DABT_LOW");
  await page.evaluate((hash) => (location.hash = hash), `#tab=timeline&exit=${encodeURIComponent(laneId(page, at.lane))}@${at.after_ns}`);
  await frame(page);
  assert.match(await page.getByRole("complementary", { name: "The exit" }).innerText(), /in the guest at 0x4000[0-9a-f]+ \w+\+0x[0-9a-f]+\./);
  await done(page);
});

test("copies: SVG is drawn like the chart, PNG is an image", async () => {
  const page = await open(browser, boot());
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
  const save = async (id, kind) => {
    await reveal(page, `#chart-${id}`);
    const saved = page.waitForEvent("download");
    await page.locator(`#chart-${id} .copy button`, { hasText: kind }).click();
    const parts = [];
    for await (const part of await (await saved).createReadStream()) parts.push(part);
    return Buffer.concat(parts);
  };
  for (const id of ["vcpus", "distribution", "timeline", "heat", "steps", "gaps"]) {
    const svg = (await save(id, "SVG")).toString();
    const broken = await page.evaluate((text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")?.textContent, svg);
    assert.equal(broken, undefined, id);
    assert.match(svg, /<text/);
  }
  assert.deepEqual([...(await save("heat", "PNG")).subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]);
  await done(page);
});

test("of very many vCPUs those that cost most are drawn, and all if asked for", async () => {
  const trace = join(folder, "many.txt");
  const line = (number, at, event) => `  CPU ${number}/KVM-${2001 + number}  [002] d..2. 100.${String(at).padStart(6, "0")}: ${event}\n`;
  const vcpu = (_, number) =>
    line(number, 1000 * number, "kvm_exit: reason CPUID rip 0xffffffff81000000 info 0 0") +
    line(number, 1000 * number + 10 * (number + 1), `kvm_entry: vcpu ${number}, rip 0xffffffff81000002`);
  writeFileSync(trace, `# tracer: nop\n#\n${Array.from({ length: 40 }, vcpu).join("")}`);
  const page = await open(browser, pageOf("many", trace));
  await reveal(page, "#vcpus");
  const height = () => page.locator("#chart-vcpus canvas").first().evaluate((canvas) => canvas.getBoundingClientRect().height);
  const few = await height();
  assert.equal((await csvOf(page, "vcpus")).length, 40);
  await page.locator("#chart-vcpus").getByRole("button", { name: "All 40 vCPUs" }).click();
  await frame(page);
  assert.equal((await height()) - few, 8 * 24);
  await page.locator("#chart-vcpus").getByRole("button", { name: "The 32 vCPUs that cost most" }).click();
  await done(page);
});

test("who the VMs are is a table, of the selected ones and without the parts that nobody knows; nowhere else is one", async () => {
  const file = pageOf("identities", T2);
  const vms = [
    { vm: 121, manager: "kubevirt", name: "shop_web", namespace: "shop", vmi: "web", pod: "virt-launcher-web-x", vms_of_process: "1", sources: {} },
    { vm: 122, manager: "kubevirt", namespace: "shop", sources: {} },
  ];
  const page = await open(browser, changed(file, ({ report }) => void (report.traces[0].vms = vms)), { hash: "#tab=breakdown" });
  const table = page.locator("#identities table");
  const rows = await table.locator("tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim())));
  assert.deepEqual(rows, [
    ["VM", "manager", "namespace", "VMI", "pod"],
    ["shop_web 121", "kubevirt", "shop", "web", "virt-launcher-web-x"],
    ["122", "kubevirt", "shop", "–", "–"],
  ]);
  await done(page);
  const none = await open(browser, file, { hash: "#tab=breakdown" });
  assert.equal(await none.locator("#identities").count(), 0);
  await done(none);
});

test("names out of a hostile trace are shown, and run nothing", async () => {
  const name = "<b onclick=a()>";
  const bytes = gunzipSync(readFileSync(T2)).toString("latin1").replaceAll("qemu-system-x86", name);
  const trace = join(folder, `<b onclick=alert(4)>&"'.data`);
  writeFileSync(trace, bytes, "latin1");
  const page = await open(browser, pageOf("hostile", trace));
  for (const id of await page.$$eval("main section[id]", (sections) => sections.map((section) => section.id))) await page.evaluate((id) => document.getElementById(id).scrollIntoView(), id);
  await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
  await frame(page);
  assert.equal(await page.evaluate(() => document.querySelectorAll("img, script:not(body > script), b[onclick]").length), 0);
  assert.equal(await page.locator("h1").textContent(), `<b onclick=alert(4)>&"'.data`);
  assert.ok((await page.locator("header").textContent()).includes(name));
  await done(page);
});
