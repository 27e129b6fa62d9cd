/** The document of a passage beside the chat, with the passage marked. */
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Fragment, h } from "../jsx";
import { gateway } from "../api";
import { CodePoints } from "../bases/code_points";
import { MarkedText, type Span } from "../bases/marked_text";
import { WebLink } from "../markdown";
import { Bones, Problem } from "../parts";
import { useResource } from "../resource";
import { link } from "../route";
import { gatewayRole, includes } from "../session";
import { mark, raw, Stored } from "../stored";
import { besides, webAddress, type Passage } from "./passages";
import { Facts } from "./passage_list";
import { say } from "./words";
import { words } from "../words";

/** The ends of passages that were cut for the prompt. */
const CUT = /\n\.\.\.\n?$/u;

interface Properties {
  passage: Passage;
  /** All passages of the reply. */
  all: Passage[];
  close: () => void;
}

export function Beside({ passage, all, close }: Properties) {
  const panel = useRef<HTMLElement>(null);
  // Before the next frame: a key that is pressed meanwhile is for the panel.
  useLayoutEffect(() => panel.current?.focus(), [passage]);
  useLayoutEffect(() => {
    function onKey(event: KeyboardEvent): void {
      if (event.key === "Escape") close();
    }
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const address = webAddress(passage);
  const { document: name, span, baseId } = passage;
  return (
    <aside ref={panel} class="panel" aria-label={say.beside} tabIndex={-1}>
      <div class="panel-head">
        <h2>
          [{passage.number}] <Stored value={passage.title} max={600} />
        </h2>
        <button type="button" class="bare" onClick={close} aria-label={words.close}>
          ×
        </button>
      </div>
      <Facts of={passage} />
      {address && (
        <p>
          {say.webAddress}:{" "}
          <WebLink href={address.href} host={address.host}>
            <Stored value={mark(address.href)} max={300} />
          </WebLink>
        </p>
      )}
      {name !== undefined && (
        <p>
          <a href={link(["bases", baseId, "documents", name], span && { span: `${span.start}-${span.end}` })}>{say.wholeDocument}</a>
        </p>
      )}
      <Text key={`${passage.id} ${passage.number}`} passage={passage} all={all} />
    </aside>
  );
}

function Text({ passage, all }: { passage: Passage; all: Passage[] }) {
  const { document: name, span, text, baseId } = passage;
  if (text === undefined) return <p>{say.ofCall}</p>;
  if (name === undefined || !span) return <Passages of={[passage]} chosen={passage} hint={say.noDocument} />;
  const own = besides(passage, all);
  if (!includes(gatewayRole.value, "writer")) return <Passages of={own} chosen={passage} hint={say.passagesOnly} />;
  return <WholeText id={baseId} name={name} span={span} passage={passage} own={own} />;
}

interface WholeProperties {
  id: string;
  name: Stored;
  span: { start: number; end: number };
  passage: Passage;
  own: Passage[];
}

function WholeText({ id, name, span, passage, own }: WholeProperties) {
  const kept = useResource<Stored>(`${id}/${raw(name)}`, async (signal) => {
    const { value } = await gateway("get", "/ragstore/rags/{id}/texts/{name}", { path: { id, name }, signal });
    return value.text;
  });
  const text = kept.data === undefined ? "" : raw(kept.data);
  const chosen = useMemo((): Span => {
    const points = new CodePoints(text);
    return { start: points.utf16(span.start), end: points.utf16(span.end) };
  }, [text, span.start, span.end]);
  if (kept.data === undefined) {
    if (!kept.trouble) return <Bones />;
    return (
      <>
        <Problem failure={kept.trouble.failure} nextAt={kept.trouble.nextAt} retry={kept.reload} />
        <Passages of={own} chosen={passage} hint={say.gone} />
      </>
    );
  }
  // The kept text may be newer than the reply. A passage that was cut for the prompt is the beginning of its span.
  const sent = passage.text === undefined ? "" : raw(passage.text);
  const marked = text.slice(chosen.start, chosen.end);
  if (marked !== sent && !(CUT.test(sent) && marked.startsWith(sent.replace(CUT, "")))) {
    return <Passages of={own} chosen={passage} hint={say.changed} />;
  }
  return <MarkedText value={kept.data} spans={NONE} chosen={chosen} />;
}

const NONE: Span[] = [];

/** Passages in the order of their text, one of them marked. */
function Passages({ of, chosen, hint }: { of: Passage[]; chosen: Passage; hint: string }) {
  return (
    <section class="stack tight" aria-label={say.passages(of.length)}>
      <p class="fine">{hint}</p>
      <div class="marked">
        <div class="text" tabIndex={0}>
          {of.map((each) => (
            <p key={each.id} class="passage beside-passage">
              {each === chosen ? <mark>{each.text !== undefined && <Stored value={each.text} lines />}</mark> : each.text !== undefined && <Stored value={each.text} lines />}
            </p>
          ))}
        </div>
      </div>
    </section>
  );
}
