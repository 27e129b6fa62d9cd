/** The words and numbers that several pages have. */

const number = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export const formatted = (value: number): string => number.format(value);
export const scored = (value: number): string => decimal.format(value);
export const timeOf = (milliseconds: number): string => clock.format(milliseconds);

/** A duration, in the unit that suits it. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0.001) return `${number.format(Math.round(seconds * 1e6))} µs`;
  return seconds < 1 ? `${number.format(Math.round(seconds * 1e4) / 10)} ms` : `${number.format(Math.round(seconds * 100) / 100)} s`;
}

/** A size, in the unit that suits it. */
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${number.format(Math.round(value * 10) / 10)} ${units[unit]}`;
}

export type Pair = readonly [string, string];

export const words = {
  again: (seconds: number): string => `Again in ${seconds} s`,
  apiDocs: "API reference",
  cancel: "Cancel",
  copied: "Copied",
  copy: "Copy",
  copyUnavailable: "This browser copies only on a secure page. Select the text instead.",
  damaged: "The collection is damaged. Its index can be rebuilt in Settings; if that fails, `chroma-repair` repairs the data of a stopped Chroma.",
  failed: "The call has failed",
  filterJson: "Filter as JSON",
  key: "Key",
  keyNoLongerValid: "The key is no longer valid. Sign in with another one.",
  loading: "Loading",
  needsRole: (role: string): string => `Needs the role ${role}`,
  noKeysNeeded: "No key needed",
  noResponse: ["No response", "The service cannot be reached, or the connection was cut."] as Pair,
  noSuchName: ["There is no such collection", "A collection cannot have this name."] as Pair,
  requestId: "Request id",
  retry: "Retry",
  signIn: "Sign in",
  signInHint: "This service needs a key. The key stays in this tab: it is in no cookie, in no address, and not kept when the tab is closed.",
  signOut: "Sign out",
  skip: "Skip to content",
  staleSince: (time: string): string => `Data of ${time}`,
  timeout: ["No response in time", "The service did not respond in the time of this call."] as Pair,
  took: (service: string, total: string): string => `Store ${service}, in all ${total}`,
  typeName: "Type the name to confirm",
  unexpectedStatus: (status: number): string => `Unexpected response (status ${status})`,
};
