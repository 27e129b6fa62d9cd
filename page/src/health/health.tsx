/** The area Health: what the service depends on, its work, and the times of its requests. Nothing is stored. */
import { useRef } from "preact/hooks";
import { Fragment, h, type Child } from "../jsx";
import { gateway, store, text } from "../api";
import { Failure } from "../failure";
import { Loaded } from "../parts";
import { useResource } from "../resource";
import type { components as GatewaySchemas } from "../schema/gateway";
import type { components as StoreSchemas } from "../schema/store";
import { access } from "../session";
import { mark, Stored, type Marked } from "../stored";
import { duration, formatted, size, timeOf, words } from "../words";
import { parsed, quantile, since, sum, timesBy, type Metrics, type Times } from "./metrics";

const EVERY = 5000;

type GatewayHealth = Marked<GatewaySchemas["schemas"]["GatewayHealth"]>;
type StoreHealth = Marked<StoreSchemas["schemas"]["Health"]>;

interface Fact {
  title: string;
  isOk: boolean | undefined;
  /** What is true of it, beside its state. */
  details: Child[];
}

export default function Health() {
  const isGateway = access.value?.service === "ragstore-gateway";
  const health = useResource("health", async (signal) => (isGateway ? ofGateway(await readGateway(signal)) : ofStore(await readStore(signal))), EVERY);
  const metrics = useResource("metrics", async (signal) => parsed(await text("/metrics", signal)), EVERY);
  const opening = useRef<Metrics>(undefined);
  opening.current ??= metrics.data;
  return (
    <div class="screen">
      <div class="screen-head">
        <div class="spread">
          <h1>{words.health}</h1>
          {health.loadedAt > 0 && <span class="fine">{words.refreshed(timeOf(health.loadedAt))}</span>}
        </div>
      </div>
      <div class="scroll stack">
        <Loaded of={health} rows={3} draw={(facts) => <Facts of={facts} />} />
        <Loaded
          of={metrics}
          draw={(found) => (
            <div class="stack">
              <Work of={found} />
              <Routes now={found} opening={opening.current ?? found} />
              <Slowest now={found} opening={opening.current ?? found} />
              <p class="fine">{words.quantileHint}</p>
            </div>
          )}
        />
      </div>
    </div>
  );
}

/** The body of a health response: 503 has one, too. */
async function readGateway(signal: AbortSignal): Promise<GatewayHealth> {
  try {
    return (await gateway("get", "/health", { signal })).value;
  } catch (error) {
    return bodyOf<GatewayHealth>(error, "store");
  }
}

async function readStore(signal: AbortSignal): Promise<StoreHealth> {
  try {
    return (await store("get", "/health", { signal })).value;
  } catch (error) {
    return bodyOf<StoreHealth>(error, "details");
  }
}

function bodyOf<T>(error: unknown, field: string): T {
  if (error instanceof Failure && typeof error.body === "object" && error.body !== null && field in error.body) {
    return mark(error.body) as T;
  }
  throw error;
}

function ofGateway(health: GatewayHealth): Fact[] {
  return [
    { title: "ragstore gateway", isOk: health.ok, details: [[words.version, " ", <Stored value={health.version} />]] },
    { title: words.store, isOk: health.store.ok, details: [health.store.kind, health.store.error && <Stored value={health.store.error} />] },
    {
      title: words.database,
      isOk: health.database.ok,
      details: [health.database.kind, health.database.error && <Stored value={health.database.error} />],
    },
    {
      title: words.upstream,
      isOk: undefined,
      details: [health.upstream.configured ? words.configured : words.notConfigured],
    },
    { title: words.model, isOk: undefined, details: [<Stored value={health.model} />] },
  ];
}

function ofStore(health: StoreHealth): Fact[] {
  const { details } = health;
  const reserved = Object.keys(details.reserved_prefixes ?? {});
  return [
    { title: "ragstore", isOk: health.status === "healthy", details: [[words.version, " ", <Stored value={health.version} />]] },
    {
      title: words.chroma,
      isOk: health.status === "healthy",
      details: [
        details.store,
        details.chroma_version && [words.version, " ", <Stored value={details.chroma_version} />],
        health.error && <Stored value={health.error} />,
        health.cause && <Stored value={health.cause} />,
      ],
    },
    {
      title: words.collections,
      isOk: undefined,
      details: [
        health.collections_count === null ? words.notCounted : formatted(health.collections_count),
        details.storage_bytes !== null && `${words.storage} ${size(details.storage_bytes)}`,
        reserved.length > 0 && [`${words.isReserved}: `, <Stored value={mark(reserved.join(", "))} />],
      ],
    },
  ];
}

function Facts({ of }: { of: Fact[] }) {
  return (
    <div class="cards">
      {of.map(({ title, isOk, details }) => (
        <section key={title} class="box" aria-label={title}>
          <h2>{title}</h2>
          {isOk !== undefined && (
            <p class={isOk ? "state-ok" : "state-bad"}>{isOk ? `✓ ${words.healthy}` : `✕ ${words.unhealthy}`}</p>
          )}
          {details.filter(Boolean).map((detail, index) => (
            <p key={index}>{detail}</p>
          ))}
        </section>
      ))}
    </div>
  );
}

