/** The calls on documents. */

import { collectionPath, stringArray, integer, type Names, parseCallOptions, parseOptions } from "./arguments.js";
import { camelKeys } from "./casing.js";
import { CollectionCalls } from "./collections.js";
import { type Core, includedParts, wireBody } from "./core.js";
import { checkMetadata, encodeDocuments } from "./encoding.js";
import { BadRequest, InvalidInput, NotFound } from "./errors.js";
import type {
  CallOptions,
  DeleteAllResult,
  DeleteRequest,
  DeleteResult,
  Document,
  DocumentFilter,
  DocumentMetadata,
  DocumentPage,
  DocumentsUpdated,
  DocumentUpdates,
  IncludeOptions,
  IterateOptions,
  NewDocument,
  Schemas,
  Selection,
  WriteResult,
} from "./types.js";

/** Maximum number of documents that the service returns in a page. */
const MAX_PAGE = 1000;
const DEFAULT_PAGE = 100;

const SELECTION: Names<Selection> = { ids: true, where: true, whereDocument: true };

const INCLUDE: Names<IncludeOptions> = { includeEmbeddings: true, includeTexts: true };

/** The parts of a document that are returned. */
export type GetDocumentOptions = Pick<IncludeOptions, "includeEmbeddings">;

/** How documents are updated. */
export interface UpdateOptions {
  /** Whether the new metadata replace all that a document has: false by default. */
  replace?: boolean | undefined;
}

/** The calls of a client on documents. */
export class DocumentCalls extends CollectionCalls {
  /**
   * Add documents, all or none, in one request.
   *
   * The call is not retried if it may have reached the service. Use `upsertDocuments` for calls that must be retried.
   *
   * @throws Conflict if an id exists; the detail lists them.
   */
  async addDocuments(
    collection: string,
    documents: Iterable<NewDocument>,
    options?: CallOptions,
  ): Promise<WriteResult> {
    const call = parseCallOptions("addDocuments", options);
    return await writeDocuments(this.core, "add", collection, encodeDocuments(documents), call);
  }

  /** Add documents, all or none, in one request. A document with an existing id replaces the stored one. */
  async upsertDocuments(
    collection: string,
    documents: Iterable<NewDocument>,
    options?: CallOptions,
  ): Promise<WriteResult> {
    const call = parseCallOptions("upsertDocuments", options);
    return await writeDocuments(this.core, "upsert", collection, encodeDocuments(documents), call);
  }

  /** List documents in insertion order; `total` is the number of all matches. */
  async listDocuments(
    collection: string,
    options?: DocumentFilter & CallOptions,
  ): Promise<DocumentPage> {
    const names = { ...SELECTION, ...INCLUDE, limit: true, offset: true, total: true, after: true } as const;
    const { call, own } = parseOptions<DocumentFilter>("listDocuments", options, names);
    const { after, ...filter } = withIdArray(own);
    const limit = integer("limit", filter.limit ?? (filter.ids ? Math.max(filter.ids.length, 1) : DEFAULT_PAGE), 1);
    const start = integer("offset", filter.offset ?? 0, 0);
    if (after !== undefined) {
      return await pageAfter(this.core, collection, { ...filter, limit }, after, call);
    }
    const documents: Document[] = [];
    let total: number | null = null;
    let next: string | undefined;
    for await (const page of pages(this.core, collection, filter, { size: MAX_PAGE, limit, offset: start, total: filter.total !== false }, call)) {
      documents.push(...page.documents);
      total ??= page.total;
      next = page.next;
    }
    return { documents, count: documents.length, total, ...(next === undefined ? {} : { next }) };
  }

  /** Iterate over all documents that a filter selects, page by page. */
  async *iterDocuments(
    collection: string,
    options?: IterateOptions & CallOptions,
  ): AsyncGenerator<Document, void, undefined> {
    const names = { ...SELECTION, ...INCLUDE, limit: true, offset: true, pageSize: true } as const;
    const { call, own } = parseOptions<IterateOptions>("iterDocuments", options, names);
    const { pageSize = MAX_PAGE, limit = Number.POSITIVE_INFINITY, ...filter } = withIdArray(own);
    if (integer("pageSize", pageSize, 1) > MAX_PAGE) {
      throw new InvalidInput(`pageSize must be at most ${MAX_PAGE}`);
    }
    if (limit !== Number.POSITIVE_INFINITY) {
      integer("limit", limit, 1);
    }
    const offset = integer("offset", filter.offset ?? 0, 0);
    for await (const page of pages(this.core, collection, filter, { size: pageSize, limit, offset, total: false }, call)) {
      yield* page.documents;
    }
  }

