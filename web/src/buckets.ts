// Counts by bucket of length, and their quantiles, by the rule of crates/stats: test/quantiles.test.mjs holds both to the same
// numbers.

/** Shortest length of a bucket of lengths, in ns; `2 ** bits` buckets to a doubling. */
export function bucketStart(index: number, bits = 3): number {
  if (index < 2 << bits) return index;
  const shift = (index >> bits) - 1;
  return (index - (shift << bits)) * 2 ** shift;
}

/** The bucket whose shortest length this is. */
export function bucketOf(low: number, bits: number): number {
  if (low < 2 << bits) return low;
  const shift = Math.floor(Math.log2(low)) - bits;
  return (shift << bits) + low / 2 ** shift;
}

/** The bucket that a length is in. */
export function bucketHolding(nanos: number, bits = 3): number {
  if (nanos < 2 << bits) return nanos;
  const shift = Math.floor(Math.log2(nanos)) - bits;
  return (shift << bits) + Math.floor(nanos / 2 ** shift);
}

export function total(counts: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < counts.length; at++) sum += counts[at]!;
  return sum;
}

/** The length at or below which `per10000 / 10,000` of the exits are: that of the nearest rank, with lengths spread evenly
 * within a bucket, the last at its end. */
export function quantile(counts: ArrayLike<number>, per10000: number, bits = 3): number | null {
  const sum = total(counts);
  if (!sum) return null;
  // Products may be beyond what a number can hold exactly.
  const rank = Math.max(1, Number((BigInt(sum) * BigInt(per10000) + 9_999n) / 10_000n));
  let before = 0;
  for (let at = 0; at < counts.length; at++) {
    const count = counts[at]!;
    if (before + count >= rank) {
      const low = bucketStart(at, bits);
      const width = bucketStart(at + 1, bits) - low;
      return low + Number((BigInt(width - 1) * BigInt(rank - before)) / BigInt(count));
    }
    before += count;
  }
  return null;
}
