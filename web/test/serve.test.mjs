// Served pages: the list of recordings, their pages, files that change, stores that grow, and what happens as it happens.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, copyFileSync, existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { corpus, csvOf, done, exitscope, fields, folder, frame, json, launch, repacked, reveal, run, seriousOf, storeOf, tableOf, thousands, visit } from "./browser.mjs";
import { testWith } from "./skips.mjs";

const T2 = corpus("x86-svm/t2.data.gz");
const T4 = corpus("x86-svm/t4-none.dat.gz");

let browser;
before(async () => (browser = await launch()));
const children = new Set();
after(() => {
  children.forEach((child) => child.kill("SIGKILL"));
  return browser?.close();
});

/** A server at work: its address, and how to end it. */
async function serve(...args) {
  const child = spawn(exitscope, ["serve", ...(args.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"]), ...args], { stdio: ["ignore", "ignore", "pipe"] });
  children.add(child);
  const ended = new Promise((done) => child.on("exit", (code) => (children.delete(child), done(code))));
  let said = "";
  for await (const part of child.stderr) {
    said += part;
    const url = said.match(/serving (http:\S+)\n/)?.[1];
    if (url) return { url, end: (signal = "SIGTERM") => (child.kill(signal), ended) };
  }
  return { said };
}

const open = (url, options) => visit(browser, url, new RegExp(`^(${new URL(url).origin}/|data:|blob:)`), options);

/** A served page that holds only the first of the recording's single exits, as that of a longer one does. */
async function withFirst(url, hash) {
  const page = await open(url);
  await page.route(/\/data\/0$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: repacked(await response.body(), (data) => data.timelines.singles.chunks.splice(2)) });
  });
  await page.evaluate((hash) => (location.hash = hash), hash);
  await page.reload();
  await page.waitForSelector("html[data-ready=yes]");
  return page;
}

test("a table is pasted into the box below the list of recordings", async () => {
  const server = await serve(T4);
  const page = await open(server.url);
  await page.fill("form.paste textarea", "> PID TID KVM_EXIT_REASON COUNT\n> 1 2 HLT 3\n> 1 2 MSR_WRITE 30\n");
  await Promise.all([page.waitForURL(/\/paste$/), page.click("form.paste button")]);
  assert.match(await page.textContent("body"), /MSR_WRITE, 90\.9% of 33 exits/);
  assert.equal(await server.end(), 0);
});

test("single exits that a page does not hold are read by its server where they are in view", async () => {
  const trace = join(folder, "first.data.gz");
  copyFileSync(T2, trace);
  const server = await serve(trace);
  let timelines = null;
  repacked(Buffer.from(await (await fetch(`${server.url}data/0`)).arrayBuffer()), (data) => (timelines = data.timelines));
  const held = timelines.singles.chunks[1].to_ns;
  const missing = timelines.slow_exits.filter((of) => of.after_ns > held + 1e9);
  const at = missing[0];
  const lane = timelines.vcpus[at.lane];
  const link = (of) => `#tab=timeline&from=${of.after_ns - 2e6}&to=${of.after_ns + of.exit_time_ns + 2e6}&exit=${encodeURIComponent(`${lane.vm_label}/${lane.vcpu_label}`)}@${of.after_ns}`;
  // From the beginning: else it may ask for all of so short a recording.
  const page = await withFirst(`${server.url}page/0`, link(at));
  const inspector = page.getByRole("complementary", { name: "The exit" });
  await inspector.getByRole("heading", { name: new RegExp(`^${at.reason}`) }).waitFor();
  // All its parts, and what was before it, as the export of all exits has them.
  const [head, ...lines] = run("export", T2, "--format", "csv").trim().split("\n").map(fields);
  const exits = lines.map((line) => Object.fromEntries(head.map((name, place) => [name, line[place]]))).filter((exit) => exit.vcpu === lane.vcpu_label);
  const place = exits.findIndex((exit) => BigInt(exit.at_ns) === BigInt(timelines.base_ns) + BigInt(at.after_ns));
  const text = await inspector.innerText();
  assert.ok(place > 0 && text.includes(`On CPU ${exits[place].cpu}, in the guest at 0x`), text);
  const [, before] = text.split("Before it on this vCPU\n");
  assert.ok(before.startsWith(exits[place - 1].reason), before);
  assert.doesNotMatch(await page.locator("#chart-timeline .note").innerText(), /not stored here|does not have the wake-ups/);
  assert.deepEqual(page.troubles, []);
  // Of another version it takes none.
  appendFileSync(trace, "x");
  const other = missing.find((of) => of.lane === at.lane && Math.abs(of.after_ns - at.after_ns) > 3e8);
  await page.evaluate((hash) => (location.hash = hash), link(other));
  await page.waitForFunction(() => document.querySelector("#chart-timeline .note").textContent.includes("They could not be read: The file has changed"));
  await page.context().close();
  await server.end();
});

