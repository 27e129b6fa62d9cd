/** The list of knowledge bases. */
import { useEffect, useState } from "preact/hooks";
import { h } from "../jsx";
import { Grid, type Column } from "../grid";
import { Empty, Loaded, RoleButton } from "../parts";
import { useResource } from "../resource";
import { go, link } from "../route";
import { gatewayRole } from "../session";
import { oneLine, Stored } from "../stored";
import { formatted, words } from "../words";
import { listBases, momentOf, readStates, totalOf, unfinishedOf, type Named, type States } from "./calls";
import { say } from "./words";

const TYPED_MILLISECONDS = 200;

const COLUMNS: Column[] = [
  { title: words.name, kind: "c-name" },
  { title: say.description, kind: "c-text" },
  { title: say.documents, kind: "c-number" },
  { title: say.state, kind: "c-state" },
  { title: say.changed, kind: "c-date" },
];

export function BaseList() {
  const [typed, setTyped] = useState("");
  const [filter, setFilter] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setFilter(typed.trim()), TYPED_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [typed]);
  const bases = useResource(`bases ${filter}`, (signal) => listBases(filter, signal));
  return (
    <div class="screen">
      <div class="screen-head">
        <div class="spread">
          <h1>{words.bases}</h1>
          <label class="row">
            <span class="fine">{say.find}</span>
            <input type="search" value={typed} maxLength={1024} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
          <RoleButton role={gatewayRole.value} needs="admin" label={say.create} kind="primary" onClick={() => go(link(["bases", "new"]))} />
        </div>
      </div>
      <div class="screen-body">
        <Loaded
          of={bases}
          draw={(found) => (found.length === 0 ? <Empty of={filter ? say.noneFound : say.none} /> : <Bases key={filter} of={found} />)}
        />
      </div>
    </div>
  );
}

/** Documents are counted for the visible rows only. */
function Bases({ of }: { of: Named[] }) {
  const [counts] = useState(() => new Map<string, States | undefined>());
  const [, redraw] = useState(0);
  async function count(first: number, last: number): Promise<void> {
    const missing = of.slice(first, last + 1).filter((each) => !counts.has(each.id));
    for (const each of missing) counts.set(each.id, undefined);
    await Promise.all(
      missing.map(async ({ id }) => {
        try {
          counts.set(id, await readStates(id));
        } catch {
          // The row stays without its count.
        }
      }),
    );
    if (missing.length > 0) redraw((round) => round + 1);
  }
  function open(at: number): void {
    const base = of[at];
    if (base) go(link(["bases", base.id]));
  }
  return (
    <Grid
      id="bases"
      label={say.basesLabel(of.length)}
      columns={COLUMNS}
      total={of.length}
      cells={(at) => cellsOf(of[at], counts)}
      onVisible={(first, last) => void count(first, last)}
      onOpen={open}
    />
  );
}

function cellsOf(base: Named | undefined, counts: Map<string, States | undefined>) {
  if (!base) return undefined;
  const states = counts.get(base.id);
  return [
    <span>
      <Stored value={base.name} />
    </span>,
    <span>
      <Stored value={oneLine(base.description, 300)} />
    </span>,
    <span>{states ? formatted(totalOf(states)) : words.notCounted}</span>,
    <span>{states && summaryOf(states)}</span>,
    <span>{momentOf(base.changed)}</span>,
  ];
}

function summaryOf(states: States): string {
  const unfinished = unfinishedOf(states);
  const parts = [
    unfinished > 0 && `${formatted(unfinished)} ${say.states.processing?.toLowerCase()}`,
    states.failed > 0 && `✗ ${formatted(states.failed)} ${say.states.failed?.toLowerCase()}`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : totalOf(states) > 0 ? `✓ ${say.states.completed ?? ""}` : "";
}
