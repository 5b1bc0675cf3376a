// Builds dist/page.html: the whole front end in one file, with places for a title and data.
import { createHash } from "node:crypto";
import { defineConfig } from "vite";

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** Puts script and style into one HTML file, and allows by its policy just these. */
const onePage = {
  name: "one-page",
  enforce: "post",
  generateBundle(_, bundle) {
    let script = "";
    let style = "";
    for (const [name, item] of Object.entries(bundle)) {
      if (item.type === "chunk") script += item.code.replaceAll("</script", "<\\/script");
      else if (name.endsWith(".css")) style += item.source;
      delete bundle[name];
    }
    const policy = [
      "default-src 'none'",
      `script-src ${hash(script)}`,
      `style-src ${hash(style)}`,
      "img-src data:",
      "base-uri 'none'",
      "form-action 'none'",
    ].join("; ");
    this.emitFile({
      type: "asset",
      fileName: "page.html",
      source: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="exitscope">
<link rel="icon" href="data:,">
<title><!--exitscope:title--></title>
<style>${style}</style>
</head>
<body>
<div id="app"><p class="loading">Unpacking the recording …</p></div>
<noscript><p>This page draws its charts with JavaScript, all of which is in this file. The same figures as text: exitscope report FILE</p></noscript>
<script type="text/plain" id="data"><!--exitscope:data--></script>
<script>${script}</script>
</body>
</html>
`,
    });
  },
};

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [onePage],
  build: {
    target: "es2022",
    // The folder has a file that keeps it in the tree.
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    rollupOptions: { input: "src/main.tsx", output: { format: "iife" } },
  },
});
