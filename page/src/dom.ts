// Elements, made of texts: nothing here reads markup, so a name or a payload is never more than a text.

type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, unknown>;
const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children: Child[]): (Node | string)[] {
  return children.flatMap((child) => {
    if (Array.isArray(child)) return nodes(child);
    if (child === null || child === undefined || child === false) return [];
    return [typeof child === "number" ? String(child) : child];
  });
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return fill(document.createElementNS(SVG, tag) as SVGElement, attributes, children);
}

// Puts new children in the place of all others.
export function put(element: Element, ...children: Child[]): void {
  element.replaceChildren(...nodes(children));
}

// Sets a text if it is another one: the browser then lays out only what has changed.
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function table(headings: string[], rows: Child[][], attributes: Attributes = {}): HTMLElement {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": attributes["aria-label"] ?? "table" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...headings.map((text) => h("th", { scope: "col", class: numeric(text) }, text)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, at) => h("td", { class: numeric(headings[at] ?? "") }, cell))))),
    ),
  );
}

const NUMBERS = new Set(["p50", "p99", "epoch", "size", "rows", "segments", "attempt", "took", "in", "out", "memory", "in flight", "pid"]);

function numeric(heading: string): string | undefined {
  return NUMBERS.has(heading) ? "number" : undefined;
}
