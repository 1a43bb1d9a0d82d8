// Charts of the GPUs of the filter: which quantities, how they are shown, and over what time is in the hash.

import { marksOf } from "../text/event_marks.js";
import { h } from "../ui/dom.js";
import { segmented } from "../ui/segmented.js";
import { WindowSelect } from "../ui/window_select.js";
import { selected } from "../text/filter.js";
import { sorted } from "./fleet_order.js";
import { GpuLines, MAX_DRAWN_GPUS, MAX_LINES, QUANTITIES } from "./gpu_lines.js";

const INTERVAL_MS = 2000;
const MODES = ["lines", "spread", "map"];
const NAMES = Object.keys(QUANTITIES);
const DEFAULT = NAMES.filter((name) => !["gr", "occ"].includes(name));

export class PlotView {
  constructor(context) {
    this.context = context;
    this.lines = new GpuLines(context, { group: "plot" });
    this.window = new WindowSelect(context);
    this.modes = segmented("Show as", MODES, (mode) => context.router.set({ m: mode }));
    this.choices = NAMES.map((name) => [name, h("button", { type: "button", class: "line-toggle", onclick: () => this.toggle(name) }, QUANTITIES[name][0])]);
    this.note = h("p", { class: "muted", role: "status" });
    this.element = h(
      "section",
      {},
      h("div", { class: "toolbar" }, h("h1", {}, "Plot"), this.window.element, this.modes.element),
      h("details", { class: "quantities" }, h("summary", {}, "Quantities"), h("div", { class: "legend", role: "group", "aria-label": "Quantities" }, this.choices.map(([, button]) => button))),
      this.note,
      this.lines.element,
    );
    this.timer = setInterval(() => this.lines.fetch(), INTERVAL_MS);
  }

  names() {
    const given = this.context.router.get("f");
    return given ? NAMES.filter((name) => given.split(",").includes(name)) : DEFAULT;
  }

  toggle(name) {
    const names = this.names();
    const next = NAMES.filter((each) => names.includes(each) !== (each === name));
    this.context.router.set({ f: next.join() === DEFAULT.join() ? "" : next.join() || "none" });
  }

  nextKind() {
    this.context.router.set({ m: MODES[(MODES.indexOf(this.mode) + 1) % MODES.length] });
  }

  async update() {
    const { fleet, router, changes } = this.context;
    if (!fleet.isLoaded) return;
    await this.window.update();
    if (this.isOver) return;
    const names = this.names();
    this.choices.forEach(([name, button]) => button.setAttribute("aria-pressed", String(names.includes(name))));
    const chosen = sorted(fleet, selected(this.context), router.get("sort"));
    this.mode = MODES.includes(router.get("m")) ? router.get("m") : chosen.length > MAX_LINES ? "spread" : "lines";
    this.modes.select(this.mode);
    const most = this.mode === "lines" ? MAX_LINES : MAX_DRAWN_GPUS;
    const positions = chosen.slice(0, most);
    this.note.textContent = chosen.length > most ? `The first ${most} of ${chosen.length} GPUs: filter or sort to choose others.` : chosen.length ? "" : "No GPU matches the filter.";
    this.lines.marks = marksOf(changes.list, new Set(positions.map((i) => fleet.keys[i])));
    if (this.window.seconds) this.lines.show({ positions, names, mode: this.mode, seconds: this.window.seconds });
    if (this.window.seconds) this.context.ready();
  }

  destroy() {
    this.isOver = true;
    clearInterval(this.timer);
    this.lines.destroy();
  }
}
