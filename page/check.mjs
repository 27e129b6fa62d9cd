// Builds the pages into a temporary folder, and compares it with the committed files.
// gzip's output depends on the version of zlib, so compressed files are compared by their content.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const root = fileURLToPath(new URL(".", import.meta.url));
const committed = join(root, "../service/ragstore/kit/page/static");
const folder = mkdtempSync(join(tmpdir(), "page-"));
try {
  execFileSync(process.execPath, [join(root, "build.mjs"), folder], { stdio: "inherit" });
  const [expected, found] = [contents(folder), contents(committed)];
  const names = new Set([...expected.keys(), ...found.keys()]);
  const wrong = [...names].filter((name) => !found.get(name) || expected.get(name)?.compare(found.get(name)) !== 0);
  if (wrong.length > 0) {
    console.error(`The built page is out of date (${wrong.sort().join(", ")}): make page`);
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true });
}

function contents(path) {
  const names = readdirSync(path, { recursive: true }).filter((name) => extname(name) !== "");
  const files = names.map((name) => [name, readFileSync(join(path, name))]);
  return new Map(files.map(([name, content]) => [name, name.endsWith(".gz") ? gunzipSync(content) : content]));
}
