import "uplot/dist/uPlot.min.css";
import "./style.css";
import { type About, ApiError, ask } from "./api";
import { h, put, say } from "./dom";
import { type Place, type View, address } from "./view";
import { audit } from "./views/audit";
import { drill } from "./views/drill";
import { item } from "./views/item";
import { job } from "./views/job";
import { jobs } from "./views/jobs";
import { logs } from "./views/logs";
import { snapshots } from "./views/snapshots";
import { time } from "./views/time";

const VIEWS: [string, string, View][] = [
  ["", "Job", job],
  ["time", "Time", time],
  ["audit", "Audit", audit],
  ["item", "Item", item],
  ["snapshots", "Snapshots", snapshots],
  ["logs", "Logs", logs],
  ["drill", "Drill", drill],
];
const THEMES = ["auto", "light", "dark"];
const top_ = document.getElementById("top") as HTMLElement;
const main = document.getElementById("main") as HTMLElement;
const state = h("span", { class: "connection", role: "status" });
let end: (() => void) | void;
let about: About = { version: "", actions: false, kinds: [], victims: [], namespaced: false };
// Views that show what a command answers: a server that does not answer it has none of them.
const OF_KINDS: Record<string, string> = { audit: "audit", item: "item", snapshots: "snapshots", drill: "drill" };

function shownHere(view: string): boolean {
  return !OF_KINDS[view] || about.kinds.includes(OF_KINDS[view]);
}

function connected(yes: boolean): void {
  say(state, yes ? "live" : "not connected");
  state.classList.toggle("off", !yes);
}

function themed(): HTMLElement {
  const button = h("button", { class: "quiet", title: "Colours: as the system has them, light, dark" });
  const show = (): void => {
    const theme = localStorage.getItem("theme") ?? "auto";
    document.documentElement.dataset["theme"] = theme;
    say(button, `Theme: ${theme}`);
  };
  button.addEventListener("click", () => {
    const at = THEMES.indexOf(localStorage.getItem("theme") ?? "auto");
    localStorage.setItem("theme", THEMES[(at + 1) % THEMES.length] ?? "auto");
    show();
    window.dispatchEvent(new Event("themed"));
  });
  show();
  return button;
}

function head(name: string, view: string): void {
  const tabs = VIEWS.filter(([path]) => shownHere(path)).map(([path, label]) =>
    h("a", { href: address(name, path), "aria-current": path === view ? "page" : undefined }, label),
  );
  put(
    top_,
    h("div", { class: "bar" }, h("a", { class: "brand", href: "#/" }, "FlameStream"), name && h("span", { class: "name" }, name), h("span", { class: "space" }), state, themed()),
    name && h("nav", { "aria-label": "Views of the job" }, ...tabs),
  );
}

async function logIn(): Promise<void> {
  const found = /^#token=([^&]+)(?:&(.*))?$/.exec(location.hash);
  if (!found) return;
  // The token stays in no history. At once: who goes elsewhere meanwhile is not brought back.
  history.replaceState(null, "", `#${found[2] ?? "/"}`);
  await ask("/login", "POST", found[1]);
}

function show(): void {
  const [path = "", query = ""] = location.hash.replace(/^#/, "").split("?");
  if (path === "main") return; // the link to the content
  const [, kind = "", name = "", view = ""] = path.split("/").map(decodeURIComponent);
  // Who came by keys goes on from where the link led: what was focused is not there any more.
  const [fromHead, fromMain] = [top_, main].map((each) => each.contains(document.activeElement));
  end?.();
  put(main);
  const found = VIEWS.find(([each]) => each === view && shownHere(each));
  const place: Place = {
    job: name,
    query: new URLSearchParams(query),
    connected,
    about,
    go: (told) => history.replaceState(null, "", address(name, view, told)),
  };
  document.title = name ? `${name} – FlameStream` : "FlameStream";
  connected(true);
  head(kind === "jobs" ? name : "", view);
  end = kind === "jobs" && found ? found[2](main, place) : jobs(main, place);
  if (fromHead) (top_.querySelector<HTMLElement>("[aria-current]") ?? top_.querySelector<HTMLElement>(".brand"))?.focus();
  else if (fromMain) main.focus();
}

function refused(error: unknown): void {
  head("", "");
  const why = error instanceof ApiError ? error.message : String(error);
  const token = h("input", { type: "password", name: "token", autocomplete: "off", "aria-label": "Token", required: true, size: 40 });
  const form = h("form", { class: "row" }, token, h("button", { class: "main" }, "Show it"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void ask("/login", "POST", token.value.trim()).then(begin, refused);
  });
  put(main, h("h1", {}, "Not let in"), h("p", {}, `${why.charAt(0).toUpperCase()}${why.slice(1)}.`), error instanceof ApiError && error.status === 401 ? form : null);
}

let listening = false;

async function begin(): Promise<void> {
  try {
    await logIn();
    about = await ask<About>("");
  } catch (error) {
    refused(error);
    return;
  }
  if (!listening) window.addEventListener("hashchange", show);
  listening = true;
  show();
}

void begin();
