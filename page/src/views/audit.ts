import { type Audited, type Definition, type Ran, ask, of } from "../api";
import { h, put, say, table } from "../dom";
import { age, clock, count } from "../format";
import type { View } from "../view";

export const audit: View = (root, place) => {
  const button = h("button", { class: "main" }, "Audit now");
  const formal = h("input", { type: "checkbox", name: "definitions" });
  const told = h("div", { role: "status" });
  // Reading takes no --actions on one machine; on a cluster a pod is made for it.
  const may = !place.about.namespaced || place.about.actions;
  put(
    root,
    h("div", { class: "row" }, h("h1", {}, "Audit"), button, h("label", {}, formal, " by the formal model's definitions too")),
    h("p", { class: "note" }, `A sequential interpreter computes the job again from the recorded input, and compares every result. It reads only; it takes time and memory${place.about.namespaced ? ", in a pod of its own" : " of this machine, in a process of its own"}.${may ? "" : " This page may only look: ui.actions and operator.drills of the chart let it start one."}`),
    told,
  );
  let timer = 0;
  const look = async (method = "GET"): Promise<void> => {
    window.clearTimeout(timer);
    try {
      const ran = await ask<Ran<Audited>>(`${of(place.job)}/audit${method === "POST" && formal.checked ? "?definitions=yes" : ""}`, method);
      button.disabled = !may || ran.state === "running";
      put(told, ...shown(ran));
      if (ran.state === "running") timer = window.setTimeout(() => void look(), 500);
    } catch (error) {
      say(told, String(error));
    }
  };
  button.addEventListener("click", () => void look("POST"));
  void look();
  return () => window.clearTimeout(timer);
};

export function shown(ran: Ran<Audited>): Node[] {
  if (ran.state === "never") return [h("p", { class: "note" }, "No audit has been made yet.")];
  if (ran.state === "running") return [h("p", {}, `Under way since ${age(ran.began)} …`)];
  const report = ran.answer;
  if (!report || report.error) return [h("p", { class: "verdict bad" }, report?.error?.message ?? "It gave no answer.")];
  const verdict = report.verdict;
  const words = [
    `${count(report.records)} records, ${count(verdict.delivered)} results`,
    `${count(verdict.lost)} lost, ${count(verdict.doubled)} doubled, ${count(verdict.reordered)} reordered`,
    verdict.foreign ? `${count(verdict.foreign)} that the reference does not have` : "",
    verdict.misplaced ? `${count(verdict.misplaced)} in a wrong slot` : "",
  ];
  const bound = report.bounds.complete ? "All results had to be there: the job has completed." : `Results had to be there up to epoch ${count(report.bounds.epoch)}${verdict.not_due ? `; ${count(verdict.not_due)} are not due yet` : ""}.`;
  return [
    h("p", { class: `verdict ${report.kept ? "good" : "bad"}` }, report.empty ? "Nothing has entered, and nothing was delivered" : report.clean ? "Clean" : report.kept ? "As the guarantee allows it" : "It differs"),
    h("p", { class: "counts" }, words.filter(Boolean).join(", "), "."),
    h("p", {}, bound, ` Made at ${clock(ran.ended / 1000)}, in ${((ran.ended - ran.began) / 1e6).toFixed(1)} s.`),
    ...(report.first_difference ? [h("h2", {}, "First difference"), h("pre", { class: "difference", tabindex: "0" }, report.first_difference)] : []),
    ...(report.definitions?.length ? [h("h2", {}, "Formal verdict"), table(["definition", "property", "as printed", "strict", "why"], report.definitions.map(formally), { "aria-label": "Formal verdict" })] : []),
    ...(report.said ?? []).map((each) => h("p", { class: "note" }, each)),
    ...(report.input.length ? [h("h2", {}, "Input"), table(["source", "records", "known from", "problems"], report.input.map((each) => [each.source, count(each.records), each.known_from === "source" ? "the source, read again" : "the journal alone", each.problems.join("; ") || "none"]), { "aria-label": "Input" })] : []),
    ...(report.places.length ? [h("h2", {}, "Where users look"), table(["sink", "place", "there", "differences"], report.places.map((each) => [each.sink, each.place, count(each.stands), each.examples.join("; ") || each.unknown.join("; ") || "none"]), { "aria-label": "Places" })] : []),
  ];
}

function formally(row: Definition): string[] {
  const word = (said: string | null): string => (said === "follows" ? "follows from 6" : (said ?? "–"));
  return [String(row.definition), row.name, word(row.printed), word(row.strict), row.reason];
}
