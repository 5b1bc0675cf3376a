// Tests of pages that cannot run on this machine. Parts, variables and lines are those of crates/skips.
import { appendFileSync } from "node:fs";
import { basename } from "node:path";
import { test } from "node:test";

/** What these tests may need, with the variable that must be 1 for them to pass without it. */
const WITHOUT = { kvm: "EXITSCOPE_WITHOUT_KVM", sql: "EXITSCOPE_WITHOUT_SQL" };

/** Whether tests may pass without this part. */
export const isLeftOut = (part) => process.env[WITHOUT[part]] === "1";

/** A test that needs this part of the machine; `part` may be null. */
export function testWith(part, name, body) {
  const reason = part !== null && isLeftOut(part) && `${WITHOUT[part]}=1`;
  if (reason) {
    const line = `skipped: ${basename(process.argv[1])}::${name.replaceAll(": ", ", ")}: ${part}: ${reason}\n`;
    if (process.env.EXITSCOPE_SKIPS) appendFileSync(process.env.EXITSCOPE_SKIPS, line);
    else process.stderr.write(line);
  }
  test(name, { skip: reason }, body);
}
