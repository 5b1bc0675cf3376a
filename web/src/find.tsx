// Two dialogs of a report's page: names to go to, and keys.
import { signal, useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { causeName, chooseSubject } from "./causes";
import { choose } from "./first";
import { shortened } from "./format";
import { go } from "./shell";
import { data, selectedVcpus, selectOnly, reasons, vms } from "./selection";
import { vcpuName } from "./timeline";

const isFinding = signal(false);
const areKeysShown = signal(false);

/** Names that are listed at most. */
const LISTED = 12;

interface Named {
  name: string;
  what: string;
  go: () => void;
}

/** Everything on the page that has a name, the costliest first. */
function named(): Named[] {
  const { timelines: over, report, advice } = data;
  return [
    ...report.causes.map((row) => ({ name: causeName(row), what: "cause", go: () => choose(row) })),
    ...vms().map((vm) => ({ name: vm.name, what: "VM", go: () => ((selectedVcpus.value = vm.lanes), go("timeline")) })),
    ...over.vcpus.map((_, lane) => ({ name: vcpuName(lane), what: "vCPU", go: () => (selectOnly(selectedVcpus, lane), go("timeline")) })),
    ...over.reasons.map((name, reason) => ({ name, what: "reason", go: () => (selectOnly(reasons, reason), go("reasons")) })),
    ...over.subjects.map((about, at) => ({ name: about.label, what: about.kind.replaceAll("_", " "), go: () => (chooseSubject(at), go("devices")) })),
    ...(advice?.advice ?? []).map((row) => ({ name: row.change, what: "change", go: () => go("advice") })),
  ];
}

/** Those in which every word is found. */
function found(text: string): Named[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length === 0 ? [] : named().filter(({ name, what }) => words.every((word) => `${what} ${name}`.toLowerCase().includes(word)));
}

function Dialog({ shown, head, children }: { shown: Signal<boolean>; head: string; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (shown.value) dialog.current!.showModal();
    else dialog.current!.close();
  }, [shown.value]);
  return (
    <dialog ref={dialog} aria-label={head} onClose={() => (shown.value = false)} onClick={(event) => event.target === dialog.current && (shown.value = false)}>
      {shown.value && children}
    </dialog>
  );
}

function Find() {
  const text = useSignal("");
  const all = found(text.value);
  const take = (of: Named) => {
    isFinding.value = false;
    of.go();
  };
  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const stops = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("input, button")];
    stops[stops.indexOf(document.activeElement as HTMLElement) + by]?.focus();
  };
  return (
    <form
      class="find"
      onKeyDown={move}
      onSubmit={(event) => {
        event.preventDefault();
        if (all[0]) take(all[0]);
      }}
    >
      <input type="text" role="searchbox" aria-label="A name" placeholder="cause, VM, vCPU, reason, port, MSR, change" autoFocus value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
      <ul>
        {all.slice(0, LISTED).map((of) => (
          <li>
            <button type="button" class="plain" title={of.name} onClick={() => take(of)}>
              {shortened(of.name, 70)}
            </button>{" "}
            <span class="soft">{of.what}</span>
          </li>
        ))}
      </ul>
      <p class="soft" role="status">
        {text.value.trim() === "" ? "Enter opens the first; ↓ and ↑ move through the others." : all.length === 0 ? "No name matches." : all.length > LISTED ? `${LISTED} of ${all.length}.` : ""}
      </p>
    </form>
  );
}

const KEYS: [string, string][] = [
  ["w s + −", "zoom in and out"],
  ["a d", "earlier, later; in a chart also ← →"],
  ["drag", "choose a range, or lengths in How long exits took"],
  ["Shift + drag, wheel", "move the range"],
  ["Ctrl + wheel", "zoom where the pointer is"],
  ["click", "open a single exit; unfold a VM by its name"],
  ["0", "the whole recording; in a chart also Home"],
  ["Esc", "undo step by step: the open exit, then lengths, cause, reasons, vCPUs, range"],
  ["Back", "the previous selection"],
  ["/", "find a name"],
  ["?", "these keys"],
];

/** What is asked for with `/` and `?`. */
export const Dialogs = () => (
  <>
    <Dialog shown={isFinding} head="Find a name">
      <Find />
    </Dialog>
    <Dialog shown={areKeysShown} head="Keys">
      <h3>Keys</h3>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <>
            <dt>{keys}</dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <button type="button" onClick={() => (areKeysShown.value = false)}>
        Close
      </button>
    </Dialog>
  </>
);

/** Opens what the key asks for. */
export function dialogKey(key: string): boolean {
  const shown = { "/": isFinding, "?": areKeysShown }[key];
  if (shown) shown.value = true;
  return shown !== undefined;
}

export const DialogButtons = () => (
  <span class="dialogs">
    <button type="button" onClick={() => dialogKey("/")}>
      <kbd>/</kbd> find
    </button>
    <button type="button" onClick={() => dialogKey("?")}>
      <kbd>?</kbd> keys
    </button>
  </span>
);
