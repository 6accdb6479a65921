import { ask, of } from "../api";
import { h, put, say } from "../dom";
import { clock } from "../format";
import type { View } from "../view";

type Line = Record<string, unknown> & { at: string; level: string; event: string; process: string };

const OURS = new Set(["at", "level", "event", "process", "logger", "job", "role", "traceback"]);
const NAMES = ["process", "level", "attempt", "text", "since", "until"];

export const logs: View = (root, place) => {
  const value = (name: string): string => place.query.get(name) ?? "";
  const field = (name: string, label: string, kind = "search"): HTMLInputElement => h("input", { name, type: kind, placeholder: label, "aria-label": label, value: value(name) });
  const level = h("select", { name: "level", "aria-label": "Least level" }, ...["debug", "info", "warning", "error"].map((each) => h("option", { value: each, selected: each === (value("level") || "info") }, each)));
  const between = h("button", { type: "button", class: "quiet", hidden: !value("since") }, value("since") ? `around ${clock((Date.parse(value("since")) + Date.parse(value("until"))) / 2)} ✕` : "");
  const form = h("form", { class: "row", role: "search" }, h("h1", {}, "Logs"), field("process", "Process or worker"), level, field("attempt", "Attempt"), field("text", "Text"), between);
  const told = h("p", { class: "note", role: "status" });
  const lines = h("ol", { class: "log", tabindex: "0", "aria-label": "Log lines, the newest last" });
  put(root, form, told, lines);
  let bounds: Record<string, string> = { since: value("since"), until: value("until") };
  let timer = 0;
  let before = "";

  const asked = (): Record<string, string> => {
    const given = Object.fromEntries(new FormData(form).entries()) as Record<string, string>;
    return Object.fromEntries(NAMES.map((name) => [name, given[name] ?? bounds[name] ?? ""]).filter(([, text]) => text !== ""));
  };
  const look = async (): Promise<void> => {
    window.clearTimeout(timer);
    const wanted = asked();
    try {
      const found = await ask<{ lines: Line[] }>(`${of(place.job)}/logs?${new URLSearchParams({ ...wanted, limit: "400" })}`);
      const last = JSON.stringify(found.lines.at(-1)) + found.lines.length;
      if (last !== before) {
        before = last;
        const foot = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 20;
        put(lines, ...found.lines.map(shown));
        if (foot) lines.scrollTop = lines.scrollHeight;
      }
      say(told, `${found.lines.length} lines of all processes, merged by their times`);
    } catch (error) {
      say(told, String(error));
    }
    if (!bounds["until"]) timer = window.setTimeout(() => void look(), 2000);
  };
  const changed = (): void => {
    place.go(asked());
    void look();
  };
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    changed();
  });
  between.addEventListener("click", () => {
    bounds = {};
    between.hidden = true;
    changed();
  });
  void look();
  return () => window.clearTimeout(timer);
};

function shown(line: Line): HTMLElement {
  const fields = Object.entries(line).filter(([name]) => !OURS.has(name));
  const told = fields.map(([name, value]) => `${name.replace(/_$/, "")}=${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ");
  return h(
    "li",
    { class: line.level },
    h("time", { datetime: line.at }, line.at ? clock(Date.parse(line.at), true) : ""),
    h("span", { class: "process" }, line.process),
    line.level === "info" ? null : h("b", {}, line.level),
    h("span", {}, line.event),
    h("span", { class: "fields" }, told),
    line["traceback"] ? h("pre", {}, String(line["traceback"])) : null,
  );
}
