/** Values that the page is drawn from. When one of them changes, the page is drawn again. */

let draw = (): void => undefined;
let isDue = false;

/** Set how the page is drawn. */
export function whenChanged(action: () => void): void {
  draw = action;
}

export class Signal<T> {
  private readonly listeners: (() => void)[] = [];

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set value(next: T) {
    if (next === this.current) return;
    this.current = next;
    for (const listener of this.listeners) listener();
    if (isDue) return;
    isDue = true;
    // Changes that follow each other are drawn once.
    queueMicrotask(() => {
      isDue = false;
      draw();
    });
  }

  /** Call a function after each change. */
  subscribe(listener: () => void): void {
    this.listeners.push(listener);
  }
}

/** A value that is computed from others. */
export const computed = <T>(compute: () => T): { readonly value: T } => ({
  get value(): T {
    return compute();
  },
});
