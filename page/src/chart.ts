// Lines over time that share their axis, with marks drawn in.

import uPlot from "uplot";
import type { Figures, Mark } from "./api";
import { clock } from "./format";
import { LABELS, moment } from "./marks";

export interface Line {
  column: string;
  label: string;
  colour: string; // a variable of the styles
  fill?: boolean;
}

export const GAP: Panel = { title: "Longest time without output", unit: "ms", lines: [{ column: "gap_ms", label: "gap", colour: "--line-3", fill: true }] };

export interface Panel {
  title: string;
  unit: string;
  lines: Line[];
  logarithmic?: boolean;
  marked?: boolean;
}

export type Data = Record<string, (number | null)[]>;

// Puts new samples behind those that are there, and keeps the newest.
function add(data: Data, news: Figures, most: number): void {
  const at = news.columns.indexOf("at");
  for (const sample of news.samples) {
    const when = (sample[at] ?? 0) / 1e6;
    if (when <= (data["at"]?.at(-1) ?? 0)) continue;
    news.columns.forEach((name, column) => (data[name] ??= []).push(name === "at" ? when : (sample[column] ?? null)));
  }
  for (const column of Object.values(data)) column.splice(0, column.length - most);
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export const STEPS: Record<string, string> = { decide: "--step-1", record: "--step-2", open: "--step-3", seal: "--step-4", replay: "--step-5" };

// Bands of a recovery's steps, and a line with a word for all else.
function draw(plot: uPlot, marks: Mark[], shown: boolean): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 16 * ratio, bbox.width, bbox.height + 16 * ratio);
  ctx.clip();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  let free = -Infinity;
  for (const mark of marks) {
    const at = moment(mark) / 1000;
    const x = plot.valToPos(at, "x", true);
    if (x < bbox.left - 1000 || x > bbox.left + bbox.width + 1000) continue;
    const bad = mark.kind === "lost" || mark.kind === "end";
    ctx.strokeStyle = ctx.fillStyle = colour(bad ? "--bad" : "--mark");
    if (mark.kind === "recovery" || mark.kind === "code") {
      let from = at - (mark.duration_ms ?? 0) / 1000;
      for (const [name, took] of Object.entries(mark.steps_ms ?? { all: mark.duration_ms ?? 0 })) {
        const left = plot.valToPos(from, "x", true);
        from += took / 1000;
        ctx.globalAlpha = 0.35;
        ctx.fillStyle = colour(STEPS[name] ?? "--mark");
        ctx.fillRect(left, bbox.top, Math.max(ratio, plot.valToPos(from, "x", true) - left), bbox.height);
        ctx.globalAlpha = 1;
      }
      ctx.fillStyle = colour("--mark");
    } else {
      ctx.lineWidth = ratio;
      ctx.setLineDash(bad ? [] : [3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(Math.round(x) + 0.5, bbox.top);
      ctx.lineTo(Math.round(x) + 0.5, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    const word = LABELS[mark.kind];
    if (shown && x > free) {
      ctx.fillText(word, x + 2 * ratio, bbox.top - 5 * ratio);
      free = x + ctx.measureText(word).width + 8 * ratio;
    }
  }
  ctx.restore();
}

// Small ticks at the foot, one an epoch, as long as they can be told apart.
function epochs(plot: uPlot, data: Data): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  const times = data["at"] ?? [];
  const numbers = data["epoch"] ?? [];
  const { min = 0, max = 1 } = plot.scales["x"] ?? {};
  const places = times.filter((at, place) => place > 0 && numbers[place] !== numbers[place - 1] && (at ?? 0) >= (min ?? 0) && (at ?? 0) <= (max ?? 1));
  if (places.length > bbox.width / (3 * ratio)) return;
  ctx.save();
  ctx.fillStyle = colour("--faint");
  for (const at of places) ctx.fillRect(Math.round(plot.valToPos(at ?? 0, "x", true)), bbox.top + bbox.height - 4 * ratio, ratio, 4 * ratio);
  ctx.restore();
}

// What a view says of its plots, and hears of them.
export interface Shown {
  // The samples that are kept, so many of them.
  most: number;
  marks: () => Mark[];
  range: () => [number, number];
  zoomed: (from: number, to: number) => void;
  hovered?: (place: number | null) => void;
}

// Plots in their places, as long as a view shows them: they go on with the clock, in the colours of the theme, as wide
// as their places.
export function plotted(places: HTMLElement[], panels: Panel[], shown: Shown) {
  const data: Data = { at: [] };
  let plots: uPlot[] = [];
  const scaled = (): void => {
    const [min, max] = shown.range();
    for (const plot of plots) plot.setScale("x", { min, max });
  };
  const clear = (): void => plots.forEach((plot) => plot.destroy());
  const build = (): void => {
    clear();
    plots = panels.map((panel, at) => made(places[at] as HTMLElement, panel, data, shown));
    scaled();
  };
  const resized = new ResizeObserver(() => plots.forEach((plot, at) => plot.setSize({ width: Math.max(240, places[at]?.clientWidth ?? 0), height: plot.height })));
  const ticking = window.setInterval(scaled, 1000);
  places.forEach((each) => resized.observe(each));
  window.addEventListener("themed", build);
  build();
  return {
    data,
    take: (news: Figures) => {
      add(data, news, shown.most);
      plots.forEach((plot, at) => plot.setData(aligned(panels[at] as Panel, data), false));
      scaled();
    },
    // The range may be another one.
    scaled,
    // All panels below each other.
    picture: (title: string) => picture(title, panels, plots),
    end: () => {
      window.clearInterval(ticking);
      window.removeEventListener("themed", build);
      resized.disconnect();
      clear();
    },
  };
}

function made(place: HTMLElement, panel: Panel, data: Data, shown: Shown): uPlot {
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 }, font: "11px system-ui, sans-serif" };
  const options: uPlot.Options = {
    width: Math.max(240, place.clientWidth),
    height: panel.logarithmic ? 230 : 150,
    padding: [panel.marked ? 20 : 8, 12, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
    scales: { x: { time: true }, y: panel.logarithmic ? { distr: 3, range: (_, min, max) => [10 ** Math.floor(Math.log10(Math.max(min || 1, 0.1))), 10 ** Math.ceil(Math.log10(Math.max(max || 10, 10) * 1.01))] } : { range: (_, _min, max) => [0, Math.max(1, (max ?? 1) * 1.1)] } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => clock(tick * 1000, (ticks[1] ?? 0) - (ticks[0] ?? 0) < 0.999)), space: 84 },
      { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : tick >= 1000 ? `${tick / 1000}k` : String(tick))) },
    ],
    series: [
      {},
      ...panel.lines.map((line): uPlot.Series => ({ label: line.label, stroke: colour(line.colour), width: 1.5, fill: line.fill ? `${colour(line.colour)}33` : undefined, points: { show: false }, spanGaps: false })),
    ],
    hooks: {
      draw: [(plot) => { draw(plot, shown.marks(), panel.marked ?? false); if (panel.marked) epochs(plot, data); }],
      setSelect: [(plot) => {
        if (plot.select.width > 4) shown.zoomed(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      setCursor: [(plot) => shown.hovered?.(plot.cursor.idx ?? null)],
    },
  };
  return new uPlot(options, aligned(panel, data), place);
}

function aligned(panel: Panel, data: Data): uPlot.AlignedData {
  return [data["at"] ?? [], ...panel.lines.map((line) => data[line.column] ?? [])] as uPlot.AlignedData;
}

function picture(title: string, panels: Panel[], plots: uPlot[]): HTMLCanvasElement {
  const ratio = devicePixelRatio || 1;
  const head = 22 * ratio;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(...plots.map((plot) => plot.ctx.canvas.width));
  canvas.height = plots.reduce((sum, plot) => sum + plot.ctx.canvas.height + head, head * 1.4);
  const ctx = canvas.getContext("2d") as CanvasRenderingContext2D;
  ctx.fillStyle = colour("--ground");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = colour("--ink");
  ctx.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  ctx.fillText(title, 8 * ratio, 18 * ratio);
  let top = head * 1.4;
  plots.forEach((plot, at) => {
    const panel = panels[at] as Panel;
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.fillText(`${panel.title}, ${panel.unit}`, 8 * ratio, top + 14 * ratio);
    ctx.drawImage(plot.ctx.canvas, 0, top + head);
    top += plot.ctx.canvas.height + head;
  });
  return canvas;
}
