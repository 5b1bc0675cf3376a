// Conditions of the query box mean what they mean to --where.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";

const here = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
// The parts of exits are those of the page's data.
const parts = ["kernel", "user_space", "polling", "halted", "halt_not_divided", "waiting_for_memory", "steal", "stopped", "unknown"];
const data = { timelines: { parts: [{ column: "guest_ns", of_exits: false }, ...parts.map((part) => ({ column: `${part}_ns`, of_exits: true }))] } };
const source = here("../src/condition.ts").replace(/^import .*"\.\/selection";$/m, `const data = ${JSON.stringify(data)};`);
const { outputText } = ts.transpileModule(source, { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 } });
const { condition } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);

/** The exit of `crates/analysis/tests/conditions.rs`. */
const exit = {
  texts: {
    vm: "qemu-system-x86 121",
    vcpu: "vCPU 1",
    reason: "io",
    subject: "port 0xcf8 out PCI config address",
    handler: "user space",
    cpu: "CPU 13",
    rip: "0xffff1234 putc+0x4",
    function: "putc",
  },
  numbers: { cost: 5_000, exit_time: 12_000, kernel: 3_000, user_space: 2_000, steal: 7_000 },
};

test("conditions mean the same on the command line", () => {
  const cases = here("../../crates/analysis/tests/conditions.tsv").trimEnd().split("\n").map((line) => line.split(/\t(.*)/s));
  assert.ok(cases.length > 50);
  for (const [expected, text] of cases) {
    let found;
    try {
      found = condition(text, Object.keys(exit.texts)).holds(exit) ? "holds" : "fails";
    } catch {
      found = "wrong";
    }
    assert.equal(found, expected, text);
  }
});
