/** A question, or a document, to show among its neighbours on the map. */
import { useState } from "preact/hooks";
import { Fragment, h } from "../../jsx";
import { store } from "../../api";
import { useAttempts } from "../../parts";
import type { components } from "../../schema/store";
import { raw } from "../../stored";
import type { Collection } from "../list";
import { embeddingOf, useEmbedder } from "../query";
import type { Where } from "../where";
import { say } from "./words";

const NEAREST = 15;
/** Results that are searched for documents of a map that has a part of the collection. */
const SEARCHED = 1000;

interface Properties {
  collection: Collection;
  where: Where | undefined;
  /** The points of ids. */
  places: Map<string, number>;
  isWhole: boolean;
  /** Called with the points that are nearest, nearest first. */
  show: (near: number[]) => void;
}

export function Question({ collection, where, places, isWhole, show }: Properties) {
  const { embeds } = useEmbedder(collection);
  const [text, setText] = useState("");
  const { isRunning, problem, run } = useAttempts();
  async function search(): Promise<void> {
    const { value } = await store("post", "/collections/{collection_name}/query", {
      path: { collection_name: collection.name },
      body: {
        query_embedding: await embeddingOf(embeds ? "text" : "document", text, collection),
        top_k: isWhole ? NEAREST : SEARCHED,
        exclude: ["text"],
        ...(where && { where }),
      } as unknown as components["schemas"]["QueryRequest"],
    });
    show(value.results.flatMap(({ id }) => places.get(raw(id)) ?? []).slice(0, NEAREST));
  }
  return (
    <>
      <form class="row" onSubmit={(event) => void run(search, event)}>
        <label class="row">
          <span class="fine">{embeds ? say.question : say.documentId}</span>
          <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={!text.trim() || isRunning}>
          {say.show}
        </button>
      </form>
      {problem}
    </>
  );
}
