/** The calls on the documents of a knowledge base, and searches. */

import { parseCallOptions, parseOptions, stringArray } from "../arguments.js";
import { InvalidInput } from "../errors.js";
import type { CallOptions } from "../types.js";
import { DOCUMENT_PATH, documentPath, type GatewayCore, idOf, itemsOf, queryOf, segment, withoutBody } from "./core.js";
import type {
  ConfigurationLike,
  DocumentEntry,
  DocumentList,
  DocumentOptions,
  DocumentText,
  IngestionProgress,
  IngestionStatus,
  IterOptions,
  KnowledgeBaseHit,
  PageOptions,
  Schemas,
  SearchOptions,
} from "./types.js";

/** The calls of a client that read, delete and search documents. */
export class DocumentCalls {
  constructor(protected readonly core: GatewayCore) {}

  /** One page of the documents, by name. */
  async listDocuments(base: ConfigurationLike, options?: DocumentOptions & PageOptions & CallOptions): Promise<DocumentList> {
    const names = { part: true, status: true, index: true, limit: true } as const;
    const { call, own } = parseOptions<DocumentOptions & PageOptions>("listDocuments", options, names);
    const { part, ...page } = own;
    const params = { path: { id: idOf(base) }, query: queryOf({ filter: part, ...page }) };
    return await this.core.send((api, init) => api.GET("/ragstore/rags/{id}/documents", { ...init, params }), call);
  }

  /** Iterate over documents, by name. Documents that are written or deleted during the iteration may shift the pages. */
  async *iterDocuments(
    base: ConfigurationLike,
    options?: DocumentOptions & IterOptions & CallOptions,
  ): AsyncGenerator<DocumentEntry, void, undefined> {
    const names = { part: true, status: true, pageSize: true } as const;
    const { call, own } = parseOptions<DocumentOptions & IterOptions>("iterDocuments", options, names);
    const { pageSize = 200, ...selected } = own;
    yield* itemsOf(pageSize, async (index, limit) => {
      const { documents } = await this.listDocuments(base, { ...call, ...selected, index, limit });
      return documents;
    });
  }

  /**
   * Get a document.
   *
   * @throws NotFound if there is none.
   */
  async getDocument(base: ConfigurationLike, name: string, options?: CallOptions): Promise<DocumentEntry> {
    const params = { path: documentPath(base, name) };
    return await this.core.send(
      (api, init) => api.GET("/ragstore/rags/{id}/documents/{name}", { ...init, ...DOCUMENT_PATH, params }),
      parseCallOptions("getDocument", options),
    );
  }

  /**
   * Get the extracted text of a document, with its pages and headings. The key needs the role writer.
   *
   * @throws NotFound if there is no such document, or if it has no text yet.
   */
  async documentText(base: ConfigurationLike, name: string, options?: CallOptions): Promise<DocumentText> {
    const params = { path: documentPath(base, name) };
    return await this.core.send(
      (api, init) => api.GET("/ragstore/rags/{id}/texts/{name}", { ...init, ...DOCUMENT_PATH, params }),
      parseCallOptions("documentText", options),
    );
  }

  /**
   * Delete a document.
   *
   * @throws NotFound if there is none.
   */
  async deleteDocument(base: ConfigurationLike, name: string, options?: CallOptions): Promise<void> {
    const params = { path: documentPath(base, name) };
    await this.core.send(
      async (api, init) =>
        withoutBody(await api.DELETE("/ragstore/rags/{id}/documents/{name}", { ...init, ...DOCUMENT_PATH, params })),
      parseCallOptions("deleteDocument", options),
      { resultIfGone: {} },
    );
  }

  /**
   * Get the state of an ingestion.
   *
   * @throws NotFound if there is none.
   */
  async ingestionStatus(base: ConfigurationLike, ingestionId: string, options?: CallOptions): Promise<IngestionStatus> {
    const params = { path: { id: idOf(base), ingestion_id: segment("the id of an ingestion", ingestionId) } };
    return await this.core.send(
      (api, init) => api.GET("/ragstore/rags/{id}/ingestion/{ingestion_id}/status", { ...init, params }),
      parseCallOptions("ingestionStatus", options),
    );
  }

  /** Get how many documents of a knowledge base wait, for what, and the states of up to 100 ingestions. */
  async ingestionProgress(
    base: ConfigurationLike,
    ingestionIds: Iterable<string> = [],
    options?: CallOptions,
  ): Promise<IngestionProgress> {
    const params = { path: { id: idOf(base) }, query: { ingestionId: stringArray("ingestionIds", ingestionIds) } };
    return await this.core.send(
      (api, init) => api.GET("/ragstore/rags/{id}/ingestions", { ...init, params }),
      parseCallOptions("ingestionProgress", options),
    );
  }

  /**
   * Cancel an ingestion that has not ended.
   *
   * @throws Conflict if it has ended.
   */
  async cancelIngestion(base: ConfigurationLike, ingestionId: string, options?: CallOptions): Promise<void> {
    const params = { path: { id: idOf(base), ingestion_id: segment("the id of an ingestion", ingestionId) } };
    await this.core.send(
      async (api, init) => withoutBody(await api.DELETE("/ragstore/rags/{id}/ingestion/{ingestion_id}", { ...init, params })),
      parseCallOptions("cancelIngestion", options),
      { resultIfGone: {} },
    );
  }

  /**
   * Find the passages of a knowledge base for a question, the best one first.
   *
   * @throws BadRequest if the filter or another argument is invalid.
   * @throws NotFound if there is no such knowledge base.
   */
  async search(
    base: ConfigurationLike,
    question: string,
    options?: SearchOptions & CallOptions,
  ): Promise<KnowledgeBaseHit[]> {
    const names = { maxResults: true, minScore: true, where: true, earlier: true } as const;
    const { call, own } = parseOptions<SearchOptions>("search", options, names);
    if (typeof question !== "string") {
      throw new InvalidInput("the question must be a text");
    }
    const { earlier, ...rest } = own;
    const body = queryOf({ query: question, ...rest, earlier: earlier && stringArray("earlier", earlier) });
    const params = { path: { id: idOf(base) } };
    const { results } = await this.core.send(
      (api, init) => api.POST("/ragstore/rags/{id}/query", { ...init, params, body: body as { query: string } }),
      call,
    );
    return results.map((hit) => ({ ...hit, source: sourceOf(hit) }));
  }

  /**
   * Read a passage as plain text: its document, with page or heading, an empty line, and its text.
   *
   * @param passageId the `id` of a passage that a search returned.
   * @throws NotFound if there is none.
   */
  async readPassage(base: ConfigurationLike, passageId: string, options?: CallOptions): Promise<string> {
    const passage = encodeURIComponent(segment("the id of a passage", passageId));
    const path = `/ragstore/rags/${encodeURIComponent(idOf(base))}/passages/${passage}`;
    return await this.core.getText("readPassage", path, options);
  }
}

/** The document of a passage, with the page and the heading if they are known. */
function sourceOf({ metadata }: Schemas["KnowledgeBaseHit"]): string {
  const { document_name: name, page_number: page, section_heading: heading } = metadata;
  return [name, page === undefined ? undefined : `page ${page}`, heading].filter((part) => part !== undefined).join(", ");
}