  /** Count the documents that a filter selects; all of them without a filter. */
  async count(collection: string, options?: Selection & CallOptions): Promise<number> {
    const { call, own } = parseOptions<Selection>("count", options, SELECTION);
    const { total } = await listPage(this.core, collection, { ...withIdArray(own), limit: 1, total: true }, { offset: 0 }, call);
    return total ?? 0;
  }

  /**
   * Get a document.
   *
   * @throws NotFound if it does not exist.
   */
  async getDocument(
    collection: string,
    id: string,
    options?: GetDocumentOptions & CallOptions,
  ): Promise<Document> {
    const { call, own } = parseOptions<GetDocumentOptions>("getDocument", options, { includeEmbeddings: true });
    if (id === "." || id === "..") {
      // URL parsers remove these segments from a path, even if they are encoded.
      const [found] = (await this.listDocuments(collection, { ids: [id], total: false, ...own, ...call })).documents;
      if (!found) {
        throw new NotFound({
          status: 404,
          code: "document_not_found",
          title: "Document not found",
          detail: `Document '${id}' not found in collection '${collection}'`,
        });
      }
      return found;
    }
    if (typeof id !== "string" || id === "") {
      throw new InvalidInput("an id must be a string that is not empty");
    }
    const params = { path: { ...collectionPath(collection), document_id: id }, query: includedParts(own) };
    return await this.core.send(
      (api, init) => api.GET("/collections/{collection_name}/documents/{document_id}", { ...init, params }),
      call,
    );
  }

  /** Get any number of documents by their ids, each once, in the order of the ids. Ids that do not exist are left out. */
  async getDocuments(
    collection: string,
    ids: Iterable<string>,
    options?: IncludeOptions & CallOptions,
  ): Promise<Document[]> {
    const { call, own } = parseOptions<IncludeOptions>("getDocuments", options, INCLUDE);
    const unique = [...new Set(stringArray("ids", ids))];
    const found = new Map<string, Document>();
    for (let start = 0; start < unique.length; start += MAX_PAGE) {
      const some = unique.slice(start, start + MAX_PAGE);
      const page = await this.listDocuments(collection, { ids: some, total: false, ...own, ...call });
      for (const document of page.documents) {
        found.set(document.id, document);
      }
    }
    return unique.map((id) => found.get(id)).filter((document) => document !== undefined);
  }

  /**
   * Whether a document exists.
   *
   * @throws NotFound if the collection does not exist.
   */
  async documentExists(collection: string, id: string, options?: CallOptions): Promise<boolean> {
    const call = parseCallOptions("documentExists", options);
    const page = await this.listDocuments(collection, { ids: [id], includeTexts: false, total: false, ...call });
    return page.count > 0;
  }

  /**
   * Change the metadata of documents, all or none, in one request. Texts and embeddings stay as they are.
   *
   * @param updates the metadata by id. Keys that are not named stay, and null removes a key. With `replace`, keys that
   *   are not named are removed.
   * @throws NotFound if the collection, or one of the documents, does not exist. Nothing was changed.
   */
  async updateDocuments(
    collection: string,
    updates: DocumentUpdates,
    options?: UpdateOptions & CallOptions,
  ): Promise<DocumentsUpdated> {
    const { call, own } = parseOptions<UpdateOptions>("updateDocuments", options, { replace: true });
    if (!(updates instanceof Object) || Array.isArray(updates)) {
      throw new InvalidInput("the updates must be an object or a Map of metadata by id");
    }
    const entries = updates instanceof Map ? [...updates] : Object.entries(updates);
    const documents = entries.map(([id, metadata]: [string, NonNullable<DocumentMetadata>], index) => {
      checkMetadata(metadata, `$.documents[${index}].metadata`);
      return { id, metadata };
    });
    const params = { path: collectionPath(collection) };
    const body: Schemas["DocumentUpdates"] = { documents, mode: own.replace ? "replace" : "merge" };
    return await this.core.send(
      (api, init) => api.PATCH("/collections/{collection_name}/documents", { ...init, params, body }),
      call,
    );
  }

