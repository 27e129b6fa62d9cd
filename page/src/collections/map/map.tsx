/** The map of a collection: similar documents are near each other. */
// With all of the area in one file, both weigh less.
import "../collections";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Fragment, h } from "../../jsx";
import { store } from "../../api";
import { Empty, Loaded } from "../../parts";
import { useResource } from "../../resource";
import { amend, route } from "../../route";
import type { components } from "../../schema/store";
import { mark, plain, raw, Stored, type Marked } from "../../stored";
import { formatted, timeOf, words } from "../../words";
import { fieldsOf, useFollowing, type Document } from "../documents";
import { Filters } from "../filters";
import type { Collection } from "../list";
import { WithDocument } from "../panel";
import { filterIn, type Where } from "../where";
import { MapCanvas } from "./canvas";
import { groupsOf, type Group } from "./groups";
import { PointList, readDocuments, usePoints } from "./list";
import { Question } from "./question";
import { refinementOf } from "./refinement";
import { say } from "./words";

type CollectionMap = Marked<components["schemas"]["CollectionMap"]>;

const POINTS = [500, 2000, 5000, 10_000];
const DEFAULT_POINTS = 2000;
/** Time for which the pointer rests on a point before its text is read. */
const REST_MILLISECONDS = 120;

export default function MapTab({ collection, changed }: { collection: Collection; changed: () => void }) {
  const { query } = route.value;
  const { where } = filterIn(query);
  const field = query.get("color") ?? "";
  const points = Number(query.get("points")) || DEFAULT_POINTS;
  const [fields, setFields] = useState<Stored[]>([]);
  const map = useResource(JSON.stringify([where, points]), async (signal) => {
    const body = { points, ...(where && { where }), ...(field && { color: field }) };
    const path = { collection_name: collection.name };
    return (await store("post", "/collections/{collection_name}/map", { path, body: body as never, signal })).value;
  });
  // The points stay where they are while other colours are read, and if the documents are the same.
  const identity = useMemo(() => JSON.stringify([map.data?.ids, map.data?.x]), [map.data]);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) map.reload();
    isFirst.current = false;
  }, [field]);
  return (
    <>
      <Filters collection={collection.name} where={where} fields={fields} total={map.data?.total} tools={<Tools field={field} fields={fields} points={points} />} />
      <WithDocument
        collection={collection.name}
        list="map-documents"
        deleted={() => {
          changed();
          map.reload();
        }}
      >
        <Loaded
          of={map}
          draw={(found) =>
            found.ids.length === 0 ? (
              <Empty of={where ? words.noDocumentFound : words.noDocuments} />
            ) : (
              <Drawn key={identity} {...{ collection, where, field, setFields }} map={found} again={map.reload} />
            )
          }
        />
      </WithDocument>
    </>
  );
}

/** The choices of the colour and of the number of points. */
function Tools({ field, fields, points }: { field: string; fields: Stored[]; points: number }) {
  const named = new Set(["", field, ...fields.map(raw)]);
  return (
    <>
      <Select label={say.colour} value={field} options={[...named].map((each) => [each, each ? plain(mark(each), 60) : say.noColour])} set={(color) => amend({ color }, { replace: true })} />
      <Select label={say.points} value={String(points)} options={POINTS.map((each) => [String(each), formatted(each)])} set={(value) => amend({ points: value }, { replace: true })} />
    </>
  );
}

interface SelectProperties {
  label: string;
  value: string;
  /** Values with their titles. */
  options: [string, string][];
  set: (value: string) => void;
}

