// Makes the types of a page's data of its schema. `npm run types` writes them; test/types.test.mjs compares.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

export const written = here("src/types.gen.ts");

/** As the library reads schemas: a type that is described where it is used is one type nevertheless, a tuple is `items`. */
const prepared = (key, of) => {
  if (!of?.$ref && !of?.prefixItems) return of;
  const { $ref, prefixItems, ...rest } = of;
  return $ref ? { ...rest, allOf: [{ $ref }] } : { ...rest, items: prefixItems };
};

export const made = () =>
  compile(JSON.parse(readFileSync(here("../docs/page.schema.json"), "utf8"), prepared), "PageData", {
    additionalProperties: false,
    bannerComment: "// Made of docs/page.schema.json by `npm run types`.",
    style: { printWidth: 120 },
  });

if (process.argv.includes("--write")) writeFileSync(written, await made());
