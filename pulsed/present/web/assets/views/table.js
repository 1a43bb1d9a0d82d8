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

/** Widths are fixed, so that a new value does not lay out the whole table. */
const WIDTHS = { "": "c-gpu", health: "c-health", ru: "c-ru", class: "c-class", mem: "c-mem", util: "c-util", owner: null };

export class TableView {
  constructor(context, caption = "GPUs") {
    this.context = context;
    this.rows = new Map();
    this.seen = new IntersectionObserver((entries) => this.onSeen(entries), { rootMargin: "200px" });
    this.headers = COLUMNS.map(([text, sort]) => this.header(text, sort));
    this.body = h("tbody");
    this.empty = h("p", { class: "empty" }, "No GPU matches the filter.");
    const columns = h("colgroup", {}, COLUMNS.map(([, sort]) => h("col", { class: sort in WIDTHS ? WIDTHS[sort] : "c-number" })));
    this.element = h("div", {}, scrollTable({ caption, label: caption, class_: "gpus", columns, head: this.headers, body: this.body }), this.empty);
  }

  header(text, sort) {
    const button = h("button", { type: "button", onclick: () => this.sortBy(sort) }, text);
    return h("th", { scope: "col", class: NUMBERS.has(sort) ? "number" : null }, button);
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
    const name = `${fleet.hasSeveralNodes() ? `${fleet.gpus.node[position]} ` : ""}${fleet.nameOf(position)}`;
    this.chip = new HealthChip();
    this.bar = new Bar({ label: "Real utilization", isSmall: true, isHidden: true });
    this.mark = new BottleneckMark();
    this.ru = h("span");
    this.class_ = document.createTextNode("");
    this.cells = Array.from({ length: 8 }, (_, i) => h("td", { class: i < 7 ? "number" : "owner" }));
    this.element = h(
      "tr",
      { "data-position": position },
      h(
        "th",
        { scope: "row" },
        h("a", { href: router.to("gpu", fleet.keys[position]), "data-row": true, title: fleet.gpus.model[position] }, name),
        h("small", {}, ` ${fleet.gpus.mig_profile[position] ?? modelName(fleet.gpus.model[position]).split(" ")[0]}`),
      ),
      h("td", {}, this.chip.element),
      h("td", { class: "ru" }, this.bar.element, this.ru),
      h("td", { class: "class" }, this.mark.element, " ", this.class_),
      this.cells,
    );
  }

  draw() {
    const { fleet } = this.context;
    const i = this.position;
    const reading = readingOf(fleet, i);
    const get = (name) => (reading.isStale ? null : fleet.get(name, i));
    drawHealth(this.chip, reading);
    this.bar.draw(reading);
    setText(this.ru, ruText(reading));
    this.mark.draw(reading.isStale ? "unknown" : reading.bottleneck);
    const class_ = reading.isStale ? `was: ${words(reading.class_)}` : words(reading.class_ ?? "unknown");
    if (this.class_.data !== class_) this.class_.data = class_;
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
