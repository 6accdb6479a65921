// What holds a job up, from its own figures: the first of these that is so.

import type { Status } from "./api";
import type { Vertex } from "./graph";
import { milliseconds, percent } from "./format";

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
    const between = vertices.filter((vertex) => vertex.kind !== "sink" && vertex.kind !== "source").map((vertex) => vertex.id);
    return { why: `${busiest.worker} does not wait: busy ${percent(busiest.busy)} of the time`, vertices: between, worker: busiest.worker };
  }
  const all = status.latency?.p99_ms ?? 0;
  const released = status.release?.p99_ms ?? 0;
  if (!status.latency?.calls) return { why: "no result in the last minute", vertices: [], worker: "" };
  if (all > 1.5 * released)
    return { why: `the consumers: results leave after ${milliseconds(released)} (p99), and are acknowledged after ${milliseconds(all)}`, vertices: sinks, worker: "" };
  return { why: `the way in: results leave ${milliseconds(released)} (p99) after their record was stamped and journalled; workers are busy ${percent(busiest.busy)} at most`, vertices: sources, worker: "" };
}
