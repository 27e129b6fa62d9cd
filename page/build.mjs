// Builds the pages into service/ragstore/kit/page/static: hashed names, an index that names them, and gzip forms.
// The folder docs in it has the API reference, which a service serves without the page, too.
// `node build.mjs FOLDER` builds into another folder.
import { build } from "esbuild";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL(".", import.meta.url));
const target = process.argv[2] ?? join(root, "../service/ragstore/kit/page/static");

rmSync(target, { recursive: true, force: true });
await buildPage({ index: "src/index.html", script: "src/shell.tsx", style: "src/style.css", folder: target });
await buildPage({
  index: "src/reference/index.html",
  script: "src/reference/reference.tsx",
  style: "src/reference/style.css",
  folder: join(target, "docs"),
});

/** Build a page into a folder. */
async function buildPage({ index, script, style, folder }) {
  mkdirSync(folder, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [script, style, "src/icon.svg"],
    outdir: folder,
    bundle: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    jsx: "transform",
    jsxFactory: "h",
    jsxFragment: "Fragment",
    minify: true,
    charset: "utf8",
    legalComments: "none",
    loader: { ".svg": "copy" },
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    metafile: true,
  });
  const outputs = Object.entries(metafile.outputs).map(([path, output]) => ({ name: basename(path), ...output }));
  const main = outputs.find((each) => each.entryPoint === script);
  const preloaded = main.imports.filter((each) => each.kind === "import-statement").map((each) => basename(each.path));
  const written = readFileSync(join(root, index), "utf8")
    .replace("STYLE", outputs.find((each) => each.entryPoint === style).name)
    .replace("ICON", outputs.find((each) => extname(each.name) === ".svg").name)
    .replace("SCRIPT", main.name)
    .replace("PRELOADS\n", preloaded.map((name) => `<link rel="modulepreload" href="${name}">\n`).join(""));
  writeFileSync(join(folder, "index.html"), written);
  for (const { name } of [...outputs, { name: "index.html" }]) {
    writeFileSync(join(folder, `${name}.gz`), gzipSync(readFileSync(join(folder, name)), { level: 9 }));
  }
}
