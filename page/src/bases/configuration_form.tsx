/** The form of a base's configuration, in groups. */
import { h } from "../jsx";
import { gateway } from "../api";
import { Fields, type Faults } from "./form";
import type { Schema, Values } from "./schema";
import { say } from "./words";

const GROUPS: Record<string, string[]> = {
  base: ["name", "description"],
  chunks: ["chunkStrategy", "chunkSize", "chunkOverlap", "chunkUnit", "embedHeadings"],
  search: ["maxResults", "minScore", "retrieval", "keywordWeight", "where"],
  embedding: ["embeddingProvider", "embeddingParameters"],
  storage: ["engine", "storeType", "storeParameters"],
};
/** Sources have a tab of their own. */
const ELSEWHERE = ["sources"];

/** Read the schema of a base. */
export async function readSchema(signal: AbortSignal): Promise<Schema> {
  return (await gateway("get", "/ragstore/rags/jsonSchema", { signal })).value as Schema;
}

interface Properties {
  schema: Schema;
  values: Values;
  set: (values: Values) => void;
  faults: Faults;
  isDisabled: boolean;
}

export function ConfigurationForm({ schema, values, set, faults, isDisabled }: Properties) {
  const grouped = new Set([...Object.values(GROUPS).flat(), ...ELSEWHERE]);
  // A field that a newer gateway adds is shown with the search.
  const further = Object.keys(schema.properties ?? {}).filter((name) => !grouped.has(name));
  return (
    <div class="stack">
      {Object.entries(GROUPS).map(([group, names]) => (
        <fieldset key={group} class="box">
          <legend class="group-title">{say.groups[group]}</legend>
          <Fields
            schema={schema}
            root={schema}
            values={values}
            set={set}
            faults={faults}
            path="$"
            isDisabled={isDisabled}
            only={group === "search" ? [...names, ...further] : names}
          />
        </fieldset>
      ))}
    </div>
  );
}
