/** The differences between Node, Bun, Deno and browsers. Nothing is imported, so that every runtime loads this module. */

interface Process {
  env?: Record<string, string | undefined>;
  emitWarning?: (warning: string, type: string) => void;
  getBuiltinModule?: (name: string) => unknown;
}

/** An entry of a folder, or the state of a file. */
interface FileKind {
  isFile: () => boolean;
  isDirectory: () => boolean;
}

/** The parts of Node's file system that the package uses. */
export interface FileSystem {
  openAsBlob?: (path: string) => Promise<Blob>;
  promises: {
    readFile: (path: string) => Promise<Uint8Array<ArrayBuffer>>;
    readdir: (path: string, options: { withFileTypes: true }) => Promise<(FileKind & { name: string })[]>;
    stat: (path: string) => Promise<FileKind>;
  };
}

const { process } = globalThis as { process?: Process };

/** A variable of the environment; undefined in a browser, if it is blank, or if Deno denies access. */
export function environmentVariable(name: string): string | undefined {
  try {
    return process?.env?.[name]?.trim() || undefined;
  } catch {
    return undefined;
  }
}

/** The file system of Node 20.16 or newer, of Bun and of Deno; undefined elsewhere. */
export function fileSystem(): FileSystem | undefined {
  return process?.getBuiltinModule?.("fs") as FileSystem | undefined;
}

/** Warn about a mistake of the program. */
export function warn(message: string): void {
  if (process?.emitWarning) {
    process.emitWarning(message, "RagstoreWarning");
  } else {
    console.warn(message);
  }
}

/** A random id of 32 hexadecimal digits. `crypto.randomUUID` is missing in web pages without TLS. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A longer time makes a timer expire immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Call a function after a time. No timer is set for a time that no timer can measure, such as `Infinity`.
 *
 * @returns stops the timer.
 */
export function after(milliseconds: number, callback: () => void): () => void {
  if (milliseconds > MAX_TIMER_MS) {
    return () => undefined;
  }
  const timer = setTimeout(callback, milliseconds);
  return () => {
    clearTimeout(timer);
  };
}

/** Wait for a time, or until a signal aborts. Never rejects. */
export async function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) {
    return;
  }
  await new Promise<void>((resolve) => {
    const end = (): void => {
      stop();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const stop = after(milliseconds, end);
    signal?.addEventListener("abort", end);
  });
}
