/** Data of a call: loaded when its key changes, kept when a later call fails, and loaded again after a failure. */
import { useEffect, useRef, useState } from "preact/hooks";
import { asFailure, type Failure } from "./failure";

const RETRY_SECONDS = 5;

export interface Trouble {
  failure: Failure;
  /** When the call is made again, in milliseconds; undefined if only the reader repeats it. */
  nextAt: number | undefined;
}

export interface Resource<T> {
  /** The last data; undefined before the first. */
  data: T | undefined;
  /** When it arrived. */
  loadedAt: number;
  trouble: Trouble | undefined;
  isLoading: boolean;
  reload: () => void;
}

/** When a failed call is made again. */
export function nextAttempt(failure: Failure): number | undefined {
  return failure.isTransient ? Date.now() + 1000 * (failure.retryAfter ?? RETRY_SECONDS) : undefined;
}

interface State<T> {
  key: string;
  data: T | undefined;
  loadedAt: number;
  trouble: Trouble | undefined;
  isLoading: boolean;
}

/**
 * Load data.
 *
 * `key` names the data: with another key, the data of the last one is forgotten. `load` is called again after a failure
 * that may pass, when `reload` is called, and each `every` milliseconds while the tab is visible.
 */
export function useResource<T>(key: string, load: (signal: AbortSignal) => Promise<T>, every = 0): Resource<T> {
  const [state, setState] = useState<State<T>>(() => initial(key));
  const [round, setRound] = useState(0);
  const current = useRef(load);
  current.current = load;
  const reload = useRef(() => setRound((last) => last + 1)).current;

  useEffect(() => {
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    setState((last) => (last.key === key ? { ...last, isLoading: true } : initial(key)));
    const again = (milliseconds: number): void => {
      timer = setTimeout(() => {
        if (document.hidden) again(1000);
        else reload();
      }, milliseconds);
    };
    current
      .current(controller.signal)
      .then((data) => {
        if (controller.signal.aborted) return;
        setState({ key, data, loadedAt: Date.now(), trouble: undefined, isLoading: false });
        if (every) again(every);
      })
      .catch((error: unknown) => {
        if (controller.signal.aborted) return;
        const failure = asFailure(error);
        const nextAt = nextAttempt(failure);
        setState((last) => ({ ...last, trouble: { failure, nextAt }, isLoading: false }));
        if (nextAt !== undefined) again(Math.max(nextAt - Date.now(), 0));
      });
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [key, round, every]);

  // The first render with another key comes before its effect.
  const shown = state.key === key ? state : initial<T>(key);
  const { data, loadedAt, trouble, isLoading } = shown;
  return { data, loadedAt, trouble, isLoading, reload };
}

function initial<T>(key: string): State<T> {
  return { key, data: undefined, loadedAt: 0, trouble: undefined, isLoading: true };
}

const POLL_MILLISECONDS = 2000;

/** Call a function each 2 s while something is unfinished and the tab is visible. */
export function usePolling(isUnfinished: boolean, reload: () => void): void {
  useEffect(() => {
    if (!isUnfinished) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, POLL_MILLISECONDS);
    return () => clearInterval(timer);
  }, [isUnfinished, reload]);
}
