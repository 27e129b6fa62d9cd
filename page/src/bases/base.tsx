/** One knowledge base: its facts, and its tabs. */
import { h, type Child } from "../jsx";
import { Bones, Empty, Problem, StaleStrip } from "../parts";
import { useResource, type Resource } from "../resource";
import { link } from "../route";
import { Stored } from "../stored";
import { formatted, words } from "../words";
import { readBase, word, type Base } from "./calls";
import { Documents } from "./documents";
import { Sources } from "./sources";
import { Settings } from "./settings";
import { Try } from "./try";
import { Versions } from "./versions";
import { say } from "./words";

const TABS = ["documents", "try", "settings", "sources", "versions"] as const;

export function BaseView({ id, tab }: { id: string; tab: string }) {
  const base = useResource("base", (signal) => readBase(id, undefined, signal));
  return (
    <div class="screen">
      <div class="screen-head">
        <p class="crumbs">
          <a href={link(["bases"])}>{words.bases}</a>
        </p>
        <h1>{base.data ? <Stored value={base.data.body.name} /> : say.base}</h1>
        {base.data && <Facts of={base.data} />}
      </div>
      <nav class="tabs" aria-label={say.base}>
        {TABS.map((path) => (
          <a key={path} href={link(["bases", id, path])} aria-current={path === tab ? "page" : undefined}>
            {say.tabs[path]}
          </a>
        ))}
      </nav>
      {base.data && base.trouble && <StaleStrip trouble={base.trouble} loadedAt={base.loadedAt} retry={base.reload} />}
      <div class="screen-body">{bodyOf(base, tab)}</div>
    </div>
  );
}

function bodyOf({ data, trouble, reload }: Resource<Base>, tab: string): Child {
  if (!data) {
    if (!trouble) return <Bones />;
    return <Problem failure={trouble.failure} nextAt={trouble.nextAt} retry={reload} />;
  }
  if (tab === "documents") return <Documents base={data} />;
  if (tab === "try") return <Try base={data} />;
  if (tab === "settings") return <Settings key={data.version} base={data} changed={reload} />;
  if (tab === "sources") return <Sources key={data.version} base={data} changed={reload} />;
  if (tab === "versions") return <Versions base={data} />;
  return <Empty of={[words.notFound, ""]} />;
}

function Facts({ of: { version, body } }: { of: Base }) {
  const model = (body.embeddingParameters as Record<string, unknown>)["model"];
  return (
    <p class="facts">
      <span>{say.version(version)}</span>
      <span>{say.chunksOf(body.chunkStrategy ?? "", formatted(body.chunkSize ?? 0), body.chunkUnit ?? "")}</span>
      <span>
        {words.embeddingModel} {body.embeddingProvider}
        {typeof model === "string" && " "}
        {typeof model === "string" && <Stored value={word(model)} max={200} />}
      </span>
    </p>
  );
}
