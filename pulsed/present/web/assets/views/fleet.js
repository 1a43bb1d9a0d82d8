// The fleet: totals, then tiles, a table or a map of cells, by the number of GPUs. `v` overrides the size.

import { selected } from "../text/filter.js";
import { MISSING, memoryOf, number, percent, percentRange, watts } from "../text/format.js";
import { HEALTH } from "../text/states.js";
import { totalsOf } from "../text/totals.js";
import { h, setText } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";
import { segmented } from "../ui/segmented.js";
import { Attention } from "./attention.js";
import { HeatmapView } from "./heatmap.js";
import { SORTS, sorted } from "./fleet_order.js";
import { TableView } from "./table.js";
import { TilesView } from "./tiles.js";

const KINDS = { tiles: TilesView, table: TableView, map: HeatmapView };
const LARGEST = { tiles: 16, table: 31 };
const USES = { busy: "use=busy & stale=no", held: "use=held & stale=no", free: "use=free & stale=no", idle: "use=idle & stale=no", unknown: "use=unknown & stale=no", stale: "stale=yes" };
const USE_WORDS = { held: "held idle" };

export class FleetView {
  constructor(context) {
    this.context = context;
    this.title = "Fleet";
    this.totals = new Totals(context);
    this.attention = new Attention(context);
    this.place = h("div");
    this.kinds = segmented("Show as", Object.keys(KINDS), (kind) => context.router.set({ v: kind }));
    this.sort = h(
      "select",
      { onchange: () => context.router.set({ sort: this.sort.value }) },
      SORTS.map(([value, text]) => h("option", { value }, text)),
    );
    this.count = h("span", { class: "muted" });
    this.element = h(
      "section",
      {},
      h("h1", { class: "visually-hidden" }, "Fleet"),
      this.attention.element,
      this.totals.element,
      h("div", { class: "toolbar" }, this.kinds.element, h("label", {}, "Sort ", this.sort), this.count),
      this.place,
    );
  }

  update({ all = true } = {}) {
    const { fleet, router } = this.context;
    this.attention.update();
    if (!fleet.isLoaded || !this.attention.isReady || (!all && fleet.version === this.version)) return;
    this.version = fleet.version;
    const kind = kindOf(fleet, router);
    if (!(this.view instanceof KINDS[kind])) {
      this.view?.destroy?.();
      this.view = new KINDS[kind](this.context);
      this.place.replaceChildren(this.view.element);
      all = true;
    }
    const sort = router.get("sort", "");
    this.kinds.select(kind);
    this.sort.value = sort.replace(/^-/, "");
    const positions = sorted(fleet, selected(this.context), sort);
    setText(this.count, positions.length === fleet.size ? "" : `${positions.length} of ${fleet.size} GPUs`);
    this.totals.draw(positions);
    this.view.update(positions, { all, sort });
    this.context.ready();
  }

  nextKind() {
    const { fleet, router } = this.context;
    const kinds = Object.keys(KINDS);
    router.set({ v: kinds[(kinds.indexOf(kindOf(fleet, router)) + 1) % kinds.length] });
  }

  destroy() {
    this.attention.destroy();
    this.view?.destroy?.();
  }
}

function kindOf(fleet, router) {
  const wanted = router.get("v");
  if (wanted in KINDS) return wanted;
  return fleet.size <= LARGEST.tiles ? "tiles" : fleet.size <= LARGEST.table ? "table" : "map";
}

/** Sums over the selected GPUs; each shows over how many it is, if not all. */
class Totals {
  constructor({ fleet, host, router }) {
    Object.assign(this, { fleet, host, router });
    this.parts = Object.fromEntries(
      ["GPUs", "Real utilization", "Power", "Memory", "Host"].map((name) => [name, h("dd")]),
    );
    this.health = h("dd", { class: "chips" });
    const pairs = Object.entries({ ...this.parts, Health: this.health });
    this.element = h("dl", { class: "totals" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), value)));
  }

  draw(positions) {
    const totals = totalsOf(this.fleet, positions);
    const { gpus } = totals;
    this.drawUses(totals);
    const { ratio, lower, upper, known } = totals.utilization;
    setText(this.parts["Real utilization"], percentRange(ratio, lower, upper) + of(known, gpus));
    setText(this.parts.Power, watts(totals.power.sum) + of(totals.power.count, gpus));
    setText(this.parts.Memory, memoryOf(totals.memoryUsed.sum, totals.memory.sum) + of(totals.memoryUsed.count, gpus));
    this.drawHost();
    this.drawHealth(totals);
  }

  drawUses(totals) {
    const shown = Object.keys(USES).filter((use) => totals[use] || use === "busy");
    const key = JSON.stringify([totals.gpus, shown.map((use) => totals[use])]);
    if (key === this.shownUses) return;
    this.shownUses = key;
    const links = shown.flatMap((use, at) => [at ? ", " : "", h("a", { href: this.router.filtered(USES[use]) }, `${number(totals[use])} ${USE_WORDS[use] ?? use}`)]);
    this.parts.GPUs.replaceChildren(h("a", { href: this.router.filtered("") }, number(totals.gpus)), ": ", ...links);
  }

  drawHost() {
    const { document_ } = this.host;
    this.parts.Host.parentElement.hidden = this.fleet.hasSeveralNodes(); // the daemon's host is not that of the GPUs
    const busy = document_ && document_.cpu_busy_ratio !== null ? percent(document_.cpu_busy_ratio) : MISSING;
    const ram = document_ ? memoryOf(document_.memory_used_bytes, document_.memory_bytes) : MISSING;
    const problems = (document_?.problems ?? []).map((check) => `, ${check.state}: ${check.message}`);
    setText(this.parts.Host, `CPU ${busy}, RAM ${ram}${problems.join("")}`);
  }

  drawHealth({ health: counts, okText }) {
    const text = JSON.stringify([counts, okText]);
    if (text === this.shownHealth) return;
    this.shownHealth = text;
    const shown = HEALTH.filter((state) => counts[state]);
    this.health.replaceChildren(...shown.map((state) => h("a", { class: "chip-link", href: this.router.filtered(`health=${state}`) }, healthChip(state, `${number(counts[state])} ${state === "ok" ? okText : state}`))));
  }
}

const of = (count, all) => (count === all ? "" : `, ${number(count)}/${number(all)}`);
