// The frame of every page: heading, sections, what was said, where it came from.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { said } from "./chart";
import { section, theme } from "./link";
import { ServedBar } from "./served";
import { served } from "./source";

export interface Section {
  id: string;
  title: string;
  there?: boolean;
}

let jumped = -Infinity;

/** Whether a jump has just been made, so that what is scrolled past does not count. */
const jumping = (): boolean => performance.now() - jumped < 1000;

/** Goes to a section. */
export function go(to: string): void {
  jumped = performance.now();
  section.value = to;
  document.getElementById(to)?.scrollIntoView({ block: "start" });
}

function ThemeChoice() {
  const next = { auto: "light", light: "dark", dark: "auto" } as const;
  return (
    <button type="button" onClick={() => (theme.value = next[theme.value])} aria-label={`Colours: ${theme.value}`}>
      {{ auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme.value]}
    </button>
  );
}

/** One thing worth knowing, among others. */
export function Card({ head, children }: { head: string; children: ComponentChildren }) {
  return (
    <div class="card">
      <h3>{head}</h3>
      <p>{children}</p>
    </div>
  );
}

interface Props {
  title: string;
  /** Below the title. */
  about: ComponentChildren;
  sections: Section[];
  /** How to have the same as text. */
  made?: ComponentChildren;
  version: string;
  children: ComponentChildren;
}

export function Shell({ title, about, sections, made, version, children }: Props) {
  const there = sections.filter((row) => row.there !== false);
  useEffect(() => {
    if (section.value !== "overview") document.getElementById(section.value)?.scrollIntoView({ block: "start" });
  }, []);
  useEffect(() => {
    const seen = new IntersectionObserver(
      (entries) => {
        const top = entries.filter((entry) => entry.isIntersecting).at(-1);
        if (top && !jumping()) section.value = top.target.id;
      },
      { rootMargin: "-30% 0px -65% 0px" },
    );
    document.querySelectorAll("main > section").forEach((element) => seen.observe(element));
    return () => seen.disconnect();
  }, [there.map((row) => row.id).join()]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")!.focus())}>
        Skip to the charts
      </a>
      <header>
        <div>
          <h1>{title}</h1>
          <p class="soft">{about}</p>
        </div>
        <ThemeChoice />
      </header>
      <ServedBar />
      <div class="body">
        <nav aria-label="Sections">
          <ul>
            {there.map((row) => (
              <li>
                <a href={`#view=${row.id}`} aria-current={section.value === row.id ? "true" : undefined} onClick={(event) => (event.preventDefault(), go(row.id))}>
                  {row.title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <footer>
        {served.value ? `Served by exitscope ${version}.` : `Made by exitscope ${version}. Everything shown is in this file; it loads nothing.`}
        {made && <> The same figures {made}.</>}
      </footer>
      <div class="said" role="status">
        {said.value}
      </div>
    </>
  );
}
