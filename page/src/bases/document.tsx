/** A document of a base: its state, its text with the chunks marked, and another chunking beside it. */
import { useMemo, useRef, useState } from "preact/hooks";
import { Fragment, h, type Child } from "../jsx";
import { gateway } from "../api";
import { Bones, Confirm, Empty, Loaded, NoScreen, RoleButton, useAttempts } from "../parts";
import { usePolling, useResource, type Resource } from "../resource";
import { amend, go, link, route } from "../route";
import { gatewayRole, includes } from "../session";
import { raw, Stored } from "../stored";
import { size, words } from "../words";
import { readBase, readChunks, type Base, type Chunk, type Chunking, type Entry } from "./calls";
import { ChunkList } from "./chunk_list";
import { CodePoints } from "./code_points";
import { cancelIngestion, StateOf } from "./documents";
import { MarkedText, type Span } from "./marked_text";
import { ChunkingForm } from "./chunking_form";
import { uploadsOf } from "./uploads";
import { say } from "./words";

interface Found {
  entry: Entry;
  base: Base;
}

export function DocumentView({ id, name }: { id: string; name: Stored }) {
  const found = useResource<Found>("document", async (signal) => {
    const [{ value: entry }, base] = await Promise.all([
      gateway("get", "/ragstore/rags/{id}/documents/{name}", { path: { id, name }, signal }),
      readBase(id, undefined, signal),
    ]);
    return { entry, base };
  });
  const { data, trouble, reload } = found;
  const isUnfinished = data !== undefined && ["pending", "processing"].includes(raw(data.entry.status));
  usePolling(isUnfinished, reload);
  return (
    <div class="screen">
      <div class="screen-head">
        <p class="crumbs">
          <a href={link(["bases"])}>{words.bases}</a> / <a href={link(["bases", id])}>{data ? <Stored value={data.base.body.name} /> : say.base}</a>
        </p>
        <h1>
          <Stored value={name} max={600} />
        </h1>
        {data && <Facts of={data.entry} />}
        {data && <Actions id={id} entry={data.entry} reload={reload} />}
      </div>
      <div class="screen-body scroll stack">{bodyOf(id, found)}</div>
      {!data && trouble?.failure.status === 404 && <NoScreen of={say.noDocument} />}
    </div>
  );
}

function bodyOf(id: string, found: Resource<Found>): Child {
  if (found.data === undefined) return <Loaded of={found} draw={() => null} />;
  const { entry, base } = found.data;
  if (!entry.searchable) return <Empty of={[say.textNotYet, ""]} />;
  // Another revision has another text.
  return <TextWithChunks key={raw(entry.hash)} id={id} entry={entry} base={base} />;
}

function Facts({ of }: { of: Entry }) {
  return (
    <p class="facts">
      <StateOf of={of} />
      {of.searchable && <span>{say.chunksLabel(of.chunks)}</span>}
      <span>{size(of.bytes)}</span>
      <span>
        <Stored value={of.type} max={100} />
      </span>
    </p>
  );
}

function Actions({ id, entry, reload }: { id: string; entry: Entry; reload: () => void }) {
  const [asks, setAsks] = useState(false);
  const { problem, run } = useAttempts();
  const status = raw(entry.status);
  const uploads = uploadsOf(id);
  const file = uploads.fileOf(entry.name);
  async function cancel(): Promise<void> {
    await cancelIngestion(id, entry.ingestionId);
    reload();
  }
  return (
    <>
      <p class="row">
        {["pending", "processing"].includes(status) && (
          <RoleButton role={gatewayRole.value} needs="writer" label={say.cancel} onClick={() => void run(cancel)} />
        )}
        {status.startsWith("failed") && file && (
          <RoleButton
            role={gatewayRole.value}
            needs="writer"
            label={say.retry}
            onClick={() => {
              uploads.add([{ name: raw(entry.name), file }]);
              go(link(["bases", id]));
            }}
          />
        )}
        {status.startsWith("failed") && !file && <span class="fine">{say.dropAgain}</span>}
        <RoleButton role={gatewayRole.value} needs="writer" kind="danger" label={say.deleteDocument} onClick={() => setAsks(true)} />
      </p>
      {problem}
      {asks && (
        <Confirm
          title={say.deleteDocument}
          question={say.deleteDocumentQuestion(entry.chunks)}
          action={words.delete}
          close={() => setAsks(false)}
          run={async () => {
            await gateway("delete", "/ragstore/rags/{id}/documents/{name}", { path: { id, name: entry.name } });
            go(link(["bases", id]));
          }}
        />
      )}
    </>
  );
}

