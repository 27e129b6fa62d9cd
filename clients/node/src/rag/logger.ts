/** Logging. Nothing is logged unless a logger is passed, and no log line has a text, a vector or a key. */

/** Where the retriever logs: `console`, or a logger of pino, winston and others. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

export const NO_LOGGER: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined };
