/** The changes between versions of a base, field by field, and what a change costs. */
import { h } from "../jsx";
import { Table } from "../parts";
import { mark, Stored } from "../stored";
import { words } from "../words";
import type { Configuration } from "./calls";
import { say } from "./words";

/** Fields that the chunks of a base depend on. Another store gets copies of their vectors. */
const CHUNKS = ["chunkStrategy", "chunkSize", "chunkOverlap", "chunkUnit", "embedHeadings"];
const PARAMETERS = ["embeddingParameters", "storeParameters"];
const SECRET = /^\$\{.*\}$/u;

export interface Change {
  field: string;
  values: unknown[];
}

/** The fields in which bodies differ, such as `chunkSize` and `embeddingParameters.model`. */
export function changesOf(...bodies: object[]): Change[] {
  const flat = bodies.map((body) => new Map(flatten("", body)));
  const fields = new Set(flat.flatMap((each) => [...each.keys()]));
  return [...fields].flatMap((field) => {
    const values = flat.map((each) => each.get(field));
    return values.every((each) => JSON.stringify(each) === JSON.stringify(values[0])) ? [] : [{ field, values }];
  });
}

function flatten(prefix: string, value: unknown): [string, unknown][] {
  // Parameters of a base are an object of plain values; a filter and sources are compared as a whole.
  if (prefix !== "" && !PARAMETERS.includes(prefix)) return [[prefix, value]];
  return Object.entries((value ?? {}) as object).flatMap(([name, each]) => {
    const field = prefix ? `${prefix}.${name}` : name;
    return prefix ? [[field, each] as [string, unknown]] : flatten(field, each);
  });
}

/** What a save of changes costs, in words. */
export function priceOf(changes: Change[], before: Configuration, documents: number): string {
  const isExisting = Boolean((before.storeParameters as Record<string, unknown>)["collection"]);
  const ofChunks = changes.some(({ field }) => CHUNKS.includes(field));
  if (isExisting) return ofChunks ? say.laterOnly : say.noPrice;
  const isEmbedded = ofChunks || changes.some(isOfModel);
  return isEmbedded ? say.price(documents) : say.noPrice;
}

/** Whether vectors depend on a field. A reference to another secret changes no vector. */
function isOfModel({ field, values }: Change): boolean {
  const isSecret = values.every((each) => each === undefined || (typeof each === "string" && SECRET.test(each)));
  return field === "embeddingProvider" || (field.startsWith("embeddingParameters.") && !isSecret);
}

export function ChangesTable({ of, titles }: { of: Change[]; titles: string[] }) {
  return (
    <Table label={say.changes} titles={[say.field, ...titles]}>
      {of.map(({ field, values }) => (
        <tr key={field}>
          <th scope="row">
            <Stored value={mark(field)} max={200} />
          </th>
          {values.map((value, index) => (
            <td key={index}>
              <Stored value={mark(textOf(value))} max={2000} lines />
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}

function textOf(value: unknown): string {
  if (value === undefined) return words.notCounted;
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}
