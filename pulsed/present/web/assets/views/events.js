// What has happened: changes of health, XIDs, findings, owners and classes, the newest first, folded by GPU and cause.

import { keyOfEvent } from "../core/fleet_state.js";
import { changeText, countText, isNews, KINDS, stateOf } from "../text/change_text.js";
import { folded, foldText, severityOf } from "../text/event_folds.js";
import { clock, moment, span } from "../text/format.js";
import { SEVERITY } from "../text/states.js";
import { copyable } from "../ui/copy.js";
import { h, setText } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";
import { scrollTable } from "../ui/table.js";

const DEFAULT_KINDS = Object.keys(KINDS).filter((kind) => !["owner", "workload_class"].includes(kind)); // a start of 84 owners would bury an XID
const MAX_ROWS = 200;
const RECENT_SECONDS = 600;

/** Least severities that can be chosen. */
const LEAST = [["", "all"], ["info", "info and worse"], ["warn", "warn and worse"], ["hot", "hot and worse"], ["crit", "crit"]];

export class EventsView {
  constructor(context) {
    this.context = context;
    this.buttons = Object.entries(KINDS).map(([kind, title]) => [kind, h("button", { type: "button", onclick: () => this.toggle(kind) }, title)]);
    this.least = h("select", { onchange: () => context.router.set({ sev: this.least.value }) }, LEAST.map(([value, text]) => h("option", { value }, text)));
    this.opened = new Set();
    this.summary = h("p", { class: "muted" });
    this.body = h("tbody");
    this.empty = h("p", { class: "empty" });
    const head = ["Time", "GPU", "Kind", "What", "What to do"];
    this.element = h(
      "section",
      {},
      h("div", { class: "toolbar" }, h("h1", {}, "Events"), h("div", { class: "segmented", role: "group", "aria-label": "Kinds" }, this.buttons.map(([, button]) => button)), h("label", {}, "Severity ", this.least)),
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
    const least = router.get("sev") in SEVERITY ? router.get("sev") : "";
    this.least.value = least;
    const shown = found.filter((change) => kinds.includes(change.event) && (!least || severityOf(change, stateOf(change)) >= SEVERITY[least]));
    this.drawSummary(found, fleet);
    const key = `${kinds} ${least} ${text} ${changes.list.length} ${shown[0]?.time} ${shown[0]?.event} ${shown.length} ${[...this.opened]} ${fleet.roster}`;
    if (key === this.key) return;
    this.key = key;
    this.empty.hidden = shown.length > 0;
    setText(this.empty, changes.list.length ? "No change of these kinds." : "Nothing has happened since the daemon started.");
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.body.replaceChildren(...folded(shown).slice(0, MAX_ROWS).flatMap((fold) => this.rows(fold)));
    if (focused) this.body.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  /** The row of a fold, and of each of its changes if it is open. */
  rows(fold) {
    const { id, newest, changes } = fold;
    if (changes.length === 1) return [this.row(newest, changeText(newest))];
    const isOpen = this.opened.has(id);
    const toggle = () => {
      if (!this.opened.delete(id)) this.opened.add(id);
      this.update();
    };
    const since = moment(Date.parse(changes.at(-1).time) / 1000);
    const button = h("button", { type: "button", "aria-expanded": String(isOpen), "data-id": id, title: `since ${since}`, onclick: toggle }, `${changes.length} changes`);
    const rows = isOpen ? changes.map((change) => this.row(change, changeText(change), "folded")) : [];
    return [this.row(newest, [foldText(fold), " ", button]), ...rows];
  }

  /** Counts the changes of all kinds, also of those that are not listed. */
  drawSummary(found, fleet) {
    const now = fleet.current.time;
    const recent = found.filter((change) => now - Date.parse(change.time) / 1000 <= RECENT_SECONDS);
    const counts = Object.keys(KINDS).map((kind) => [kind, recent.filter((change) => change.event === kind).length]).filter(([, count]) => count);
    setText(this.summary, `Last 10 minutes: ${counts.map(([kind, count]) => countText(kind, count)).join(", ") || "nothing"}`);
  }

  row(change, what, class_ = null) {
    const { fleet, router } = this.context;
    const key = keyOfEvent(change);
    const name = `${fleet.hasSeveralNodes() ? `${change.node} ` : ""}GPU ${change.gpu}${change.mig_id ? `:${change.mig_id}` : ""}`;
    const state = stateOf(change);
    const time = Date.parse(change.time) / 1000;
    return h(
      "tr",
      { class: class_ },
      h("th", { scope: "row", class: "mono", title: `${span(fleet.current.time - time)} ago` }, h("time", { datetime: change.time }, clock(time))),
      h("td", {}, fleet.positions.has(key) ? h("a", { href: router.to("gpu", key), "data-row": true }, name) : name),
      h("td", {}, state ? healthChip(state) : h("span", { class: "muted" }, KINDS[change.event] ?? change.event)),
      h("td", { class: "what" }, what),
      h("td", { class: "what" }, change.remedy && !class_ ? copyable(change.remedy, "p") : ""),
    );
  }
}

const momentOf = (change) => `${keyOfEvent(change)} ${change.time}`;

/** Whether a change of the whole GPU is that of a check, which has a row of its own. */
const isSummary = (change, checks) => change.event === "health" && !change.check && checks.has(momentOf(change));

const searchText = (change) => `${change.node} gpu ${change.gpu} ${change.uuid ?? ""} ${changeText(change)}`.toLowerCase();
