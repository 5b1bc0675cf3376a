// How far apart two fills are, as people see colours, whatever colour vision they have.
import { differenceCiede2000, filterDeficiencyDeuter, filterDeficiencyProt, filterDeficiencyTrit, parse } from "culori";

const visions = [(color) => color, filterDeficiencyProt(1), filterDeficiencyDeuter(1), filterDeficiencyTrit(1)];
const ciede2000 = differenceCiede2000();

/** By CIEDE2000. */
export const difference = (one, other) => ciede2000(parse(one), parse(other));

/** The same, for whoever sees the least of it. */
export const apart = (one, other) => Math.min(...visions.map((seen) => ciede2000(seen(parse(one)), seen(parse(other)))));

/** What any two fills are that can meet: below it, people take one for the other. */
export const LEAST = 15;

/** A fill's colour. */
export const colorOf = (fill) => fill.slice(-"#rrggbb".length);

/** Filled, hatched and dotted ones are told apart by that; which way one is hatched does not tell enough. */
export const patternOf = (fill) => fill.slice(0, -"#rrggbb".length).replace("\\", "/");

/** The pairs of fills that are too much alike, of those with one pattern. */
export const alike = (fills, by = difference) =>
  fills.flatMap((one, at) => fills.slice(at + 1).filter((other) => patternOf(one) === patternOf(other) && by(colorOf(one), colorOf(other)) < LEAST).map((other) => `${one} and ${other}: ${by(colorOf(one), colorOf(other)).toFixed(1)}`));
