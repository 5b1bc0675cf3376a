// Types are those of the schema.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { made, written } from "../types.mjs";

test("the front end's types are made of the schema of a page's data as it is", async () => {
  assert.equal(readFileSync(written, "utf8"), await made(), "`npm run types` makes them anew");
});
