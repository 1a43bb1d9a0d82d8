// A tile per GPU: everything that matters about it at a glance.

import { getJson } from "../core/api.js";
import { fetchPoints, Series } from "../core/history.js";
import { celsius, memoryOf, modelName, percent, percentNumber, powerOf, words } from "../text/format.js";
import { Bar } from "../ui/bar.js";
import { h, setAttribute, setText } from "../ui/dom.js";
import { BottleneckMark, HealthChip } from "../ui/marks.js";
import { Sparkline } from "../ui/sparkline.js";
import { drawOwners } from "./owner_links.js";
import { classText, drawHealth, readingOf, ruText, shownHealth } from "./gpu_reading.js";

const SECONDS = 600;
const POINTS = 300;
const FIELDS = ["real_utilization_ratio", "workload_class"];

export class TilesView {
  constructor(context) {
    this.context = context;
    this.tiles = new Map();
    this.list = h("ul", { class: "tiles" });
    this.empty = h("p", { class: "empty" }, "No GPU matches the filter.");
    this.element = h("div", {}, this.list, this.empty);
  }

  update(positions) {
    const { fleet } = this.context;
    const keys = positions.map((i) => fleet.keys[i]);
    for (const [key, tile] of this.tiles) if (!fleet.positions.has(key)) this.tiles.delete(key) && tile.destroy();
    const elements = positions.map((i) => this.tileOf(fleet.keys[i], i).element);
    if (this.shown !== keys.join()) {
      this.shown = keys.join();
      this.list.replaceChildren(...elements);
    }
    this.empty.hidden = positions.length > 0;
    this.fetchHistory(positions);
    for (const i of positions) this.tiles.get(fleet.keys[i]).draw(i);
  }

  /** Fetches the last minutes of tiles that are new; the stream extends them. */
  async fetchHistory(positions) {
    const { fleet } = this.context;
    const fresh = positions.filter((i) => !this.tiles.get(fleet.keys[i]).hasHistory);
    if (!fresh.length) return;
    const tiles = fresh.map((i) => this.tiles.get(fleet.keys[i]));
    const series = tiles.map((tile) => ((tile.hasHistory = true), new Series(FIELDS, SECONDS)));
    try {
      await fetchPoints(fleet, fresh, series, { seconds: SECONDS, points: POINTS });
    } catch {
      return; // the lines begin now
    }
    tiles.forEach((tile, i) => {
      tile.series = series[i];
      tile.sparkline.draw(series[i]);
    });
  }

  tileOf(key, position) {
    if (!this.tiles.has(key)) this.tiles.set(key, new Tile(this.context, position));
    return this.tiles.get(key);
  }

  destroy() {
    for (const tile of this.tiles.values()) tile.destroy();
  }
}

class Tile {
  constructor(context, position) {
    const { fleet, router } = context;
    this.context = context;
    this.key = fleet.keys[position];
    this.chip = new HealthChip();
    this.bar = new Bar({ label: "Real utilization" });
    this.mark = new BottleneckMark();
    this.sparkline = new Sparkline();
    const text = (class_) => h("span", { class: class_ });
    Object.assign(this, { ru: text("big"), class_: text("class-name"), smi: text("muted"), limit: text("muted"), owner: text("owner") });
    this.pipes = ["SM", "Tensor", "DRAM"].map((name) => [name, h("b")]);
    this.board = [h("span"), h("span"), h("span")];
    this.element = h(
      "li",
      { class: "tile" },
      h(
        "div",
        { class: "tile-head" },
        h("a", { class: "name", href: router.to("gpu", this.key), "data-row": true, title: fleet.gpus.node[position] }, fleet.labelOf(position)),
        h("span", { class: "model", title: fleet.gpus.model[position] }, modelName(fleet.gpus.model[position]), mig(fleet, position)),
        this.chip.element,
      ),
      h("div", { class: "tile-ru" }, this.ru, h("span", { class: "class" }, this.mark.element, this.class_)),
      this.bar.element,
      h("div", { class: "tile-notes" }, this.smi, this.limit),
      this.sparkline.element,
      h("div", { class: "tile-pipes" }, this.pipes.map(([name, value]) => h("span", {}, `${name} `, value))),
      h("div", { class: "tile-board" }, this.board),
      h("div", { class: "tile-owner" }, this.owner),
    );
    this.series = new Series(FIELDS, SECONDS);
  }

  draw(i) {
    const { fleet } = this.context;
    const reading = readingOf(fleet, i);
    const get = (name) => (reading.isStale ? null : fleet.get(name, i));
    setAttribute(this.element, "data-health", shownHealth(reading));
    drawHealth(this.chip, reading);
    this.mark.draw(reading.isStale ? "unknown" : reading.bottleneck);
    setText(this.ru, ruText(reading));
    const name = this.className(reading, i);
    setText(this.class_, name);
    setAttribute(this.class_, "title", name);
    this.bar.draw({ ...reading, ghost: reading.isStale ? null : reading.ghost });
    setText(this.smi, `nvidia-smi ${percent(get("gpu_utilization_ratio"))}`);
    const limit = get("limiting_resource");
    setText(this.limit, limit && limit !== "none" && limit !== "unknown" ? `limit: ${words(limit)}` : "");
    ["sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"].forEach((name, at) => {
      const [label, element] = this.pipes[at];
      setText(element, percentNumber(get(name)));
      setAttribute(element, "title", get(name) === null && !reading.isStale ? `${label}: the source has no reading of ${name}` : null);
    });
    setText(this.board[0], powerOf(get("power_watts"), fleet.get("power_limit_watts", i)));
    setText(this.board[1], celsius(get("temperature_celsius")));
    setText(this.board[2], memoryOf(get("memory_used_bytes"), fleet.get("memory_bytes", i)));
    drawOwners(this.owner, this.context, i, !reading.isHeld ? "" : fleet.owners[i] ? "idle, held by " : "idle, held; ");
    setAttribute(this.owner, "data-held", reading.isHeld);
    if (!reading.isStale && !fleet.isPaused) {
      this.series.push(fleet.current.sampleTime[i], { real_utilization_ratio: reading.ratio, workload_class: reading.class_ });
    }
    this.sparkline.draw(this.series);
  }

  /** The class; of an unknown one its candidates, which are in the document of the GPU only. */
  className(reading, i) {
    const { fleet } = this.context;
    if (reading.class_ !== "unknown" || reading.isStale) {
      return classText(reading, fleet.classSince.get(this.key), fleet.frame.time);
    }
    const now = performance.now();
    if (now - (this.asked ?? -Infinity) > 15000) {
      this.asked = now;
      const [path, query] = fleet.apiPath(i);
      getJson(path, query).then(({ workload }) => (this.candidates = workload.candidates), () => {});
    }
    return this.candidates?.length ? candidatesText(this.candidates) : "unknown";
  }

  destroy() {
    this.element.remove();
  }
}

function candidatesText(candidates) {
  const named = candidates.slice(0, 2).map(words).join(" or ");
  return candidates.length > 2 ? `one of ${candidates.length}: ${named}, …` : named;
}

function mig(fleet, i) {
  const profile = fleet.gpus.mig_profile[i];
  return profile ? ` ${profile}` : "";
}
