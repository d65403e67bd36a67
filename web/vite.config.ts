import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const ROOT = import.meta.dirname;
const BUILT_FROM = ["index.html", "package-lock.json", "public", "src", "tsconfig.json", "vite.config.ts"];

function filesBelow(name: string): string[] {
  const found = readdirSync(ROOT, { withFileTypes: true }).find((entry) => entry.name === name);
  if (found?.isFile()) return [name];
  return readdirSync(join(ROOT, name), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1));
}

/** Keeps a hash of the sources beside what is built: a test without Node sees whether it is fresh. */
function noteSources(): Plugin {
  let out = "";
  return {
    name: "note-sources",
    configResolved(config) {
      out = join(config.root, config.build.outDir);
      if (config.build.outDir.startsWith("/")) out = config.build.outDir;
    },
    closeBundle() {
      const hash = createHash("sha256");
      for (const name of BUILT_FROM.flatMap(filesBelow).sort()) {
        hash.update(`${name}\0`).update(readFileSync(join(ROOT, name))).update("\0");
      }
      writeFileSync(join(out, "sources.sha256"), `${hash.digest("hex")}\n`);
    },
  };
}

export default defineConfig({
  plugins: [noteSources()],
  build: {
    outDir: "../heddle/server/page/site",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      // The names stay: the server has a route for each file and tells a browser what has changed.
      output: {
        entryFileNames: "assets/page.js",
        assetFileNames: "assets/page[extname]",
        codeSplitting: false,
      },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8321", "/health": "http://127.0.0.1:8321" } },
});
