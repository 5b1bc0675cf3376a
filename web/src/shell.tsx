// The frame of every page: heading, sections, what was said, where it came from.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { said } from "./chart";
import { kept, section, theme } from "./url_state";
import { ServedBar } from "./live_bar";
import { serverUrls } from "./server_events";

export interface Section {
  id: string;
  title: string;
  there?: boolean;
}

/** Sections that are shown together, one tab at a time. */
export interface Tab {
  id: string;
  title: string;
  sections: Section[];
}

/** The tab that is shown, of pages that have tabs; the first for none. */
export const tab = kept<string>("tab", "");

/** The tabs that have anything. */
let tabs: Tab[] = [];

const tabOf = (id: string): Tab | undefined => tabs.find((of) => of.sections.some((row) => row.id === id));

const shownTab = (): Tab | undefined => tabs.find((of) => of.id === tab.value) ?? tabs[0];

const there = (sections: Section[]): Section[] => sections.filter((row) => row.there !== false);

let jumped = -Infinity;

/** Whether a jump has just been made, so that what is scrolled past does not count. */
const jumping = (): boolean => performance.now() - jumped < 1000;

/** The section that is read: the last that begins above a line at a part of the window's height. Near the page's begin the line is as far down
 * as the page is scrolled, and near its end as far up, so that the first and the last section have their turn however short they are. */
function sectionInSight(): string | null {
  const { scrollHeight } = document.documentElement;
  const left = scrollHeight - innerHeight - scrollY;
  const line = scrollY > 0 ? Math.max(Math.min(innerHeight * READ_AT, scrollY), innerHeight - left) : 0;
  const shown = [...document.querySelectorAll("main section[id]")].filter((of) => of.getClientRects().length > 0);
  return (shown.filter((of) => of.getBoundingClientRect().top <= line).at(-1) ?? shown[0])?.id ?? null;
}

const READ_AT = 0.3;

/** Goes to a section, and then to `place`, if that is another element. */
export function go(to: string, place = to): void {
  jumped = performance.now();
  section.value = to;
  const of = tabOf(to);
  if (of) tab.value = of.id;
  const scroll = () => document.getElementById(place)?.scrollIntoView({ block: "start" });
  // A tab that is shown for it has its height only when it is drawn.
  scroll();
  requestAnimationFrame(scroll);
}

/** The tabs, and what the one that is shown has. */
export function TabBar() {
  const shown = shownTab()!;
  const press = (event: KeyboardEvent) => {
    const at = tabs.indexOf(shown);
    const to = { ArrowRight: tabs[(at + 1) % tabs.length], ArrowLeft: tabs.at(at - 1), Home: tabs[0], End: tabs.at(-1) }[event.key];
    if (!to) return;
    event.preventDefault();
    tab.value = to.id;
    document.getElementById(`tab-${to.id}`)?.focus();
  };
  return (
    <div class="tabbar">
      <div class="tabs" role="tablist" aria-label="Views">
        {tabs.map((of) => (
          <button
            type="button"
            role="tab"
            id={`tab-${of.id}`}
            aria-selected={of === shown}
            aria-controls={`panel-${of.id}`}
            tabIndex={of === shown ? 0 : -1}
            onClick={() => go(of.sections[0]!.id)}
            onKeyDown={press}
          >
            {of.title}
          </button>
        ))}
      </div>
      {shown.sections.length > 1 && <SectionLinks sections={shown.sections} />}
    </div>
  );
}

/** What a tab shows. It stays where it is while another one is shown, so that it is printed. */
export function Panel({ id, with: made, children }: { id: string; with?: string | null; children: ComponentChildren }) {
  if (!tabs.some((of) => of.id === id)) return null;
  return (
    <div role="tabpanel" class={made ?? undefined} id={`panel-${id}`} aria-labelledby={`tab-${id}`} hidden={shownTab()!.id !== id}>
      {children}
    </div>
  );
}

function SectionLinks({ sections }: { sections: Section[] }) {
  return (
    <nav aria-label="Sections">
      <ul>
        {sections.map((row) => (
          <li>
            <a href={`#view=${row.id}`} aria-current={section.value === row.id ? "true" : undefined} onClick={(event) => (event.preventDefault(), go(row.id))}>
              {row.title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
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
  /** Sections, which are listed beside; or the tabs that they are in, of which the page draws a [`TabBar`] and [`Panel`]s. */
  sections: Section[] | Tab[];
  /** How to have the same as text. */
  made?: ComponentChildren;
  version: string;
  children: ComponentChildren;
}

const isTabs = (of: Section[] | Tab[]): of is Tab[] => of.length > 0 && "sections" in of[0]!;

export function Shell({ title, about, sections, made, version, children }: Props) {
  const hasTabs = isTabs(sections);
  tabs = hasTabs ? sections.map((of) => ({ ...of, sections: there(of.sections) })).filter((of) => of.sections.length > 0) : [];
  const listed = hasTabs ? [] : there(sections);
  useEffect(() => {
    if (section.value !== "overview") go(section.value);
  }, []);
  useEffect(() => {
    const follow = () => {
      const now = jumping() ? null : sectionInSight();
      if (now) section.value = now;
    };
    follow();
    addEventListener("scroll", follow, { passive: true });
    addEventListener("resize", follow);
    return () => (removeEventListener("scroll", follow), removeEventListener("resize", follow));
  }, []);
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
      <div class={hasTabs ? "body tabbed" : "body"}>
        {!hasTabs && <SectionLinks sections={listed} />}
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <footer>
        {serverUrls.value ? `Served by exitscope ${version}.` : `Made by exitscope ${version}. Everything shown is in this file; it loads nothing.`}
        {made && <> The same figures {made}.</>}
      </footer>
      <div class="said" role="status">
        {said.value}
      </div>
    </>
  );
}
