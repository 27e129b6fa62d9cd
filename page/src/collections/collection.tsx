/** One collection: its facts, and the tabs Documents, Query, Map and Settings. */
import { useEffect } from "preact/hooks";
import { h, type Child } from "../jsx";
import { store } from "../api";
import { Bones, Empty, Later, Problem, StaleStrip } from "../parts";
import { useResource, type Resource } from "../resource";
import { link } from "../route";
import { Stored } from "../stored";
import { formatted, words } from "../words";
import { baseOf, readBases } from "./bases";
import { Documents } from "./documents";
import type { Collection } from "./list";
import { valueText } from "./metadata";
import { Query } from "./query";
import { Settings } from "./settings";

const loadMap = () => import("./map/map");

const TABS = [
  ["documents", words.documents],
  ["query", words.query],
  ["map", words.map],
  ["settings", words.settings],
] as const;

export function CollectionView({ name, tab }: { name: Stored; tab: string }) {
  const collection = useResource("collection", async (signal) => {
    const options = { path: { collection_name: name }, signal };
    return (await store("get", "/collections/{collection_name}", options)).value;
  });
  useEffect(() => void readBases(), []);
  const base = baseOf(name);
  return (
    <div class="screen">
      <div class="screen-head">
        <p class="crumbs">
          <a href={link(["collections"])}>{words.collections}</a>
        </p>
        <h1>
          <Stored value={base ?? name} />
        </h1>
        <Facts of={collection} name={base && name} />
      </div>
      <nav class="tabs" aria-label={words.collection}>
        {TABS.map(([path, title]) => (
          <a key={path} href={link(["collections", name, path])} aria-current={path === tab ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {collection.data && collection.trouble && (
        <StaleStrip trouble={collection.trouble} loadedAt={collection.loadedAt} retry={collection.reload} />
      )}
      <div class="screen-body">{bodyOf(collection, name, tab)}</div>
    </div>
  );
}

function bodyOf(collection: Resource<Collection>, name: Stored, tab: string): Child {
  const { data, trouble, reload } = collection;
  // A collection that does not exist has no tabs; one whose facts cannot be read may still have documents.
  if (!data && trouble) return <Problem failure={trouble.failure} nextAt={trouble.nextAt} retry={reload} />;
  if (tab === "documents") return <Documents collection={name} changed={reload} />;
  if (!data) return <Bones />;
  if (tab === "query") return <Query collection={data} />;
  if (tab === "map") return <Later load={loadMap} properties={{ collection: data, changed: reload }} />;
  if (tab === "settings") return <Settings collection={data} changed={reload} />;
  return <Empty of={[words.notFound, ""]} />;
}

function Facts({ of, name }: { of: Resource<Collection>; name: Stored | undefined }) {
  const data = of.data;
  if (!data) return <p class="facts" />;
  const model = data.metadata["embedding_model"];
  return (
    <p class="facts">
      {name && (
        <span class="mono">
          <Stored value={name} />
        </span>
      )}
      {data.count !== null && <span>{words.countLabel(data.count)}</span>}
      {data.dimension !== null && (
        <span>
          {words.dimension} {formatted(data.dimension)}
        </span>
      )}
      <span>
        {words.distance} {data.distance}
      </span>
      {model !== undefined && (
        <span>
          {words.embeddingModel} <Stored value={valueText(model)} max={200} />
        </span>
      )}
    </p>
  );
}
