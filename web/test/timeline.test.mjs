// The timeline: VMs and their vCPUs as rows, however many; the host's CPUs; one cursor; notes that travel in links.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { corpus, csvOf, done, folder, frame, json, launch, open, pageOf, run, svgOf } from "./browser.mjs";

const T2 = corpus("x86-svm/t2.data.gz");

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

/** The texts that a chart writes. */
const textsOf = async (page, id) => [...(await svgOf(page, id)).matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);

/** How much of a chart's rows each fill has, below the legend. */
async function areasOf(page, id) {
  const found = {};
  const inside = (await svgOf(page, id)).split('<g transform="translate(0 48)">')[1];
  for (const [, w, h, fill] of inside.matchAll(/<rect x="[^"]*" y="[^"]*" width="([^"]*)" height="([^"]*)" fill="([^"]*)"/g)) if (h > 2) found[fill] = (found[fill] ?? 0) + w * h;
  return found;
}

const hash = (page) => page.evaluate(() => location.hash);

test("a thousand vCPUs are rows of their VMs that are scrolled through; a click opens a VM", async () => {
  const scenario = join(folder, "many.toml");
  writeFileSync(scenario, 'name = "many"\nduration = "40ms"\n[host]\ncores = 64\n[[vm]]\nname = "guest"\ncopies = 125\nvcpus = 8\n[[vm.program]]\nlibrary = "tick"\nperiod = "4ms"\n');
  const trace = join(folder, "many.data");
  run("sim", scenario, "--trace", trace);
  assert.equal(json("report", trace).vcpus.length, 1000);
  const page = await open(browser, pageOf("vcpus-1000", trace));
  const canvas = page.locator("#chart-timeline canvas");
  const scroller = page.locator("#chart-timeline .scroller");
  const [tall, all] = await scroller.evaluate((of) => [of.clientHeight, of.scrollHeight]);
  assert.ok(tall < 700 && all > 5000, `${tall} of ${all}`);
  const rows = async () => (await textsOf(page, "timeline")).filter((text) => /^[▸▾]/.test(text));
  const first = await rows();
  assert.ok(first.length < 20 && first.every((row) => row.endsWith("(8)")), first.join());
  await scroller.evaluate((of) => (of.scrollTop = of.scrollHeight));
  await frame(page);
  const last = await rows();
  assert.ok(last.length > 5 && last.every((row) => !first.includes(row)), last.join());
  // The last VM is opened: its vCPUs are rows.
  await canvas.click({ position: { x: 20, y: tall - 70 } });
  await frame(page);
  await scroller.evaluate((of) => (of.scrollTop = of.scrollHeight));
  await frame(page);
  const opened = await textsOf(page, "timeline");
  assert.equal(opened.filter((text) => / \/ [0-7]$/.test(text)).length, 8, opened.join());
  await done(page);
});

test("the host's CPUs have the exits that the recording says were on them", async () => {
  const page = await open(browser, pageOf("t2", T2), { hash: "#view=timeline&tab=timeline&rows=cpus&from=3000000000&to=3020000000" });
  const rows = (await textsOf(page, "timeline")).filter((text) => /^CPU /.test(text));
  assert.deepEqual(rows, ["CPU 0", "CPU 1"]);
  // What is between two of some exits is not known: neither guest nor moves are drawn.
  assert.ok((await textsOf(page, "timeline")).some((text) => text.startsWith("vCPU ")), "what runs between exits");
  await page.evaluate(() => (location.hash = `${location.hash}&reason=msr`));
  await page.locator(".chip", { hasText: "msr" }).waitFor();
  assert.ok(!(await textsOf(page, "timeline")).some((text) => text.startsWith("vCPU ")));
  assert.match(await page.locator("#chart-timeline .note").innerText(), /may lie between them/);
  // The pivot counts them by CPU.
  await page.evaluate(() => (location.hash = "#view=pivot&tab=breakdown&by=cpu"));
  await frame(page);
  const counts = Object.fromEntries((await csvOf(page, "pivot")).map((row) => [row.CPU, Number(row.exits)]));
  for (const row of json("report", T2, "--by", "cpu").rows) assert.equal(counts[`CPU ${row.cpu}`], row.timed, `CPU ${row.cpu}`);
  await done(page);
});

/** Where the cursor stands in each chart that shows it, while the pointer is in one. */
async function cursors(page, over, x) {
  await page.locator(`#chart-${over} canvas`).hover({ position: { x, y: 40 } });
  await frame(page);
  return Object.fromEntries(await page.$$eval(".cursor", (all) => all.map((of) => [of.closest("figure").id.slice("chart-".length), parseFloat(of.style.left)])));
}

