/** The calls of a kind of configuration: knowledge bases, assistants, or question sets. */

import { parseCallOptions, parseOptions } from "../arguments.js";
import { InvalidInput, NotFound } from "../errors.js";
import type { AttemptResult } from "../transport.js";
import type { CallOptions } from "../types.js";
import { type GatewayCore, idOf, itemsOf, queryOf, withoutBody } from "./core.js";
import type {
  Assistant,
  ConfigurationLike,
  DeleteOptions,
  Descriptor,
  DuplicateOptions,
  IterOptions,
  KnowledgeBase,
  PageOptions,
  PartOptions,
  QuestionSet,
  Schemas,
  Stored,
  VersionList,
  VersionOptions,
} from "./types.js";

type Kind = "rags" | "assistants" | "questions";

/** The configurations of one kind: `client.bases`, `client.assistants` and `client.questionSets`. */
export class Configurations<Configuration extends KnowledgeBase | Assistant | QuestionSet> {
  readonly #core: GatewayCore;
  readonly #kind: Kind;

  constructor(core: GatewayCore, kind: Kind) {
    this.#core = core;
    this.#kind = kind;
  }

  /** One page of the configurations, newest first. */
  async page(options?: PartOptions & PageOptions & CallOptions): Promise<Descriptor[]> {
    const { call, own } = parseOptions<PartOptions & PageOptions>("page", options, { part: true, index: true, limit: true });
    const { part, ...page } = own;
    const params = { query: queryOf({ filter: part, ...page }) };
    const found = await this.#core.send((api, init) => api.GET(this.#path("/ragstore/rags/descriptors"), { ...init, params }), call);
    return found.map((descriptor) => ({ ...descriptor, ...idAndVersion(descriptor.resource) }));
  }

  /**
   * Iterate over the configurations, newest first. Configurations that are created or deleted during the iteration may
   * shift the pages.
   */
  async *iter(options?: PartOptions & IterOptions & CallOptions): AsyncGenerator<Descriptor, void, undefined> {
    const { call, own } = parseOptions<PartOptions & IterOptions>("iter", options, { part: true, pageSize: true });
    const { pageSize = 200, part } = own;
    yield* itemsOf(pageSize, (index, limit) => this.page({ ...call, part, index, limit }));
  }

  /**
   * Find a configuration by its name, or by its id.
   *
   * @throws NotFound if there is none.
   */
  async find(name: string, options?: VersionOptions & CallOptions): Promise<Stored<Configuration>> {
    const { call, own } = parseOptions<VersionOptions>("find", options, { version: true });
    for await (const descriptor of this.iter({ ...call, part: name })) {
      if (descriptor.name === name) {
        return await this.get(descriptor, { ...call, ...own });
      }
    }
    return await this.get(name, { ...call, ...own });
  }

  /** Whether there is a configuration of a name or an id, and the key may see it. */
  async exists(name: string, options?: CallOptions): Promise<boolean> {
    try {
      await this.find(name, parseCallOptions("exists", options));
      return true;
    } catch (error) {
      if (error instanceof NotFound && error.code === "configuration_not_found") {
        return false;
      }
      throw error;
    }
  }

