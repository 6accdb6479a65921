import { type Described, type Ran, ask, of } from "../api";
import { h, put, say, table } from "../dom";
import { age, bytes, clock, count } from "../format";
import type { Place, View } from "../view";

interface Snapshot {
  name: string;
  epoch: number;
  attempt: number;
  cut: string;
  segments: number;
  rows: number;
  bytes: number;
  // The name of the copy that nothing removes; left out: a snapshot of the stream itself.
  savepoint?: string;
}

export const snapshots: View = (root, place) => {
  const told = h("div", { role: "status" }, "Reading the store …");
  put(root, h("div", { class: "row" }, h("h1", {}, "Snapshots"), h("button", { onclick: () => void look() }, "Look again")), told);
  const look = async (): Promise<void> => {
    try {
      const ran = await ask<Ran<Snapshot[]>>(`${of(place.job)}/snapshots`);
      // Behind it: so the status is seldom older than the list.
      const known = await ask<Described>(of(place.job));
      put(told, ...shown(ran, known, place));
    } catch (error) {
      say(told, String(error));
    }
  };
  void look();
};

function shown(ran: Ran<Snapshot[]>, known: Described, place: Place): Node[] {
  const all = ran.answer;
  if (!all || all.error) return [h("p", { class: "bad" }, all?.error?.message ?? "No answer.")];
  if (!all.length) return [h("p", {}, "None has been written yet.")];
  const epochs = all.filter((each) => !each.savepoint).map((each) => each.epoch);
  const told = known.status?.epoch ?? 0;
  // The status may come later than the store: where what it tells is gone, the oldest that is left has replaced it.
  const until = told && Math.max(told, Math.min(...epochs));
  const committed = Math.max(0, ...epochs.filter((epoch) => epoch <= until));
  const rows = [...all].reverse().map((each) => [
    count(each.epoch),
    each.cut === "end" ? "end of the input" : `${clock(Number(each.cut) / 1000, true)} (${age(Number(each.cut))} ago)`,
    each.savepoint ? `savepoint ${each.savepoint}: kept until it is deleted` : each.epoch === committed ? "committed: a start goes on from here" : each.epoch > committed ? "about to be committed, or abandoned" : "replaced; removed soon",
    count(each.attempt),
    count(each.segments),
    count(each.rows),
    bytes(each.bytes),
  ]);
  return [
    table(["epoch", "cut", "kept for", "attempt", "segments", "rows", "size"], rows, { "aria-label": "Snapshots" }),
    h("h2", {}, "Commands"),
    ...commands(all, place),
  ];
}

function commands(all: Snapshot[], place: Place): HTMLElement[] {
  const newest = all.at(-1);
  if (place.about.namespaced) {
    const [namespace = "", ...rest] = place.job.split(".");
    const name = rest.join(".");
    const kept = [...all].reverse().find((each) => each.savepoint);
    return [copied(`kubectl flamestream savepoint ${name} -n ${namespace}`, "makes a copy that no later epoch removes"), ...(kept ? [copied(`restoreFrom: {snapshot: ${kept.savepoint}}`, "in the spec of a new job starts it from there")] : [])];
  }
  return [...["list job.yaml", `show job.yaml ${newest?.epoch ?? ""}`, `verify job.yaml ${newest?.epoch ?? ""}`].map((each) => copied(`flamestream snapshots ${each}`)), copied("flamestream run job.yaml", "goes on from the committed epoch")];
}

function copied(text: string, note = ""): HTMLElement {
  const button = h("button", { "aria-label": `Copy: ${text}` }, "Copy");
  const code = h("code", {}, text);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      say(button, "Copied");
    } catch {
      // Browsers have no clipboard for a page that comes over HTTP from elsewhere, and may refuse it to any.
      getSelection()?.selectAllChildren(code);
      say(button, "Selected: copy it by Ctrl+C");
    }
  };
  button.addEventListener("click", () => void copy());
  return h("p", { class: "command" }, code, button, note && h("span", { class: "note" }, note));
}
