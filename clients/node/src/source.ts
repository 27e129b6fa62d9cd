/** The source of an ingestion. */

/** Reads a synchronous or asynchronous iterable. A pending read can be interrupted. */
export class Source<T> {
  readonly #iterator: Iterator<T> | AsyncIterator<T>;
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(items: Iterable<T> | AsyncIterable<T>) {
    this.#iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  }

  async next(): Promise<IteratorResult<T, unknown>> {
    if (this.#ended) {
      return { done: true, value: undefined };
    }
    try {
      const result = await new Promise<IteratorResult<T, unknown>>((resolve, reject) => {
        this.#wake = () => {
          resolve({ done: true, value: undefined });
        };
        Promise.resolve(this.#iterator.next()).then((next) => {
          this.#wake = undefined;
          resolve(next);
        }, reject);
      });
      this.#ended ||= result.done === true;
      return result;
    } catch (error) {
      this.#ended = true;
      this.#wake = undefined;
      throw error;
    }
  }

  stop(): void {
    this.#wake?.();
  }

  async close(): Promise<void> {
    if (this.#wake) {
      // A read is pending: the source is closed without waiting for it.
      void Promise.resolve(this.#iterator.return?.()).catch(() => undefined);
    } else if (!this.#ended) {
      await this.#iterator.return?.();
    }
  }
}
