// Runs the scenario in the runtime that runs this script, and prints the result: Node, Bun, Deno.
import { run } from "./scenario.mjs";

const { RAGSTORE_URL, CLOSED_URL } = globalThis.process.env;
console.log(JSON.stringify(await run(RAGSTORE_URL, CLOSED_URL)));