function Select({ label, value, options, set }: SelectProperties) {
  return (
    <label class="row">
      <span class="fine">{label}</span>
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {options.map(([each, title]) => (
          <option key={each} value={each}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Points that are listed, and how they were found. */
interface Choice {
  by: "line" | "group" | "question";
  points: number[];
}

interface DrawnProperties {
  collection: Collection;
  where: Where | undefined;
  field: string;
  setFields: (fields: Stored[]) => void;
  map: CollectionMap;
  again: () => void;
}

/** A map and its list. A map of another time has another key. */
function Drawn({ collection, where, field, setFields, map, again }: DrawnProperties) {
  const { ids } = map;
  const opened = route.value.query.get("id") ?? undefined;
  const [isArranged, setArranged] = useState(false);
  const [choice, setChoice] = useState<Choice>();
  const [pointed, setPointed] = useState<number>();
  const [active, setActive] = useState<number>();
  const [shown, setShown] = useState<number>();
  const [refinement] = useState(() => refinementOf(map.x, map.y, map.neighbours, map.distances));
  const groups = useMemo(() => groupsOf(map.color ?? null, ids.length), [map]);
  const places = useMemo(() => new Map(ids.map((id, point) => [raw(id), point])), [ids]);
  const listed = useMemo(() => choice?.points ?? ids.map((_, point) => point), [choice, ids]);
  const [round, setRound] = useState(0);
  const rows = usePoints(String(round), collection.name, ids, listed);
  useEffect(() => {
    const found = fieldsOf(rows.loaded());
    if (found.length > 0) setFields(found);
  }, [rows.loadedAt]);

  function choose(next: Choice | undefined): void {
    setChoice(next);
    setActive(undefined);
    setShown(undefined);
    setRound((last) => last + 1);
  }
  function open(point: number): void {
    const id = ids[point];
    if (id === undefined) return;
    amend({ id }, { replace: opened !== undefined });
    setActive(undefined);
  }
  const follow = useFollowing((row) => open(listed[row] ?? 0));
  const openedPoint = opened === undefined ? undefined : places.get(opened);
  const ringed = [openedPoint, active, pointed].filter((each) => each !== undefined);
  return (
    <div class="map">
      <section class="map-box" aria-label={words.map}>
        <div class="spread map-head">
          <span class="fine" role="status">
            {isArranged ? say.arranged : say.arranging}
          </span>
          <span class="row fine">
            {say.asOf(timeOf(Date.parse(raw(map.as_of))))}
            <button type="button" onClick={again}>
              {say.again}
            </button>
          </span>
        </div>
        <div class="map-canvas">
          <MapCanvas
            label={say.label(ids.length)}
            refinement={refinement}
            done={() => setArranged(true)}
            picture={{ groups, chosen: choice?.points, ringed, near: choice?.by === "question" ? choice.points : [] }}
            hover={setPointed}
            open={(point) => {
              open(point);
              setShown(point);
            }}
            choose={(found) => choose(found && { by: "line", points: found })}
          />
        </div>
        <Pointed collection={collection.name} id={pointed === undefined ? undefined : ids[pointed]} />
        <Legend groups={groups} choice={choice} choose={choose} />
      </section>
      <section class="map-list" aria-label={words.documents}>
        <div class="map-head stack tight">
          <Question {...{ collection, where, places }} isWhole={ids.length === map.total} show={(near) => choose({ by: "question", points: near })} />
          <p class="row" role="status">
            <span class="fine">{summaryOf(choice, map)}</span>
            {choice && (
              <button type="button" onClick={() => choose(undefined)}>
                {say.showAll}
              </button>
            )}
          </p>
        </div>
        <PointList
          of={rows}
          key={round}
          field={field}
          empty={choice?.by === "question" ? say.noneNear : say.noneWithin}
          opened={opened}
          current={shown === undefined ? undefined : positionOf(shown, listed)}
          open={(row) => open(listed[row] ?? 0)}
          moved={(row) => {
            setActive(listed[row]);
            if (opened !== undefined) follow(row);
          }}
        />
      </section>
    </div>
  );
}

function positionOf(point: number, listed: number[]): number | undefined {
  const found = listed.indexOf(point);
  return found < 0 ? undefined : found;
}

function summaryOf(choice: Choice | undefined, { ids, total }: CollectionMap): string {
  if (!choice) return ids.length < total ? say.sample(ids.length, total) : words.countLabel(total);
  return choice.by === "question" ? say.nearOf(choice.points.length) : say.chosen(choice.points.length);
}

/** The text of the document below the pointer, in a place of its own: it hides no other document. */
function Pointed({ collection, id }: { collection: Stored; id: Stored | undefined }) {
  const [found, setFound] = useState<Document>();
  useEffect(() => {
    if (id === undefined || (found && raw(found.id) === raw(id))) return undefined;
    const controller = new AbortController();
    const timer = setTimeout(() => {
      // Without the text, its id is still shown.
      readDocuments(collection, [id], controller.signal)
        .then(([document]) => setFound(document))
        .catch(() => undefined);
    }, REST_MILLISECONDS);
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [id]);
  if (id === undefined) return <p class="map-text fine">{say.hint}</p>;
  return (
    <p class="map-text">
      <span class="mono">
        <Stored value={id} max={200} />
      </span>{" "}
      {found && raw(found.id) === raw(id) && <Stored value={found.text} max={400} />}
    </p>
  );
}

/** The groups with their forms and colours. Each is a button that lists its documents. */
function Legend({ groups, choice, choose }: { groups: Group[]; choice: Choice | undefined; choose: (next: Choice | undefined) => void }) {
  return (
    <ul class="chips map-legend" aria-label={say.legend}>
      {groups.map(({ label, glyph, kind, points }) => {
        const isChosen = choice?.points === points;
        return (
          <li key={glyph}>
            <button type="button" aria-pressed={isChosen} onClick={() => choose(isChosen ? undefined : { by: "group", points })}>
              <span class={kind} aria-hidden="true">
                {glyph}
              </span>{" "}
              <Stored value={label} max={40} /> <span class="fine">{formatted(points.length)}</span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}