function TextWithChunks({ id, entry, base }: { id: string; entry: Entry; base: Base }) {
  const mayRead = includes(gatewayRole.value, "writer");
  const [trial, setTrial] = useState<Chunking>();
  const [isOpen, setOpen] = useState(false);
  const text = useResource<{ text: Stored | undefined }>("text", async (signal) => {
    if (!mayRead) return { text: undefined };
    const options = { path: { id, name: entry.name }, signal };
    return (await gateway("get", "/ragstore/rags/{id}/texts/{name}", options)).value;
  });
  const stored = useResource<Chunk[]>("chunks", (signal) => readChunks(id, entry.name, {}, signal));
  const tried = useResource<Chunk[] | undefined>(JSON.stringify(trial), async (signal) =>
    trial && readChunks(id, entry.name, trial, signal),
  );
  return (
    <>
      <div class="spread">
        <p class="fine">{mayRead ? say.marksHint : say.textNeedsWriter}</p>
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {say.splitDifferently}
        </button>
      </div>
      {isOpen && <ChunkingForm base={base} split={setTrial} failure={tried.trouble?.failure} />}
      <Loaded of={text} draw={(kept) => (
        <div class={trial ? "beside" : ""}>
          <Loaded of={stored} draw={(chunks) => (
            <Version title={trial ? say.stored : ""} text={kept.text} chunks={chunks} notice={differenceOf(entry, chunks, base)} isLinked />
          )} />
          {trial && (tried.data ? <Version title={say.trial} text={kept.text} chunks={tried.data} notice="" /> : !tried.trouble && <Bones />)}
        </div>
      )} />
    </>
  );
}

function differenceOf(entry: Entry, chunks: Chunk[], base: Base): string {
  if (entry.chunks === chunks.length) return "";
  const isExisting = Boolean((base.body.storeParameters as Record<string, unknown>)["collection"]);
  return isExisting ? say.olderChunks(entry.chunks, chunks.length) : say.reindexed(entry.chunks, chunks.length);
}

interface VersionProperties {
  title: string;
  /** Undefined if the caller may not read it. */
  text: Stored | undefined;
  chunks: Chunk[];
  notice: string;
  /** Whether the chosen chunk is in the address. */
  isLinked?: boolean;
}

/** A text with one chunking, beside the list of its chunks. */
function Version({ title, text, chunks, notice, isLinked }: VersionProperties) {
  const points = useMemo(() => new CodePoints(text === undefined ? "" : raw(text)), [text]);
  const all = useMemo(
    () => chunks.map(({ start, end }): Span => ({ start: points.utf16(start), end: points.utf16(end) })),
    [chunks, points],
  );
  // Records of documents, pages and sections contain the chunks.
  const marked = useMemo(() => all.filter((_, at) => isMarked(chunks[at])), [all, chunks]);
  const [own, setOwn] = useState<number>();
  const { query } = route.value;
  const span = isLinked ? spanOf(query.get("span"), points) : undefined;
  const linked = query.has("chunk") ? Number(query.get("chunk")) : undefined;
  const chosen = isLinked ? linked : own;
  const shown = span ?? (chosen === undefined ? undefined : all[chosen]);
  const list = useRef<HTMLDivElement>(null);
  function choose(at: number): void {
    if (isLinked) amend({ chunk: String(at), span: undefined }, { replace: true });
    else setOwn(at);
  }
  return (
    <section class="stack tight version" aria-label={title || say.chunksLabel(chunks.length)}>
      {title && <h2>{title}</h2>}
      <p class="fine">{say.chunksLabel(chunks.length)}</p>
      {notice && <p role="status">{notice}</p>}
      <div class="text-and-chunks">
        {text !== undefined && (
          <MarkedText
            value={text}
            spans={marked}
            chosen={shown}
            choose={(at) => {
              const found = all.findIndex((each, index) => isMarked(chunks[index]) && each.start <= at && at < each.end);
              if (found >= 0) choose(found);
            }}
          />
        )}
        <div ref={list} class="chunk-list">
          <ChunkList id={isLinked ? "chunks" : "tried-chunks"} text={text} chunks={chunks} spans={all} chosen={chosen} choose={choose} />
        </div>
      </div>
    </section>
  );
}

const isMarked = (chunk: Chunk | undefined): boolean => chunk?.layer === undefined || raw(chunk.layer) === "chunk";

function spanOf(given: string | null, points: CodePoints): Span | undefined {
  const found = /^(\d+)-(\d+)$/u.exec(given ?? "");
  return found ? { start: points.utf16(Number(found[1])), end: points.utf16(Number(found[2])) } : undefined;
}