test("exits by what the page does not hold are summed up by its server, under a condition, too", async () => {
  const server = await serve(T2);
  const page = await withFirst(`${server.url}page/0`, "#view=pivot&tab=breakdown&by=rip");
  const rowsOf = async () => {
    await page.waitForFunction(() => !document.querySelector("#where-wrong").textContent.includes("being read") && document.querySelectorAll("#pivot > table tbody tr, #pivot table tbody tr").length > 1);
    return csvOf(page, "pivot");
  };
  await page.waitForResponse((response) => response.url().includes("/groups/0/"));
  const rows = await rowsOf();
  const report = json("report", T2, "--by", "rip", "--top", "all");
  assert.equal(rows.length, report.rows.length);
  // By address; a double has no room for all of it.
  const byAddress = (rows) => [...rows].map(([rip, exits]) => [Number(rip), Number(exits)]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  assert.deepEqual(byAddress(rows.map((row) => [row["place in the guest"], row.exits])), byAddress(report.rows.map((row) => [row.rip, row.count])));
  const [head, ...lines] = run("export", T2, "--format", "csv").trim().split("\n").map(fields);
  const exits = lines.map((line) => Object.fromEntries(head.map((name, place) => [name, line[place]])));
  const answered = page.waitForResponse((response) => response.url().includes("/cpu/exit_time.gt.200000,steal.ge.10000"));
  await page.evaluate(() => (location.hash = "#view=pivot&tab=breakdown&by=cpu&where=" + encodeURIComponent("reason != io and exit_time > 200us and steal >= 10us")));
  await answered;
  const cpus = Object.fromEntries((await rowsOf()).map((row) => [row.CPU, Number(row.exits)]));
  const expected = {};
  for (const exit of exits) if (exit.timed === "true" && exit.reason !== "io" && Number(exit.exit_time_ns) > 200_000 && Number(exit.steal_ns) >= 10_000) expected[`CPU ${exit.cpu}`] = (expected[`CPU ${exit.cpu}`] ?? 0) + 1;
  assert.ok(Object.keys(expected).length > 1);
  assert.deepEqual(cpus, expected);
  await done(page);
  for (const [path, why] of [["single/0/9/8", /ends before it begins/], ["groups/0/0/1/vm/-", /"vm" is none of/], ["groups/0/0/1/-/cost.over.5", /is no limit of a length/], ["single/0/0", /^ask for/]]) {
    const response = await fetch(server.url + path);
    assert.equal(response.status, 400, path);
    assert.match(await response.text(), why);
  }
  assert.equal((await fetch(`${server.url}single/1/0/5`)).status, 404);
  await server.end();
});

test("the list of recordings leads to pages with the report's figures, and back", async () => {
  const torn = join(folder, "no-trace.data");
  writeFileSync(torn, "nothing that is a trace");
  const server = await serve(T2, T4, torn);
  const page = await open(server.url);
  await page.waitForFunction(() => !document.querySelector("main").textContent.includes("being read"));
  const rows = await tableOf(page, "Recordings");
  const report = json("report", T2);
  assert.equal(Object.keys(rows).length, 3);
  assert.equal(rows[T2].exits, thousands(report.coverage.exits));
  assert.equal(rows[T2].vCPUs, String(report.vcpus.length));
  assert.equal(rows[T2].verdict, report.verdict.text);
  assert.match(rows[torn].coverage, /is not a trace/);
  assert.deepEqual(await seriousOf(page), []);
  await page.getByRole("link", { name: T2 }).click();
  await page.waitForSelector("#reasons table", { state: "attached" });
  const reasons = await tableOf(page, "Exits by reason");
  for (const row of report.rows.slice(0, 8)) assert.equal(reasons[row.reason].exits, thousands(row.count), row.reason);
  await page.getByRole("button", { name: "Zoom in" }).click();
  await page.waitForFunction(() => location.hash.includes("from="));
  const shown = await page.locator(".filters").textContent();
  const again = await open(page.url());
  assert.equal(await again.locator(".filters").textContent(), shown, "a link shows the same");
  await done(again);
  await page.getByRole("link", { name: "All recordings" }).click();
  await page.getByRole("link", { name: T4 }).click();
  await page.waitForSelector("#halts", { state: "attached" });
  await done(page);
  assert.equal(await server.end("SIGHUP"), 0);
});

test("two recordings of the list are compared", async () => {
  const server = await serve(T2, T4);
  const page = await open(server.url);
  await page.waitForFunction(() => !document.querySelector("main").textContent.includes("being read"));
  await page.getByLabel("Before").selectOption(T4);
  assert.equal(await page.getByRole("link", { name: "What changed" }).count(), 0, "of the same there is nothing to compare");
  await page.getByLabel("After").selectOption(T2);
  await page.getByRole("link", { name: "What changed" }).click();
  await page.waitForSelector("#overview .verdict");
  assert.match(await page.locator("header").textContent(), /t4-none.* → t2/);
  assert.deepEqual(await seriousOf(page), []);
  await page.getByRole("link", { name: "All recordings" }).click();
  await page.waitForSelector("#recordings");
  await done(page);
  assert.equal(await server.end(), 0);
});

for (const colorScheme of ["light", "dark"]) {
  test(`a served page has no serious finding of axe, ${colorScheme}`, async () => {
    const server = await serve(T2);
    const page = await open(`${server.url}page/0`, { colorScheme });
    assert.deepEqual(await seriousOf(page), []);
    await done(page);
    assert.equal(await server.end(), 0);
  });
}

test("a file that changes is said to, and read anew", async () => {
  const file = join(folder, "grows.data.gz");
  copyFileSync(T2, file);
  const server = await serve(file);
  const page = await open(`${server.url}page/0`);
  const bar = page.getByRole("region", { name: "Server" });
  assert.doesNotMatch(await bar.textContent(), /changed/);
  // Another recording in its place.
  const other = join(folder, "other");
  copyFileSync(T4, other);
  renameSync(other, file);
  await bar.getByRole("button", { name: "Read it again" }).click();
  await page.waitForFunction(() => !document.querySelector(".served").textContent.includes("changed"));
  const { total } = json("report", T4);
  assert.ok((await page.locator("header").textContent()).includes(`${thousands(total.count)} exits`));
  appendFileSync(file, "x");
  await bar.getByText("The file has changed").waitFor();
  rmSync(file);
  await bar.getByText("The file is gone").waitFor();
  await done(page);
  assert.equal(await server.end(), 0);
});

testWith("sql", "a store is shown as it is when the page is loaded", async () => {
  const store = storeOf("grows", { "host-a": "x86-svm/t2.data.gz" });
  const server = await serve("--store", store, "--by", "host");
  const page = await open(server.url);
  assert.equal(new URL(page.url()).pathname, "/fleet");
  assert.match(await page.locator("#comparisons").textContent(), /All recordings are of one host, host-a/);
  await page.getByText("reload it to see what was added since").waitFor();
  run("store", "add", store, T4, "--host", "host-a");
  run("store", "add", store, corpus("x86-svm/t4-zstd.data.gz"), "--host", "host-b");
  await page.reload();
  await page.locator("#chart-changes").waitFor();
  assert.match(await page.locator("header").textContent(), /2 hosts · 3 recordings/);
  assert.deepEqual(await seriousOf(page), []);
  await done(page);
  rmSync(store, { recursive: true });
  const gone = await browser.newPage();
  await gone.goto(server.url);
  await gone.getByText("This cannot be shown").waitFor();
  await gone.context().close();
  assert.equal(await server.end(), 0);
});

const TINY = join(dirname(exitscope), "tiny-guest");

/** Guests that come and go until they are told not to. */
function guests() {
  if (!existsSync(TINY)) throw new Error(`${TINY} is not there: cargo build --package tiny-guest`);
  let child;
  let going = true;
  const next = () => {
    if (!going) return;
    child = spawn(TINY, ["--repeat", "3000"], { stdio: "ignore" });
    children.add(child);
    child.on("exit", () => (children.delete(child), setTimeout(next, 50)));
  };
  next();
  return () => ((going = false), child.kill("SIGKILL"));
}

testWith("kvm", "what happens is shown as it happens, can be paused, and a lost connection is said", async (t) => {
  const stop = guests();
  // Else they would come and go for ever if this fails.
  t.after(stop);
  let server = await serve("--live", "--keep", "30s");
  assert.ok(server.url, server.said);
  const page = await open(server.url);
  const bar = page.getByRole("region", { name: "Server" });
  const exits = async () => Number((await page.locator("header .soft").textContent()).match(/([\d,]+) exits/)[1].replaceAll(",", ""));
  const more = async (than) => {
    await page.waitForFunction((than) => Number(document.querySelector("header .soft").textContent.match(/([\d,]+) exits/)[1].replaceAll(",", "")) > than, than, { timeout: 20_000 });
    return exits();
  };
  const length = () => page.evaluate(() => document.querySelector(".filters .range").textContent);
  const before = await more(await more(0));
  await bar.getByText("exits since the beginning").waitFor();
  const ports = await tableOf(page, "I/O ports");
  assert.ok(Object.keys(ports).some((name) => name.startsWith("0x10 out")), Object.keys(ports).join());
  // The guest's writes to port 0x10 go to user space, one by one.
  await page.locator("#advice article", { hasText: "0x10" }).first().waitFor({ state: "attached" });
  const long = await length();
  await more(before);
  assert.notEqual(await length(), long, "time goes on");
  // What is looked at stays.
  await page.getByRole("group", { name: "What is stacked" }).getByRole("button", { name: "Exits by reason" }).click();
  await bar.getByRole("button", { name: "Pause" }).click();
  await frame(page);
  const held = await exits();
  const ticks = page.waitForEvent("response", (response) => response.url().endsWith("/live/data")).catch(() => null);
  await new Promise((done) => setTimeout(done, 2500));
  assert.equal(await exits(), held, "it is paused");
  await bar.getByRole("button", { name: "Go on" }).click();
  assert.ok(await ticks);
  await more(held);
  assert.equal(await page.getByRole("button", { name: "Exits by reason" }).getAttribute("aria-pressed"), "true");
  assert.deepEqual(await seriousOf(page), []);
  assert.deepEqual(page.troubles, []);
  const { port } = new URL(server.url);
  assert.equal(await server.end("SIGINT"), 0);
  await bar.getByText("No connection to exitscope").waitFor();
  // Another run at the same address goes on in the same page.
  server = await serve("--live", "--listen", `127.0.0.1:${port}`);
  await bar.getByText("No connection to exitscope").waitFor({ state: "detached" });
  await page.waitForEvent("response", (response) => response.url().endsWith("/live/data") && response.ok());
  await page.context().close();
  stop();
  assert.equal(await server.end(), 0);
});

testWith("kvm", "while what is advised changes, it stays as open as it was and where it is looked at, and so does the slider", async () => {
  const recordings = await serve(T4);
  let answer;
  do answer = await fetch(`${recordings.url}data/0`);
  while (answer.status === 202);
  const packed = Buffer.from(await answer.arrayBuffer());
  assert.equal(await recordings.end(), 0);
  const server = await serve("--live");
  const page = await open(server.url);
  // Each time other figures, and another order.
  let times = 0;
  await page.route("**/live/data", (route) => {
    times++;
    const body = repacked(packed, ({ advice, polls }) => {
      advice.advice.splice(2);
      if (times % 2) advice.advice.reverse();
      advice.advice.forEach((item, at) => (item.number = at + 1));
      polls.host.forEach((row) => (row.caught = times));
    });
    void route.fulfill({ body, contentType: "application/gzip", headers: { etag: `"${times}"` } });
  });
  // What the guests of other tests had it advise before is not of these.
  await page.reload();
  await page.waitForSelector("html[data-ready=yes]");
  const shown = () => page.locator(".what-if .then").first().textContent();
  const renewed = async () => {
    const at = Number((await shown()).match(/\d+/)[0]);
    await page.waitForFunction((at) => Number(document.querySelector(".what-if .then").textContent.match(/\d+/)[0]) > at, at, { timeout: 20_000 });
  };
  const articles = () =>
    page.$$eval("#advice article", (all) => all.map((one) => ({ change: one.querySelector("h3").textContent.replace(/^\d+\. /, ""), was: one.was, open: one.querySelector("details").open })));
  await page.locator("#advice article").nth(1).waitFor({ state: "attached" });
  await reveal(page, "#advice");
  assert.match(await page.locator("#advice .note").first().textContent(), /Of all that is kept/);
  // Nobody is in the list: it is in the order of what wins most, and each advice is an element of its own.
  await page.mouse.move(2, 2);
  await page.$$eval("#advice article", (all) => all.forEach((one) => (one.was = one.querySelector("h3").textContent.replace(/^\d+\. /, ""))));
  for (let round = 0; round < 3; round++) {
    await renewed();
    const now = await articles();
    assert.deepEqual(now.map((one) => one.was), now.map((one) => one.change));
    assert.match(await page.locator("#advice h3").first().textContent(), /^1\. /);
  }
  // Who has gone into it finds it where it was.
  const summary = page.locator("#advice article").nth(1).locator("summary");
  await summary.focus();
  const before = (await articles()).map((one) => one.change);
  if (await page.locator("#advice article").nth(1).locator("details").evaluate((details) => details.open)) await page.keyboard.press("Enter");
  const unfolded = (await articles()).map((one) => one.open);
  assert.equal(unfolded[1], false);
  for (let round = 0; round < 3; round++) {
    await renewed();
    assert.deepEqual((await articles()).map((one) => one.change), before);
    assert.deepEqual((await articles()).map((one) => one.open), unfolded);
    assert.ok(await summary.evaluate((summary) => document.activeElement === summary), "the focus stays");
  }
  await reveal(page, "#halts");
  const slider = page.getByRole("slider");
  await slider.focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  const place = await slider.inputValue();
  for (let round = 0; round < 2; round++) {
    await renewed();
    assert.equal(await slider.inputValue(), place);
    assert.ok(await slider.evaluate((slider) => document.activeElement === slider), "the focus stays");
    const now = await articles();
    assert.deepEqual(now.map((one) => one.open), now.map((one) => unfolded[before.indexOf(one.change)]));
  }
  assert.deepEqual(await seriousOf(page), []);
  await done(page);
  assert.equal(await server.end(), 0);
});
