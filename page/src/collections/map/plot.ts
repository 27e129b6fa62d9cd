/**
 * The drawing of the map on a canvas, and the points at a place or within a line. The forms of the points are copied into
 * pixels by a loop: 10,000 calls of `drawImage` take ten times as long where no GPU draws.
 */
import type { Group } from "./groups";

const MARGIN = 20;
/** Distance in pixels within which a point is below the pointer. */
const REACH = 14;
const RING = 9;
/** More points than this are drawn smaller. */
const MANY = 4000;
const FAINT = 0.15;

export interface Picture {
  groups: Group[];
  /** Points that are chosen; the others are drawn faintly. */
  chosen: number[] | undefined;
  /** Points with a ring. */
  ringed: number[];
  /** Points that a question is near to. */
  near: number[];
  /** A line around points, while it is drawn. */
  lasso: Place[];
}

export type Place = [x: number, y: number];

export class Plot {
  /** Places of the points on the canvas. */
  #places: Place[] = [];
  /** The forms that were drawn, by their parameters: each frame needs the same. */
  readonly #forms = new Map<string, Form>();
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    // Without it, pixels of each frame are copied to a GPU and back.
    this.#context = canvas.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
  }

  draw(at: Float64Array, { groups, chosen, ringed, near, lasso }: Picture): void {
    const [canvas, context, ratio] = [this.#canvas, this.#context, devicePixelRatio];
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    // Setting the size clears the canvas.
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    this.#places = fitted(at, width, height);
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const isChosen = chosen && new Set(chosen);
    const size = at.length / 2 > MANY ? 7 : 10;
    // The largest groups come last, and those that are none first.
    for (const { glyph, kind, points } of groups.toReversed()) {
      const colour = getComputedStyle(canvas.closest(".map")?.querySelector(`.${kind}`) ?? canvas).color;
      const [plain, faint] = [1, FAINT].map((alpha) => this.#form(glyph, colour, size * ratio, alpha));
      for (const point of points) {
        const [x, y] = this.#places[point] as Place;
        stamp(pixels, canvas.width, (isChosen && !isChosen.has(point) ? faint : plain) as Form, x * ratio, y * ratio);
      }
    }
    context.putImageData(image, 0, 0);
    context.scale(ratio, ratio);
    context.strokeStyle = getComputedStyle(canvas).color;
    context.lineWidth = 2;
    for (const point of ringed) this.#circle(this.#places[point]);
    this.#question(near.flatMap((point) => [this.#places[point] as Place]));
    context.setLineDash([4, 4]);
    context.beginPath();
    for (const place of lasso) context.lineTo(...place);
    context.closePath();
    context.stroke();
  }

  /** The point nearest to a place, if one is there. */
  pointAt([x, y]: Place): number | undefined {
    let found: number | undefined;
    let least = REACH;
    this.#places.forEach((place, point) => {
      const distance = Math.hypot(place[0] - x, place[1] - y);
      if (distance < least) [found, least] = [point, distance];
    });
    return found;
  }

  /** The points within a line. */
  pointsIn(line: Place[]): number[] {
    return [...this.#places.keys()].filter((point) => isWithin(this.#places[point] as Place, line));
  }

  #form(...parts: Parameters<typeof formOf>): Form {
    const key = parts.join();
    const form = this.#forms.get(key) ?? formOf(...parts);
    this.#forms.set(key, form);
    return form;
  }

  #circle(place: Place | undefined): void {
    if (!place) return;
    this.#context.beginPath();
    this.#context.arc(...place, RING, 0, 7);
    this.#context.stroke();
  }

  /** A question is amid its neighbours, above them, with a line to each. By the median, it is beside most of them. */
  #question(near: Place[]): void {
    if (near.length === 0) return;
    const context = this.#context;
    const middle = [0, 1].map((axis) => near.map((place) => place[axis] as number).sort((a, b) => a - b)[near.length >> 1]) as Place;
    context.beginPath();
    for (const place of near) {
      context.moveTo(...middle);
      context.lineTo(...place);
    }
    context.stroke();
    this.#circle(middle);
    context.fillStyle = getComputedStyle(this.#canvas).backgroundColor;
    context.fill();
    context.fillStyle = context.strokeStyle;
    prepare(context, 14);
    context.fillText("?", ...middle);
  }
}

function prepare(context: CanvasRenderingContext2D, size: number): void {
  context.font = `bold ${size}px sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
}

interface Form {
  size: number;
  pixels: Uint32Array;
}

/** The pixels of a form, drawn as text. */
function formOf(glyph: string, colour: string, size: number, alpha: number): Form {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.ceil(size);
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  prepare(context, size);
  context.fillStyle = colour;
  context.globalAlpha = alpha;
  context.fillText(glyph, size / 2, size / 2);
  return { size: canvas.width, pixels: new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.width).data.buffer) };
}

/** Copy a form into an image. Of two pixels, the less transparent one stays, so that edges are smooth. */
function stamp(image: Uint32Array, width: number, { size, pixels }: Form, x: number, y: number): void {
  const start = Math.round(y - size / 2) * width + Math.round(x - size / 2);
  for (let index = 0; index < pixels.length; index += 1) {
    const pixel = pixels[index] as number;
    const to = start + Math.trunc(index / size) * width + (index % size);
    if (pixel >>> 24 >= (image[to] as number) >>> 24) image[to] = pixel;
  }
}

/** Positions on a canvas: as large as it allows, in the proportions of the map. */
function fitted(at: Float64Array, width: number, height: number): Place[] {
  const points = Array.from({ length: at.length / 2 }, (_, point) => [at[2 * point], -(at[2 * point + 1] as number)] as Place);
  const [xs, ys] = [0, 1].map((axis) => points.map((place) => place[axis] as number)) as [number[], number[]];
  const [left, top, right, bottom] = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  // A single point has no extent; it is in the middle.
  const scale = Math.min((width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (bottom - top || 1));
  return points.map(([x, y]) => [(width + (2 * x - left - right) * scale) / 2, (height + (2 * y - top - bottom) * scale) / 2]);
}

/** Whether a place is within a closed line: a ray from it crosses the line an odd number of times. */
function isWithin([x, y]: Place, line: Place[]): boolean {
  let inside = false;
  line.forEach(([ax, ay], index) => {
    const [bx, by] = line.at(index - 1) as Place;
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  });
  return inside;
}
