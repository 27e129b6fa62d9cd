// Removes the fields of a package-lock.json that contain host names; npm does not need them.
import { readFileSync, writeFileSync } from "node:fs";

const folder = process.argv[2] ?? "clients/node";
const file = new URL(`../${folder}/package-lock.json`, import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));
for (const entry of Object.values(lock.packages)) {
  delete entry.funding;
  delete entry.resolved;
}
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
