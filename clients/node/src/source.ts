/** The source of an ingestion. */

type Iterables<T> = Iterable<T> | AsyncIterable<T> | ReadableStream<T>;

/** Whether a value can be iterated. A string can, but its characters are no documents. */
export function isIterable(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    (Symbol.asyncIterator in value || Symbol.iterator in value || "getReader" in value)
  );
}

/** Reads a synchronous or asynchronous iterable, or a stream. A pending read can be interrupted. */
export class Source<T> {
  readonly #iterator: Iterator<T> | AsyncIterator<T>;
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(items: Iterables<T>) {
    this.#iterator = iteratorOf(items);
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

function iteratorOf<T>(items: Iterables<T>): Iterator<T> | AsyncIterator<T> {
  if (Symbol.asyncIterator in items) {
    return (items as AsyncIterable<T>)[Symbol.asyncIterator]();
  }
  if (Symbol.iterator in items) {
    return items[Symbol.iterator]();
  }
  // Not all browsers iterate over a stream.
  return readerIterator((items as ReadableStream<T>).getReader());
}

function readerIterator<T>(reader: ReadableStreamDefaultReader<T>): AsyncIterator<T> {
  return {
    next: async () => (await reader.read()) as IteratorResult<T>,
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}
