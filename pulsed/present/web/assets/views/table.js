// A row per GPU. Only rows in view are written; a change of order moves rows, and makes none anew.

import { MISSING, memoryOf, modelName, number, percent, words } from "../text/format.js";
import { Bar } from "../ui/bar.js";
import { h, setAttribute, setText } from "../ui/dom.js";
import { BottleneckMark, HealthChip } from "../ui/marks.js";
import { scrollTable } from "../ui/table.js";
import { direction } from "./fleet_order.js";
import { drawHealth, readingOf, ruText } from "./gpu_reading.js";
import { drawOwners } from "./owner_links.js";

const COLUMNS = [
  ["GPU", ""], ["Health", "health"], ["Real utilization", "ru"], ["Class", "class"], ["SM", "sm"], ["Tensor", "tensor"],
  ["DRAM", "dram"], ["nvidia-smi", "util"], ["W", "power"], ["°C", "temp"], ["Memory", "mem"], ["Owner", "owner"],
];
const NUMBERS = new Set(["sm", "tensor", "dram", "util", "power", "temp", "mem"]);

/** Class of a column: widths are fixed, so that a new value does not lay out the whole table; narrow screens lack some. */
const classOf = (sort) => `c-${sort || "gpu"}${NUMBERS.has(sort) ? " number" : ""}`;

export class TableView {
  constructor(context, caption = "GPUs") {
    this.context = context;
    this.rows = new Map();
    this.seen = new IntersectionObserver((entries) => this.onSeen(entries), { rootMargin: "200px" });
    this.headers = COLUMNS.map(([text, sort]) => this.header(text, sort));
    this.body = h("tbody");
    this.empty = h("p", { class: "empty" }, "No GPU matches the filter.");
    const columns = h("colgroup", {}, COLUMNS.map(([, sort]) => h("col", { class: classOf(sort) })));
    this.element = h("div", {}, scrollTable({ caption, label: caption, class_: "gpus", columns, head: this.headers, body: this.body }), this.empty);
  }

  header(text, sort) {
    const button = h("button", { type: "button", onclick: () => this.sortBy(sort) }, text);
    return h("th", { scope: "col", class: classOf(sort) }, button);
  }

  sortBy(name) {
    const { router } = this.context;
    router.set({ sort: name && router.get("sort") === name ? `-${name}` : name });
  }

  update(positions, { sort = "" } = {}) {
    const { fleet } = this.context;
    this.headers.forEach((header, i) => setAttribute(header, "aria-sort", COLUMNS[i][1] ? direction(sort, COLUMNS[i][1]) : null));
    const order = positions.join();
    if (order !== this.order || fleet.roster !== this.roster) {
      this.order = order;
      this.arrange(positions);
    }
    this.empty.hidden = positions.length > 0;
    for (const row of this.rows.values()) if (row.isInView) row.draw();
  }

  arrange(positions) {
    const { fleet } = this.context;
    if (fleet.roster !== this.roster) {
      this.seen.disconnect();
      this.rows.clear();
      this.roster = fleet.roster;
    }
    const focused = document.activeElement;
    const rows = positions.map((i) => {
      if (!this.rows.has(i)) {
        const row = new Row(this.context, i);
        this.rows.set(i, row);
        this.seen.observe(row.element);
      }
      return this.rows.get(i).element;
    });
    this.body.replaceChildren(...rows);
    if (focused && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  onSeen(entries) {
    for (const { target, isIntersecting } of entries) {
      const row = this.rows.get(Number(target.dataset.position));
      if (!row || row.element !== target) continue;
      row.isInView = isIntersecting;
      if (isIntersecting) row.draw();
    }
  }

  destroy() {
    this.seen.disconnect();
  }
}

class Row {
  constructor(context, position) {
    Object.assign(this, { context, position, isInView: false });
    const { fleet, router } = context;
    this.chip = new HealthChip();
    this.bar = new Bar({ label: "Real utilization", isSmall: true, isHidden: true });
    this.mark = new BottleneckMark();
    this.ru = h("span");
    this.class_ = h("a", { class: "plain-link" });
    this.cells = COLUMNS.slice(4).map(([, sort]) => h("td", { class: sort === "owner" ? "owner" : classOf(sort) }));
    this.element = h(
      "tr",
      { "data-position": position },
      h(
        "th",
        { scope: "row", class: "c-gpu" },
        h("a", { href: router.to("gpu", fleet.keys[position]), "data-row": true, title: `${fleet.gpus.node[position]}, ${fleet.gpus.model[position]}` }, fleet.labelOf(position)),
        fleet.gpus.mig_profile[position] ? h("small", {}, ` ${fleet.gpus.mig_profile[position]}`) : fleet.modelCount > 1 ? h("small", {}, ` ${modelName(fleet.gpus.model[position]).split(" ")[0]}`) : null,
      ),
      h("td", { class: "c-health" }, this.chip.element),
      h("td", { class: "ru c-ru" }, this.bar.element, this.ru),
      h("td", { class: "class c-class" }, this.mark.element, " ", this.class_),
      this.cells,
    );
  }

  draw() {
    const { fleet, router } = this.context;
    const i = this.position;
    const reading = readingOf(fleet, i);
    const get = (name) => (reading.isStale ? null : fleet.get(name, i));
    drawHealth(this.chip, reading);
    this.bar.draw(reading);
    setText(this.ru, ruText(reading));
    this.mark.draw(reading.isStale ? "unknown" : reading.bottleneck);
    const class_ = reading.isStale ? `was: ${words(reading.class_)}` : words(reading.class_ ?? "unknown");
    setText(this.class_, class_);
    setAttribute(this.class_, "href", router.filtered(`class=${reading.class_ ?? "unknown"}`));
    const values = [
      percent(get("sm_active_ratio")), percent(get("tensor_active_ratio")), percent(get("dram_active_ratio")),
      percent(get("gpu_utilization_ratio")), number(get("power_watts")), number(get("temperature_celsius")),
      reading.isStale ? MISSING : memoryOf(get("memory_used_bytes"), fleet.get("memory_bytes", i)),
    ];
    values.forEach((value, at) => setText(this.cells[at], value));
    setAttribute(this.cells[7], "title", drawOwners(this.cells[7], this.context, i));
    setAttribute(this.cells[7], "data-held", reading.isHeld);
  }
}
