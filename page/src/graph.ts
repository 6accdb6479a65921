// The graph of a job as a drawing: places by dagre, everything else by the styles of the page.

import { graphlib, layout } from "@dagrejs/dagre";
import { s } from "./dom";

export interface Vertex {
  id: number;
  kind: string;
  name: string;
  label: string;
  outputs: number[];
  // Whether what comes to it goes to the worker of its slot: a door.
  routed: boolean;
  keeps: string;
  state: string | null;
}

export interface Drawing {
  element: SVGElement;
  // The lines below a vertex's name, what each of its edges carries, and whether it is what is slowest.
  say: (vertex: number, told: Told) => void;
}

export interface Told {
  below: string;
  figures: string;
  along: string;
  slow: boolean;
}

const HEIGHT = 60;
// Room for the figures of a vertex, with state and without, and for the rate of an edge.
const FIGURES = { state: 216, none: 124 };
const ALONG = { width: 64, height: 14, labelpos: "c" };
const LETTER = 7.2;
const SECOND = 6.2;
let drawings = 0;

export function drawn(vertices: Vertex[], narrow: boolean): Drawing {
  const graph = new graphlib.Graph({ multigraph: true }).setGraph({ rankdir: narrow ? "TB" : "LR", nodesep: 18, ranksep: narrow ? 28 : 44, marginx: 4, marginy: 4 });
  for (const vertex of vertices) {
    const width = Math.max(vertex.keeps ? FIGURES.state : FIGURES.none, vertex.label.length * LETTER + 24, second(vertex).length * SECOND + 24);
    graph.setNode(String(vertex.id), { width: Math.min(width, 300), height: HEIGHT });
  }
  const routed = new Set(vertices.filter((vertex) => vertex.routed).map((vertex) => vertex.id));
  for (const vertex of vertices)
    vertex.outputs.forEach((to, at) => graph.setEdge(String(vertex.id), String(to), { ...ALONG }, String(at)));
  layout(graph);
  const arrowhead = `arrow-${(drawings += 1)}`;
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  const rates = new Map<number, SVGElement[]>();
  const lines = graph.edges().map((edge) => {
    const { points, x, y } = graph.edge(edge) as { points: { x: number; y: number }[]; x: number; y: number };
    const rate = s("text", { class: "along", x, y: narrow ? y + 4 : y - 4, "text-anchor": "middle" });
    rates.set(Number(edge.v), [...(rates.get(Number(edge.v)) ?? []), rate]);
    const path = points.map((point, at) => `${at ? "L" : "M"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join("");
    return [s("path", { class: routed.has(Number(edge.w)) ? "edge routed" : "edge", d: path, "marker-end": `url(#${arrowhead})` }), rate];
  });
  const texts = new Map<number, [SVGElement, SVGElement, SVGElement]>();
  const boxes = vertices.map((vertex) => {
    const at = graph.node(String(vertex.id)) as { x: number; y: number; width: number };
    const below = s("text", { class: "below", x: at.x, y: at.y + 6, "text-anchor": "middle" }, second(vertex));
    const figures = s("text", { class: "below", x: at.x, y: at.y + 22, "text-anchor": "middle" });
    const box = s(
      "g",
      { class: `vertex ${vertex.kind}` },
      s("title", {}, [vertex.name, vertex.keeps && `keeps ${vertex.keeps}`].filter(Boolean).join(": ")),
      s("rect", { x: at.x - at.width / 2, y: at.y - HEIGHT / 2, width: at.width, height: HEIGHT, rx: vertex.kind === "source" || vertex.kind === "sink" ? HEIGHT / 2 : 6 }),
      s("text", { x: at.x, y: at.y - 11, "text-anchor": "middle" }, cut(vertex.label, 40)),
      below,
      figures,
    );
    texts.set(vertex.id, [box, below, figures]);
    return box;
  });
  const arrow = s("marker", { id: arrowhead, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" }, s("path", { d: "M0 0L8 4L0 8z" }));
  const element = s("svg", { class: "graph", viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, width: Math.ceil(width), height: Math.ceil(height), role: "img", "aria-label": told(vertices) }, s("defs", {}, arrow), lines.flat(), boxes);
  return {
    element,
    say: (vertex, told) => {
      const [box, below, figures] = texts.get(vertex) ?? [];
      if (!box || !below || !figures) return;
      put(below, told.below);
      put(figures, told.figures);
      for (const rate of rates.get(vertex) ?? []) put(rate, told.along);
      box.classList.toggle("slow", told.slow);
    },
  };
}

// The line below a vertex that has no figures of its own.
export function second(vertex: Vertex): string {
  return vertex.keeps ? cut(vertex.state ? `state ${vertex.state}` : vertex.keeps, 40) : vertex.kind;
}

function put(element: SVGElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function told(vertices: Vertex[]): string {
  const names = new Map(vertices.map((vertex) => [vertex.id, vertex.label]));
  return vertices.map((vertex) => `${vertex.label}${vertex.outputs.length ? ` to ${vertex.outputs.map((id) => names.get(id)).join(" and ")}` : ""}`).join("; ");
}
