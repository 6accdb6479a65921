import { type Figures, type Mark, type Ran, ask, of } from "../api";
import { h, put, say } from "../dom";
import { clock, count } from "../format";
import { type Vertex, drawn } from "../graph";
import { type View, address } from "../view";

interface Descent {
  sink: string;
  slot: number;
  bundle: number;
  meta: string;
  time: number;
  payload: unknown;
  owner: string;
  saved: boolean;
  vertices: number[];
  source: string;
  position: number;
  released_after: number;
  released_before: number;
  written: number;
  partition: string;
  offset: number;
  records: number;
  record: unknown;
}

// Reading whole sinks takes a pod on a cluster: that one is asked for by a press, never by an address alone.
export const item: View = (root, place) => {
  const text = h("input", { type: "search", name: "text", placeholder: "A key, or any text of the item", "aria-label": "Text of the item", value: place.query.get("text") ?? "", size: 34 });
  const sink = h("input", { type: "search", name: "sink", placeholder: "Sink", "aria-label": "Sink", value: place.query.get("sink") ?? "", size: 12 });
  const form = h("form", { class: "row", role: "search" }, h("h1", {}, "Item"), text, sink, h("button", { class: "main" }, "Trace"));
  const told = h("div", { role: "status" });
  const how = place.about.namespaced ? " A pod beside the job reads its sinks for it." : "";
  put(root, form, h("p", { class: "note" }, `Where a delivered item came from: its meta says the run and the record that it descends from, and the journal says where that stands in the source. What a fold had kept before is not traced.${how}`), told);
  let timer = 0;
  const look = async (method = "GET"): Promise<void> => {
    window.clearTimeout(timer);
    if (!text.value) return;
    say(told, "Reading the sinks and the journal …");
    try {
      const asked = new URLSearchParams({ text: text.value, sink: sink.value });
      const ran = await ask<Ran<Descent[]>>(`${of(place.job)}/item?${asked}`, method);
      if (ran.state === "running") timer = window.setTimeout(() => void look(), 500);
      if (ran.state === "never") say(told, "Nobody has looked for this lately: press Trace.");
      if (ran.state !== "done") return;
      const [plan, figures] = await Promise.all([ask<Ran<{ vertices: Vertex[] }>>(`${of(place.job)}/graph`), ask<Figures>(`${of(place.job)}/figures`)]);
      put(told, ...shown(ran, plan.answer?.vertices ?? [], figures.marks.filter((mark) => mark.attempt), place.job));
    } catch (error) {
      say(told, String(error));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    place.go({ text: text.value, ...(sink.value ? { sink: sink.value } : {}) });
    void look(place.about.namespaced ? "POST" : "GET");
  });
  void look();
  return () => window.clearTimeout(timer);
};

function shown(ran: Ran<Descent[]>, vertices: Vertex[], attempts: Mark[], job: string): Node[] {
  const all = ran.answer;
  if (!all || all.error) return [h("p", { class: "bad" }, all?.error?.message ?? "No answer.")];
  if (!all.length) return [h("p", {}, "No delivered item has that in it.")];
  return [h("p", { class: "note" }, all.length === 1 ? "1 item" : `${count(all.length)} items, the newest first`), ...[...all].reverse().map((each, at) => one(each, vertices, attempts, job, at === 0))];
}

// The attempt that ran when a run was stamped, and the first one that began behind it, as the coordinators' logs have them.
function within(attempts: Mark[], moment: number): string {
  const behind = attempts.findIndex((mark) => Date.parse(mark.at) > moment);
  const before = attempts[(behind < 0 ? attempts.length : behind) - 1];
  const next = behind < 0 ? undefined : attempts[behind];
  const ran = before ? `${count(before.attempt ?? 0)} (${before.text})` : "not known";
  return next ? `${ran}; the next one, ${count(next.attempt ?? 0)} (${next.text}), ran from ${clock(Date.parse(next.at), true)} on` : ran;
}

function one(each: Descent, vertices: Vertex[], attempts: Mark[], job: string, first: boolean): HTMLElement {
  const way = vertices.filter((vertex) => each.vertices.includes(vertex.id)).map((vertex) => vertex.label);
  const entered = each.time / 1000;
  const near = { since: moment(entered - 2000), until: moment(entered + 5000) };
  const from = each.records ? `${each.source} ${each.partition}${each.offset >= 0 ? ` at ${count(each.offset)}` : ""}` : `${each.source}: its run cannot be read again (journal.keep)`;
  const rows: [string, (Node | string)[]][] = [
    ["came from", [from]],
    ["record", each.records ? [h("code", {}, written(each.record))] : ["–"]],
    ["entered", [h("a", { href: address(job, "time", { from: String(entered / 1000 - 15), to: String(entered / 1000 + 15) }) }, clock(entered, true)), `, record ${count(each.position + 1)} of ${each.records ? count(each.records) : "a"} in its run; `, h("a", { href: address(job, "logs", near) }, "logs then")]],
    ["attempt", [within(attempts, entered)]],
    ["passed", [way.join(" → ")]],
    ["left", [`in bundle ${count(each.bundle)} of slot ${each.slot}${each.owner ? `, which ${each.owner} has now` : ""}`]],
    ["released", [released(each)]],
    ["saved", [each.saved ? "below the committed cut" : "not yet: a recovery computes it again, to the same bytes"]],
    ["meta", [h("code", {}, each.meta)]],
  ];
  return h(
    "details",
    { class: "descent", open: first },
    h("summary", {}, h("b", {}, each.sink), " ", h("code", {}, written(each.payload))),
    h("dl", {}, ...rows.map(([name, values]) => h("div", {}, h("dt", {}, name), h("dd", {}, ...values)))),
    first && vertices.length ? marked(vertices, each.vertices) : null,
  );
}

// Nobody writes down when an item is released: what bounds it, or when its sink says that it was written.
function released(each: Descent): string {
  if (each.written) return `at ${clock(each.written / 1000, true)}, as its sink has written down`;
  return `between ${clock(each.released_after / 1000, true)}, when the newest run of its bundle entered, and ${clock(each.released_before / 1000, true)}, when ${each.saved ? "its epoch was committed" : "it was read"}`;
}

function marked(vertices: Vertex[], way: number[]): HTMLElement {
  const drawing = drawn(vertices, window.innerWidth < 700);
  for (const vertex of vertices) drawing.say(vertex.id, { below: way.includes(vertex.id) ? "passed" : "", figures: "", along: "", slow: way.includes(vertex.id) });
  return h("div", { class: "picture scroll", tabindex: "0", role: "region", "aria-label": "Its way" }, drawing.element);
}

function written(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function moment(at: number): string {
  return new Date(at).toISOString().replace("Z", "+00:00");
}
