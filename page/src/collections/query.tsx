/** A similarity query: by a text, by a document of the collection, or by a vector. */
import { useState } from "preact/hooks";
import { Fragment, h, type Child } from "../jsx";
import { gateway, store, type Reply } from "../api";
import { Failure } from "../failure";
import { Bones, Empty, FilterText, Timing, useAttempts } from "../parts";
import { useResource } from "../resource";
import { amend } from "../route";
import type { components } from "../schema/store";
import { gatewayRole } from "../session";
import { mark, raw } from "../stored";
import { words } from "../words";
import type { Collection } from "./list";
import { Matches } from "./matches";
import { readDocument, WithDocument } from "./panel";
import { parsedWhere } from "./where";

type Mode = "text" | "document" | "vector";
type Results = Reply<components["schemas"]["QueryResults"]>;

export function Query({ collection }: { collection: Collection }) {
  const { embeds, isLoading } = useEmbedder(collection);
  const [mode, setMode] = useState<Mode>();
  const chosen = mode ?? (embeds ? "text" : "document");
  const [text, setText] = useState("");
  const [where, setWhere] = useState("");
  const [topK, setTopK] = useState("10");
  const [results, setResults] = useState<Results>();
  const { isRunning, problem, run } = useAttempts();

  async function search(): Promise<void> {
    setResults(undefined);
    const filter = parsedWhere(where);
    setResults(
      await store("post", "/collections/{collection_name}/query", {
        path: { collection_name: collection.name },
        body: {
          query_embedding: await embeddingOf(chosen, text, collection),
          top_k: Number(topK),
          ...(filter && { where: filter }),
        } as unknown as components["schemas"]["QueryRequest"],
      }),
    );
  }

  return (
    <WithDocument collection={collection.name} kind="list scroll" deleted={() => setResults(undefined)}>
      <form class="stack box" onSubmit={(event) => void run(search, event)}>
        <fieldset class="row">
          <legend class="fine">{words.query}</legend>
          {(["text", "document", "vector"] as const).map((each) => (
            <label key={each} class="row">
              <input
                type="radio"
                name="mode"
                value={each}
                checked={chosen === each}
                disabled={each === "text" && !embeds}
                onChange={() => setMode(each)}
              />
              {{ text: words.byText, document: words.byDocument, vector: words.byVector }[each]}
            </label>
          ))}
        </fieldset>
        {!embeds && !isLoading && (
          <p class="fine">{gatewayRole.value === undefined ? words.noEmbedder : words.modelDiffers}</p>
        )}
        <label class="field">
          <span>{{ text: words.queryText, document: words.queryDocument, vector: words.vectorOf }[chosen]}</span>
          {chosen === "document" ? (
            <input value={text} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} />
          ) : (
            <textarea value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
          )}
        </label>
        <div class="form-row">
          <label class="field">
            <span>{words.number}</span>
            <input
              type="number"
              min={1}
              max={1000}
              value={topK}
              onInput={(event) => setTopK(event.currentTarget.value)}
            />
          </label>
          <button type="submit" class="primary" disabled={!text.trim() || isRunning}>
            {words.run}
          </button>
        </div>
        <details>
          <summary>{words.filterJson}</summary>
          <FilterText value={where} onText={setWhere} />
        </details>
      </form>
      {isRunning && <Bones />}
      {problem}
      {results && <Outcome of={results} collection={collection} />}
    </WithDocument>
  );
}

function Outcome({ of: { value, timing }, collection }: { of: Results; collection: Collection }) {
  const { results } = value;
  return (
    <section class="stack tight" aria-label={words.results}>
      <div class="spread">
        <h2>{words.resultsLabel(results.length)}</h2>
        <Timing of={timing} />
      </div>
      {results.length === 0 ? (
        <Empty of={words.noResults} />
      ) : (
        <>
          <p class="fine">
            {words.score}: {words.scoreScale[collection.distance]}
          </p>
          <Matches
            of={results}
            scale={words.scoreScale[collection.distance]}
            open={(match) => amend({ id: match.id })}
          />
        </>
      )}
    </section>
  );
}

/** Whether the gateway's model made the vectors of a collection, so that it embeds texts for it. */
export function useEmbedder(collection: Collection): { embeds: boolean; isLoading: boolean } {
  const { data: model, isLoading } = useResource("model", async (signal) => {
    if (gatewayRole.value === undefined) return undefined;
    return (await gateway("get", "/health", { signal })).value.model;
  });
  const own = collection.metadata["embedding_model"];
  return { embeds: model !== undefined && own !== undefined && (own as unknown as string) === raw(model), isLoading };
}

/** The embedding of a text, of a document of the collection, or of a vector as JSON. */
export async function embeddingOf(mode: Mode, text: string, collection: Collection): Promise<unknown> {
  if (mode === "text") {
    const { value } = await gateway("post", "/embed", { body: { inputs: [text], normalize: true, kind: "query" } });
    return value.vectors[0];
  }
  if (mode === "document") {
    const found = await readDocument(collection.name, mark(text.trim()));
    if (!found) throw new Failure(mark(words.noDocument[0]), mark(words.noDocument[1]), 404);
    return found.embedding;
  }
  const numbers = listOf(text);
  if (!numbers) throw new Failure(mark(words.notVector), undefined, 400);
  return numbers;
}

function listOf(text: string): number[] | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return Array.isArray(value) && value.every((each) => typeof each === "number") ? value : undefined;
  } catch {
    return undefined;
  }
}
