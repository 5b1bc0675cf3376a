// Draws docs/images: the pictures of the README and of docs/page.md.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { HOSTS, corpus, frame, launch, open, pageBy, pageOf, root, storeOf, withoutSql } from "./browser.mjs";

const images = join(root, "docs/images");
mkdirSync(images, { recursive: true });
const browser = await launch();
const file = pageOf("t2", corpus("x86-svm/t2.data.gz"));

/** A picture of the page, or of a part of it. */
async function shoot(name, { of = file, hash = "", at, theme = "light", width = 1280, height = 800 }) {
  const page = await open(browser, of, { hash, colorScheme: theme, viewport: { width, height } });
  if (at) await page.evaluate((at) => document.querySelector(at).scrollIntoView({ block: "start" }), at);
  await frame(page);
  await page.screenshot({ path: join(images, `${name}.png`) });
  if (page.troubles.length) throw new Error(page.troubles.join("\n"));
  await page.context().close();
}

await shoot("page", {});
await shoot("page-timeline", { at: "#timeline", theme: "dark", height: 700 });
await shoot("page-pivot", { at: "#pivot", hash: "#view=pivot&tab=breakdown", height: 620 });
await shoot("page-halts", { of: pageOf("t4", corpus("x86-svm/t4-none.dat.gz")), at: "#halts", hash: "#view=halts", height: 900 });
await shoot("page-gangs", { of: pageOf("gang", corpus("powerpc/p8_smt4_trace.dat.gz")), at: "#gangs", hash: "#view=gangs&from=100000000&to=112000000", height: 700 });
await shoot("page-diff", { of: pageBy("diff", "diff", corpus("x86-svm/t4-none.dat.gz"), corpus("x86-svm/t4-zstd.data.gz")), height: 860 });
if (withoutSql) console.log("built without SQL: no image of a fleet");
else await shoot("page-fleet", { of: pageBy("fleet", "fleet", "report", storeOf("fleet", HOSTS), "--by", "host"), height: 860 });
await browser.close();
console.log(`screenshots: wrote ${images}`);
