/** The frame of the page: the rail of areas, sign-in, and the area of the current address. */
import { useEffect } from "preact/hooks";
import type { VNode } from "preact";
import { h } from "./jsx";
import { Bones, Later, NoScreen, Problem, SkipLink } from "./parts";
import { drawn } from "./drawing";
import { nextAttempt } from "./resource";
import { go, link, route } from "./route";
import { access, gatewayRole, session, signOut, start, storeRole, whenSignedOut } from "./session";
import { SignInForm } from "./sign_in";
import { Stored } from "./stored";
import { words } from "./words";

type View = () => VNode;

interface Area {
  name: string;
  title: string;
  /** Whether the caller may use it. */
  isOpen: () => boolean;
  load: () => Promise<{ default: View }>;
}

const AREAS: Area[] = [
  {
    name: "ask",
    title: words.ask,
    isOpen: () => gatewayRole.value !== undefined,
    load: () => import("./ask/ask"),
  },
  {
    name: "compare",
    title: words.compare,
    isOpen: () => gatewayRole.value !== undefined,
    load: () => import("./compare/compare"),
  },
  {
    name: "questions",
    title: words.questions,
    isOpen: () => gatewayRole.value !== undefined,
    load: () => import("./questions/questions"),
  },
  {
    name: "bases",
    title: words.bases,
    isOpen: () => gatewayRole.value !== undefined,
    load: () => import("./bases/bases"),
  },
  {
    name: "collections",
    title: words.collections,
    isOpen: () => storeRole.value !== undefined,
    load: () => import("./collections/collections"),
  },
  {
    name: "audit",
    title: words.audit,
    isOpen: () => gatewayRole.value !== undefined,
    load: () => import("./audit/audit"),
  },
  {
    name: "health",
    title: words.health,
    isOpen: () => (access.value?.service === "ragstore" ? storeRole.value : gatewayRole.value) !== undefined,
    load: () => import("./health/health"),
  },
];

function Page() {
  const found = session.value;
  const failed = found.state === "failed" ? found : undefined;
  useEffect(() => {
    const nextAt = failed && nextAttempt(failed.failure);
    if (nextAt === undefined) return undefined;
    const timer = setTimeout(() => void start(), nextAt - Date.now());
    return () => clearTimeout(timer);
  }, [failed]);
  if (found.state === "starting") return <Bones />;
  if (found.state === "failed") {
    return (
      <main class="alone">
        <h1>ragstore</h1>
        <Problem failure={found.failure} nextAt={nextAttempt(found.failure)} retry={() => void start()} />
      </main>
    );
  }
  if (found.state === "signed-out") return <SignIn reason={found.reason} />;
  return <Frame />;
}

function SignIn({ reason }: { reason: string }) {
  return (
    <main class="alone">
      <h1>ragstore</h1>
      <SignInForm reason={reason} />
    </main>
  );
}

function Frame() {
  const open = AREAS.filter((area) => area.isOpen());
  const name = route.value.path[0];
  const current = AREAS.find((area) => area.name === name);
  const first = open[0];
  useEffect(() => {
    // The address may have changed since the last render.
    if (!name && first && !location.hash.replace(/^#\/?/u, "")) go(link([first.name]), { replace: true });
  }, [name, first]);
  useEffect(() => {
    document.title = current ? words.titleOf(current.title) : "ragstore";
  }, [current]);
  return (
    <div class="frame">
      <SkipLink />
      <Rail open={open} current={name} />
      <main id="main" class="main" tabIndex={-1}>
        {open.length === 0 && <NoScreen of={words.noRights} />}
        {open.length > 0 && current && !current.isOpen() && (
          <NoScreen of={[words.noRightsFor(current.title), access.value?.store === "remote" ? words.needsStore : ""]} />
        )}
        {open.length > 0 && name !== undefined && !current && <NoScreen of={[words.notFound, ""]} />}
        {current?.isOpen() && <Later key={current.name} load={current.load} properties={{}} />}
      </main>
    </div>
  );
}

function Rail({ open, current }: { open: Area[]; current: string | undefined }) {
  const found = access.value;
  return (
    <header class="rail">
      <p class="brand">
        <span class="brand-name">{found?.service === "ragstore-gateway" ? "ragstore gateway" : "ragstore"}</span>{" "}
        <span class="fine">{found && <Stored value={found.version} />}</span>
      </p>
      <nav aria-label={words.areas}>
        {open.map((area) => (
          <a key={area.name} href={link([area.name])} aria-current={area.name === current ? "page" : undefined}>
            {area.title}
          </a>
        ))}
        <a href="../docs" class="elsewhere">
          {words.apiDocs}
        </a>
      </nav>
      <div class="caller">
        {found?.key ? (
          <span class="caller-name">
            <Stored value={found.key.name} />
          </span>
        ) : (
          <span class="fine">{words.noKeysNeeded}</span>
        )}
        {found?.key && (
          <button type="button" onClick={signOut}>
            {words.signOut}
          </button>
        )}
      </div>
    </header>
  );
}

// The address may name what the next caller may not see.
whenSignedOut(() => {
  if (location.hash) go("#/", { replace: true });
});
drawn(() => <Page />);
// The code of the area is loaded while the service describes itself. A failure is shown where the area is drawn. Without an
// area in the address, the first one depends on the service.
AREAS.find((area) => area.name === route.value.path[0])?.load().catch(() => undefined);
void start();
