/** The calls on sources of a knowledge base, and on the audit ledger. */

import { parseCallOptions, parseOptions } from "../arguments.js";
import { BadRequest } from "../errors.js";
import type { CallOptions } from "../types.js";
import { type NewContent, openDocument } from "./contents.js";
import { idOf, itemsOf, queryOf, segment, withoutBody } from "./core.js";
import { IngestCalls } from "./ingest_calls.js";
import { untilEnded } from "./runs.js";
import type {
  AcceptedRun,
  AuditEntry,
  AuditOptions,
  ConfigurationLike,
  FeedbackOptions,
  IterOptions,
  SourceFile,
  SourceRun,
  StoredFeedback,
} from "./types.js";

/** How a run is waited for. */
export interface RunOptions<Run = SourceRun> {
  /** Called with each state of the run. */
  onProgress?: ((run: Run) => void) | undefined;
}

/** The calls of a client that run sources, upload their files, read the audit ledger, and give feedback. */
export class SourceCalls extends IngestCalls {
  /**
   * Run a source, and wait until the run has ended. Its `status` is `completed` if the whole source was read.
   *
   * @throws Conflict if a run of the source is running, or if the source is not enabled.
   */
  async runSource(base: ConfigurationLike, source: string, options?: RunOptions & CallOptions): Promise<SourceRun> {
    const { call, own } = parseOptions<RunOptions>("runSource", options, { onProgress: true });
    const { runId } = await this.startRun(base, source, call);
    return await this.waitForRun(base, source, runId, { ...call, ...own });
  }

  /**
   * Start a run of a source.
   *
   * @throws Conflict if a run of the source is running, or if the source is not enabled.
   */
  async startRun(base: ConfigurationLike, source: string, options?: CallOptions): Promise<AcceptedRun> {
    const params = { path: sourcePath(base, source) };
    return await this.core.send(
      (api, init) => api.POST("/ragstore/rags/{id}/sources/{source}/run", { ...init, params }),
      parseCallOptions("startRun", options),
      { idempotent: false },
    );
  }

  /** Wait until a run has ended. While the gateway is away, requests are retried for 60 s. */
  async waitForRun(
    base: ConfigurationLike,
    source: string,
    runId: string,
    options?: RunOptions & CallOptions,
  ): Promise<SourceRun> {
    const { call, own } = parseOptions<RunOptions>("waitForRun", options, { onProgress: true });
    return await untilEnded(this.core, (options) => this.getRun(base, source, runId, options), call, own.onProgress);
  }

  /** Get a run. */
  async getRun(base: ConfigurationLike, source: string, runId: string, options?: CallOptions): Promise<SourceRun> {
    const params = { path: { ...sourcePath(base, source), run_id: segment("the id of a run", runId) } };
    return await this.core.send(
      (api, init) => api.GET("/ragstore/rags/{id}/sources/{source}/runs/{run_id}", { ...init, params }),
      parseCallOptions("getRun", options),
    );
  }

  /** Iterate over the runs of a source that are kept, newest first. */
  async *iterRuns(
    base: ConfigurationLike,
    source: string,
    options?: IterOptions & CallOptions,
  ): AsyncGenerator<SourceRun, void, undefined> {
    const { call, own } = parseOptions<IterOptions>("iterRuns", options, { pageSize: true });
    const path = sourcePath(base, source);
    yield* itemsOf(own.pageSize ?? 200, async (index, limit) => {
      const params = { path, query: { index, limit } };
      const { runs } = await this.core.send(
        (api, init) => api.GET("/ragstore/rags/{id}/sources/{source}/runs", { ...init, params }),
        call,
      );
      return runs;
    });
  }

  /** Cancel a run. Pages and files that it has ingested stay. */
  async cancelRun(base: ConfigurationLike, source: string, runId: string, options?: CallOptions): Promise<void> {
    const params = { path: { ...sourcePath(base, source), run_id: segment("the id of a run", runId) } };
    await this.core.send(
      async (api, init) =>
        withoutBody(await api.DELETE("/ragstore/rags/{id}/sources/{source}/runs/{run_id}", { ...init, params })),
      parseCallOptions("cancelRun", options),
      { resultIfGone: {} },
    );
  }

