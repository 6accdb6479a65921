import { type Drilled, type Figures, type Mark, type Ran, ask, follow, of } from "../api";
import { GAP, plotted } from "../chart";
import { h, put, say, table } from "../dom";
import { milliseconds } from "../format";
import { type View, address } from "../view";

const SPAN = 60;

export const drill: View = (root, place) => {
  const told = h("div", { role: "status" });
  const gap = h("dd", {}, "–");
  const role = h("select", { "aria-label": "What to kill", name: "kill" }, ...place.about.victims.map((each) => h("option", {}, each)));
  const after = h("input", { type: "number", min: "0", max: "60", value: "1", "aria-label": "Seconds from now", name: "after" });
  const button = h("button", { class: "danger" }, "Kill");
  const form = h("form", { class: "row" }, h("h1", {}, "Drill"), h("label", {}, "Kill a ", role), h("label", {}, " in ", after, " s"), button);
  const note = h("p", { class: "note" });
  const drawn = h("div", { class: "plot" });
  put(root, form, h("p", { class: "note" }, "A part of the running job gets SIGKILL. The drill waits until the job is whole again and gives results, and audits everything delivered."), note, h("dl", { class: "figures" }, h("div", {}, h("dt", {}, "longest gap of the last minute"), gap)), h("figure", { class: "gap" }, h("figcaption", {}, `${GAP.title}, ${GAP.unit}`), drawn), told, h("p", {}, h("a", { href: address(place.job, "time", { span: "60" }) }, "See it in time")));
  button.disabled = !place.about.actions;
  if (!place.about.actions) say(note, "This page may only look: `flamestream ui --actions`, or ui.actions of the operator's chart, lets it run drills.");
  let timer = 0;
  const look = async (method = "GET"): Promise<void> => {
    window.clearTimeout(timer);
    try {
      const query = method === "POST" ? `?${new URLSearchParams({ kill: role.value, after: after.value })}` : "";
      const ran = await ask<Ran<Drilled>>(`${of(place.job)}/drill${query}`, method);
      put(told, ...shown(ran));
      if (ran.state === "running") timer = window.setTimeout(() => void look(), 500);
    } catch (error) {
      say(told, String(error));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void look("POST");
  });
  void look();
  let marks: Mark[] = [];
  const plots = plotted([drawn], [{ ...GAP, marked: true }], {
    most: SPAN,
    marks: () => marks,
    range: () => [Date.now() / 1000 - SPAN, Date.now() / 1000],
    zoomed: (from, to) => void (location.hash = address(place.job, "time", { from: from.toFixed(3), to: to.toFixed(3) })),
  });
  const take = (news: Figures): void => {
    marks = news.marks;
    plots.take(news);
    const gaps = (plots.data["gap_ms"] ?? []).filter((each) => each !== null);
    say(gap, milliseconds(gaps.length ? Math.max(...gaps) : null));
  };
  const stop = follow(place.job, { figures: take as (data: never) => void }, place.connected);
  return () => {
    window.clearTimeout(timer);
    stop();
    plots.end();
  };
};

function shown(ran: Ran<Drilled>): Node[] {
  if (ran.state === "never") return [];
  if (ran.state === "running") return [h("p", {}, "Under way …")];
  const found = ran.answer;
  if (!found || found.error) return [h("p", { class: "verdict bad" }, found?.error?.message ?? "It gave no answer.")];
  const faults = found.faults ?? [];
  return [
    h("p", { class: `verdict ${found.phase === "Passed" ? "good" : "bad"}` }, found.phase ?? "", found.reason ? `: ${found.reason}` : ""),
    h("p", {}, found.message ?? ""),
    ...(faults.length ? [table(["killed", "whole again after", "without output for"], faults.map((fault) => [String(fault.victim ?? ""), milliseconds(fault.recoveryMs), milliseconds(fault.outputGapMs)]), { "aria-label": "Kills" })] : []),
  ];
}
