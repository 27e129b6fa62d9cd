// Completes `dist`: the generated types, which tsc does not copy, and the kind of modules of the CommonJS build.
import { copyFileSync, writeFileSync } from "node:fs";

for (const build of ["esm", "cjs"]) {
  copyFileSync("src/schema.d.ts", `dist/${build}/schema.d.ts`);
}
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
