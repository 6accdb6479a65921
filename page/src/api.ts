// What the server says (docs/reference/page.md).

export interface Row {
  job: string;
  phase: string;
  running: boolean;
  guarantee: string;
  workers: number;
  wanted: number;
  standbys: number;
  p50_ms: number | null;
  p99_ms: number | null;
  epoch: number;
  epoch_at: number;
  unsaved_since: number;
  recovery: string;
  recovery_ms: number;
  audit: string;
  problems: number;
  updated: number;
}

export interface Latency {
  p50_ms: number;
  p99_ms: number;
  calls: number;
}

export interface Worker {
  worker: string;
  busy: number;
  in_flight: number;
  items_in: number;
  items_out: number;
  memory: number;
  problem: string;
  slots: number;
}

// What a vertex of the graph does, of all workers together; in the order of the graph.
export interface Operation {
  operation: string;
  items_in: number;
  items_out: number;
  in_rate: number;
  out_rate: number;
  busy: number;
  item_us: number | null;
  keys: number;
  state_bytes: number;
}

export interface Status {
  job: string;
  phase: string;
  attempt: number;
  epoch: number;
  cut_time: number;
  updated: number;
  unsaved_since: number;
  workers: Worker[];
  operations: Operation[];
  standbys: string[];
  warm: string[];
  wanted: number;
  items_in: number;
  items_out: number;
  latency: Latency | null;
  release: Latency | null;
  snapshot_size: number;
  snapshot_ms: number;
  recoveries: number;
  last_recovery: { cause: string; kind: string; duration_ms: number; steps_ms: Record<string, number> } | null;
  problems: string[];
  late: Record<string, number>;
  event_times: Record<string, number | null>;
  refusal: string;
  outcome: string;
  message: string;
  last_output: number;
}

export interface Described {
  state: string;
  running: boolean;
  coordinator_alive: boolean;
  pids: Record<string, number>;
  status: Status | null;
}

export interface Mark {
  at: string;
  kind: "coordinator" | "lost" | "start" | "recovery" | "code" | "end" | "audit" | "drill";
  text: string;
  worker?: string;
  attempt?: number;
  duration_ms?: number;
  steps_ms?: Record<string, number>;
}

export type Sample = (number | null)[];

export interface Figures {
  columns: string[];
  samples: Sample[];
  marks: Mark[];
}

export interface Ran<T> {
  state: "never" | "running" | "done";
  began: number;
  ended: number;
  code: number;
  answer: (T & { error?: { message: string } }) | null;
}

// A row of `audit --definitions`.
export interface Definition {
  definition: number;
  name: string;
  printed: string;
  strict: string | null;
  reason: string;
}

export interface Audited {
  records: number;
  clean: boolean;
  kept: boolean;
  empty: boolean;
  verdict: { delivered: number; lost: number; doubled: number; reordered: number; foreign: number; misplaced: number; not_due: number };
  places: { sink: string; place: string; stands: number; examples: string[]; unknown: string[] }[];
  input: { source: string; records: number; known_from: string; problems: string[] }[];
  bounds: { epoch: number; complete: boolean };
  first_difference: string;
  definitions?: Definition[];
  // What an operator has of input and bounds: sentences.
  said?: string[];
}

export interface Drilled {
  phase?: string;
  reason?: string;
  message?: string;
  faults?: { victim: string; time: string; recoveryMs?: number; outputGapMs?: number }[];
}

export interface About {
  version: string;
  actions: boolean;
  kinds: string[];
  victims: string[];
  namespaced: boolean;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export async function ask<T>(path: string, method = "GET", body?: string): Promise<T> {
  const answer = await fetch(`api/v1${path}`, { method, body, credentials: "same-origin" });
  const found = (await answer.json().catch(() => ({}))) as T & { error?: { message: string } };
  if (!answer.ok) throw new ApiError(answer.status, found.error?.message ?? answer.statusText);
  return found;
}

export function of(job: string): string {
  return `/jobs/${encodeURIComponent(job)}`;
}

// Follows events until what it gives is called. `connected` is told when that changes.
export function follow(
  job: string,
  handlers: Record<string, (data: never) => void>,
  connected: (yes: boolean) => void,
): () => void {
  let source: EventSource;
  let again = 0;
  const open = (): void => {
    source = new EventSource(`api/v1/events${job ? `?job=${encodeURIComponent(job)}` : ""}`);
    source.onopen = () => connected(true);
    source.onerror = () => {
      connected(false);
      if (source.readyState !== EventSource.CLOSED) return;
      // A browser gives up where the server refuses: ask anew, for it may have room again. A token that has run out is
      // asked for by the page that is loaded then.
      again = window.setTimeout(open, 2000);
      ask("").catch((error: unknown) => error instanceof ApiError && error.status === 401 && location.reload());
    };
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handler(JSON.parse((event as MessageEvent<string>).data) as never));
    }
  };
  open();
  return () => {
    window.clearTimeout(again);
    source.close();
  };
}
