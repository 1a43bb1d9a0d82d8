// What has happened: changes of health, XIDs, findings, owners and classes, the newest first.

import { keyOfEvent } from "../core/fleet_state.js";
import { changeText, countText, isNews, KINDS, stateOf } from "../text/change_text.js";
import { clock, span } from "../text/format.js";
import { copyable } from "../ui/copy.js";
import { h, setText } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";
import { scrollTable } from "../ui/table.js";

const DEFAULT_KINDS = Object.keys(KINDS).filter((kind) => !["owner", "workload_class"].includes(kind)); // a start of 84 owners would bury an XID
const MAX_ROWS = 200;
const RECENT_SECONDS = 600;

export class EventsView {
  constructor(context) {
    this.context = context;
    this.buttons = Object.entries(KINDS).map(([kind, title]) => [kind, h("button", { type: "button", onclick: () => this.toggle(kind) }, title)]);
    this.summary = h("p", { class: "muted" });
    this.body = h("tbody");
    this.empty = h("p", { class: "empty" });
    const head = ["Time", "GPU", "Kind", "What", "What to do"];
    this.element = h(
      "section",
      {},
      h("div", { class: "toolbar" }, h("h1", {}, "Events"), h("div", { class: "segmented", role: "group", "aria-label": "Kinds" }, this.buttons.map(([, button]) => button))),
      this.summary,
      scrollTable({ caption: "Changes, the newest first", label: "Events", class_: "events", head, body: this.body }),
      this.empty,
    );
  }

  /** Fetches the changes of classes, which the stream of a large fleet does not have. */
  fetchClasses() {
    const { changes, fleet } = this.context;
    const now = performance.now();
    if (fleet.size <= 256 || !this.kinds().includes("workload_class") || now - (this.fetched ?? -Infinity) < 5000) return;
    this.fetched = now;
    changes.fetch();
  }

  kinds() {
    const given = this.context.router.get("k");
    return given ? given.split(",").filter((kind) => kind in KINDS) : DEFAULT_KINDS;
  }

  toggle(kind) {
    const kinds = this.kinds();
    const next = kinds.includes(kind) ? kinds.filter((each) => each !== kind) : [...kinds, kind];
    this.context.router.set({ k: next.join() === DEFAULT_KINDS.join() ? "" : next.join() || "none" });
  }

  update() {
    const { changes, fleet, router } = this.context;
    const kinds = this.kinds();
    this.fetchClasses();
    this.buttons.forEach(([kind, button]) => button.setAttribute("aria-pressed", String(kinds.includes(kind))));
    const text = router.get("q").toLowerCase();
    const isWords = !/[<>=|&]/.test(text);
    const checks = new Set(changes.list.filter((change) => change.check).map(momentOf));
    const found = changes.list.filter((change) => isNews(change) && !isSummary(change, checks) && (!text || !isWords || searchText(change).includes(text)));
    const shown = found.filter((change) => kinds.includes(change.event));
    this.drawSummary(found, fleet);
    const key = `${kinds} ${text} ${changes.list.length} ${shown[0]?.time} ${shown[0]?.event} ${shown.length}`;
    if (key === this.key) return;
    this.key = key;
    this.empty.hidden = shown.length > 0;
    setText(this.empty, changes.list.length ? "No change of these kinds." : "Nothing has happened since the daemon started.");
    this.body.replaceChildren(...shown.slice(0, MAX_ROWS).map((change) => this.row(change)));
  }

  /** Counts the changes of all kinds, also of those that are not listed. */
  drawSummary(found, fleet) {
    const now = fleet.current.time;
    const recent = found.filter((change) => now - Date.parse(change.time) / 1000 <= RECENT_SECONDS);
    const counts = Object.keys(KINDS).map((kind) => [kind, recent.filter((change) => change.event === kind).length]).filter(([, count]) => count);
    setText(this.summary, `Last 10 minutes: ${counts.map(([kind, count]) => countText(kind, count)).join(", ") || "nothing"}`);
  }

  row(change) {
    const { fleet, router } = this.context;
    const key = keyOfEvent(change);
    const name = `${fleet.hasSeveralNodes() ? `${change.node} ` : ""}GPU ${change.gpu}${change.mig_id ? `:${change.mig_id}` : ""}`;
    const state = stateOf(change);
    const time = Date.parse(change.time) / 1000;
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "mono", title: `${span(fleet.current.time - time)} ago` }, h("time", { datetime: change.time }, clock(time))),
      h("td", {}, fleet.positions.has(key) ? h("a", { href: router.to("gpu", key), "data-row": true }, name) : name),
      h("td", {}, state ? healthChip(state) : h("span", { class: "muted" }, KINDS[change.event] ?? change.event)),
      h("td", { class: "what" }, changeText(change)),
      h("td", { class: "what" }, change.remedy ? copyable(change.remedy, "p") : ""),
    );
  }
}

const momentOf = (change) => `${keyOfEvent(change)} ${change.time}`;

/** Whether a change of the whole GPU is that of a check, which has a row of its own. */
const isSummary = (change, checks) => change.event === "health" && !change.check && checks.has(momentOf(change));

const searchText = (change) => `${change.node} gpu ${change.gpu} ${change.uuid ?? ""} ${changeText(change)}`.toLowerCase();
