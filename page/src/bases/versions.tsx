/** The versions of a base: their list, the differences of two, and copies. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import { Dialog, FormEnd, Loaded, RoleButton, Table, useAttempts } from "../parts";
import { useResource } from "../resource";
import { go, link } from "../route";
import { gatewayRole } from "../session";
import { formatted, words } from "../words";
import { momentOf, readBase, readStates, totalOf, versionOf, type Base } from "./calls";
import { ChangesTable, changesOf } from "./changes";
import { say } from "./words";

const PAGE = 50;

export function Versions({ base }: { base: Base }) {
  const [page, setPage] = useState(0);
  const [pair, setPair] = useState<[number, number]>([Math.max(base.version - 1, 1), base.version]);
  const [copied, setCopied] = useState<number>();
  const hasOlder = base.version > 1;
  const versions = useResource(`versions ${page}`, async (signal) => {
    const options = { path: { id: base.id }, query: { index: page, limit: PAGE }, signal };
    return (await gateway("get", "/ragstore/rags/{id}/versions", options)).value;
  });
  return (
    <div class="scroll stack">
      <Loaded
        of={versions}
        draw={({ versions: rows, total }) => (
          <section class="stack tight" aria-label={say.versionsLabel(total)}>
            <h2>{say.versionsLabel(total)}</h2>
            <Table label={say.versionsLabel(total)} titles={[words.version, say.written, ...(hasOlder ? [say.older, say.newer] : []), say.duplicate]}>
              {rows.map(({ version, createdOn }) => (
                <tr key={version}>
                  <th scope="row">
                    {formatted(version)} {version === base.version && <span class="fine">{say.current}</span>}
                  </th>
                  <td>{momentOf(createdOn)}</td>
                  {hasOlder &&
                    ([0, 1] as const).map((side) => (
                      <td key={side}>
                        <input
                          type="radio"
                          name={`version-${side}`}
                          aria-label={`${side === 0 ? say.older : say.newer}: ${say.version(version)}`}
                          checked={pair[side] === version}
                          onChange={() => setPair(side === 0 ? [version, pair[1]] : [pair[0], version])}
                        />
                      </td>
                    ))}
                  <td>
                    <RoleButton role={gatewayRole.value} needs="admin" label={say.duplicateVersion(version)} onClick={() => setCopied(version)} />
                  </td>
                </tr>
              ))}
            </Table>
            {total > PAGE && (
              <p class="row">
                <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>
                  {say.newerPage}
                </button>
                <button type="button" disabled={(page + 1) * PAGE >= total} onClick={() => setPage(page + 1)}>
                  {say.olderPage}
                </button>
              </p>
            )}
          </section>
        )}
      />
      {hasOlder && <Difference id={base.id} pair={pair} />}
      {copied !== undefined && <Copy base={base} version={copied} close={() => setCopied(undefined)} />}
    </div>
  );
}

function Difference({ id, pair: [older, newer] }: { id: string; pair: [number, number] }) {
  const both = useResource(`${older} ${newer}`, (signal) =>
    Promise.all([readBase(id, older, signal), readBase(id, newer, signal)]),
  );
  return (
    <section class="stack tight" aria-label={say.compare}>
      <h2>
        {say.version(older)} / {say.version(newer)}
      </h2>
      <Loaded
        of={both}
        draw={([before, after]) => {
          const changes = changesOf(before.body, after.body);
          if (changes.length === 0) return <p class="fine">{say.same}</p>;
          return <ChangesTable of={changes} titles={[`${say.older}: ${formatted(older)}`, `${say.newer}: ${formatted(newer)}`]} />;
        }}
      />
    </section>
  );
}

const COPY_SECONDS = 120;

function Copy({ base, version, close }: { base: Base; version: number; close: () => void }) {
  const [withDocuments, setWithDocuments] = useState(false);
  const attempts = useAttempts();
  const states = useResource("copy", (signal) => readStates(base.id, signal));
  const isExisting = Boolean((base.body.storeParameters as Record<string, unknown>)["collection"]);
  async function copy(): Promise<void> {
    const { resource } = await gateway("post", "/ragstore/rags/{id}", {
      path: { id: base.id },
      query: { version, documents: withDocuments },
      seconds: COPY_SECONDS,
    });
    close();
    go(link(["bases", versionOf(resource).id]));
  }
  return (
    <Dialog title={say.duplicateVersion(version)} close={close}>
      <form onSubmit={(event) => void attempts.run(copy, event)}>
        <p>{say.duplicateHint}</p>
        {!isExisting && (
          <label class="row">
            <input type="checkbox" checked={withDocuments} onChange={(event) => setWithDocuments(event.currentTarget.checked)} />
            {say.withDocuments(states.data ? words.countLabel(totalOf(states.data)) : words.allItsDocuments)}
          </label>
        )}
        <FormEnd action={say.duplicate} of={attempts} close={close} />
      </form>
    </Dialog>
  );
}
