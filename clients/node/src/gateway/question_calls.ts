/** The calls on runs of question sets, which `client.questionSets` creates and changes. */

import { parseCallOptions, parseOptions } from "../arguments.js";
import type { CallOptions } from "../types.js";
import { idOf, itemsOf, segment, withoutBody } from "./core.js";
import { untilEnded } from "./runs.js";
import { type RunOptions, SourceCalls } from "./source_calls.js";
import type { AcceptedQuestionRun, ConfigurationLike, IterOptions, QuestionRun, QuestionRunOutcomes } from "./types.js";

/** The calls of a client that run question sets. */
export class QuestionCalls extends SourceCalls {
  /**
   * Run a question set, and wait until the run has ended. Only a `completed` run has figures.
   *
   * @throws Conflict if a run of the set is running, or if no question has an expected passage.
   */
  async runQuestionSet(
    set: ConfigurationLike,
    options?: RunOptions<QuestionRunOutcomes> & CallOptions,
  ): Promise<QuestionRunOutcomes> {
    const { call, own } = parseOptions<RunOptions<QuestionRunOutcomes>>("runQuestionSet", options, { onProgress: true });
    const { runId } = await this.startQuestionRun(set, call);
    return await this.waitForQuestionRun(set, runId, { ...call, ...own });
  }

  /**
   * Start a run of a question set.
   *
   * @throws Conflict if a run of the set is running, or if no question has an expected passage.
   */
  async startQuestionRun(set: ConfigurationLike, options?: CallOptions): Promise<AcceptedQuestionRun> {
    const params = { path: { id: idOf(set) } };
    return await this.core.send(
      (api, init) => api.POST("/ragstore/questions/{id}/runs", { ...init, params }),
      parseCallOptions("startQuestionRun", options),
      { idempotent: false },
    );
  }

  /** Wait until a run has ended. While the gateway is away, requests are retried for 60 s. */
  async waitForQuestionRun(
    set: ConfigurationLike,
    runId: string,
    options?: RunOptions<QuestionRunOutcomes> & CallOptions,
  ): Promise<QuestionRunOutcomes> {
    const { call, own } = parseOptions<RunOptions<QuestionRunOutcomes>>("waitForQuestionRun", options, {
      onProgress: true,
    });
    return await untilEnded(this.core, (options) => this.getQuestionRun(set, runId, options), call, own.onProgress);
  }

  /** Get a run, with the outcome of each question. */
  async getQuestionRun(set: ConfigurationLike, runId: string, options?: CallOptions): Promise<QuestionRunOutcomes> {
    const params = { path: { id: idOf(set), run_id: segment("the id of a run", runId) } };
    return await this.core.send(
      (api, init) => api.GET("/ragstore/questions/{id}/runs/{run_id}", { ...init, params }),
      parseCallOptions("getQuestionRun", options),
    );
  }

  /**
   * Cancel a run, which then has no figures.
   *
   * @throws Conflict if it has ended already, and was not cancelled.
   */
  async cancelQuestionRun(set: ConfigurationLike, runId: string, options?: CallOptions): Promise<void> {
    const params = { path: { id: idOf(set), run_id: segment("the id of a run", runId) } };
    await this.core.send(
      async (api, init) =>
        withoutBody(await api.DELETE("/ragstore/questions/{id}/runs/{run_id}", { ...init, params })),
      parseCallOptions("cancelQuestionRun", options),
      { resultIfGone: {} },
    );
  }

  /** Iterate over the runs of a question set that are kept, newest first, without outcomes. */
  async *iterQuestionRuns(
    set: ConfigurationLike,
    options?: IterOptions & CallOptions,
  ): AsyncGenerator<QuestionRun, void, undefined> {
    const { call, own } = parseOptions<IterOptions>("iterQuestionRuns", options, { pageSize: true });
    const path = { id: idOf(set) };
    yield* itemsOf(own.pageSize ?? 100, async (index, limit) => {
      const params = { path, query: { index, limit } };
      const { runs } = await this.core.send(
        (api, init) => api.GET("/ragstore/questions/{id}/runs", { ...init, params }),
        call,
      );
      return runs;
    });
  }
}