  /**
   * Read a configuration. A deleted one can be read by a version only.
   *
   * @throws NotFound if there is none.
   */
  async get(configuration: ConfigurationLike, options?: VersionOptions & CallOptions): Promise<Stored<Configuration>> {
    const { call, own } = parseOptions<VersionOptions>("get", options, { version: true });
    const params = { path: { id: idOf(configuration) }, query: queryOf(own) };
    return await this.#core.send(
      async (api, init) => this.#stored(await api.GET(this.#path("/ragstore/rags/{id}"), { ...init, params })),
      call,
    );
  }

  /**
   * Create a configuration, as version 1. The call is not retried if it may have reached the gateway.
   *
   * @throws BadRequest if a field is invalid; `errors` has its path.
   * @throws Conflict if the name is taken.
   */
  async create(configuration: Configuration, options?: CallOptions): Promise<Stored<Configuration>> {
    const body = fieldsOf<Schemas["KnowledgeBase"]>(configuration);
    return await this.#core.send(
      async (api, init) => this.#stored(await api.POST(this.#path("/ragstore/rags"), { ...init, body })),
      parseCallOptions("create", options),
      { idempotent: false },
    );
  }

  /**
   * Write a new version, with some fields changed. All other fields stay as they are.
   *
   * The change is based on the version that `find`, `get`, `create` or `update` returned, or on the current version if
   * the argument is an id or comes from a list.
   *
   * @throws Conflict if another version was written since, with the code `version_conflict`; or if the name is taken.
   */
  async update(
    configuration: ConfigurationLike | Stored<Configuration>,
    changes: Partial<Configuration>,
    options?: CallOptions,
  ): Promise<Stored<Configuration>> {
    const call = parseCallOptions("update", options);
    const fields = fieldsOf<object>(changes);
    const current = isStored<Configuration>(configuration) ? configuration : await this.get(configuration, call);
    const body = { ...current.configuration, ...fields } as Schemas["KnowledgeBase"];
    const params = { path: { id: idOf(current) }, query: { version: current.version } };
    return await this.#core.send(
      async (api, init) => this.#stored(await api.PUT(this.#path("/ragstore/rags/{id}"), { ...init, params, body })),
      call,
      { idempotent: false },
    );
  }

  /** Copy a configuration. The name of the copy has a suffix. */
  async duplicate(configuration: ConfigurationLike, options?: DuplicateOptions & CallOptions): Promise<Stored<Configuration>> {
    const { call, own } = parseOptions<DuplicateOptions>("duplicate", options, { version: true, documents: true });
    const params = { path: { id: idOf(configuration) }, query: queryOf(own) };
    return await this.#core.send(
      async (api, init) => this.#stored(await api.POST(this.#path("/ragstore/rags/{id}"), { ...init, params })),
      call,
      { idempotent: false },
    );
  }

  /**
   * Delete a configuration.
   *
   * @throws NotFound if there is none.
   * @throws Conflict if another version is the current one.
   */
  async delete(configuration: ConfigurationLike, options?: DeleteOptions & CallOptions): Promise<void> {
    const { call, own } = parseOptions<DeleteOptions>("delete", options, { version: true, permanent: true });
    const params = { path: { id: idOf(configuration) }, query: queryOf(own) };
    await this.#core.send(
      async (api, init) => withoutBody(await api.DELETE(this.#path("/ragstore/rags/{id}"), { ...init, params })),
      call,
      { resultIfGone: {} },
    );
  }

  /** One page of the versions of a configuration, newest first. */
  async versions(configuration: ConfigurationLike, options?: PageOptions & CallOptions): Promise<VersionList> {
    const { call, own } = parseOptions<PageOptions>("versions", options, { index: true, limit: true });
    const params = { path: { id: idOf(configuration) }, query: queryOf(own) };
    return await this.#core.send(
      (api, init) => api.GET(this.#path("/ragstore/rags/{id}/versions"), { ...init, params }),
      call,
    );
  }

  /** The path of this kind for a path of knowledge bases. All kinds have the same calls. */
  #path<Path extends string>(path: Path): Path {
    return path.replace(/\/rags(?=\/|$)/, `/${this.#kind}`) as Path;
  }

  /** A configuration of this kind, with the id and the version from the headers of its response. */
  #stored({ data, error, response }: AttemptResult<KnowledgeBase>): AttemptResult<Stored<Configuration>> {
    if (data === undefined) {
      return { error, response };
    }
    const configuration = data as Required<Configuration>;
    return { data: { ...idAndVersion(response.headers.get("x-resource-uri") ?? ""), configuration }, response };
  }
}

/** The id and the version in the path of a version, such as `/ragstore/rags/ID?version=2`. */
function idAndVersion(resource: string): { id: string; version: number } {
  const [path = "", query] = resource.split("?");
  return { id: path.slice(path.lastIndexOf("/") + 1), version: Number(new URLSearchParams(query).get("version")) };
}

// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller names the contract's type
function fieldsOf<T>(fields: object): T {
  if (typeof fields !== "object" || (fields as unknown) === null || Array.isArray(fields)) {
    throw new InvalidInput("a configuration must be an object");
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

function isStored<Configuration>(value: unknown): value is Stored<Configuration> {
  return typeof value === "object" && value !== null && "configuration" in value;
}
