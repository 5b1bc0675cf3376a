// How soon a page can be used, and how long its frames take while it is panned and zoomed, in a real browser.
//
//   npm run bench -- page.html [--json]
//
// Frames are counted as the browser shows them, so that it needs a display rate above what is asked for: headless Chromium
// has 60 Hz. Each gesture takes as many frames as FRAMES; the worst of them, and their 99th percentile and median, are given.
import { statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { launch } from "./browser.mjs";

const FRAMES = 120;
const ROUNDS = 3;

/** What is done in each frame. The chart has the focus. */
const GESTURES = {
  "pan over the whole, zoomed in 4 times": { zoom: 2, key: (frame) => (frame % 60 < 30 ? "ArrowRight" : "ArrowLeft") },
  "pan, zoomed in 64 times": { zoom: 6, key: (frame) => (frame % 60 < 30 ? "ArrowRight" : "ArrowLeft") },
  // From a recording of ten million exits to some milliseconds of it.
  "pan over single exits": { zoom: 19, key: (frame) => (frame % 60 < 30 ? "ArrowRight" : "ArrowLeft") },
  "zoom in and out of single exits": { zoom: 17, key: (frame) => (frame % 16 < 8 ? "+" : "-") },
  "zoom in and out": { zoom: 0, key: (frame) => (frame % 16 < 8 ? "+" : "-") },
};

const [file, ...flags] = process.argv.slice(2);
if (!file) {
  console.error("npm run bench -- PAGE.html [--json]: PAGE.html is what `exitscope report --html` wrote");
  process.exit(2);
}

const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Opens the page: ms from the begin of loading until the first frame with all charts in sight, and until it answers. */
async function opened(browser) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready=yes]", { timeout: 120_000 });
  // Drawn, and an idle moment after it: what is pressed now is answered at once.
  const interactive = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0))));
  return { page, interactive };
}

/** Presses a key in every frame; the times between frames, in ms. */
async function frames(page, { zoom, key }) {
  const canvas = page.locator("#chart-timeline canvas");
  await canvas.scrollIntoViewIfNeeded();
  await canvas.focus();
  await page.keyboard.press("Home");
  for (let step = 0; step < zoom; step++) await page.keyboard.press("+");
  await page.waitForTimeout(400);
  const keys = Array.from({ length: FRAMES }, (_, frame) => key(frame));
  return page.evaluate(
    (keys) =>
      new Promise((done) => {
        const canvas = document.querySelector("#chart-timeline canvas");
        const times = [];
        let last = null;
        const next = (now) => {
          if (last !== null) times.push(now - last);
          last = now;
          if (times.length === keys.length) return done(times);
          canvas.dispatchEvent(new KeyboardEvent("keydown", { key: keys[times.length], bubbles: true, cancelable: true }));
          requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
      }),
    keys,
  );
}

const browser = await launch();
const interactive = [];
const gestures = Object.fromEntries(Object.keys(GESTURES).map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  const { page, interactive: ms } = await opened(browser);
  interactive.push(ms);
  for (const [name, gesture] of Object.entries(GESTURES)) gestures[name].push(...(await frames(page, gesture)));
  await page.context().close();
}
const version = browser.version();
await browser.close();

const result = {
  browser: `Chromium ${version}`,
  bytes: statSync(file).size,
  rounds: ROUNDS,
  interactive_ms: { median: middle(interactive), worst: Math.max(...interactive) },
  gestures: Object.entries(gestures).map(([name, times]) => {
    const sorted = [...times].sort((a, b) => a - b);
    return { name, frames: sorted.length, median_ms: middle(sorted), p99_ms: sorted[Math.floor(sorted.length * 0.99)], worst_ms: sorted.at(-1) };
  }),
};
if (flags.includes("--json")) console.log(JSON.stringify(result));
else {
  console.log(`${result.browser}, a page of ${(result.bytes / 1e6).toFixed(1)} MB, ${ROUNDS} rounds`);
  console.log(`interactive after ${result.interactive_ms.median.toFixed(0)} ms (worst ${result.interactive_ms.worst.toFixed(0)} ms)`);
  for (const { name, frames, median_ms, p99_ms, worst_ms } of result.gestures)
    console.log(`${name}: ${frames} frames, median ${median_ms.toFixed(1)} ms, p99 ${p99_ms.toFixed(1)} ms, worst ${worst_ms.toFixed(1)} ms`);
}
