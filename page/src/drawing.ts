/** Draws a page, and draws it again after each change of a signal. */
import { render, type VNode } from "preact";
import { whenChanged } from "./signal";

export function drawn(page: () => VNode): void {
  const root = document.getElementById("page");
  root?.replaceChildren();
  const draw = (): void => {
    if (root) render(page(), root);
  };
  whenChanged(draw);
  draw();
}
