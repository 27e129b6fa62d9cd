// Builds the page into service/ragstore/kit/page/static: hashed names, an index that names them, and gzip forms.
// `node build.mjs FOLDER` builds into another folder.
import { build } from "esbuild";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL(".", import.meta.url));
const target = process.argv[2] ?? join(root, "../service/ragstore/kit/page/static");

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });

const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: ["src/shell.tsx", "src/style.css", "src/icon.svg"],
  outdir: target,
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

/** The name of the built file of an entry point. */
function built(entry) {
  const [path] = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint === entry);
  return basename(path);
}

/** The built files that a file imports before it runs. */
function imported(name) {
  const [, output] = Object.entries(metafile.outputs).find(([path]) => basename(path) === name);
  return output.imports.filter((each) => each.kind === "import-statement").map((each) => basename(each.path));
}

const shell = built("src/shell.tsx");
const links = imported(shell).map((name) => `<link rel="modulepreload" href="${name}">`);
const index = readFileSync(join(root, "src/index.html"), "utf8")
  .replace("STYLE", built("src/style.css"))
  .replace("ICON", basename(Object.keys(metafile.outputs).find((path) => path.endsWith(".svg"))))
  .replace("SHELL", shell)
  .replace("PRELOADS\n", links.map((link) => `${link}\n`).join(""));
writeFileSync(join(target, "index.html"), index);

for (const name of readdirSync(target)) {
  writeFileSync(join(target, `${name}.gz`), gzipSync(readFileSync(join(target, name)), { level: 9 }));
}
