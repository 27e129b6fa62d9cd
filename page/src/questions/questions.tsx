/** The area Questions: the list of question sets, a new one, and one of them with its runs. */
import { h } from "../jsx";
import { listBases, momentOf, type Named } from "../bases/calls";
import { Empty, Loaded, RoleButton, Table } from "../parts";
import { useResource } from "../resource";
import { go, link, route } from "../route";
import { gatewayRole } from "../session";
import { mark, Stored } from "../stored";
import { words } from "../words";
import { listSets } from "./sets";
import { SetView } from "./set";
import { say } from "./words";

export default function Questions() {
  const [, id, tab, run] = route.value.path;
  if (id === undefined) return <SetList />;
  return <SetView key={id} id={id === "new" ? "" : id} tab={tab ?? ""} run={run} />;
}

function SetList() {
  const listed = useResource("sets", (signal) => Promise.all([listSets(signal), listBases("", signal)]));
  return (
    <div class="screen">
      <div class="screen-head">
        <div class="spread">
          <h1>{words.questions}</h1>
          <RoleButton role={gatewayRole.value} needs="admin" label={say.create} kind="primary" onClick={() => go(link(["questions", "new"]))} />
        </div>
      </div>
      <div class="scroll">
        <Loaded of={listed} draw={([sets, bases]) => (sets.length === 0 ? <Empty of={say.none} /> : <Sets of={sets} bases={bases} />)} />
      </div>
    </div>
  );
}

function Sets({ of, bases }: { of: Named[]; bases: Named[] }) {
  const names = new Map(bases.map((each) => [each.id, each.name]));
  return (
    <Table label={words.questions} titles={[words.name, say.base, say.description, say.changed]}>
      {of.map(({ id, name, base, description, changed }) => (
        <tr key={id}>
          <th scope="row">
            <a href={link(["questions", id])}>
              <Stored value={name} />
            </a>
          </th>
          <td>
            <Stored value={names.get(base) ?? mark(base)} />
          </td>
          <td>
            <Stored value={description} max={300} />
          </td>
          <td>{momentOf(changed)}</td>
        </tr>
      ))}
    </Table>
  );
}
