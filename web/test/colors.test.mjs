// Colours are told apart by people with any colour vision, and stand out from the page, on both themes.
import { differenceCiede2000, filterDeficiencyDeuter, filterDeficiencyProt, filterDeficiencyTrit, parse, wcagContrast } from "culori";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";

const source = readFileSync(new URL("../src/colors.ts", import.meta.url), "utf8");
const alone = source.replace(/^import .*$/gm, "") + "\nexport { LIGHT, DARK };";
const { outputText } = ts.transpileModule(`const computed = (value: unknown) => value, isDark = {}, data = {};${alone}`, {
  compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
});
const { LIGHT, DARK } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);

const visions = [(color) => color, filterDeficiencyProt(1), filterDeficiencyDeuter(1), filterDeficiencyTrit(1)];
const difference = differenceCiede2000();
const apart = (one, other) => Math.min(...visions.map((seen) => difference(seen(parse(one)), seen(parse(other)))));

/** A fill's colour, and what it is filled with. */
const colorOf = (fill) => fill.slice(-7);
const texture = (fill) => fill.slice(0, -7);

for (const [name, theme] of Object.entries({ light: LIGHT, dark: DARK })) {
  const sets = { parts: Object.values(theme.parts), reasons: [...theme.reasons, theme.other], steps: theme.steps };
  for (const [what, fills] of Object.entries(sets)) {
    test(`${what} of the ${name} theme are told apart, whichever are neighbours`, () => {
      assert.ok(fills.length > 5);
      for (const [at, one] of fills.entries())
        for (const other of fills.slice(at + 1).filter((other) => texture(other) === texture(one)))
          assert.ok(apart(colorOf(one), colorOf(other)) >= 15, `${one} and ${other}: ${apart(colorOf(one), colorOf(other))}`);
    });
    test(`${what} of the ${name} theme stand out from the page`, () => {
      for (const fill of fills) assert.ok(wcagContrast(colorOf(fill), theme.ground) >= 3, `${fill}: ${wcagContrast(colorOf(fill), theme.ground)}`);
    });
  }
}
