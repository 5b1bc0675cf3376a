// Notes at moments: written by whoever looks, and kept in the link.
import { signal, useSignal } from "@preact/signals";
import type { Plot, Scale } from "./axes";
import { colors } from "./colors";
import { shortened } from "./format";
import { keep } from "./url_state";
import { picked } from "./single";
import { data, selectRange, range } from "./selection";
import { type Surface } from "./surface";
import { zero } from "./timeline";

interface Note {
  /** In ns from the page's begin on. */
  at: number;
  text: string;
}

/** So many, each so long, at most: browsers cut very long addresses. */
const MOST = 20;
const LONGEST = 200;

export const notes = signal<Note[]>([]);

const valid = (note: Note): boolean => Number.isFinite(note.at) && note.at >= 0 && note.text !== "";

keep({
  read(hash) {
    const found = hash.getAll("note").map((text) => ({ at: Number.parseInt(text, 10), text: text.slice(text.indexOf(":") + 1, text.indexOf(":") + 1 + LONGEST) }));
    notes.value = found.filter(valid).slice(0, MOST);
  },
  write: (hash) => notes.value.forEach(({ at, text }) => hash.append("note", `${at}:${text}`)),
});

/** Where a note that is written now belongs: at the exit that is looked into, else in the middle of the range. */
export const moment = (): number => Math.round(picked.value?.at ?? (range.value[0] + range.value[1]) / 2);

const seconds = (at: number): string => `${((at - zero()) / 1e9).toFixed(6)} s`;

/** A flag for each note in view. */
export function drawNotes(s: Surface, plot: Plot, scale: Scale): void {
  for (const { at, text } of notes.value) {
    const x = scale(at);
    if (x < plot.x || x > plot.x + plot.w) continue;
    s.rect(x, plot.y, 1, plot.h, colors.value.accent);
    s.path([x, plot.y, x + 8, plot.y + 4, x, plot.y + 8], colors.value.accent, 1, colors.value.accent);
    s.text(x + 10, plot.y + 5, shortened(text, 40), { color: colors.value.accent, size: 10, bold: true });
  }
}

/** Goes to a note; so far that what is around it can be seen. */
function goTo({ at }: Note): void {
  const [from, to] = range.value;
  if (at < from || at > to) selectRange(at - (to - from) / 2, at + (to - from) / 2);
}

/** The notes, and a field for another. */
export function Notes() {
  const isWriting = useSignal(false);
  const text = useSignal("");
  if (!data.timelines.in_time) return null;
  const add = (event: Event) => {
    event.preventDefault();
    const note = { at: moment(), text: text.value.trim().slice(0, LONGEST) };
    if (valid(note)) notes.value = [...notes.value, note].sort((a, b) => a.at - b.at).slice(0, MOST);
    text.value = "";
    isWriting.value = false;
  };
  return (
    <span class="notes">
      {notes.value.map((note) => (
        <span class="chip" title={`${note.text}, at ${seconds(note.at)}`}>
          <button type="button" class="plain" onClick={() => goTo(note)}>
            ⚑ {shortened(note.text, 32)}
          </button>
          <button type="button" aria-label={`Remove the note ${note.text}`} onClick={() => (notes.value = notes.value.filter((of) => of !== note))}>
            ×
          </button>
        </span>
      ))}
      {isWriting.value ? (
        <form onSubmit={add}>
          <input
            type="text"
            aria-label={`Note at ${seconds(moment())}`}
            placeholder={`note at ${seconds(moment())}`}
            maxLength={LONGEST}
            autoFocus
            value={text.value}
            onInput={(event) => (text.value = event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Escape" && (isWriting.value = false)}
          />
        </form>
      ) : (
        notes.value.length < MOST && (
          <button type="button" title="Write a note at the open exit, or in the middle of the range; the link then has it" onClick={() => (isWriting.value = true)}>
            ⚑ note
          </button>
        )
      )}
    </span>
  );
}
