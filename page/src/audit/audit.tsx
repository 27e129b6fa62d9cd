/** The area Audit: the ledger of replies, its verification, and the conversations with what was retrieved for them. */
import { h, type Child } from "../jsx";
import { Empty } from "../parts";
import { link, route } from "../route";
import { access, gatewayRole } from "../session";
import { words } from "../words";
import { Conversations } from "./conversations";
import { Conversation } from "./conversation";
import { Entries } from "./entries";
import { Verification } from "./verification";
import { say } from "./words";

const TABS = ["entries", "conversations", "verification"] as const;

/** Whether the key reads the ledger, which has the retrievals from all bases. */
function readsLedger(): boolean {
  const key = access.value?.key;
  return gatewayRole.value === "admin" && !(key && "gateway" in key && key.gateway?.bases);
}

export default function Audit() {
  const isAuditor = readsLedger();
  const [, given, id] = route.value.path;
  const tab = given ?? (isAuditor ? "entries" : "conversations");
  return (
    <div class="screen">
      <div class="screen-head">
        <h1>{words.audit}</h1>
        <p class="fine">{isAuditor ? say.hint : say.ownHint}</p>
      </div>
      {isAuditor && (
        <nav class="tabs" aria-label={words.audit}>
          {TABS.map((path) => (
            <a key={path} href={link(["audit", path])} aria-current={path === tab ? "page" : undefined}>
              {say.tabs[path]}
            </a>
          ))}
        </nav>
      )}
      <div class="screen-body">{bodyOf(tab, id, isAuditor)}</div>
    </div>
  );
}

function bodyOf(tab: string, id: string | undefined, isAuditor: boolean): Child {
  if (tab === "conversations") return id === undefined ? <Conversations /> : <Conversation key={id} id={id} isAuditor={isAuditor} />;
  if (isAuditor && tab === "entries") return <Entries />;
  if (isAuditor && tab === "verification") return <Verification />;
  return <Empty of={[isAuditor ? words.notFound : say.needsAuditor, ""]} />;
}
