// A condition on exits, as it is typed: `reason = io and cost > 100µs and subject ~ PCI`.
import { data } from "./selection";

/** What conditions may be about. Texts are those of the pivot; numbers are ns, but for the CPU. */
export interface Conditioned {
  texts: Record<string, string>;
  numbers: Record<string, number>;
}

export interface Condition {
  /** The words that it is about. */
  words: string[];
  /** Its limits of lengths. */
  limits: Limit[];
  holds(of: Conditioned): boolean;
  /** Whether what it says of texts holds. */
  holdsOf(texts: Conditioned["texts"]): boolean;
}

/** A limit of a length: `cost`, `>`, 100000. */
export interface Limit {
  word: string;
  sign: string;
  ns: number;
}

const UNITS: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };

/** Words that are lengths of time. */
export const lengthWords = (): string[] => ["cost", "exit_time", ...data.timelines.parts.filter((part) => part.of_exits).map((part) => part.column.replace(/_ns$/, ""))];

/** A length with its unit, in ns. */
function length(text: string): number {
  const [, number, unit] = /^([\d.]+)\s*(ns|us|µs|ms|s)$/.exec(text) ?? [];
  if (/^0+(\.0*)?$/.test(text)) return 0;
  if (number === undefined || !Number.isFinite(Number(number))) throw new Error(`${text || "nothing"} is no length: write it like 100µs or 1.5ms`);
  return Number(number) * UNITS[unit!]!;
}

/** What a text means; `null` for none. Throws what is wrong with it. `texts`: the words that are compared as texts. */
export function condition(text: string, texts: string[]): Condition | null {
  if (text.trim() === "") return null;
  const lengths = lengthWords();
  const terms = text.split(/\s+and\s+/i).map((term) => {
    const [, word, sign, raw] = /^\s*([a-z_]+)\s*(!=|<=|>=|=|<|>|~)\s*(.*?)\s*$/i.exec(term) ?? [];
    if (word === undefined) throw new Error(`“${term.trim()}” is no comparison: write it like cost > 100µs`);
    const value = raw!.replace(/^(["'])(.*)\1$/, "$2");
    if (lengths.includes(word)) {
      const than = length(value);
      const compare = { "=": (of: number) => of === than, "!=": (of: number) => of !== than, "<": (of: number) => of < than, "<=": (of: number) => of <= than, ">": (of: number) => of > than, ">=": (of: number) => of >= than }[sign!];
      if (!compare) throw new Error(`~ finds parts of texts: ${word} is a length`);
      return { word, limit: { word, sign: sign!, ns: than }, holds: (of: Conditioned) => compare(of.numbers[word] ?? 0) };
    }
    if (!texts.includes(word)) throw new Error(`${word} is unknown here: ${[...texts, ...lengths].join(", ")}`);
    const wanted = value.toLowerCase();
    // `vcpu = 1` is the one called vCPU 1.
    const isIt = (of: string) => of === wanted || (/^\d+$/.test(wanted) && new RegExp(`(?:^|\\D)${wanted}$`).test(of));
    const compare = { "=": isIt, "!=": (of: string) => !isIt(of), "~": (of: string) => of.includes(wanted) }[sign!];
    if (!compare) throw new Error(`${word} is a text: compare it by =, != or ~`);
    return { word, limit: null, holds: (of: Conditioned) => compare((of.texts[word] ?? "").toLowerCase()) };
  });
  return {
    words: terms.map((term) => term.word),
    limits: terms.flatMap((term) => term.limit ?? []),
    holds: (of) => terms.every((term) => term.holds(of)),
    holdsOf: (texts) => terms.every((term) => term.limit || term.holds({ texts, numbers: {} })),
  };
}
