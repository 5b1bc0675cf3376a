// Pages in a real browser: Debian's Chromium, driven by Playwright.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { gunzipSync, gzipSync, inflateSync } from "node:zlib";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { alike } from "./fills.mjs";
import { isLeftOut } from "./skips.mjs";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
export const exitscope = process.env.EXITSCOPE ?? join(target, "debug/exitscope");
const CHROMIUM = ["chromium", "chromium-browser", "google-chrome"].map((name) => join("/usr/bin", name));

/** Where pages are written; removed at the end. */
export const folder = mkdtempSync(join(tmpdir(), "exitscope-page-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

export const corpus = (name) => join(root, "corpus", name);

export function run(...args) {
  if (!existsSync(exitscope)) throw new Error(`${exitscope} is not there: run \`make page && cargo build\`, or set EXITSCOPE`);
  return execFileSync(exitscope, args, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });
}

export const json = (...args) => JSON.parse(run(...args, "--format", "json"));

const written = new Map();

/** The page of a command; written once. */
export function pageBy(name, ...args) {
  if (!written.has(name)) {
    const file = join(folder, `${name}.html`);
    run(...args, "--html", file);
    written.set(name, file);
  }
  return written.get(name);
}

/** Stores need a command with the feature `sql`, which takes minutes to build. */
export const withoutSql = isLeftOut("sql");

/** Hosts, and their recordings. */
export const HOSTS = { "host-a": "x86-svm/t2.data.gz", "host-b": "x86-svm/t4-kvmstat.data.gz", "host-c": "x86-svm/t4-zstd.data.gz", power8: "powerpc/p8_smt4_two_vms.data.gz" };

/** A store of recordings, each of a host of its own, and a day after the one before. */
export function storeOf(name, recordings) {
  const place = join(folder, name);
  Object.entries(recordings).forEach(([host, trace], at) => run("store", "add", place, corpus(trace), "--host", host, "--day", `2026-11-${10 + at}`));
  return place;
}

/** Packed data with what `change` makes of its JSON, and the same columns. */
export function repacked(packed, change) {
  const bytes = gunzipSync(packed);
  const columns = 4 + bytes.readUInt32LE(0);
  const data = JSON.parse(bytes.subarray(4, columns));
  change(data);
  const text = Buffer.from(JSON.stringify(data));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return gzipSync(Buffer.concat([length, text, bytes.subarray(columns)]));
}

/** The page in a file with other data, for what no recording at hand has. */
export function changed(file, change) {
  const [head, rest] = readFileSync(file, "utf8").split('id="data">');
  const end = rest.indexOf("<");
  const packed = repacked(Buffer.from(rest.slice(0, end), "base64"), change).toString("base64");
  const to = file.replace(".html", "-changed.html");
  writeFileSync(to, `${head}id="data">${packed}${rest.slice(end)}`);
  return to;
}

/** What a page holds, but for the columns. */
export function dataOf(file) {
  const bytes = gunzipSync(Buffer.from(readFileSync(file, "utf8").match(/id="data">([^<]*)/)[1], "base64"));
  return JSON.parse(bytes.subarray(4, 4 + bytes.readUInt32LE(0)).toString());
}

/** The page of a trace. */
export const pageOf = (name, trace, ...args) => pageBy(name, "report", trace, ...args);

export async function launch() {
  const executablePath = CHROMIUM.find((path) => existsSync(path));
  if (!executablePath) throw new Error("no Chromium: `make setup` installs it, or `apt-get install chromium`");
  return chromium.launch({
    executablePath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** Opens a page from disk, and waits until it is drawn. `page.troubles` lists everything that goes wrong. */
export const open = (browser, file, { hash = "", ...options } = {}) => visit(browser, pathToFileURL(file).href + hash, /^(file|data|blob):/, options);

/** Opens an address; what `may` does not allow to be asked for is a trouble. */
export async function visit(browser, address, may, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.troubles = [];
  page.on("pageerror", (error) => page.troubles.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.troubles.push(message.text()));
  page.on("request", (request) => !may.test(request.url()) && page.troubles.push(`asks for ${request.url()}`));
  page.on("dialog", (dialog) => {
    page.troubles.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(address);
  await page.waitForSelector("html[data-ready=yes]", { timeout: 20_000 });
  await frame(page);
  return page;
}

/** Waits until what changed is drawn. */
export const frame = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

/** Shows the tab that this is in, if it is in one. */
export async function reveal(page, selector) {
  await page.locator(selector).first().evaluate((of) => {
    const panel = of.closest("[role=tabpanel][hidden]");
    if (panel) document.getElementById(panel.getAttribute("aria-labelledby")).click();
  });
  await frame(page);
}

/** What a chart has drawn. */
export const drawn = async (page, id) => (await reveal(page, `#chart-${id}`), page.locator(`#chart-${id} canvas`).evaluate((canvas) => (canvas.scrollIntoView({ block: "center" }), new Promise((done) => setTimeout(() => done(canvas.toDataURL()), 200)))));

/** A chart as SVG. */
export async function svgOf(page, id) {
  await reveal(page, `#chart-${id}`);
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
  const saved = page.waitForEvent("download");
  await page.locator(`#chart-${id} .copy button`, { hasText: "SVG" }).click();
  let text = "";
  for await (const part of await (await saved).createReadStream()) text += part;
  return text;
}

/** The CSV of a chart, as its button gives it. */
export async function csvOf(page, id) {
  // Where the clipboard may not be used, the file is saved; in a test always.
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
  await reveal(page, `#chart-${id}`);
  const saved = page.waitForEvent("download");
  await page.locator(`#chart-${id} .copy button`, { hasText: "CSV" }).click();
  const stream = await (await saved).createReadStream();
  let text = "";
  for await (const part of stream) text += part;
  const [head, ...rows] = text.trimEnd().split("\n").map(fields);
  return rows.map((row) => Object.fromEntries(head.map((name, at) => [name, row[at]])));
}

/** Cells of a table by its caption: the texts by row heading and column heading. */
export async function tableOf(page, caption) {
  return page.evaluate((caption) => {
    const table = [...document.querySelectorAll("table")].find((table) => table.caption?.textContent === caption);
    if (!table) throw new Error(`no table ${caption}`);
    const head = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.replace(/ [▲▼]$/, ""));
    return Object.fromEntries(
      [...table.tBodies[0].rows].map((row) => [row.cells[0].textContent, Object.fromEntries([...row.cells].map((cell, at) => [head[at], cell.textContent]))]),
    );
  }, caption);
}

/** Fields of a line of CSV. */
export const fields = (line) => [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain);

/** Charts draw something, with fills that are told apart. */
export async function drawsAll(page) {
  for (const id of await page.$$eval("figure.chart", (charts) => charts.map((chart) => chart.id))) {
    await reveal(page, `#${id}`);
    await page.locator(`#${id}`).scrollIntoViewIfNeeded();
    await page.waitForFunction((id) => {
      const canvas = document.querySelector(`#${id} canvas`);
      return canvas.width > 0 && canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value !== 0);
    }, id);
  }
  for (const fills of await legendsOf(page)) assert.deepEqual(alike(fills), []);
}

/** The objects of a PDF by number: what they say, and their streams, unpacked; of fonts and images, none. */
function objectsOf(pdf) {
  const text = pdf.toString("latin1");
  return new Map(
    [...text.matchAll(/(\d+) 0 obj\r?\n([^]*?)(?:endobj|stream\r?\n)/g)].map((found) => {
      const from = found.index + found[0].length;
      const isDrawing = found[0].includes("stream") && !/\/Length1|\/Image\b/.test(found[2].replace(/\/ProcSet *\[[^\]]*\]/, ""));
      const packed = () => pdf.subarray(from, from + Number(/\/Length (\d+)/.exec(found[2])[1]));
      const stream = !isDrawing ? "" : found[2].includes("/FlateDecode") ? inflateSync(packed()).toString("latin1") : packed().toString("latin1");
      return [found[1], { says: found[2], stream }];
    }),
  );
}

/** A text of a PDF: between parentheses, or UTF-16 in hexadecimal digits. */
const pdfText = (text) => (text.startsWith("<") ? Buffer.from(text.slice(5, -1), "hex").swap16().toString("utf16le") : text.slice(1, -1).replace(/\\([()\\])/g, "$1"));

/** A page as it is printed: the texts that stand for its pictures, with how many words are written in each, by the tags of the PDF; and all
 * that is drawn. */
export async function printed(page) {
  const objects = objectsOf(await page.pdf({ format: "A4", tagged: true }));
  const pictures = new Map();
  for (const { says } of objects.values()) {
    const [, alt] = /\/Alt (\((?:\\[^]|[^\\)])*\)|<FEFF[0-9A-F]*>)/.exec(says) ?? [];
    if (!alt) continue;
    // Parts of it are in streams of their own, or in the page's.
    const streams = [...says.matchAll(/\/Stm (\d+)/g)].map(([, number]) => objects.get(number).stream);
    const [, onPage] = /\/Pg (\d+)/.exec(says) ?? [];
    const [, contents] = /\/Contents (\d+)/.exec(objects.get(onPage)?.says ?? "") ?? [];
    const own = [...says.replace(/<<[^]*?>>/g, "").matchAll(/\/K (\d+)\s|[[ ](\d+)(?! \d* ?R)[\] ]/g)].map((found) => found[1] ?? found[2]);
    for (const number of own) streams.push(objects.get(contents)?.stream.split(`/Figure <</MCID ${number} >>BDC`)[1]?.split("EMC")[0] ?? "");
    pictures.set(pdfText(alt), streams.reduce((sum, stream) => sum + (stream.match(/\bT[jJ]\b/g) ?? []).length, 0));
  }
  return { pictures, drawn: [...objects.values()].map((of) => of.stream).join("\n") };
}

/** The fills of each legend that is there, as the page writes fills; a line is no fill. */
export const legendsOf = (page) =>
  page.$$eval(".legend", (all) =>
    all.map((legend) =>
      [...legend.querySelectorAll(".swatch:not(.line)")].map((swatch) => {
        const { backgroundImage, backgroundColor } = getComputedStyle(swatch);
        const color = (backgroundImage === "none" ? backgroundColor : backgroundImage).match(/rgb\((\d+), (\d+), (\d+)\)/).slice(1);
        const pattern = backgroundImage === "none" ? "" : backgroundImage.startsWith("radial") ? ":" : "/";
        return `${pattern}#${color.map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`;
      }),
    ),
  );

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds that is serious in what is shown now. */
export async function seriousIn(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  const serious = violations.filter((finding) => ["serious", "critical"].includes(finding.impact));
  return serious.map((finding) => `${finding.id}: ${finding.nodes.length}, ${finding.nodes[0].html} ${finding.nodes[0].failureSummary}`);
}

/** The same, of every tab with everything unfolded. */
export async function seriousOf(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
  const found = [];
  const tabs = await page.$$eval("[role=tab]", (tabs) => tabs.map((tab) => tab.id));
  for (const tab of tabs.length > 0 ? tabs : [null]) {
    if (tab) await page.locator(`#${tab}`).click();
    await frame(page);
    found.push(...(await seriousIn(page)));
  }
  return found;
}

export const thousands = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** A length of a terminal's text, or of JSON, as a page shows it. */
export const micro = (text) => text?.replace(/(\d ?)us\b/g, "$1µs");

/** Ends a test: nothing may have gone wrong, and what is shown has one unit for microseconds. */
export async function done(page) {
  assert.deepEqual(page.troubles, []);
  const text = await page.evaluate(() => {
    const body = document.body.cloneNode(true);
    body.querySelectorAll("code, script, style, input").forEach((of) => of.remove());
    return body.textContent + [...document.querySelectorAll("[title], [aria-label], [placeholder]")].map((of) => `\n${of.matches("[title^=exitscope]") ? "" : (of.title ?? "")}\n${of.ariaLabel ?? ""}\n${of.placeholder ?? ""}`).join("");
  });
  assert.deepEqual(text.match(/.{0,30}\d ?us\b.{0,10}/g) ?? [], []);
  await page.context().close();
}
