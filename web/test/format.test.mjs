// What the command says in its sentences is shown with µs, and names and commands as they are.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";

const source = readFileSync(new URL("../src/format.ts", import.meta.url), "utf8");
const { outputText } = ts.transpileModule(source, { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 } });
const { asShown, ns } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);

test("lengths in sentences have µs, whatever is around them", () => {
  const texts = ["p99 186us, 1.2 ± 0.1 us.", "50us-200us (1,234us)", "halt_poll_ns=20us"];
  assert.deepEqual(texts.map((text) => asShown(text)), ["p99 186µs, 1.2 ± 0.1 µs.", "50µs-200µs (1,234µs)", "halt_poll_ns=20µs"]);
  assert.deepEqual(asShown({ rows: [{ values: ["20us"], text: null, ns: 5 }] }), { rows: [{ values: ["20µs"], text: null, ns: 5 }] });
  assert.equal(ns(12_400), "12.4µs");
});

test("what is part of a name, and what is to be typed, stays as it is", () => {
  for (const text of ["10us.data", "web10us", "5us-old", "5used", "v1.5us_b"]) assert.equal(asShown(text), text);
  const said = { traces: [{ name: "10us" }], command: "exitscope replay --vary halt_poll_ns=20us", commands: ["x 5us"] };
  assert.deepEqual(asShown(structuredClone(said)), said);
});
