/** A question, or a document, to show among its neighbours on the map. */
import { useState } from "preact/hooks";
import { Fragment, h } from "../../jsx";
import { store } from "../../api";
import { asFailure, type Failure } from "../../failure";
import { Problem } from "../../parts";
import type { components } from "../../schema/store";
import { raw, type Stored } from "../../stored";
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
  ids: Stored[];
  isWhole: boolean;
  /** Called with the points that are nearest, nearest first. */
  show: (near: number[]) => void;
}

export function Question({ collection, where, ids, isWhole, show }: Properties) {
  const { embeds } = useEmbedder(collection);
  const [text, setText] = useState("");
  const [isRunning, setRunning] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  async function search(event: Event): Promise<void> {
    event.preventDefault();
    setRunning(true);
    setFailure(undefined);
    try {
      const { value } = await store("post", "/collections/{collection_name}/query", {
        path: { collection_name: collection.name },
        body: {
          query_embedding: await embeddingOf(embeds ? "text" : "document", text, collection),
          top_k: isWhole ? NEAREST : SEARCHED,
          exclude: ["text"],
          ...(where && { where }),
        } as unknown as components["schemas"]["QueryRequest"],
      });
      const points = new Map(ids.map((id, point) => [raw(id), point]));
      show(value.results.flatMap(({ id }) => points.get(raw(id)) ?? []).slice(0, NEAREST));
    } catch (error) {
      setFailure(asFailure(error));
    }
    setRunning(false);
  }
  return (
    <>
      <form class="row" onSubmit={(event) => void search(event)}>
        <label class="row">
          <span class="fine">{embeds ? say.question : say.documentId}</span>
          <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={!text.trim() || isRunning}>
          {say.show}
        </button>
      </form>
      {failure && <Problem failure={failure} />}
    </>
  );
}
