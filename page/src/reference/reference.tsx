/** The API reference: the operations of the OpenAPI document of the service, and a form for each of them. */
import { useEffect, useRef, useState } from "preact/hooks";
import { gateway, ROOT } from "../api";
import { Fragment, h } from "../jsx";
import { Markdown } from "../markdown";
import { Dialog, Empty, Loaded, NoScreen, SkipLink } from "../common_parts";
import { drawn } from "../drawing";
import { useResource } from "../resource";
import { go, link, route } from "../route";
import { access, session, signOut, start } from "../session";
import { SignInForm } from "../sign_in";
import { mark, plain, raw, Stored } from "../stored";
import { words } from "../common_words";
import { matching, readReference, type Reference, type Tag } from "./document";
import { Method, OperationView } from "./operation";
import { say } from "./words";

function Page() {
  const found = useResource("document", readReference);
  // Once it is read, it stays: it changes only with the version of the service.
  if (found.data) return <Frame reference={found.data} />;
  return (
    <main class="alone">
      <h1>{words.apiDocs}</h1>
      <Loaded of={found} draw={() => null} />
    </main>
  );
}

function Frame({ reference }: { reference: Reference }) {
  const [searched, setSearched] = useState("");
  const { path } = route.value;
  // Addresses of earlier versions have the tag before the operation.
  const operation = path.map((each) => reference.find(each)).find((each) => each !== undefined);
  const tags = matching(reference.tags, searched);
  const title = raw(reference.info.title);
  useEffect(() => {
    document.title = operation ? `${raw(operation.summary ?? operation.operationId)}, ${title}` : title;
  }, [operation, title]);
  const id = operation && raw(operation.operationId);
  const before = useRef(id);
  useEffect(() => {
    // At the start, the focus is where the browser puts it.
    if (before.current !== id) document.querySelector<HTMLElement>("#main h1")?.focus();
    before.current = id;
  }, [id]);
  function openFirst(event: Event): void {
    event.preventDefault();
    const first = tags[0]?.operations[0];
    if (searched && first) go(link([first.operationId]));
  }
  return (
    <div class={operation ? "frame reference chosen" : "frame reference"}>
      <SkipLink />
      <header class="rail">
        <Brand reference={reference} />
        <form role="search" class="find" onSubmit={openFirst}>
          <label class="field">
            <span>{say.find}</span>
            <input type="search" value={searched} autocomplete="off" onInput={(event) => setSearched(event.currentTarget.value)} />
          </label>
        </form>
        <nav aria-label={say.operations}>
          <List of={tags} current={operation?.operationId} />
        </nav>
        <Caller />
      </header>
      <main id="main" class="main" tabIndex={-1}>
        {operation && <OperationView key={id ?? ""} reference={reference} operation={operation} />}
        {!operation && path.length > 0 && <NoScreen of={say.noOperation} />}
        {!operation && <Overview reference={reference} tags={tags} />}
      </main>
    </div>
  );
}

function Brand({ reference }: { reference: Reference }) {
  const info = useResource("info", (signal) => gateway("get", "/", { signal }));
  return (
    <p class="brand">
      <a href={link([])} class="brand-name">
        <Stored value={reference.info.title} />
      </a>{" "}
      <span class="fine">
        <Stored value={reference.info.version} />
      </span>
      {info.data && "page" in info.data.value.links && (
        <a href={new URL("ui/", ROOT).href} class="elsewhere">
          {say.page}
        </a>
      )}
    </p>
  );
}

/** The operations by tag: in the navigation by their summary, in the overview with their paths. */
function List({ of: tags, current }: { of: Tag[]; current?: Stored | undefined }) {
  return (
    <>
      {tags.map((tag) => (
        <div key={raw(tag.name)}>
          <h2>
            <Stored value={tag.name} />
          </h2>
          <Links of={tag} current={current} />
        </div>
      ))}
    </>
  );
}

function Links({ of: tag, current, paths = false }: { of: Tag; current?: Stored | undefined; paths?: boolean }) {
  return (
    <ul class="operations">
      {tag.operations.map((each) => (
        <li key={raw(each.operationId)}>
          <a href={link([each.operationId])} aria-current={each.operationId === current ? "page" : undefined}>
            <Method of={each.method} />
            {paths && (
              <code>
                <Stored value={each.path} />
              </code>
            )}
            <span>
              <Stored value={each.summary ?? each.operationId} />
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Overview({ reference, tags }: { reference: Reference; tags: Tag[] }) {
  return (
    <div class="overview stack">
      <h1 tabIndex={-1}>
        <Stored value={reference.info.title} /> <Stored value={reference.info.version} />
      </h1>
      {reference.info.description !== undefined && <Markdown text={raw(reference.info.description)} />}
      <p>
        <a href={new URL("openapi.json", ROOT).href}>{say.document}</a>
      </p>
      {tags.length === 0 && <Empty of={say.nothingFound} />}
      {tags.map((tag) => (
        <section key={raw(tag.name)} aria-label={plain(tag.name)}>
          <h2>
            <Stored value={tag.name} />
          </h2>
          {tag.description !== undefined && <Markdown text={raw(tag.description)} />}
          <Links of={tag} paths />
        </section>
      ))}
    </div>
  );
}

/** The name of the key, or the way to send one. */
function Caller() {
  const [isOpen, setOpen] = useState(false);
  const found = session.value;
  useEffect(() => {
    if (found.state !== "signed-out") setOpen(false);
  }, [found]);
  if (found.state === "signed-out") {
    return (
      <div class="caller">
        {found.reason && !isOpen && (
          <span class="message" role="status">
            <Stored value={mark(found.reason)} />
          </span>
        )}
        <button type="button" onClick={() => setOpen(true)}>
          {words.signIn}
        </button>
        {isOpen && (
          <Dialog title={words.signIn} close={() => setOpen(false)}>
            <SignInForm reason={found.reason} />
          </Dialog>
        )}
      </div>
    );
  }
  const key = access.value?.key;
  return (
    <div class="caller">
      {key && (
        <>
          <span class="caller-name">
            <Stored value={key.name} />
          </span>
          <button type="button" onClick={signOut}>
            {words.signOut}
          </button>
        </>
      )}
      {access.value && !key && <span class="fine">{words.noKeysNeeded}</span>}
    </div>
  );
}

drawn(() => <Page />);
void start();
