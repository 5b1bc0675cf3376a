// Printing: all of it is drawn, in light colours, before the browser takes the picture.
import { signal } from "@preact/signals";
import { options } from "preact";

/** Whether the page is being printed. */
export const isPrinting = signal(false);

/** How wide charts are drawn for print, in CSS pixels, about that of a page of paper between its margins; and how many dots a pixel has. */
export const PAPER: [number, number] = [700, 2];

/** Makes a change, and has all that follows from it done when it returns: no frame comes between `beforeprint` and the print, and rendering and
 * effects otherwise wait for one. */
function atOnce(change: () => void): void {
  const { debounceRendering, requestAnimationFrame } = options;
  const due: (() => void)[] = [];
  options.debounceRendering = options.requestAnimationFrame = (run: () => void) => void due.push(run);
  change();
  for (let run = due.shift(); run; run = due.shift()) run();
  Object.assign(options, { debounceRendering, requestAnimationFrame });
}

function turn(to: boolean): void {
  atOnce(() => (isPrinting.value = to));
  // Shows all tabs.
  document.documentElement.classList.toggle("printing", to);
}

// Charts listen later, and draw for what is then shown.
addEventListener("beforeprint", () => turn(true));
addEventListener("afterprint", () => turn(false));
