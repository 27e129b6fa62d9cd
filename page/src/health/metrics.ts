/** Prometheus' text format, and quantiles of its histograms. */

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export type Metrics = Map<string, Sample[]>;

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/u;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/gu;

/** The samples of a response of `/metrics`, by the name of the metric. */
export function parsed(text: string): Metrics {
  const found: Metrics = new Map();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (name === undefined || line.startsWith("#")) continue;
    const sample = {
      labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, label]) => [key, label])) as Record<string, string>,
      value: Number(value),
    };
    const samples = found.get(name);
    if (samples) samples.push(sample);
    else found.set(name, [sample]);
  }
  return found;
}

/** The sum of the samples of a metric; undefined if there are none. */
export function sum(metrics: Metrics, name: string): number | undefined {
  const samples = metrics.get(name);
  return samples?.reduce((total, each) => total + each.value, 0);
}

/** Times of one kind, from a histogram. */
export interface Times {
  count: number;
  /** Cumulative counts by upper bound, ascending. */
  buckets: [number, number][];
}

/** The times of a histogram, by what `group` makes of their labels. */
export function timesBy(metrics: Metrics, name: string, group: (labels: Record<string, string>) => string): Map<string, Times> {
  const found = new Map<string, Map<number, number>>();
  for (const { labels, value } of metrics.get(`${name}_bucket`) ?? []) {
    const key = group(labels);
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    const buckets = found.get(key) ?? new Map<number, number>();
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
    found.set(key, buckets);
  }
  return new Map(
    [...found].map(([key, buckets]) => {
      const sorted = [...buckets].sort(([a], [b]) => a - b);
      return [key, { count: sorted.at(-1)?.[1] ?? 0, buckets: sorted }];
    }),
  );
}

/** The times after an earlier moment. A service that was restarted counts from 0 again. */
export function since(now: Times, before: Times | undefined): Times {
  if (!before || before.count > now.count) return now;
  const earlier = new Map(before.buckets);
  return {
    count: now.count - before.count,
    buckets: now.buckets.map(([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)]),
  };
}

/** The time within which a share ended, as Prometheus estimates it; NaN without any. */
export function quantile({ count, buckets }: Times, share: number): number {
  if (count <= 0) return Number.NaN;
  const rank = share * count;
  let lower = 0;
  let below = 0;
  for (const [bound, reached] of buckets) {
    if (reached >= rank) {
      if (bound === Infinity) return lower;
      return reached === below ? bound : lower + ((bound - lower) * (rank - below)) / (reached - below);
    }
    lower = bound;
    below = reached;
  }
  return lower;
}
