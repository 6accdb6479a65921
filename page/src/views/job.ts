import { type Described, type Figures, type Ran, type Status, type Worker, ask, follow, of } from "../api";
import { h, put, say } from "../dom";
import { age, bytes, count, microseconds, milliseconds, percent, rate } from "../format";
import { type Drawing, type Vertex, drawn, second } from "../graph";
import { steps } from "../marks";
import { slowest } from "../slowest";
import { type View, address } from "../view";

interface Plan {
  vertices: Vertex[];
  functions: { vertex: number; role: string; function: string; why_python: string | null }[];
}

const FIGURES: [string, (status: Status, last: Record<string, number | null>) => string][] = [
  ["in", (_, last) => `${rate(last["items_in"])} /s`],
  ["out", (_, last) => `${rate(last["items_out"])} /s`],
  ["p50", (status) => milliseconds(status.latency?.calls ? status.latency.p50_ms : null)],
  ["p99", (status) => milliseconds(status.latency?.calls ? status.latency.p99_ms : null)],
  ["epoch", (status) => `${count(status.epoch)}`],
  ["saved", (status) => (status.epoch ? `${age(status.cut_time)} ago` : "never")],
  ["state", (status) => bytes(status.snapshot_size)],
  ["attempt", (status) => count(status.attempt)],
];

export const job: View = (root, place) => {
  const values = new Map(FIGURES.map(([name]) => [name, h("dd")]));
  const headline = h("p", { class: "headline", role: "status" });
  const why = h("p", { class: "note why" });
  const recovery = h("p", { class: "note" });
  const problems = h("ul", { class: "problems" });
  const picture = h("div", { class: "picture scroll", tabindex: "0", role: "region", "aria-label": "Graph" }, "Reading the graph …");
  const slots = h("div", { class: "slots", role: "img" });
  const workers = h("div", { class: "workers" });
  const functions = h("details", {}, h("summary", {}, "Functions that run in Python"));
  let drawing: Drawing | null = null;
  let plan: Plan = { vertices: [], functions: [] };
  let told: Described | null = null;
  let last: Record<string, number | null> = {};

  put(
    root,
    h("h1", {}, place.job),
    headline,
    problems,
    h("dl", { class: "figures" }, ...FIGURES.map(([name]) => h("div", {}, h("dt", {}, name), values.get(name) as Node))),
    h("section", {}, h("h2", {}, "Graph"), picture, why, functions),
    h("section", {}, h("h2", {}, "Workers"), slots, workers, recovery),
  );

  const show = (): void => {
    if (!told) return;
    const status = told.status;
    say(headline, sentence(told));
    root.classList.toggle("ended", !told.running);
    if (!status) return;
    for (const [name, text] of FIGURES) say(values.get(name) as Element, text(status, last));
    const complaints = [...status.problems, ...(status.refusal ? [`code is refused: ${status.refusal}`] : []), ...(told.running && !told.coordinator_alive ? ["the coordinator is down: no epochs and no recoveries until it is back; the stream goes on"] : [])];
    if (problems.childElementCount !== complaints.length || complaints.some((text, at) => problems.children[at]?.textContent !== text)) put(problems, ...complaints.map((text) => h("li", {}, text)));
    const found = slowest(status, plan.vertices);
    say(why, told.running ? `Slowest: ${found.why}.` : "");
    if (drawing) for (const vertex of plan.vertices) drawing.say(vertex.id, { ...figures(vertex, status, told.running), slow: told.running && found.vertices.includes(vertex.id) });
    shares(slots, status.workers, found.worker);
    strip(workers, status, told.pids, found.worker, place.job);
    const went = status.last_recovery;
    put(recovery, went ? `${went.kind === "start" ? "Started" : "Last recovery"}: ${went.cause}, ${steps(went)}. ` : "", h("a", { href: address(place.job, "time") }, "See it in time"));
  };

  void ask<Ran<Plan>>(`${of(place.job)}/graph`).then(
    (ran) => {
      if (!ran.answer || ran.answer.error) {
        put(picture, `The graph cannot be read: ${ran.answer?.error?.message ?? "no answer"}`);
        return;
      }
      plan = ran.answer;
      drawing = drawn(plan.vertices, window.innerWidth < 700);
      put(picture, drawing.element);
      const slow = plan.functions.filter((each) => each.why_python);
      functions.hidden = !slow.length;
      functions.append(h("ul", {}, ...slow.map((each) => h("li", {}, h("code", {}, each.function), `, ${each.role}: ${each.why_python}`))));
      show();
    },
    (error: unknown) => put(picture, String(error)),
  );
  const stop = follow(
    place.job,
    {
      status: ((news: Described) => {
        told = news;
        show();
      }) as (data: never) => void,
      figures: ((news: Figures) => {
        const newest = news.samples.at(-1);
        if (newest) last = Object.fromEntries(news.columns.map((name, at) => [name, newest[at] ?? null]));
        show();
      }) as (data: never) => void,
      gone: (() => say(headline, "This job is not there any more.")) as (data: never) => void,
    },
    place.connected,
  );
  const ticking = window.setInterval(show, 1000);
  return () => {
    window.clearInterval(ticking);
    stop();
  };
};

