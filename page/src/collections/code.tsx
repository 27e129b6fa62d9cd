/** The list of documents as a call, for curl and for Python. */
import { useState } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { Dialog } from "../parts";
import { Code, quoted, SERVICE } from "../code";
import { access } from "../session";
import { raw, type Stored } from "../stored";
import { words } from "../words";
import type { Where } from "./where";

interface Properties {
  collection: Stored;
  where: Where | undefined;
  contains: string;
}

export function CopyAs(properties: Properties) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {words.copyAs}
      </button>
      {isOpen && (
        <Dialog title={words.copyAs} close={() => setOpen(false)}>
          <div class="stack">
            {access.value?.keysRequired && <p class="fine">{words.copyHint}</p>}
            <Code title="curl" code={curlOf(properties)} />
            <Code title="Python" code={pythonOf(properties)} />
            <p class="row">
              <button type="button" onClick={() => setOpen(false)}>
                {words.close}
              </button>
            </p>
          </div>
        </Dialog>
      )}
    </>
  );
}

function curlOf({ collection, where, contains }: Properties): string {
  const body = { ...(where && { where }), ...(contains && { where_document: { $contains: contains } }), limit: 100 };
  const key = access.value?.keysRequired ? ' \\\n  -H "Authorization: Bearer $RAGSTORE_API_KEY"' : "";
  const url = `${SERVICE}/collections/${encodeURIComponent(raw(collection))}/documents/filter`;
  return `curl -s ${quoted(url)}${key} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
}

function pythonOf({ collection, where, contains }: Properties): string {
  const filters = [
    ...(where ? [`where=${literal(where)}`] : []),
    ...(contains ? [`where_document=${literal({ $contains: contains })}`] : []),
  ];
  const key = access.value?.keysRequired ? ', api_key=os.environ["RAGSTORE_API_KEY"]' : "";
  return [
    ...(key ? ["import os", ""] : []),
    "from ragstore_client import Client",
    "",
    `with Client(${literal(SERVICE)}${key}) as client:`,
    `    for document in client.iter_documents(${[literal(raw(collection)), ...filters].join(", ")}):`,
    "        print(document.id)",
  ].join("\n");
}

/** A JSON value as Python writes it. */
function literal(value: unknown): string {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value as object)
      .map(([key, inner]) => `${literal(key)}: ${literal(inner)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value);
}
