/**
 * The JSX of the page. It is Preact's, with two differences that the compiler enforces: a stored string is no child and no
 * attribute, so that only the component `Stored` draws it, and there is no `dangerouslySetInnerHTML`.
 */
import { createElement, Fragment as PreactFragment } from "preact";
import type { ComponentType, JSX as Preact, VNode } from "preact";

export const Fragment = PreactFragment as unknown as (properties: { children?: Child }) => VNode;
export const h = createElement as unknown as (
  type: string | ComponentType<never>,
  attributes: object | null,
  ...children: Child[]
) => VNode;

/** Everything that may be inside an element. */
export type Child = VNode | string | number | boolean | null | undefined | Child[];

type Attributes<T> = Omit<T, "children" | "dangerouslySetInnerHTML"> & { children?: Child };

export declare namespace h {
  namespace JSX {
    type Element = VNode;
    type ElementClass = never;
    interface ElementAttributesProperty {
      props: object;
    }
    interface ElementChildrenAttribute {
      children: object;
    }
    interface IntrinsicAttributes {
      key?: string | number;
    }
    type IntrinsicElements = { [Name in keyof Preact.IntrinsicElements]: Attributes<Preact.IntrinsicElements[Name]> };
  }
}
