// Composes the page: state, connection, header and the view of the hash.

import { Announcer } from "../ui/announcer.js";
import { h, oncePerFrame } from "../ui/dom.js";
import { Header } from "../ui/header.js";
import { Help } from "../ui/help.js";
import { Jump } from "../ui/jump.js";
import { listenForKeys } from "../ui/keyboard.js";
import { applyTheme } from "../ui/palette.js";
import { EventsView } from "../views/events.js";
import { FleetView } from "../views/fleet.js";
import { GpuView } from "../views/gpu.js";
import { JobView } from "../views/job.js";
import { PlotView } from "../views/plot.js";
import { SourcesView } from "../views/sources.js";
import { WorkView } from "../views/work.js";
import { WorkloadView } from "../views/workload.js";
import { catalog } from "./catalog.js";
import { Changes } from "./changes.js";
import { Connection } from "./connection.js";
import { FleetState } from "./fleet_state.js";
import { Host } from "./host.js";
import { Router } from "./router.js";

/** Name in the hash, title and class; in the order of the keys 1, 2, ... */
const VIEWS = [
  ["fleet", "Fleet", FleetView],
  ["gpu", "GPU", GpuView],
  ["plot", "Plot", PlotView],
  ["events", "Events", EventsView],
  ["work", "Work", WorkView],
  ["sources", "Sources", SourcesView],
];

/** Views that others link to. */
const LINKED_VIEWS = [
  ["job", "Job", JobView],
  ["pod", "Pod", JobView],
  ["workload", "Workload", WorkloadView],
];

const WAIT_MS = 5000; // longest time without the first view, while its data comes
const LARGE = 1000; // GPUs, from which on the page is drawn once per second
const LARGE_PAUSE_MS = 1000;

applyTheme();
const fleet = new FleetState();
const connection = new Connection(fleet);
const context = {
  fleet,
  connection,
  router: new Router(),
  changes: new Changes(connection, fleet),
  host: new Host(connection),
  announcer: new Announcer(),
  view: null,
  help: () => help.open(),
  jump: () => jump.open(),
  ready: () => ((context.isReady = true), reveal()), // the view has its data: before, the first one would move
  isReady: false,
};
const main = document.getElementById("main");
const banner = h("div", { class: "banner", role: "status", hidden: true });
const place = h("div");
main.classList.add("waiting");
setTimeout(() => main.classList.remove("waiting"), WAIT_MS);
main.replaceChildren(banner, place, context.announcer.element);
const header = new Header(context, VIEWS);
const help = new Help(context);
const jump = new Jump(context, VIEWS);

let all = true;
const draw = oncePerFrame(() => {
  header.draw();
  drawBanner();
  context.view?.update({ all });
  reveal();
  all = false;
}, () => (fleet.size >= LARGE ? LARGE_PAUSE_MS : 0));

function show() {
  const { router } = context;
  const [name, , View] = [...VIEWS, ...LINKED_VIEWS].find(([view]) => view === router.view) ?? VIEWS[0];
  const key = `${name}/${router.rest}`;
  if (key !== show.key) {
    const isFirst = !show.key;
    show.key = key;
    context.view?.destroy?.();
    context.view = new View(context);
    place.replaceChildren(context.view.element);
    if (!isFirst) main.focus({ preventScroll: true });
    if (!isFirst) scrollTo(0, 0);
  }
  all = true;
  draw(true);
}

/** Shows the first view once it has its data, and the banner is known. */
function reveal() {
  if (context.isReady && (fleet.isLoaded || connection.isDown)) main.classList.remove("waiting");
}

function drawBanner() {
  const { state, problem } = connection;
  const age = performance.now() - fleet.arrived;
  let text = "";
  if (state === "signin") text = "The daemon requests a sign-in. ";
  else if (state === "offline") text = `No connection to the daemon (${problem}). Retrying. `;
  else if (fleet.isLoaded && fleet.sources.length && fleet.sources.every(({ ended }) => ended)) text = "The recording is over: this is its end. ";
  else if (fleet.isLoaded && state !== "hidden" && age > 60000) text = "No new data for more than a minute. ";
  else {
    const isListed = context.router.view === "fleet"; // what needs attention is there
    const down = isListed ? [] : fleet.sources.filter((source) => !source.up && !source.ended);
    if (down.length === 1) text = `The source ${down[0].target} is down: ${down[0].error ?? "no data yet"} `;
    else if (down.length) text = `${down.length} of ${fleet.sources.length} sources are down; the first: ${down[0].error ?? "no data yet"} `;
  }
  banner.hidden = !text;
  if (banner.firstChild?.data === text) return;
  banner.replaceChildren(text);
  if (state === "signin") banner.append(h("button", { type: "button", onclick: () => location.reload() }, "Sign in"));
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the view
  main.focus();
});
context.router.addEventListener("change", show);
fleet.addEventListener("change", ({ detail }) => {
  all ||= detail.all;
  draw(detail.all);
});
connection.addEventListener("state", () => draw());
connection.addEventListener("change", ({ detail }) => {
  if (detail.event === "health" && !detail.check && detail.before !== "unknown") {
    context.announcer.announce(`GPU ${detail.gpu} of ${detail.node}: health ${detail.after}`);
  }
});
context.changes.addEventListener("change", () => draw());
listenForKeys(context, VIEWS);
catalog().then(() => draw(), () => {});
show();
connection.start();
