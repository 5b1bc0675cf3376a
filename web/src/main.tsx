// exitscope's page: unpacks what it shows, and shows it.
import { render, type VNode } from "preact";
import { rankReasons, takePalette } from "./colors";
import { inText, unpack, type ResultPage } from "./data";
import { DiffPage } from "./diff";
import { filesPage } from "./files";
import { FleetPage } from "./fleet";
import { LabPage } from "./lab";
import { begin as beginLink } from "./url_state";
import { Report } from "./report";
import { applyNewData } from "./live_bar";
import { listen, load, serverUrls, type Addresses } from "./server_events";
import { begin } from "./selection";
import "./style.css";
import { askForMissing } from "./given";
import { missingIn } from "./single";
import { SweepPage } from "./sweep";
import { TrialPage } from "./trial";

const root = document.getElementById("app")!;

function other(page: ResultPage): VNode {
  switch (page.kind) {
    case "diff":
      return <DiffPage {...page} />;
    case "sweep":
      return <SweepPage {...page} />;
    case "lab":
      return <LabPage {...page} />;
    case "fleet":
      return <FleetPage {...page} />;
    case "trial":
      return <TrialPage {...page} />;
  }
}

async function start(): Promise<void> {
  const tag = document.getElementById("data")!;
  const text = tag.textContent!.trim();
  tag.remove();
  // Data is base64; a served page has addresses instead.
  if (text.startsWith("{")) serverUrls.value = JSON.parse(text) as Addresses;
  const page = !serverUrls.value ? await unpack(inText(text)) : serverUrls.value.data ? await load() : null;
  let view: VNode;
  if (page !== null) takePalette(page.palette);
  if (page === null) view = await filesPage();
  else if (page.kind === "report") {
    begin(page);
    rankReasons();
    view = <Report />;
    if (serverUrls.value) {
      listen((newer) => newer.kind === "report" && applyNewData(newer));
      askForMissing((at) => missingIn(at).length > 0);
    }
  } else {
    beginLink();
    view = other(page);
  }
  root.replaceChildren();
  render(view, root);
  performance.mark("drawn");
  document.documentElement.dataset.ready = "yes";
}

start().catch((error: unknown) => {
  root.textContent = serverUrls.value
    ? `This cannot be shown: ${error instanceof Error ? error.message : String(error)}`
    : `This page could not be unpacked: ${String(error)}. It needs a browser of 2023 or later; the file may also be cut off.`;
});

