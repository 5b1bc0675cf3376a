// The timeline: VMs and their vCPUs as rows, however many; the host's CPUs; one cursor; notes that travel in links.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { corpus, csvOf, done, folder, frame, json, launch, open, pageOf, run } from "./browser.mjs";

const T2 = corpus("x86-svm/t2.data.gz");

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

/** The texts that a chart writes, out of its SVG. */
async function textsOf(page, id) {
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
  const saved = page.waitForEvent("download");
  await page.locator(`#chart-${id} .copy button`, { hasText: "SVG" }).click();
  let text = "";
  for await (const part of await (await saved).createReadStream()) text += part;
  return [...text.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);
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

test("the moment under the pointer is marked in all charts over time", async () => {
  const page = await open(browser, pageOf("t2", T2));
  await page.locator("#chart-timeline canvas").hover({ position: { x: 400, y: 40 } });
  await frame(page);
  assert.ok((await page.locator(".cursor").count()) >= 3, "timeline, strip, lengths over time");
  const left = await page.locator("#chart-timeline .cursor").evaluate((of) => parseFloat(of.style.left));
  assert.ok(Math.abs(left - 400) < 1.5, `${left}`);
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
