/** A layout that is refined while the page stays responsive. */
import { placed, refined } from "./layout";

const SLICE_MILLISECONDS = 8;

export interface Refinement {
  /** The positions to draw: of the projection at first. */
  at: () => Float64Array;
  /** Refine in slices, each before a frame. Returns how to stop. */
  run: (draw: () => void, whenDone: () => void) => () => void;
}

/** A projection to refine. Without motion, it is drawn until its refined positions are complete. */
export function refinementOf(x: number[], y: number[], neighbours: number[][], distances: number[][]): Refinement {
  const work = placed(x, y);
  const steps = refined(work, neighbours, distances);
  let isDone = false;
  let still = matchMedia("(prefers-reduced-motion: reduce)").matches && work.slice();
  return {
    at: () => still || work,
    run: (draw, whenDone) => {
      let frame = 0;
      const step = (): void => {
        const until = performance.now() + SLICE_MILLISECONDS;
        while (!isDone && performance.now() < until) isDone = steps.next().done === true;
        if (isDone) {
          still = false;
          whenDone();
        } else frame = requestAnimationFrame(step);
        draw();
      };
      frame = requestAnimationFrame(step);
      return () => cancelAnimationFrame(frame);
    },
  };
}
