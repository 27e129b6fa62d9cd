/** Rows of a long list, loaded in pages when they become visible. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { asFailure } from "./failure";
import { nextAttempt, type Trouble } from "./resource";

export interface PageOf<T> {
  rows: T[];
  total: number;
  /** The cursor of the next page, if there is one. */
  next?: string | undefined;
}

/** Loads the page that begins at an offset; `after` is its cursor, if the page before it is known. */
export type LoadPage<T> = (offset: number, after: string | undefined, signal: AbortSignal) => Promise<PageOf<T>>;

export interface Rows<T> {
  /** Exact number of all rows; undefined before the first page. */
  total: number | undefined;
  row: (index: number) => T | undefined;
  /** Load what is visible. */
  see: (first: number, last: number) => void;
  trouble: Trouble | undefined;
  loadedAt: number;
  reload: () => void;
  /** The rows that were loaded. */
  loaded: () => T[];
}

/** Rows of the list that `key` names. With another key, all rows are forgotten. */
export function useRows<T>(key: string, size: number, load: LoadPage<T>): Rows<T> {
  const [, redraw] = useState(0);
  const [round, setRound] = useState(0);
  const list = useRef<List<T>>(undefined);
  const identity = `${key}\n${round}`;
  if (list.current?.identity !== identity) {
    // After a reload the old rows stay until the new ones come.
    const before = list.current?.key === key ? list.current : undefined;
    list.current?.stop();
    list.current = new List(identity, key, size, load, () => redraw((last) => last + 1), before);
  }
  const now = list.current;
  useEffect(() => {
    now.see(now.visible[0], now.visible[1]);
  }, [now]);
  useEffect(() => () => list.current?.stop(), []);
  return {
    total: now.total,
    row: useCallback((index: number) => now.row(index), [now]),
    see: useCallback((first: number, last: number) => now.see(first, last), [now]),
    trouble: now.trouble,
    loadedAt: now.loadedAt,
    reload: useCallback(() => setRound((last) => last + 1), []),
    loaded: () => now.all(),
  };
}

class List<T> {
  total: number | undefined;
  trouble: Trouble | undefined;
  loadedAt = 0;
  visible: [number, number] = [0, 0];
  private readonly pages = new Map<number, PageOf<T>>();
  private readonly loading = new Set<number>();
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pause: ReturnType<typeof setTimeout> | undefined;
  private before: List<T> | undefined;

  constructor(
    readonly identity: string,
    readonly key: string,
    private readonly size: number,
    private readonly load: LoadPage<T>,
    private readonly changed: () => void,
    before: List<T> | undefined,
  ) {
    this.before = before;
    if (before) {
      this.total = before.total;
      this.loadedAt = before.loadedAt;
      this.visible = before.visible;
      before.before = undefined;
    }
  }

  row(index: number): T | undefined {
    const page = this.pages.get(Math.floor(index / this.size));
    return page ? page.rows[index % this.size] : this.before?.row(index);
  }

  all(): T[] {
    return [...this.pages.values()].flatMap((page) => page.rows);
  }

  see(first: number, last: number): void {
    this.visible = [first, last];
    if (this.pages.size === 0) {
      this.request();
      return;
    }
    // A list that is scrolled far passes many pages, and only the last is read.
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.request(), 60);
  }

  stop(): void {
    this.controller.abort();
    clearTimeout(this.timer);
    clearTimeout(this.pause);
  }

  private request(): void {
    if (this.trouble) return;
    const [first, last] = this.visible;
    for (let page = Math.floor(first / this.size); page <= Math.floor(last / this.size); page += 1) {
      if (!this.pages.has(page) && !this.loading.has(page)) void this.fetch(page);
    }
  }

  private async fetch(page: number): Promise<void> {
    this.loading.add(page);
    try {
      const after = this.pages.get(page - 1)?.next;
      const found = await this.load(page * this.size, after, this.controller.signal);
      if (this.controller.signal.aborted) return;
      this.pages.set(page, found);
      this.total = found.total;
      this.loadedAt = Date.now();
      this.trouble = undefined;
      this.before = undefined;
    } catch (error) {
      if (this.controller.signal.aborted) return;
      const failure = asFailure(error);
      const nextAt = nextAttempt(failure);
      this.trouble = { failure, nextAt };
      if (nextAt !== undefined) this.timer = setTimeout(() => this.retry(), Math.max(nextAt - Date.now(), 0));
    } finally {
      this.loading.delete(page);
    }
    this.changed();
  }

  private retry(): void {
    // The error stays in its place until the call has succeeded.
    const trouble = this.trouble;
    this.trouble = undefined;
    this.request();
    this.trouble = trouble;
  }
}
