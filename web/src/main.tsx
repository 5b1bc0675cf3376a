// exitscope's page: unpacks the recording, and shows it.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { AdviceView } from "./advice";
import { said } from "./chart";
import { rankReasons } from "./colors";
import { unpack } from "./data";
import { Devices } from "./devices";
import { count, ns } from "./format";
import { Halts } from "./halts";
import { HeatMap, Slowest } from "./heat";
import { go, jumping, Overview } from "./overview";
import { Phases } from "./phases";
import { Reasons } from "./reasons";
import { begin, data, section, theme } from "./state";
import "./style.css";
import { Filters, Strip, Timeline } from "./timeline";
import { Gangs, Yields } from "./yields";

interface Section {
  id: string;
  title: string;
  there: boolean;
}

function sections(): Section[] {
  const { report, over } = data;
  return [
    { id: "overview", title: "Overview", there: true },
    { id: "reasons", title: "Reasons", there: report.total.count > 0 },
    { id: "timeline", title: "Timeline", there: over.in_time },
    { id: "slowest", title: "Slowest exits", there: over.slow.length > 0 },
    { id: "devices", title: "Devices", there: over.abouts.length > 0 },
    { id: "advice", title: "Advice", there: true },
    { id: "halts", title: "Halts", there: report.halt !== null },
    { id: "phases", title: "Phases", there: report.phases !== null },
    { id: "yields", title: "Yields", there: report.yield !== null },
    { id: "gangs", title: "Gangs", there: report.gang !== null },
  ];
}

function ThemeChoice() {
  const next = { auto: "light", light: "dark", dark: "auto" } as const;
  return (
    <button type="button" onClick={() => (theme.value = next[theme.value])} aria-label={`Colours: ${theme.value}`}>
      {{ auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[theme.value]}
    </button>
  );
}

function Head() {
  const { traces, selection, duration_ns } = data.report;
  const first = traces[0];
  const vms = [...new Set(data.over.lanes.map((lane) => lane.vm_label))];
  const chosen = [
    selection.vms.length && `VM ${selection.vms.join(", ")}`,
    selection.vcpus.length && `vCPU ${selection.vcpus.join(", ")}`,
    selection.reasons.length && `reason ${selection.reasons.join(", ")}`,
    selection.longer_than_ns && `longer than ${ns(selection.longer_than_ns)}`,
  ].filter(Boolean);
  return (
    <header>
      <div>
        <h1>{traces.map((trace) => trace.name.split("/").at(-1)).join(", ")}</h1>
        <p class="soft">
          {vms.length === 1 && vms[0] !== "-" && `${vms[0]} · `}
          {[first?.format, first?.arch, first?.hostname, first?.release].filter(Boolean).join(" · ")}
          {` · ${ns(duration_ns)} · ${count(data.report.total.count)} exits`}
          {chosen.length > 0 && ` · only ${chosen.join("; ")}`}
        </p>
      </div>
      <ThemeChoice />
    </header>
  );
}

function App() {
  const list = sections().filter((row) => row.there);
  useEffect(() => {
    if (section.value !== "overview") document.getElementById(section.value)?.scrollIntoView({ block: "start" });
    const seen = new IntersectionObserver(
      (entries) => {
        const top = entries.filter((entry) => entry.isIntersecting).at(-1);
        if (top && !jumping()) section.value = top.target.id;
      },
      { rootMargin: "-30% 0px -65% 0px" },
    );
    document.querySelectorAll("main > section").forEach((element) => seen.observe(element));
    return () => seen.disconnect();
  }, []);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")!.focus())}>
        Skip to the charts
      </a>
      <Head />
      <div class="body">
        <nav aria-label="Sections">
          <ul>
            {list.map((row) => (
              <li>
                <a href={`#view=${row.id}`} aria-current={section.value === row.id ? "true" : undefined} onClick={(event) => (event.preventDefault(), go(row.id))}>
                  {row.title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <main id="main" tabIndex={-1}>
          <div class="sticky">
            {data.over.in_time && <Strip />}
            <Filters />
          </div>
          <Overview />
          {data.report.total.count > 0 && <Reasons />}
          {data.over.in_time && (
            <section id="timeline" aria-label="Timeline">
              <h2>Over time</h2>
              <Timeline />
              <HeatMap />
            </section>
          )}
          {data.over.slow.length > 0 && <Slowest />}
          {data.over.abouts.length > 0 && <Devices />}
          <AdviceView />
          {data.report.halt && <Halts />}
          {data.report.phases && <Phases />}
          {data.report.yield && <Yields />}
          {data.report.gang && <Gangs />}
        </main>
      </div>
      <footer>
        Made by exitscope {data.version}. Everything shown is in this file; it loads nothing. The same figures as text: <code>exitscope report FILE</code>, as JSON:{" "}
        <code>--format json</code>.
      </footer>
      <div class="said" role="status">
        {said.value}
      </div>
    </>
  );
}

const root = document.getElementById("app")!;

async function start(): Promise<void> {
  const tag = document.getElementById("data")!;
  begin(await unpack(tag.textContent ?? ""));
  tag.remove();
  rankReasons();
  root.replaceChildren();
  render(<App />, root);
  performance.mark("drawn");
  document.documentElement.dataset.ready = "yes";
}

start().catch((error: unknown) => {
  root.textContent = `This page could not be unpacked: ${String(error)}. It needs a browser of 2023 or later; the file may also be cut off.`;
});

