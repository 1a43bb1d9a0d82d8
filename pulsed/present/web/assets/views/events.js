// What has happened: incidents as the daemon folds them, and on request changes of owners and classes, the newest first.

import { getJson } from "../core/api.js";
import { keyOfEvent } from "../core/fleet_state.js";
import { changeText, countText, INCIDENT_KINDS, KINDS } from "../text/change_text.js";
import { clock, span } from "../text/format.js";
import { SEVERITY } from "../text/states.js";
import { h, setText } from "../ui/dom.js";
import { scrollTable } from "../ui/table.js";
import { incidentRow, incidentText } from "./incidents.js";

const DEFAULT_KINDS = ["incident"]; // a start of 84 owners would bury an XID
const MAX_ROWS = 200;
const RECENT_SECONDS = 600;
const PAUSE_MS = 1000; // between two requests

/** Least severities that can be chosen. */
const LEAST = [["", "all"], ["warn", "warn and worse"], ["hot", "hot and worse"], ["crit", "crit"]];

export class EventsView {
  constructor(context) {
    this.context = context;
    this.incidents = null;
    this.buttons = Object.entries(KINDS).map(([kind, title]) => [kind, h("button", { type: "button", onclick: () => this.toggle(kind) }, title)]);
    this.least = h("select", { onchange: () => context.router.set({ sev: this.least.value }) }, LEAST.map(([value, text]) => h("option", { value }, text)));
    this.summary = h("p", { class: "muted" });
    this.body = h("tbody");
    this.empty = h("p", { class: "empty", hidden: true });
    const head = ["Since", "GPU", "State", "What happened", "What to do"];
    this.element = h(
      "section",
      {},
      h("div", { class: "toolbar" }, h("h1", {}, "Events"), h("div", { class: "segmented", role: "group", "aria-label": "Kinds" }, this.buttons.map(([, button]) => button)), h("label", {}, "Severity ", this.least)),
      this.summary,
      scrollTable({ caption: "What happened, the newest first", label: "Events", class_: "events", head, body: this.body }),
      this.empty,
    );
    this.timer = setInterval(() => this.update(), PAUSE_MS);
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

  /** Fetches the incidents after a change that is part of one; of a large fleet also the changes of classes. */
  async fetch() {
    const { changes, fleet } = this.context;
    const newest = changes.list.find(({ event }) => INCIDENT_KINDS.includes(event));
    const known = newest ? `${newest.time} ${keyOfEvent(newest)} ${newest.check ?? ""} ${newest.after ?? ""}` : "";
    const now = performance.now();
    if (this.isFetching || (this.incidents && known === this.known) || now - (this.fetched ?? -Infinity) < PAUSE_MS) return;
    Object.assign(this, { isFetching: true, fetched: now });
    try {
      if (fleet.size > 256 && this.kinds().includes("workload_class")) await changes.fetch();
      this.incidents = (await getJson("events/incidents", { limit: 1000 })).incidents;
      this.known = known;
      this.update();
      this.context.ready();
    } catch (error) {
      if (!("status" in error)) throw error;
    } finally {
      this.isFetching = false;
    }
  }

  update() {
    const { changes, fleet, router } = this.context;
    const kinds = this.kinds();
    this.fetch();
    if (!this.incidents || !fleet.isLoaded) return;
    this.buttons.forEach(([kind, button]) => button.setAttribute("aria-pressed", String(kinds.includes(kind))));
    const text = router.get("q").toLowerCase();
    const matches = (searched) => !text || /[<>=|&]/.test(text) || searched.toLowerCase().includes(text);
    const least = router.get("sev") in SEVERITY ? router.get("sev") : "";
    this.least.value = least;
    const incidents = kinds.includes("incident") ? this.incidents.filter((each) => (!least || SEVERITY[each.state] >= SEVERITY[least]) && matches(incidentText(each))) : [];
    const others = changes.list.filter((change) => kinds.includes(change.event) && matches(searchText(change)));
    const shown = [...incidents.map((each) => [each.since, each, null]), ...others.map((change) => [change.time, null, change])].sort(([a], [b]) => Date.parse(b) - Date.parse(a)).slice(0, MAX_ROWS);
    this.drawSummary(fleet);
    const key = JSON.stringify([kinds, least, text, incidents, others.length, others[0]?.time, fleet.roster]);
    if (key === this.key) return;
    this.key = key;
    this.empty.hidden = shown.length > 0;
    setText(this.empty, this.incidents.length + changes.list.length ? "Nothing of these kinds." : "Nothing has happened since the daemon started.");
    this.body.replaceChildren(...shown.map(([, incident, change]) => (incident ? incidentRow(this.context, incident) : this.row(change))));
  }

  /** Counts what happened of all kinds, also of those that are not listed. */
  drawSummary(fleet) {
    const isRecent = (time) => fleet.current.time - Date.parse(time) / 1000 <= RECENT_SECONDS;
    const recent = this.context.changes.list.filter((change) => change.event in KINDS && isRecent(change.time));
    const counts = Object.keys(KINDS).map((kind) => [kind, kind === "incident" ? this.incidents.filter(({ since }) => isRecent(since)).length : recent.filter(({ event }) => event === kind).length]);
    setText(this.summary, `Last 10 minutes: ${counts.filter(([, count]) => count).map(([kind, count]) => countText(kind, count)).join(", ") || "nothing"}`);
  }

  /** The row of a change of an owner or class. */
  row(change) {
    const { fleet, router } = this.context;
    const key = keyOfEvent(change);
    const time = Date.parse(change.time) / 1000;
    const name = fleet.labelOfGpu(change);
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "mono", title: `${span(fleet.current.time - time)} ago` }, h("time", { datetime: change.time }, clock(time))),
      h("td", { class: "c-gpu" }, fleet.positions.has(key) ? h("a", { href: router.to("gpu", key), "data-row": true }, name) : name),
      h("td", {}, h("span", { class: "muted" }, KINDS[change.event])),
      h("td", { class: "what" }, changeText(change)),
      h("td", { class: "what" }),
    );
  }

  destroy() {
    clearInterval(this.timer);
  }
}

const searchText = (change) => `${change.node} gpu ${change.gpu} ${change.uuid ?? ""} ${changeText(change)}`;
