/** Translation between the names of JavaScript (`topK`) and those of the contract (`top_k`). */

/** The name of JavaScript for a name of the contract. */
export type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S;

/** A type of the contract with the names of JavaScript. The types of the fields are unchanged. */
export type CamelKeys<T> = { [K in keyof T as K extends string ? CamelCase<K> : K]: T[K] };

/** An object with the names of JavaScript. Fields of fields, such as metadata, are unchanged. */
export function camelKeys<T extends object>(body: T): CamelKeys<T> {
  const entries = Object.entries(body).map(([key, value]) => [
    key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    value as unknown,
  ]);
  return Object.fromEntries(entries) as CamelKeys<T>;
}

/** An object with the names of the contract. Fields of fields are unchanged, and undefined fields are left out. */
export function snakeKeys(options: object): Record<string, unknown> {
  const entries = Object.entries(options)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value as unknown]);
  return Object.fromEntries(entries) as Record<string, unknown>;
}
