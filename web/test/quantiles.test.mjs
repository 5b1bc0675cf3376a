// The browser's percentiles are those of crates/stats, to the nanosecond, over the same buckets.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";

const here = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const { outputText } = ts.transpileModule(here("../src/buckets.ts"), { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 } });
const { bucketOf, bucketStart, quantile } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);

const cases = JSON.parse(here("../../crates/stats/tests/quantiles.json"));

test("a bucket is found by its shortest length", () => {
  for (const bits of [3, 5]) for (let bucket = 0; bucket < 48 << bits; bucket++) assert.equal(bucketOf(bucketStart(bucket, bits), bits), bucket);
});

test("quantiles are those that Rust finds in the same buckets", () => {
  for (const { bits, buckets, quantiles } of cases) {
    const counts = new Float64Array(2048);
    for (const [low, count] of buckets) counts[bucketOf(low, bits)] = count;
    for (const [per10000, value] of quantiles) assert.equal(quantile(counts, per10000, bits), value, `${per10000} of ${JSON.stringify(buckets)}`);
  }
  assert.ok(cases.length > 10);
  assert.equal(quantile(new Float64Array(8), 5_000), null);
});
