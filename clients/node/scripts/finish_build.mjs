// Completes `dist`: the generated types, which tsc does not copy, and the kind of modules of the CommonJS build.
import { copyFileSync, writeFileSync } from "node:fs";

for (const build of ["esm", "cjs"]) {
  for (const types of ["schema.d.ts", "gateway/schema.d.ts"]) {
    copyFileSync(`src/${types}`, `dist/${build}/${types}`);
  }
}
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