/** The metrics of both services have the same names behind a prefix. */
const PREFIXES = ["ragstore_gateway_", "ragstore_"];

function Work({ of }: { of: Metrics }) {
  const gauges = PREFIXES.flatMap((prefix) =>
    Object.entries(words.gauges).flatMap(([name, title]) => {
      const value = sum(of, prefix + name);
      if (value === undefined) return [];
      const limit = sum(of, `${prefix}${name}_limit`);
      const drawn = name.endsWith("bytes") ? size : formatted;
      const service = prefix === "ragstore_gateway_" ? words.gateway : words.store;
      return [[`${title} (${service})`, drawn(value) + (limit === undefined ? "" : ` / ${words.limit} ${drawn(limit)}`)] as const];
    }),
  );
  const rejected = PREFIXES.flatMap((prefix) =>
    (of.get(`${prefix}refusals_total`) ?? []).filter((each) => each.value > 0).map((each) => [each.labels.reason ?? "", each.value] as const),
  );
  const memory = [
    [words.processMemory, sum(of, "process_resident_memory_bytes")],
    [words.chromaMemory, sum(of, "ragstore_chroma_process_resident_memory_bytes")],
    [words.diskFree, sum(of, "ragstore_data_volume_free_bytes")],
  ] as const;
  return (
    <div class="cards">
      <section class="box" aria-labelledby="health-work">
        <h2 id="health-work">{words.work}</h2>
        <Numbers of={gauges} />
      </section>
      <section class="box" aria-labelledby="health-rejections">
        <h2 id="health-rejections">{words.rejections}</h2>
        {rejected.length === 0 ? (
          <p>{words.noRejections}</p>
        ) : (
          <Numbers of={rejected.map(([reason, value]) => [reason.replaceAll("_", " "), formatted(value)])} />
        )}
      </section>
      <section class="box" aria-labelledby="health-memory">
        <h2 id="health-memory">{words.memory}</h2>
        <Numbers of={memory.flatMap(([title, value]) => (value ? [[title, size(value)]] : []))} />
      </section>
    </div>
  );
}

function Numbers({ of }: { of: readonly (readonly [string, string])[] }) {
  return (
    <dl class="pairs">
      {of.flatMap(([title, value], index) => [<dt key={`t${index}`}>{title}</dt>, <dd key={`d${index}`}>{value}</dd>])}
    </dl>
  );
}

interface Line {
  name: string;
  all: Times;
  recent: Times;
}

function linesOf(now: Metrics, opening: Metrics, metric: string, group: (labels: Record<string, string>) => string): Line[] {
  const before = timesBy(opening, metric, group);
  return [...timesBy(now, metric, group)].map(([name, all]) => ({ name, all, recent: since(all, before.get(name)) }));
}

function Routes({ now, opening }: { now: Metrics; opening: Metrics }) {
  const group = (labels: Record<string, string>): string => `${labels.method ?? ""} ${labels.path ?? ""}`;
  const lines = PREFIXES.flatMap((prefix) => linesOf(now, opening, `${prefix}request_duration_seconds`, group));
  lines.sort((a, b) => b.all.count - a.all.count);
  return <TimesTable id="health-routes" title={words.routes} first={words.route} lines={lines} none={words.noRequests} />;
}

function Slowest({ now, opening }: { now: Metrics; opening: Metrics }) {
  const lines = linesOf(now, opening, "ragstore_chroma_duration_seconds", (labels) => labels.operation ?? "");
  if (!now.has("ragstore_chroma_duration_seconds_bucket")) return null;
  lines.sort((a, b) => quantile(b.all, 0.99) - quantile(a.all, 0.99));
  return <TimesTable id="health-slowest" title={words.slowest} first={words.operation} lines={lines} none={words.noCalls} />;
}

function TimesTable({ id, title, first, lines, none }: { id: string; title: string; first: string; lines: Line[]; none: string }) {
  if (lines.length === 0) {
    return (
      <section class="stack tight" aria-labelledby={id}>
        <h2 id={id}>{title}</h2>
        <p>{none}</p>
      </section>
    );
  }
  return (
    <section class="stack tight" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <div class="table-box" role="group" aria-label={title} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th rowSpan={2} scope="col">
                {first}
              </th>
              <th colSpan={3} scope="colgroup" class="n">
                {words.sinceStart}
              </th>
              <th colSpan={3} scope="colgroup" class="n">
                {words.sinceOpening}
              </th>
            </tr>
            <tr>
              {[0, 1].map((group) => (
                <Fragment key={group}>
                  {[words.requests, words.p50, words.p99].map((each) => (
                    <th key={each} scope="col" class="n">
                      {each}
                    </th>
                  ))}
                </Fragment>
              ))}
            </tr>
          </thead>
          <tbody>
            {lines.map(({ name, all, recent }) => (
              <tr key={name}>
                <th scope="row">
                  <Stored value={mark(name)} />
                </th>
                {[all, recent].map((times, index) => (
                  <Fragment key={index}>
                    <td class="n">{formatted(times.count)}</td>
                    <td class="n">{duration(quantile(times, 0.5))}</td>
                    <td class="n">{duration(quantile(times, 0.99))}</td>
                  </Fragment>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
