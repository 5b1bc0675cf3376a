// The list of recordings that a server serves.
import { signal } from "@preact/signals";
import { asShown, count, ns, share } from "./format";
import { begin } from "./url_state";
import { Shell } from "./shell";
import { serverUrls } from "./server_events";
import { DataTable, type Column } from "./table";

interface Found {
  format: string;
  hostname: string;
  duration_ns: number;
  vcpus: number;
  exits: number;
  cost_share: number | null;
  steal_share: number | null;
  verdict: string;
  is_doubtful: boolean;
  events: number;
  lost: number | null;
  damage: string[];
}

interface Row {
  name: string;
  page: string;
  found?: Found;
  trouble?: string;
}

/** The numbers of the two that are compared; as the server counts them. */
const before = signal(0);
const after = signal(1);

const rows = signal<Row[]>([]);
/** What names, hosts, formats and verdicts of the listed recordings contain. */
const wanted = signal("");

const isWanted = (row: Row): boolean => {
  const texts = [row.name, row.found?.hostname, row.found?.format, row.found?.verdict, row.trouble];
  return texts.some((text) => text?.toLowerCase().includes(wanted.value.trim().toLowerCase()));
};
const failed = signal("");

/** How long to wait for what is still being read, in ms. */
const SOON = 1000;

async function fetchRows(): Promise<void> {
  try {
    const response = await fetch(serverUrls.value!.files!, { cache: "no-store" });
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    rows.value = asShown((await response.json()) as Row[]);
    failed.value = "";
  } catch (error) {
    failed.value = String(error instanceof Error ? error.message : error);
  }
  if (failed.value || rows.value.some((row) => !row.found && !row.trouble)) setTimeout(() => void fetchRows(), SOON);
}

const number = <T extends number | null>(title: string, value: (of: Found) => T, show: (value: T) => string): Column<Row> => ({
  title,
  value: (row) => (row.found ? value(row.found) : null),
  show: (row) => (row.found ? show(value(row.found)) : ""),
});

/** A part of vCPU time; a dash where it was not recorded. */
const part = (of: number | null): string => (of === null ? "–" : share(of));

const state = ({ found, trouble }: Row): string => {
  if (trouble) return trouble;
  if (!found) return "being read …";
  return found.damage.length ? found.damage.join(" ") : "whole";
};

const verdict = ({ found }: Row): string => (found ? `${found.verdict.replaceAll("`", "")}${found.is_doubtful ? " (doubtful)" : ""}` : "");

const columns: Column<Row>[] = [
  { title: "recording", text: true, value: (row) => row.name, show: (row) => (row.trouble ? row.name : <a href={row.page}>{row.name}</a>) },
  { title: "format", text: true, value: (row) => row.found?.format ?? "", show: (row) => row.found?.format ?? "" },
  { title: "host", text: true, value: (row) => row.found?.hostname ?? "", show: (row) => row.found?.hostname || "–" },
  number("length", (of) => of.duration_ns, ns),
  number("vCPUs", (of) => of.vcpus, count),
  number("exits", (of) => of.exits, count),
  number("cost", (of) => of.cost_share, part),
  number("steal", (of) => of.steal_share, part),
  { title: "verdict", text: true, value: verdict, show: verdict },
  { title: "coverage", text: true, value: state, show: (row) => <span class={row.trouble || row.found?.damage.length ? "bad" : ""}>{state(row)}</span> },
];

/** Chooses two recordings, and leads to what differs. */
function Compare({ list }: { list: Row[] }) {
  const choice = (name: string, of: typeof before) => (
    <label>
      {name}{" "}
      <select value={of.value} onChange={(event) => (of.value = Number(event.currentTarget.value))}>
        {list.map((row, at) => (
          <option value={at} disabled={Boolean(row.trouble)}>
            {row.name}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <p class="filters">
      {choice("Before", before)} {choice("After", after)}{" "}
      {before.value !== after.value && <a href={`/diff/${before.value}/${after.value}`}>What changed</a>}
    </p>
  );
}

function Files() {
  const list = rows.value;
  return (
    <Shell title="Recordings" about={`${count(list.length)} given to this server when it started`} sections={[{ id: "recordings", title: "Recordings" }]} version={serverUrls.value!.version}>
      <section id="recordings" aria-label="Recordings">
        {failed.value && <p class="bad" role="alert">{`No connection to exitscope (${failed.value}). Trying again …`}</p>}
        <p class="filters">
          <label>
            Filter <input type="search" value={wanted.value} placeholder="name, host, format or verdict" size={30} onInput={(event) => (wanted.value = event.currentTarget.value)} />
          </label>{" "}
          {wanted.value.trim() && `${count(list.filter(isWanted).length)} of ${count(list.length)}`}
        </p>
        <DataTable columns={columns} rows={list.filter(isWanted)} caption="Recordings" top={200} />
        {list.length > 1 && <Compare list={list} />}
        <form class="paste" method="post" action="/paste" enctype="text/plain">
          <label for="table">Or paste a table of perf kvm stat, kvm_stat or another tool, as it stands in a mail or on a terminal; it is read and not kept</label>
          <textarea id="table" name="table" rows={4} required />
          <button>Read it</button>
        </form>
      </section>
    </Shell>
  );
}

/** The page of the list. */
export async function filesPage() {
  begin();
  await fetchRows();
  return <Files />;
}
