/**
 * A layout by neighbours: the second phase of UMAP (McInnes, Healy, Melville, arXiv:1802.03426). Neighbours attract each other,
 * random pairs repel each other. It begins at given positions and uses random numbers of a fixed seed, and no step depends on
 * the clock, so the same neighbours make the same map.
 */

const SEED = 29;
/** The width of the map at the start, in units of the forces. */
const SPAN = 20;
const NEGATIVE_SAMPLES = 5;
const MAX_STEP = 4;
/**
 * The similarity of two points of the map is 1 / (1 + A d²). UMAP fits 1 / (1 + 1.577 d^1.79) to its default settings; an
 * exponent of 2 needs no power, which is most of the work.
 */
const A = 1.577;
/** Halvings of the interval in which the scale of a point's distances is searched. */
const SEARCH_STEPS = 20;
/** Edges, or points of the search, between two looks at the clock. */
const BLOCK = 64;

/** Rounds of a layout. Many points need fewer, because each of them meets more of the others. */
const roundsOf = (points: number): number => (points > 4000 ? 100 : 200);

/** Positions `[x0, y0, x1, y1, …]` of a projection, scaled for the layout. Equal positions are moved apart by a thousandth. */
export function placed(x: number[], y: number[]): Float64Array {
  const at = new Float64Array(2 * x.length);
  const random = randomOf(SEED);
  const widest = Math.max(spreadOf(x), spreadOf(y)) || 1;
  return at.map((_, index) => (((index % 2 ? y : x)[index >> 1] ?? 0) * SPAN) / widest + random() / 2 ** 42);
}

/** Refine positions in place. Each step of the generator takes some microseconds. */
export function* refined(at: Float64Array, neighbours: number[][], distances: number[][]): Generator<undefined, void> {
  const weights: number[][] = [];
  for (const each of distances) {
    if (weights.length % BLOCK === 0) yield;
    weights.push(weightsOf(each));
  }
  const edges = edgesOf(neighbours, weights);
  const heaviest = edges.reduce((most, { weight }) => Math.max(most, weight), 0);
  const heads = Int32Array.from(edges, ({ head }) => head);
  const tails = Int32Array.from(edges, ({ tail }) => tail);
  // Rounds between two moves of an edge: 1 for the heaviest.
  const every = Float64Array.from(edges, ({ weight }) => heaviest / weight);
  const next = every.slice();
  const random = randomOf(SEED);
  const rounds = roundsOf(neighbours.length);
  for (let round = 1; round <= rounds; round += 1) {
    // The forces become weaker with each round.
    const rate = 1 - (round - 1) / rounds;
    for (let edge = 0; edge < heads.length; edge += 1) {
      if (edge % BLOCK === 0) yield;
      const due = next[edge] as number;
      if (due > round) continue;
      next[edge] = due + (every[edge] as number);
      const head = heads[edge] as number;
      move(at, head, tails[edge] as number, rate, true);
      for (let sample = 0; sample < NEGATIVE_SAMPLES; sample += 1) move(at, head, random() % neighbours.length, rate, false);
    }
  }
}

const spreadOf = (values: number[]): number => Math.max(...values) - Math.min(...values);

/** The weights of a point's neighbours, nearest first: 1 for the nearest, and log2(n + 1) in all. */
function weightsOf(distances: number[]): number[] {
  const nearest = distances[0] ?? 0;
  const beyond = distances.map((distance) => Math.max(distance - nearest, 0));
  const wanted = Math.log2(distances.length + 1);
  let [low, high] = [0, Infinity];
  let scale = beyond.reduce((sum, each) => sum + each, 0) / distances.length || 1;
  for (let step = 0; step < SEARCH_STEPS; step += 1) {
    let sum = 0;
    for (const each of beyond) sum += Math.exp(-each / scale);
    if (sum > wanted) high = scale;
    else low = scale;
    scale = high === Infinity ? scale * 2 : (low + high) / 2;
  }
  return beyond.map((each) => Math.exp(-each / scale));
}

interface Edge {
  head: number;
  tail: number;
  weight: number;
}

/** The edges. One that both ends have is there once, with the probability that one of the two exists. */
function edgesOf(neighbours: number[][], weights: number[][]): Edge[] {
  return neighbours.flatMap((others, head) =>
    others.flatMap((tail, position) => {
      const back = neighbours[tail]?.indexOf(head) ?? -1;
      if (back >= 0 && tail < head) return [];
      const there = weights[head]?.[position] ?? 0;
      const here = weights[tail]?.[back] ?? 0;
      return { head, tail, weight: there + here - there * here };
    }),
  );
}

/** Move two neighbours towards each other, or one point away from another. */
function move(at: Float64Array, head: number, tail: number, rate: number, attracts: boolean): void {
  const [h, t] = [2 * head, 2 * tail];
  const dx = (at[h] as number) - (at[t] as number);
  const dy = (at[h + 1] as number) - (at[t + 1] as number);
  const square = dx * dx + dy * dy;
  const force = (attracts ? -2 * A : 2 / (0.001 + square)) / (1 + A * square);
  const x = clipped(force * dx) * rate;
  const y = clipped(force * dy) * rate;
  at[h] = (at[h] as number) + x;
  at[h + 1] = (at[h + 1] as number) + y;
  if (!attracts) return;
  at[t] = (at[t] as number) - x;
  at[t + 1] = (at[t + 1] as number) - y;
}

const clipped = (value: number): number => Math.max(-MAX_STEP, Math.min(value, MAX_STEP));

/** Random integers of 32 bits from a seed (xorshift32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}
