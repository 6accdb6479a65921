import { type Row, follow } from "../api";
import { h, put, say } from "../dom";
import { age, milliseconds } from "../format";
import { type View, address } from "../view";

const COLUMNS: [string, string, (row: Row) => string][] = [
  ["phase", "", (row) => row.phase],
  ["guarantee", "wide", (row) => row.guarantee],
  ["workers", "number", (row) => (row.running ? `${row.workers}/${row.wanted}${row.standbys ? ` +${row.standbys}` : ""}` : "")],
  ["p50", "number", (row) => milliseconds(row.p50_ms)],
  ["p99", "number", (row) => milliseconds(row.p99_ms)],
  ["epoch age", "number mid", (row) => (row.epoch_at ? age(row.epoch_at) : "–")],
  ["last recovery", "wide", (row) => (row.recovery ? `${row.recovery} (${milliseconds(row.recovery_ms)})` : "–")],
  ["audit", "mid", (row) => row.audit || "–"],
];

interface Line {
  row: Row;
  element: HTMLTableRowElement;
  cells: HTMLTableCellElement[];
}

function line(row: Row): Line {
  const cells = COLUMNS.map(([, kind]) => h("td", { class: kind }));
  const link = h("a", { href: address(row.job) }, row.job);
  return { row, cells, element: h("tr", {}, h("th", { scope: "row" }, link), ...cells) };
}

function fill(line: Line): void {
  COLUMNS.forEach(([, , text], at) => say(line.cells[at] as Element, text(line.row)));
  line.element.dataset["phase"] = line.row.running ? line.row.phase : "ended";
  line.element.classList.toggle("problem", line.row.problems > 0 || line.row.phase === "failed" || line.row.audit === "differs");
}

export const jobs: View = (root, place) => {
  const lines = new Map<string, Line>();
  const body = h("tbody");
  const told = h("p", { class: "note", role: "status" }, "Asking …");
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search jobs", value: place.query.get("q") ?? "" });
  const seen = (line: Line): boolean => {
    const wanted = search.value.toLowerCase();
    return !wanted || `${line.row.job} ${line.row.phase} ${line.row.guarantee}`.toLowerCase().includes(wanted);
  };
  const sift = (): void => {
    let count = 0;
    for (const each of lines.values()) {
      each.element.hidden = !seen(each);
      count += each.element.hidden ? 0 : 1;
    }
    say(told, lines.size === 0 ? "There is no job that you may see. `flamestream run job.yaml` begins one, on a cluster `kubectl apply -f job.yaml`." : `${count} of ${lines.size} jobs`);
  };
  search.addEventListener("input", () => {
    sift();
    history.replaceState(null, "", search.value ? `#/?q=${encodeURIComponent(search.value)}` : "#/");
  });
  put(
    root,
    h("div", { class: "row" }, h("h1", {}, "Jobs"), search, told),
    h("div", { class: "scroll" }, h("table", { class: "jobs" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "job"), ...COLUMNS.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))), body)),
  );
  const change = (news: { rows: Row[]; gone: string[] }): void => {
    for (const name of news.gone) {
      lines.get(name)?.element.remove();
      lines.delete(name);
    }
    const fresh: Line[] = [];
    for (const row of news.rows) {
      let known = lines.get(row.job);
      if (!known) {
        lines.set(row.job, (known = line(row)));
        fresh.push(known);
      }
      known.row = row;
      fill(known);
    }
    if (fresh.length) body.append(...[...lines.values()].sort((a, b) => (a.row.job < b.row.job ? -1 : 1)).map((each) => each.element));
    sift();
  };
  const ticking = window.setInterval(() => {
    for (const each of lines.values()) if (each.row.running && !each.element.hidden) fill(each);
  }, 1000);
  const stop = follow("", { jobs: change as (data: never) => void }, place.connected);
  return () => {
    window.clearInterval(ticking);
    stop();
  };
};
