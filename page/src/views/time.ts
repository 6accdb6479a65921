import { type Audited, type Drilled, type Figures, type Mark, type Ran, ask, follow, of } from "../api";
import { GAP, type Panel, STEPS, plotted } from "../chart";
import { h, put, say, table } from "../dom";
import { bytes, clock, count, milliseconds, percent, rate } from "../format";
import { LABELS, moment, sentence, steps, verdictsOf } from "../marks";
import { type View, address } from "../view";

const PANELS: Panel[] = [
  { title: "Latency to the consumer's acknowledgment", unit: "ms", logarithmic: true, marked: true, lines: [{ column: "p99_ms", label: "p99", colour: "--line-2" }, { column: "p50_ms", label: "p50", colour: "--line-1" }] },
  GAP,
  { title: "Records in and results out", unit: "a second", lines: [{ column: "items_out", label: "out", colour: "--line-1" }, { column: "items_in", label: "in", colour: "--line-2" }] },
];
const SPANS: [string, number][] = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600]];
const MOST = 3600;
const HINT = "Move over a line to read it; drag to zoom. Keys: + and −, ← and →, 0 follows.";

export const time: View = (root, place) => {
  let told: Mark[] = [];
  let verdicts: Mark[] = [];
  // Both of them, in the order of time.
  let marks: Mark[] = [];
  // Both: as of now on, so many seconds back; or from and to.
  let span = Number(place.query.get("span") ?? 300);
  let fixed: [number, number] | null = place.query.has("from") ? [Number(place.query.get("from")), Number(place.query.get("to"))] : null;

  const hover = h("p", { class: "hover", role: "status" }, HINT);
  const places = PANELS.map(() => h("div", { class: "plot" }));
  const list = h("div");
  const spans = SPANS.map(([label, seconds]) => h("button", { onclick: () => live(seconds), "data-span": seconds }, label));
  put(
    root,
    h("div", { class: "row" }, h("h1", {}, "Time"), h("div", { class: "buttons", role: "group", "aria-label": "Span" }, ...spans), h("button", { onclick: () => save() }, "Export PNG")),
    hover,
    h("div", { class: "plots", tabindex: "0", role: "group", "aria-label": "Figures over time; what happened is listed below" }, ...PANELS.map((panel, at) => h("figure", {}, h("figcaption", {}, `${panel.title}, ${panel.unit}`, ...panel.lines.map((line) => h("span", { class: `key ${line.colour.slice(2)}` }, line.label))), places[at] as Node))),
    h("p", { class: "note legend" }, "A recovery's steps: ", ...Object.keys(STEPS).map((step, at) => h("span", { class: `key step-${at + 1}` }, step)), ". Ticks at the foot of the first figure are epochs."),
    h("h2", {}, "What happened"),
    list,
  );

  const plots = plotted(places, PANELS, { most: MOST, marks: () => marks, range, zoomed: zoom, hovered });
  const data = plots.data;

  function range(): [number, number] {
    // A job that has ended is shown to its end, however long ago that was.
    const last = marks.filter((mark) => mark.kind !== "audit" && mark.kind !== "drill").at(-1);
    const until = last?.kind === "end" ? Math.max(moment(last) / 1000 + 1, data["at"]?.at(-1) ?? 0) : Date.now() / 1000;
    return fixed ?? [until - span, until];
  }

  function scaled(): void {
    plots.scaled();
    for (const button of spans) button.setAttribute("aria-pressed", String(!fixed && Number(button.dataset["span"]) === span));
  }

  function live(seconds: number): void {
    span = seconds;
    fixed = null;
    place.go({ span: String(span) });
    scaled();
  }

  function zoom(from: number, to: number): void {
    fixed = [from, to];
    place.go({ from: from.toFixed(3), to: to.toFixed(3) });
    scaled();
  }

  function hovered(at: number | null): void {
    const when = at === null ? null : data["at"]?.[at];
    if (at === null || when === null || when === undefined) return;
    const value = (name: string): number | null => data[name]?.[at] ?? null;
    const near = marks.filter((mark) => Math.abs(moment(mark) / 1000 - when) < Math.max(1.5, (range()[1] - range()[0]) / 200));
    put(
      hover,
      h("b", {}, clock(when * 1000)),
      ` p50 ${milliseconds(value("p50_ms"))}, p99 ${milliseconds(value("p99_ms"))}, released p99 ${milliseconds(value("release_p99_ms"))}, gap ${milliseconds(value("gap_ms"))}, ${rate(value("items_in"))}/s in, ${rate(value("items_out"))}/s out, epoch ${count(value("epoch") ?? 0)}, attempt ${count(value("attempt") ?? 0)}, busy ${percent(value("busy") ?? 0)}, state ${bytes(value("snapshot_size") ?? 0)}`,
      ...near.map((mark) => h("span", { class: "event" }, ` ${LABELS[mark.kind]}: ${sentence(mark)} ${steps(mark)}`)),
    );
  }

  function listed(): void {
    const rows = [...marks].reverse().slice(0, 100).map((mark) => {
      const at = moment(mark) / 1000;
      const near = { since: new Date((at - 5) * 1000).toISOString().replace("Z", "+00:00"), until: new Date((at + 5) * 1000).toISOString().replace("Z", "+00:00") };
      return [
        h("button", { class: "link", onclick: () => zoom(at - 10, at + 10) }, clock(at * 1000, true)),
        LABELS[mark.kind],
        sentence(mark),
        steps(mark),
        h("a", { href: address(place.job, "logs", near), "aria-label": `Logs around ${clock(at * 1000, true)}` }, "logs"),
      ];
    });
    put(list, rows.length ? table(["time", "event", "cause", "took", "see"], rows, { "aria-label": "What happened" }) : h("p", { class: "note" }, "Nothing yet."));
  }

  function mark(): void {
    const all = [...told, ...verdicts].sort((a, b) => moment(a) - moment(b));
    // A verdict takes the place of the one before: as many marks may be others.
    // A replay that ends gives the mark of its recovery another step.
    const same = (mark: Mark, at: number): boolean => mark.at === marks[at]?.at && steps(mark) === steps(marks[at]);
    if (list.childElementCount && all.length === marks.length && all.every(same)) return;
    marks = all;
    listed();
  }

  function take(news: Figures): void {
    told = news.marks;
    mark();
    plots.take(news);
  }

  function save(): void {
    const [from, to] = range();
    plots.picture(`${place.job}, ${clock(from * 1000)} to ${clock(to * 1000)}`).toBlob((blob) => {
      if (!blob) return;
      const link = h("a", { href: URL.createObjectURL(blob), download: `${place.job}-time.png` });
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  const keyed = (event: KeyboardEvent): void => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = range();
    const step = (to - from) / 4;
    const moves: Record<string, () => void> = {
      "+": () => zoom(from + step, to - step),
      "-": () => zoom(from - 2 * step, to + 2 * step),
      ArrowLeft: () => zoom(from - step, to - step),
      ArrowRight: () => zoom(from + step, to + step),
      "0": () => live(span),
    };
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      move();
    }
  };
  window.addEventListener("keydown", keyed);
  scaled();
  let stop = (): void => undefined;
  let ended = false;
  let again = 0;
  const begin = (): void =>
    void ask<Figures>(`${of(place.job)}/figures`).then(
      (news) => {
        say(hover, HINT);
        take(news);
        if (!ended) stop = follow(place.job, { figures: take as (data: never) => void }, place.connected);
      },
      (error: unknown) => {
        say(hover, String(error));
        // Who looks may have come before the job has begun.
        if (!ended) again = window.setTimeout(begin, 1000);
      },
    );
  begin();
  // On a cluster verdicts take a right of their own, so they are asked for and not told with the figures.
  let judging = 0;
  const judge = async (): Promise<void> => {
    try {
      const [drilled, audited] = await Promise.all([ask<Ran<Drilled>>(`${of(place.job)}/drill`), ask<Ran<Audited>>(`${of(place.job)}/audit`)]);
      verdicts = verdictsOf(drilled, audited);
    } catch {
      return; // who may not see them
    }
    if (ended) return;
    mark();
    judging = window.setTimeout(() => void judge(), 5000);
  };
  if (place.about.namespaced && place.about.kinds.includes("drill")) void judge();
  return () => {
    ended = true;
    stop();
    window.clearTimeout(again);
    window.clearTimeout(judging);
    window.removeEventListener("keydown", keyed);
    plots.end();
  };
};
