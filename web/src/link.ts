// What a page keeps in its address, so that a link shows the same: what each view registers here, section and colours.
import { computed, effect, signal, type Signal } from "@preact/signals";

/** `auto` follows the system. */
export const theme = signal<"auto" | "light" | "dark">("auto");
/** The section in sight. */
export const section = signal("overview");

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => (systemDark.value = dark.matches));
export const isDark = computed(() => (theme.value === "auto" ? systemDark.value : theme.value === "dark"));

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

/** Begins: reads the address, and keeps it up to date from then on. */
export function begin(): void {
  read();
  let timer = 0;
  effect(() => {
    const hash = new URLSearchParams();
    hash.set("view", section.value);
    all.forEach((one) => one.write(hash));
    if (theme.value !== "auto") hash.set("theme", theme.value);
    const text = "#" + hash.toString().replaceAll("%2C", ",");
    // Browsers refuse to change the address too often.
    clearTimeout(timer);
    timer = window.setTimeout(() => text !== location.hash && history.replaceState(null, "", text), 200);
  });
  effect(() => {
    document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  });
  addEventListener("hashchange", read);
}