  /**
   * Delete all documents of a source.
   *
   * @throws Conflict if a run of the source is running.
   */
  async purgeSource(base: ConfigurationLike, source: string, options?: CallOptions): Promise<void> {
    const params = { path: sourcePath(base, source) };
    await this.core.send(
      async (api, init) =>
        withoutBody(await api.DELETE("/ragstore/rags/{id}/sources/{source}/documents", { ...init, params })),
      parseCallOptions("purgeSource", options),
      { resultIfGone: {} },
    );
  }

  /**
   * Store a file of a source of uploaded files. The next run ingests it. Its metadata are not sent.
   *
   * @throws BadRequest if the file was rejected; `detail` says why.
   */
  async uploadFile(base: ConfigurationLike, source: string, file: NewContent, options?: CallOptions): Promise<SourceFile> {
    const call = parseCallOptions("uploadFile", options);
    const params = { path: sourcePath(base, source) };
    const { name, mediaType, content = new Blob() } = await openDocument(file);
    const form = new FormData();
    form.append("files", content.slice(0, content.size, mediaType), name);
    const { stored, rejected } = await this.core.send(
      (api, init) =>
        api.POST("/ragstore/rags/{id}/sources/{source}/files", {
          ...init,
          params,
          body: form as unknown as { files: string[] },
          bodySerializer: (files: unknown) => files,
        }),
      call,
    );
    const [first] = stored;
    if (!first) {
      throw new BadRequest({ status: 400, detail: rejected[0]?.reason ?? "the file was not stored" });
    }
    return first;
  }

  /** Iterate over the files of a source, by name. */
  async *iterFiles(
    base: ConfigurationLike,
    source: string,
    options?: IterOptions & CallOptions,
  ): AsyncGenerator<SourceFile, void, undefined> {
    const { call, own } = parseOptions<IterOptions>("iterFiles", options, { pageSize: true });
    const path = sourcePath(base, source);
    yield* itemsOf(own.pageSize ?? 200, async (index, limit) => {
      const params = { path, query: { index, limit } };
      const { files } = await this.core.send(
        (api, init) => api.GET("/ragstore/rags/{id}/sources/{source}/files", { ...init, params }),
        call,
      );
      return files;
    });
  }

  /** Delete a file of a source. */
  async deleteFile(base: ConfigurationLike, source: string, name: string, options?: CallOptions): Promise<void> {
    const params = { path: { ...sourcePath(base, source), name: segment("the name of a file", name) } };
    await this.core.send(
      async (api, init) =>
        withoutBody(await api.DELETE("/ragstore/rags/{id}/sources/{source}/files/{name}", { ...init, params })),
      parseCallOptions("deleteFile", options),
      { resultIfGone: {} },
    );
  }

  /** Iterate over the audit ledger, the oldest entry first. */
  async *iterAuditEntries(options?: AuditOptions & IterOptions & CallOptions): AsyncGenerator<AuditEntry, void, undefined> {
    const names = {
      conversation: true,
      since: true,
      until: true,
      kind: true,
      key: true,
      assistant: true,
      pageSize: true,
    } as const;
    const { call, own } = parseOptions<AuditOptions & IterOptions>("iterAuditEntries", options, names);
    const { pageSize: limit = 200, ...selected } = own;
    let after: number | undefined;
    do {
      const params = { query: queryOf({ ...selected, after, limit }) };
      const page = await this.core.send((api, init) => api.GET("/audit", { ...init, params }), call);
      yield* page.entries;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  /**
   * Store whether a reply was helpful, in place of an earlier feedback on it.
   *
   * `conversation` is its id, which the chat has named, and `requestId` the header `X-Request-ID` of the reply.
   */
  async giveFeedback(
    conversation: string,
    requestId: string,
    helpful: boolean,
    options?: FeedbackOptions & CallOptions,
  ): Promise<StoredFeedback> {
    const { call, own } = parseOptions<FeedbackOptions>("giveFeedback", options, { comment: true });
    const params = { path: { conversation_id: segment("the id of a conversation", conversation) } };
    const body = { requestId, helpful, comment: own.comment ?? "" };
    return await this.core.send(
      (api, init) => api.POST("/conversations/{conversation_id}/feedback", { ...init, params, body }),
      call,
    );
  }
}

function sourcePath(base: ConfigurationLike, source: string): { id: string; source: string } {
  return { id: idOf(base), source: segment("the name of a source", source) };
}
