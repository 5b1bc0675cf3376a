// Colours are told apart by people with any colour vision, and stand out from the page, on both themes; a terminal has the same.
import { formatHex, parse, wcagContrast } from "culori";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { corpus, dataOf, done, exitscope, launch, open, pageOf } from "./browser.mjs";
import { alike, apart, colorOf, difference, LEAST } from "./fills.mjs";

const T2 = corpus("x86-svm/t2.data.gz");
const GROUNDS = { light: "#ffffff", dark: "#15181c" };

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

for (const [theme, ground] of Object.entries(GROUNDS)) {
  test(`fills of the ${theme} theme are told apart, whichever meet, and stand out from the page`, () => {
    const { parts, reasons, other, phases } = dataOf(pageOf("t2", T2)).palette[theme];
    // Those of one kind by whoever sees fewer colours, too.
    for (const fills of [Object.values(parts), [...reasons, other], phases]) {
      assert.ok(fills.length > 5);
      assert.deepEqual(alike(fills, apart), []);
    }
    const all = [...Object.values(parts), ...reasons, other, ...phases];
    assert.deepEqual(alike(all), []);
    for (const fill of all) assert.ok(wcagContrast(colorOf(fill), ground) >= 3, `${fill}: ${wcagContrast(colorOf(fill), ground)}`);
  });

  test(`every page's ground of the ${theme} theme is that on which fills are measured`, async () => {
    const page = await open(browser, pageOf("t2", T2), { colorScheme: theme });
    assert.equal(formatHex(parse(await page.evaluate(() => getComputedStyle(document.body).backgroundColor))), ground);
    await done(page);
  });
}

/** Colour 16 to 255 of a terminal. */
const xterm = (number) => {
  const level = (at) => (at === 0 ? 0 : 55 + 40 * at);
  const parts = number >= 232 ? [8, 8, 8].map((grey) => grey + 10 * (number - 232)) : [36, 6, 1].map((of) => level(Math.floor((number - 16) / of) % 6));
  return formatHex({ mode: "rgb", r: parts[0] / 255, g: parts[1] / 255, b: parts[2] / 255 });
};

test("a terminal's bar and its legend have the colours of pages", () => {
  const env = { ...process.env, LANG: "C.UTF-8", LC_ALL: "C.UTF-8", TERM: "xterm-256color", COLUMNS: "100" };
  delete env.NO_COLOR;
  // It writes colours to a terminal alone.
  const text = execFileSync("script", ["-qec", `'${exitscope}' report '${T2}'`, "/dev/null"], { encoding: "utf8", env, stdio: ["ignore", "pipe", "pipe"] });
  const painted = [...text.matchAll(/\x1b\[38;5;(\d+)m([^\x1b]+)\x1b\[0m/g)].map(([, number, text]) => ({ character: text[0], color: xterm(Number(number)), long: text.length }));
  const { parts } = dataOf(pageOf("t2", T2)).palette.light;
  const columns = { "█": "guest_ns", "▓": "kernel_ns", "▒": "user_space_ns", "·": "halted_ns", "░": "steal_ns", "◦": "polling_ns", o: "stopped_ns" };
  const shown = Object.entries(columns).map(([character, column]) => {
    const of = painted.filter((of) => of.character === character);
    // Less than a hundredth of the time has no room in the bar.
    assert.ok(of.some(({ long }) => long === 1), `${character} in ${JSON.stringify(painted)}`);
    assert.deepEqual(new Set(of.map(({ color }) => color)).size, 1);
    const [{ color }] = of;
    assert.ok(difference(color, colorOf(parts[column])) < LEAST, `${column}: ${color} and ${parts[column]}`);
    for (const ground of ["#000000", "#ffffff"]) assert.ok(wcagContrast(color, ground) >= 2.5, `${column}: ${color} on ${ground}`);
    return `${parts[column].slice(0, -7)}${color}`;
  });
  assert.ok(painted.some(({ long }) => long > 20), "the bar");
  assert.deepEqual(alike(shown), []);
});
