/** What a question is put to: a model that cites, or a base whose passages are shown. */
import { Fragment, h } from "../jsx";
import { gateway } from "../api";
import { listBases, type Named } from "../bases/calls";
import { Problem } from "../parts";
import { useResource, type Resource } from "../resource";
import { amend, route } from "../route";
import { access } from "../session";
import { mark, plain, raw, type Stored } from "../stored";
import { words } from "../words";
import { say } from "./words";
import type { Target } from "./chat";

const PREFIX = "rag/";

export interface Targets {
  models: Resource<Stored[]>;
  bases: Resource<Named[]>;
  chosen: Target | undefined;
}

/** Whether the gateway has a model server. */
export const hasChat = (): boolean => Boolean(access.value && "chat" in access.value && access.value.chat);

export function useTargets(): Targets {
  const models = useResource<Stored[]>("models", async (signal) => {
    if (!hasChat()) return [];
    const { value } = await gateway("get", "/v1/models", { signal });
    const { data } = value as unknown as { data?: { id: Stored }[] };
    return (data ?? []).map((each) => each.id).filter((each) => raw(each).startsWith(PREFIX));
  });
  const bases = useResource("bases", (signal) => listBases("", signal));
  return { models, bases, chosen: chosenOf(models.data, bases.data) };
}

function chosenOf(models: Stored[] | undefined, bases: Named[] | undefined): Target | undefined {
  const { query } = route.value;
  const [model, id] = [query.get("model"), query.get("base")];
  if (model && hasChat()) return { is: "model", name: mark(model) };
  const base = bases?.find((each) => each.id === id);
  if (base) return { is: "base", id: base.id, name: base.name };
  if (models === undefined) return undefined;
  const [first] = models;
  if (first !== undefined) return { is: "model", name: first };
  const [only] = bases ?? [];
  return only && { is: "base", id: only.id, name: only.name };
}

const MODEL = "model ";
const BASE = "base ";

export function TargetChooser({ of: { models, bases, chosen } }: { of: Targets }) {
  const value = chosen && (chosen.is === "model" ? MODEL + raw(chosen.name) : BASE + chosen.id);
  const listed = models.data ?? [];
  // A model of the address may be in no list: the gateway decides.
  const isKnown = chosen?.is !== "model" || listed.some((each) => raw(each) === raw(chosen.name));
  const all = isKnown ? listed : [chosen.name, ...listed];
  function choose(to: string): void {
    if (to.startsWith(MODEL)) amend({ model: to.slice(MODEL.length), base: undefined }, { replace: true });
    else amend({ base: to.slice(BASE.length), model: undefined }, { replace: true });
  }
  return (
      <label class="field">
        <span>{say.target}</span>
        <select value={value ?? ""} disabled={!chosen} onChange={(event) => choose(event.currentTarget.value)}>
          {!chosen && (models.isLoading || bases.isLoading) && <option value="">{words.loading}</option>}
          {all.length > 0 && (
            <optgroup label={say.models}>
              {all.map((each) => (
                <option key={raw(each)} value={MODEL + raw(each)}>
                  {plain(each)}
                </option>
              ))}
            </optgroup>
          )}
          {bases.data && bases.data.length > 0 && (
            <optgroup label={say.basesOnly}>
              {bases.data.map((each) => (
                <option key={each.id} value={BASE + each.id}>
                  {plain(each.name)}
                </option>
              ))}
            </optgroup>
          )}
        </select>
      </label>
  );
}

/** Why a list of targets could not be read. Both calls mostly fail for one reason, which is shown once. */
export function TargetProblems({ of: { models, bases } }: { of: Targets }) {
  const failing = [models, bases].filter((each) => each.trouble);
  const reasons = new Map(failing.map((each) => [each.trouble && raw(each.trouble.failure.title), each.trouble]));
  return (
    <>
      {[...reasons].map(
        ([reason, trouble]) =>
          trouble && (
            <Problem key={reason} failure={trouble.failure} nextAt={trouble.nextAt} retry={() => failing.forEach((each) => each.reload())} />
          ),
      )}
    </>
  );
}
