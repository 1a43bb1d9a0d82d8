// What needs attention: the worst GPUs and the sources that do not deliver, a sentence each. The daemon has the list.

import { getJson } from "../core/api.js";
import { keyOfEvent } from "../core/fleet_state.js";
import { clock, span } from "../text/format.js";
import { h } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";
import { ownerLinks } from "./owner_links.js";

const INTERVAL_MS = 5000;
const MAX_ROWS = 5;

export class Attention {
  /** `isReady`: whether the list is known, or will not be. */
  constructor(context) {
    this.context = context;
    this.isReady = false;
    this.list = h("ul", {});
    this.element = h("section", { class: "attention", "aria-label": "Needs attention", hidden: true }, h("h2", {}, "Needs attention"), this.list);
    this.timer = setInterval(() => this.fetch(), INTERVAL_MS);
    this.fetch();
  }

  /** Fetches the list when something has changed since. */
  update() {
    const { changes, fleet } = this.context;
    const known = `${changes.list[0]?.id ?? changes.list.length} ${fleet.sources.map(({ up }) => up)}`;
    if (known !== this.known) this.fetch();
    this.known = known;
  }

  async fetch() {
    const { connection, fleet } = this.context;
    if (this.isFetching || document.hidden || fleet.isPaused || (this.isReady && connection.isDown)) return;
    this.isFetching = true;
    try {
      this.draw(await getJson("attention", { limit: MAX_ROWS }));
    } catch (error) {
      if (!("status" in error)) throw error;
    } finally {
      this.isFetching = false;
      if (!this.isReady) {
        this.isReady = true;
        this.context.view?.update();
      }
    }
  }

  draw({ attention, total, time }) {
    const { fleet } = this.context;
    const now = Math.floor(Date.parse(time) / 60000);
    const key = JSON.stringify([attention, total, now, fleet.roster]);
    if (key === this.key) return;
    this.key = key;
    this.element.hidden = !total;
    const rows = attention.map((each) => this.row(each, Date.parse(time) / 1000));
    const more = total > attention.length ? [h("li", {}, h("a", { href: this.context.router.filtered("health>=warn | stale=yes") }, `and ${total - attention.length} more`))] : [];
    this.list.replaceChildren(...rows, ...more);
  }

  row(each, now) {
    const { fleet, router } = this.context;
    const isSource = each.gpu === null;
    const since = each.since ? Date.parse(each.since) / 1000 : null;
    const name = isSource
      ? h("a", { href: router.to("sources") }, `${fleet.shortNode(each.node)}${each.gpus ? `, ${each.gpus} GPUs` : ""}`)
      : h("a", { href: router.to("gpu", keyOfEvent(each)) }, fleet.labelOfGpu(each));
    const owner = each.owners.length ? h("span", { class: "owner" }, ownerLinks(this.context, each.owners)) : h("span", { class: "owner muted" }, isSource ? "" : "no owner");
    return h(
      "li",
      {},
      healthChip(isSource ? "unknown" : each.state, isSource ? "silent" : undefined),
      h("b", { class: "where" }, name),
      h("span", { class: "cause" }, each.message, each.remedy ? h("small", {}, ` ${each.remedy}`) : null),
      owner,
      h("time", { class: "muted", datetime: each.since ?? "" }, since === null ? "" : `since ${clock(since).slice(0, 5)}, ${span(now - since)}`),
    );
  }

  destroy() {
    clearInterval(this.timer);
  }
}
