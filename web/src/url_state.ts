// What a page keeps in its address, so that a link shows the same: what each view registers here, section and colours.
import { computed, effect, signal, type Signal } from "@preact/signals";
import { isPrinting } from "./print";
import { serverUrls } from "./server_events";

/** `auto` follows the system. */
export const theme = signal<"auto" | "light" | "dark">("auto");
/** The section in sight. */
export const section = signal("overview");

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => (systemDark.value = dark.matches));
/** Paper is light. */
export const isDark = computed(() => !isPrinting.value && (theme.value === "auto" ? systemDark.value : theme.value === "dark"));

export interface Kept {
  read(hash: URLSearchParams): void;
  write(hash: URLSearchParams): void;
}

const all: Kept[] = [];

/** Keeps something in the address. */
export function keep(one: Kept): void {
  all.push(one);
}

/** A text that is kept under a name of its own, unless it is as at first; whoever uses it takes what makes no sense as the first. */
export function kept<T extends string>(name: string, first: T, known: readonly T[] | null = null): Signal<T> {
  const text = signal<T>(first);
  keep({
    read(hash) {
      const found = hash.get(name) as T | null;
      text.value = found !== null && (known === null || known.includes(found)) ? found : first;
    },
    write(hash) {
      if (text.value !== first) hash.set(name, text.value);
    },
  });
  return text;
}

function read(): void {
  const hash = new URLSearchParams(location.hash.slice(1));
  all.forEach((one) => one.read(hash));
  const asked = hash.get("theme");
  theme.value = asked === "light" || asked === "dark" ? asked : "auto";
  section.value = hash.get("view") ?? "overview";
}

const address = computed(() => {
  const hash = new URLSearchParams();
  hash.set("view", section.value);
  all.forEach((one) => one.write(hash));
  if (theme.value !== "auto") hash.set("theme", theme.value);
  return "#" + hash.toString().replaceAll("%2C", ",");
});

/** What of an address the user chose to look at; the section in sight follows scrolling. */
function chosen(address: string): string {
  const hash = new URLSearchParams(address.slice(1));
  ["view", "theme"].forEach((name) => hash.delete(name));
  return hash.toString();
}

/** Begins: reads the address, and keeps it up to date from then on. What is chosen is a step that the browser's Back undoes, unless
 * the page is live: its range goes on by itself. */
export function begin(): void {
  let timer = 0;
  /** The address that was read or written last. */
  let known = "";
  const write = (isStep: boolean) => {
    if (address.value !== location.hash) history[isStep ? "pushState" : "replaceState"](null, "", address.value);
    known = location.hash;
  };
  const follow = () => {
    read();
    clearTimeout(timer);
    write(false);
  };
  follow();
  effect(() => {
    address.value;
    // Browsers refuse to change the address too often; and what goes on, like a zoom by the wheel, is one step.
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      // Another address may be there already and its event still to come: it is followed, not written over.
      if (location.hash === known) write(!serverUrls.value?.keep_ns && chosen(address.value) !== chosen(location.hash));
    }, 200);
  });
  effect(() => {
    document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  });
  addEventListener("hashchange", follow);
}
