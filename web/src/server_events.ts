// Where a served page has its data from, and what the server says meanwhile.
//
//   notes (EventSource) ─► live: fetch what is newer, unless paused; a file: say that it has changed
import { signal } from "@preact/signals";
import { opened, unpack, type Packed, type Shown } from "./data";

/** Addresses on the server that the page is from; in the page in place of data. */
export interface Addresses {
  data?: string;
  notes?: string;
  /** Where single exits of a time are asked for, and sums of all exits: what the page does not hold (crates/page/src/reread.rs). */
  single?: string;
  groups?: string;
  files?: string;
  /** What happens is shown as it happens, and kept for so long. */
  keep_ns?: number;
  version: string;
}

/** What the last note of a live page says. */
export interface Tick {
  exits_per_s: number;
  exits: number;
  lost: number;
}

/** `null`: everything is in the file that the page is. */
export const serverUrls = signal<Addresses | null>(null);
/** Whether the server was heard of in the last seconds. */
export const isConnected = signal(true);
/** Of a live page. */
export const tick = signal<Tick | null>(null);
export const paused = signal(false);
/** Of a file: what became of it since it was read. */
export const changed = signal<"no" | "changed" | "gone">("no");
/** Why the data could not be had the last time. */
export const loadError = signal("");

/** After how long without the server it is said, in ms: a stream of notes that ends is begun anew at once. */
const SILENCE = 3000;
/** A page that takes long to make is asked for less often: a part of the time, at most. */
const SHARE = 0.25;

/** The version that is shown. */
let version = "";

/** Fetches what is at an address. Waits as long as the server still reads it. */
async function fetched(address: string): Promise<Response> {
  for (;;) {
    const response = await fetch(address, { cache: "no-store" });
    if (response.status === 202) continue;
    if (!response.ok) throw new Error((await response.text()).trim() || `the server answers ${response.status}`);
    return response;
  }
}

const bytesOf = async (response: Response): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(await response.arrayBuffer());

/** Fetches what is to be shown. */
export async function load(): Promise<Shown> {
  const response = await fetched(serverUrls.value!.data!);
  const shown = await unpack(await bytesOf(response));
  version = (response.headers.get("etag") ?? "").replaceAll('"', "");
  return shown;
}

/** What the server answers to a question about all exits. */
export interface Answer {
  version: string;
  base_ns: string;
  singles: Packed["head"] | null;
  groups: ({ rows: number; columns: string[] } & Places) | null;
}

/** Places in guests. */
export type Places = Pick<Packed["head"], "rips" | "functions" | "rip_functions" | "rip_offsets">;

/** Asks a question about the file that is shown. */
export async function ask(address: string): Promise<{ answer: Answer; columns: Uint8Array }> {
  const { json, columns } = await opened(await bytesOf(await fetched(address)));
  const answer = json as Answer;
  if (answer.version !== version) throw new Error("The file has changed since it was read: read it again.");
  return { answer, columns };
}

/** Hears notes from now on; `show` is given what is newer. */
export function listen(show: (of: Shown) => void): void {
  const { notes, keep_ns } = serverUrls.value!;
  if (!notes) return;
  let latest = "";
  let loading = false;
  let silent = 0;
  const refresh = async (): Promise<void> => {
    if (loading || paused.value || latest === version) return;
    loading = true;
    const began = performance.now();
    const held = version;
    try {
      const shown = await load();
      // Whoever has paused meanwhile goes on looking at what was there.
      if (paused.value) version = held;
      else show(shown);
      loadError.value = "";
    } catch (error) {
      loadError.value = String(error instanceof Error ? error.message : error);
    }
    const took = performance.now() - began;
    setTimeout(() => ((loading = false), keep_ns && void refresh()), took / SHARE - took);
  };
  const heard = (): void => {
    clearTimeout(silent);
    silent = 0;
    isConnected.value = true;
  };
  const connect = (): void => {
    const source = new EventSource(notes);
    source.onopen = heard;
    source.onerror = () => {
      // After an answer that is no stream it gives up.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, SILENCE);
      silent ||= window.setTimeout(() => (isConnected.value = false), SILENCE);
    };
    source.onmessage = (event: MessageEvent<string>) => {
      heard();
      latest = event.lastEventId;
      const said = JSON.parse(event.data) as Tick & { gone?: boolean };
      if (keep_ns) {
        tick.value = said;
        void refresh();
      } else changed.value = said.gone ? "gone" : latest === version ? "no" : "changed";
    };
  };
  connect();
  paused.subscribe(() => keep_ns && void refresh());
  retryLoad = async () => {
    await refresh();
    if (!loadError.value) changed.value = latest === version ? "no" : "changed";
  };
}

/** Fetches a file's data anew. */
export let retryLoad = async (): Promise<void> => {};
