/** The canvas of the map: refines the layout while it draws, and passes on what the pointer does. */
import { useEffect, useRef } from "preact/hooks";
import { h } from "../../jsx";
import { Plot, type Picture, type Place } from "./plot";
import type { Refinement } from "./refinement";

/** Movements of a pointer, in pixels, that are still a click. */
const CLICK = 4;

interface Properties {
  label: string;
  refinement: Refinement;
  /** Called when the layout is refined. */
  done: () => void;
  picture: Omit<Picture, "lasso">;
  /** Called with the point below the pointer. */
  hover: (point: number | undefined) => void;
  open: (point: number) => void;
  /** Called with the points in a line that was drawn around them; undefined for a click beside all points. */
  choose: (points: number[] | undefined) => void;
}

export function MapCanvas({ label, refinement, done, picture, hover, open, choose }: Properties) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const plot = useRef<Plot>(undefined);
  const lasso = useRef<Place[]>([]);
  const isDown = useRef(false);

  function draw(): void {
    plot.current?.draw(refinement.at(), { ...picture, lasso: lasso.current });
  }
  const redraw = useRef(draw);
  redraw.current = draw;

  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    plot.current = new Plot(element);
    const again = (): void => redraw.current();
    const observer = new ResizeObserver(again);
    observer.observe(element);
    const schemes = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
    for (const scheme of schemes) scheme.addEventListener("change", again);
    return () => {
      observer.disconnect();
      for (const scheme of schemes) scheme.removeEventListener("change", again);
    };
  }, []);
  useEffect(() => refinement.run(() => redraw.current(), done), [refinement]);
  useEffect(draw);

  function placeOf(event: PointerEvent): Place {
    return [event.offsetX, event.offsetY];
  }
  function onPointerDown(event: PointerEvent): void {
    if (event.button !== 0) return;
    isDown.current = true;
    lasso.current = [placeOf(event)];
    canvas.current?.setPointerCapture(event.pointerId);
  }
  function onPointerMove(event: PointerEvent): void {
    const place = placeOf(event);
    if (!isDown.current) {
      hover(plot.current?.pointAt(place));
      return;
    }
    lasso.current.push(place);
    draw();
  }
  function end(): void {
    isDown.current = false;
    lasso.current = [];
    draw();
  }
  function onPointerUp(event: PointerEvent): void {
    const place = placeOf(event);
    const line = lasso.current;
    end();
    if (!plot.current || line.length === 0) return;
    const isClick = line.every(([x, y]) => Math.hypot(x - place[0], y - place[1]) <= CLICK);
    const point = plot.current.pointAt(place);
    if (!isClick) choose(plot.current.pointsIn(line));
    else if (point === undefined) choose(undefined);
    else open(point);
  }
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={label}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerCancel={end}
      onPointerLeave={() => hover(undefined)}
    />
  );
}
