// Takes out of package-lock.json what names a host: npm needs none of it.
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../clients/node/package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));
for (const entry of Object.values(lock.packages)) {
  delete entry.funding;
  delete entry.resolved;
}
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