  /** Delete documents by ids, by a filter, or by both. `count` is the number that the last attempt deleted. */
  async deleteDocuments(
    collection: string,
    request: DeleteRequest & CallOptions,
  ): Promise<DeleteResult> {
    const { call, own } = parseOptions<{ ids?: readonly string[] | undefined; where?: unknown }>("deleteDocuments", request, {
      ids: true,
      where: true,
    });
    const params = { path: collectionPath(collection) };
    const body = wireBody<Schemas["DeleteRequest"]>(withIdArray(own));
    return await this.core.send(
      (api, init) => api.POST("/collections/{collection_name}/documents/delete", { ...init, params, body }),
      call,
    );
  }

  /** Delete all documents. The collection keeps its metadata, dimension and distance function. */
  async emptyCollection(collection: string, options?: CallOptions): Promise<DeleteAllResult> {
    const params = { path: collectionPath(collection) };
    return camelKeys(
      await this.core.send(
        (api, init) => api.DELETE("/collections/{collection_name}/documents/all", { ...init, params }),
        parseCallOptions("emptyCollection", options),
      ),
    );
  }
}

export async function writeDocuments(
  core: Core,
  mode: "upsert" | "add",
  collection: string,
  encoded: string,
  call?: CallOptions,
): Promise<WriteResult> {
  const request = {
    params: { path: collectionPath(collection) },
    body: { documents: [] },
    bodySerializer: () => encoded,
  };
  const path = "/collections/{collection_name}/documents";
  return mode === "add"
    ? await core.send((api, init) => api.POST(path, { ...init, ...request }), call, { idempotent: false })
    : await core.send((api, init) => api.PUT(path, { ...init, ...request }), call);
}

async function pageAfter(
  core: Core,
  collection: string,
  filter: DocumentFilter & { limit: number },
  after: string,
  call: CallOptions,
): Promise<DocumentPage> {
  if (typeof after !== "string") {
    throw new InvalidInput("after must be a string: `next` of the previous page");
  }
  if (filter.offset !== undefined) {
    throw new InvalidInput("after and offset exclude each other");
  }
  if (filter.limit > MAX_PAGE) {
    throw new InvalidInput(`with after, limit must be at most ${MAX_PAGE}`);
  }
  return await listPage(core, collection, { ...filter, total: filter.total !== false }, { after }, call);
}

/** Pages by their cursors, and by offset where there is none or its document was deleted. */
async function* pages(
  core: Core,
  collection: string,
  filter: DocumentFilter,
  { size, limit, offset, total }: { size: number; limit: number; offset: number; total: boolean },
  call: CallOptions,
): AsyncGenerator<DocumentPage, void, undefined> {
  let next: string | undefined;
  let listed = 0;
  while (listed < limit) {
    const wanted = Math.min(size, limit - listed);
    const start = next === undefined ? { offset: offset + listed } : { after: next };
    let page: DocumentPage;
    try {
      // Only the first page counts the total. A cursor holds it for the next pages, and for the cursors that they return.
      const withTotal = total && (listed === 0 || next !== undefined);
      page = await listPage(core, collection, { ...filter, limit: wanted, total: withTotal }, start, call);
    } catch (error) {
      if (next === undefined || !(error instanceof BadRequest && error.code === "invalid_cursor")) {
        throw error;
      }
      next = undefined;
      continue;
    }
    yield page;
    listed += page.count;
    next = page.next;
    // A page that has a cursor may be short: its other documents were deleted while it was read.
    if (page.count < wanted && next === undefined) {
      return;
    }
  }
}

async function listPage(
  core: Core,
  collection: string,
  filter: DocumentFilter,
  start: { offset: number } | { after: string },
  call: CallOptions,
): Promise<DocumentPage> {
  const path = collectionPath(collection);
  const { includeEmbeddings, includeTexts, total, ...rest } = filter;
  const selection = { ...rest, offset: undefined, ...start, total };
  const { where, whereDocument, ids, ...page } = selection;
  const included = includedParts({ includeEmbeddings, includeTexts });
  if ((where ?? whereDocument ?? ids) == null) {
    const params = { path, query: wireBody<object>({ ...page, ...included }) };
    return await core.send((api, init) => api.GET("/collections/{collection_name}/documents", { ...init, params }), call);
  }
  // Filters may be too long for a URL.
  const body = wireBody<Schemas["DocumentFilter"]>({ ...selection, ...included });
  return await core.send(
    (api, init) => api.POST("/collections/{collection_name}/documents/filter", { ...init, params: { path }, body }),
    call,
  );
}

function withIdArray<T extends { ids?: readonly string[] | undefined }>(options: T): T {
  return options.ids === undefined ? options : { ...options, ids: stringArray("ids", options.ids) };
}
