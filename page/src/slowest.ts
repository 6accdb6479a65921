// What holds a job up, from its own figures: the first of these that is so.

import type { Status } from "./api";
import type { Vertex } from "./graph";
import { microseconds, milliseconds, percent } from "./format";

export interface Slowest {
  why: string;
  vertices: number[];
  worker: string;
}

const BUSY = 0.8;

export function slowest(status: Status, vertices: Vertex[]): Slowest {
  const busiest = status.workers.reduce((most, worker) => (worker.busy > most.busy ? worker : most), { worker: "", busy: 0 });
  const sinks = vertices.filter((vertex) => vertex.kind === "sink").map((vertex) => vertex.id);
  const sources = vertices.filter((vertex) => vertex.kind === "source").map((vertex) => vertex.id);
  if (!status.workers.length) return { why: "nobody takes part", vertices: [], worker: "" };
  if (busiest.busy >= BUSY) {
    const all = status.operations.reduce((sum, operation) => sum + operation.busy, 0);
    const most = status.operations.reduce((found, operation, at) => (operation.busy > (status.operations[found]?.busy ?? 0) ? at : found), 0);
    const told = status.operations[most];
    const why = `${busiest.worker} does not wait: busy ${percent(busiest.busy)} of the time`;
    if (!told || !(all > 0)) return { why, vertices: [], worker: busiest.worker };
    const behind = stretch(most, vertices);
    const names = behind.map((id) => vertices[id]?.label ?? "").join(", ");
    const took = told.item_us === null ? "" : `, ${microseconds(told.item_us)} an item`;
    return { why: `${why}; ${percent(told.busy / all)} of what operations take is at ${told.operation}${names && ` with ${names} behind it`}${took}`, vertices: [most, ...behind], worker: busiest.worker };
  }
  const all = status.latency?.p99_ms ?? 0;
  const released = status.release?.p99_ms ?? 0;
  if (!status.latency?.calls) return { why: "no result in the last minute", vertices: [], worker: "" };
  if (all > 1.5 * released)
    return { why: `the consumers: results leave after ${milliseconds(released)} (p99), and are acknowledged after ${milliseconds(all)}`, vertices: sinks, worker: "" };
  return { why: `the way in: results leave ${milliseconds(released)} (p99) after their record was stamped and journalled; workers are busy ${percent(busiest.busy)} at most`, vertices: sources, worker: "" };
}

// What stands behind a vertex up to the next doors: one is timed with the other.
function stretch(from: number, vertices: Vertex[]): number[] {
  const found = new Set<number>();
  const ahead = [from];
  for (let at = ahead.shift(); at !== undefined; at = ahead.shift())
    for (const to of vertices[at]?.outputs ?? [])
      if (!vertices[to]?.routed && !found.has(to)) {
        found.add(to);
        ahead.push(to);
      }
  return [...found];
}
