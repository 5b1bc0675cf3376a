// Colours are told apart by people with any colour vision, and stand out from the page, on both themes.
import { formatHex, parse, wcagContrast } from "culori";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import ts from "typescript";
import { corpus, done, launch, open, pageOf } from "./browser.mjs";
import { alike, apart, colorOf } from "./fills.mjs";

const T2 = corpus("x86-svm/t2.data.gz");
const source = readFileSync(new URL("../src/colors.ts", import.meta.url), "utf8");
const alone = source.replace(/^import .*$/gm, "") + "\nexport { LIGHT_FILLS, DARK_FILLS };";
const { outputText } = ts.transpileModule(`const computed = (value: unknown) => value, isDark = {}, data = {};${alone}`, {
  compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
});
const { LIGHT_FILLS, DARK_FILLS } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);

const GROUNDS = { light: "#ffffff", dark: "#15181c" };

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

for (const [theme, ground] of Object.entries(GROUNDS)) {
  test(`fills of the ${theme} theme are told apart, whichever meet, and stand out from the page`, () => {
    const { parts, reasons, other, phases } = { light: LIGHT_FILLS, dark: DARK_FILLS }[theme];
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
