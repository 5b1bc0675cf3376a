// exitscope's page: unpacks what it shows, and shows it.
import { render, type VNode } from "preact";
import { rankReasons } from "./colors";
import { unpack } from "./data";
import { DiffPage } from "./diff";
import { LabPage } from "./lab";
import { begin as beginLink } from "./link";
import { Report } from "./report";
import { begin } from "./state";
import "./style.css";
import { SweepPage } from "./sweep";

const root = document.getElementById("app")!;

async function start(): Promise<void> {
  const tag = document.getElementById("data")!;
  const page = await unpack(tag.textContent ?? "");
  tag.remove();
  let view: VNode;
  if (page.kind === "report") {
    begin(page);
    rankReasons();
    view = <Report />;
  } else {
    beginLink();
    view = page.kind === "diff" ? <DiffPage {...page} /> : page.kind === "sweep" ? <SweepPage {...page} /> : <LabPage {...page} />;
  }
  root.replaceChildren();
  render(view, root);
  performance.mark("drawn");
  document.documentElement.dataset.ready = "yes";
}

start().catch((error: unknown) => {
  root.textContent = `This page could not be unpacked: ${String(error)}. It needs a browser of 2023 or later; the file may also be cut off.`;
});