function sentence(told: Described): string {
  const status = told.status;
  if (told.running && status) return `${status.phase}, ${status.workers.length} of ${status.wanted} workers${status.standbys.length ? `, ${status.standbys.length} standby` : ""}`;
  return told.state;
}

// What a vertex is and does, and what each edge out of it carries. A job that has ended carries nothing.
function figures(vertex: Vertex, status: Status, running: boolean): { below: string; figures: string; along: string } {
  const operation = status.operations[vertex.id];
  const late = status.late[vertex.name] ?? 0;
  const below = late ? `${second(vertex)}, ${count(late)} late` : second(vertex);
  if (!operation) return { below, figures: "", along: "" };
  const told = [
    operation.keys ? `${count(operation.keys)} keys` : "",
    operation.keys ? bytes(operation.state_bytes) : "",
    running ? "" : `${count(operation.items_in)} items`,
    running && operation.item_us ? `${microseconds(operation.item_us)} an item` : "",
  ];
  return { below, figures: told.filter(Boolean).join(" · "), along: running ? `${rate(operation.out_rate)} /s` : "" };
}

// The slots as a strip: each worker's part is as wide as its share of them.
function shares(place: HTMLElement, workers: Worker[], slow: string): void {
  const told = workers.map((worker) => `${worker.worker}: ${count(worker.slots)} slots`).join(", ");
  if (place.getAttribute("aria-label") === told && place.dataset["slow"] === slow) return;
  place.setAttribute("aria-label", told);
  place.dataset["slow"] = slow;
  put(
    place,
    ...workers.map((worker) => {
      const part = h("span", { class: worker.worker === slow ? "slow" : undefined, title: `${worker.worker}: ${count(worker.slots)} slots` }, `${count(worker.slots)}`);
      part.style.flexGrow = String(worker.slots);
      return part;
    }),
  );
}

function strip(place: HTMLElement, status: Status, pids: Record<string, number>, slow: string, job: string): void {
  const box = (name: string, kind: string, worker: Worker | null): HTMLElement =>
    h(
      "a",
      { class: `worker ${kind}${name === slow ? " slow" : ""}`, href: address(job, "logs", { process: name }), title: "Its log" },
      h("span", { class: "name" }, name),
      h("span", { class: "pid" }, pids[name] ? `pid ${pids[name]}` : ""),
      worker ? h("meter", { min: "0", max: "1", value: worker.busy, "aria-label": "busy" }) : null,
      h("span", { class: "note" }, worker ? `busy ${percent(worker.busy)} · ${bytes(worker.memory)} · ${count(worker.in_flight)} in flight · ${count(worker.slots)} slots` : status.warm.includes(name) ? "standby, warm" : "standby"),
      worker?.problem ? h("span", { class: "bad" }, worker.problem) : null,
    );
  const boxes = [...status.workers.map((worker) => box(worker.worker, "active", worker)), ...status.standbys.map((name) => box(name, "standby", null))];
  const focused = document.activeElement instanceof HTMLElement && place.contains(document.activeElement) ? [...place.children].indexOf(document.activeElement) : -1;
  put(place, ...boxes);
  if (focused >= 0) boxes[focused]?.focus();
}