test("the moment under the pointer is marked in all charts over time, at the same place", async () => {
  for (const width of [360, 1280]) {
    const page = await open(browser, pageOf("t2", T2), { viewport: { width, height: 3000 }, hash: "#view=timeline" });
    const at = await cursors(page, "timeline", width / 2);
    assert.deepEqual(Object.keys(at).sort(), ["heat", "slow", "strip", "timeline"]);
    for (const [chart, left] of Object.entries(at)) assert.ok(Math.abs(left - at.timeline) < 0.5 && Math.abs(left - width / 2) < 1.5, `${width}: ${chart} ${JSON.stringify(at)}`);
    // An exit that is looked into is beside all of them, in a range that the strip is not of.
    const [slow] = JSON.parse(await page.evaluate(() => JSON.stringify([...document.querySelectorAll(".slowest-moments tbody button")].map((of) => of.textContent))));
    await page.getByRole("button", { name: slow, exact: true }).first().click();
    await page.getByRole("complementary", { name: "The exit" }).waitFor();
    const { timeline, heat, slow: dots } = await cursors(page, "timeline", width / 2);
    assert.ok(Math.abs(timeline - heat) < 0.5 && Math.abs(timeline - dots) < 0.5, `${timeline} ${heat} ${dots}`);
    await done(page);
  }
  const gang = await open(browser, pageOf("gang", corpus("powerpc/p8_smt4_trace.dat.gz")), { hash: "#view=gangs&tab=mechanisms" });
  const at = await cursors(gang, "drags", 500);
  assert.ok(Math.abs(at.drags - at.strip) < 0.5, JSON.stringify(at));
  await done(gang);
});

test("at every zoom time has the colours of its parts, the guest first, and what is stacked is what was asked for", async () => {
  const gang = pageOf("gang", corpus("powerpc/p8_smt4_trace.dat.gz"));
  const zooms = ["", "&from=300000000&to=400000000", "&from=690000000&to=714000000"];
  const page = await open(browser, gang, { hash: "#view=timeline" });
  const colours = () => page.$$eval("#chart-timeline .legend .swatch", (all) => all.map((of) => of.style.background));
  const rgb = (fill) => `rgb(${[1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16)).join(", ")})`;
  const parts = await colours();
  const area = { states: [], exits: [], cost: [] };
  for (const stack of ["states", "exits", "cost"])
    for (const zoom of zooms) {
      await page.evaluate((hash) => (location.hash = hash), `#view=timeline&tab=timeline&stack=${stack}${zoom}`);
      await frame(page);
      await frame(page);
      area[stack].push(await areasOf(page, "timeline"));
      if (stack === "states") assert.deepEqual(await colours(), parts, zoom);
      else assert.ok((await colours()).every((of) => !parts.includes(of) || of === ""), `${stack}${zoom}`);
    }
  const [guest] = Object.keys(area.states[0]).filter((fill) => rgb(fill) === parts[0]);
  const whole = (of) => Object.values(of).reduce((sum, of) => sum + of, 0);
  // Guests ran most of the time, and are as much of the rows when single exits are drawn.
  for (const of of area.states) assert.ok(of[guest] > whole(of) * 0.8, `${guest}: ${JSON.stringify(of)}`);
  // The end, of which nothing is known, is hatched, from afar and from near.
  for (const at of [0, 2]) assert.ok(Object.keys(area.states[at]).some((fill) => fill.startsWith("url(#h0") && area.states[at][fill] > 0), JSON.stringify(area.states[at]));
  // Exits by reason have other colours, and no guest.
  for (const stack of ["exits", "cost"]) for (const of of area[stack]) assert.equal(of[guest], undefined, `${stack}: ${JSON.stringify(of)}`);
  assert.notDeepEqual(area.exits[2], area.cost[2]);
  await done(page);
});

test("a note that is written at a moment is drawn there, and travels in the link", async () => {
  const page = await open(browser, pageOf("t2", T2));
  await page.getByRole("button", { name: "⚑ note" }).click();
  await page.locator(".notes input").fill("here <b>it</b> & waits: 5 %");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("note="));
  assert.ok((await textsOf(page, "timeline")).some((text) => text.includes("it")));
  const again = await open(browser, pageOf("t2", T2), { hash: await hash(page) });
  assert.equal(await again.locator(".notes .chip").first().evaluate((chip) => chip.title), await page.locator(".notes .chip").first().evaluate((chip) => chip.title));
  assert.match(await again.locator(".notes .chip").first().evaluate((chip) => chip.title), /^here <b>it<\/b> & waits: 5 %, at [\d.]+ s$/);
  assert.equal(await again.locator("b", { hasText: /^it$/ }).count(), 0, "a note is text");
  await again.getByRole("button", { name: /^Remove the note/ }).click();
  assert.equal(await again.locator(".notes .chip").count(), 0);
  await done(again);
  await done(page);
  // What makes no sense is no note.
  const odd = await open(browser, pageOf("t2", T2), { hash: "#note=x:y&note=-5:z&note=7:" });
  assert.equal(await odd.locator(".notes .chip").count(), 0);
  await done(odd);
});
