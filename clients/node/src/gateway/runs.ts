/** Waits for runs of sources and of question sets. */

import { lasting, parseRetries } from "../retry.js";
import { sleep } from "../runtime.js";
import type { CallOptions } from "../types.js";
import type { GatewayCore } from "./core.js";

/** Delays between two requests for the state of a run. The last one repeats. */
const POLL_MS = [100, 200, 500, 1000];
const RETRY_MS = 60_000;

/**
 * Wait until a run has ended. While the gateway is away, requests are retried for 60 s.
 *
 * @param get reads the state of the run.
 * @param onProgress called with each state.
 */
export async function untilEnded<Run extends { status: string }>(
  core: GatewayCore,
  get: (call: CallOptions) => Promise<Run>,
  call: CallOptions,
  onProgress?: (run: Run) => void,
): Promise<Run> {
  const retries = lasting({ ...core.retries, ...parseRetries(call.retries) }, RETRY_MS);
  for (let polls = 0; ; polls += 1) {
    const run = await get({ ...call, retries });
    onProgress?.(run);
    if (run.status !== "running") {
      return run;
    }
    await sleep(POLL_MS[Math.min(polls, POLL_MS.length - 1)] ?? 0, call.signal);
  }
}
