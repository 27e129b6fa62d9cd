/** The conversations that the key may see, by their last steps. */
import { h } from "../jsx";
import { gateway } from "../api";
import { momentOf } from "../bases/calls";
import { Empty, Loaded, Table } from "../parts";
import { useResource } from "../resource";
import { amend, link, route } from "../route";
import { raw, Stored } from "../stored";
import { formatted, words } from "../words";
import { say } from "./words";

const PAGE = 50;

export function Conversations() {
  const after = Number(route.value.query.get("after") ?? "") || 0;
  const found = useResource(`conversations ${after}`, async (signal) => (await gateway("get", "/conversations", { query: { after, limit: PAGE }, signal })).value);
  const titles = [say.fields.conversation, say.lastStep, say.firstStep, words.key, say.fields.assistant, say.steps];
  return (
    <div class="scroll stack">
      <Loaded
        of={found}
        draw={({ conversations, next }) => (
          <div class="stack tight">
            {conversations.length === 0 ? (
              <Empty of={say.noConversation} />
            ) : (
              <Table label={say.tabs.conversations} titles={titles} numbers={[say.steps]}>
                {conversations.map((each) => (
                  <tr key={raw(each.conversationId)}>
                    <th scope="row">
                      <a href={link(["audit", "conversations", each.conversationId])}>
                        <Stored value={each.conversationId} max={60} />
                      </a>
                    </th>
                    <td>{momentOf(each.lastStepOn)}</td>
                    <td>{momentOf(each.firstStepOn)}</td>
                    <td>
                      <Stored value={each.key} max={60} />
                    </td>
                    <td>
                      <Stored value={each.assistant} max={60} />
                    </td>
                    <td class="n">{formatted(each.steps)}</td>
                  </tr>
                ))}
              </Table>
            )}
            <p class="row">
              <button type="button" disabled={after === 0} onClick={() => amend({ after: undefined })}>
                {say.newest}
              </button>
              <button type="button" disabled={!next} onClick={() => amend({ after: String(next) })}>
                {say.older}
              </button>
              <button type="button" onClick={found.reload}>
                {say.reload}
              </button>
            </p>
          </div>
        )}
      />
    </div>
  );
}
