// Runs the scenario in a page of Chromium, and prints the result.
//
// The page gets the package's files as they are, and the service from its own origin: the service has no CORS headers.
import { spawn } from "node:child_process";
import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { argv, env, exit } from "node:process";

import chromium from "@sparticuz/chromium";

const [, , project] = argv;
const SERVICE = new URL(env.RAGSTORE_URL);
const PAGE = `<!doctype html>
<script type="importmap">{ "imports": {
  "@ragstore/client": "/files/node_modules/@ragstore/client/dist/esm/index.js",
  "openapi-fetch": "/files/node_modules/openapi-fetch/dist/index.mjs" } }</script>
<script type="module">
  const report = (result) => fetch("/result", { method: "POST", body: JSON.stringify(result) });
  const { run } = await import("/files/scenario.mjs").catch((error) => report({ error: String(error) }));
  const nodes = ["process", "Buffer", "require", "global"].filter((name) => name in globalThis);
  run(location.origin, "${env.CLOSED_URL}").then((result) => report({ ...result, nodes }), (error) => report({ error: String(error) }));
</script>`;

const profile = await mkdtemp(join(tmpdir(), "ragstore-chromium-"));
const server = createServer((incoming, response) => {
  if (incoming.url === "/page") {
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(PAGE);
  } else if (incoming.url.startsWith("/files/")) {
    response.writeHead(200, { "content-type": "text/javascript; charset=utf-8" });
    createReadStream(join(project, incoming.url.slice("/files/".length))).pipe(response);
  } else if (incoming.url === "/result") {
    incoming.pipe(process.stdout);
    incoming.on("end", () => void end(0));
  } else {
    const { method, url: path, headers } = incoming;
    const forwarded = request({ host: SERVICE.hostname, port: SERVICE.port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    incoming.pipe(forwarded);
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const options = ["--headless=shell", "--no-sandbox", "--disable-gpu", `--user-data-dir=${profile}`, "--remote-debugging-port=0"];
const page = `http://127.0.0.1:${server.address().port}/page`;
const browser = spawn(await chromium.executablePath(), [...options, page], { stdio: ["ignore", "ignore", "inherit"] });
setTimeout(() => void end(1), 60_000).unref();

async function end(status) {
  browser.kill("SIGKILL");
  await new Promise((resolve) => browser.once("exit", resolve));
  await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  exit(status);
}
