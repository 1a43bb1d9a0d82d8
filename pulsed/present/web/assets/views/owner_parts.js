// Parts that the pages of jobs, pods and workloads have in common.

import { keyOfEvent } from "../core/fleet_state.js";
import { longestWindow, windowFor } from "../core/windows.js";
import { marksOf } from "../text/event_marks.js";
import { windowText } from "../text/format.js";
import { h, setText } from "../ui/dom.js";
import { segmented } from "../ui/segmented.js";
import { GpuLines, MAX_DRAWN_GPUS } from "./gpu_lines.js";

const NAMES = ["ru", "sm", "tensor", "dram", "power", "mem"];
const MODES = ["lines", "spread", "map"];
const MAX_LINES = 8;

/** A place whose parts are replaced when what they show changes. */
export class Slot {
  constructor(tag = "div", attributes = {}) {
    this.element = h(tag, attributes);
  }

  show(value, build) {
    const key = JSON.stringify(value);
    if (key === this.key) return;
    this.key = key;
    this.element.replaceChildren(...[build(value)].flat().filter(Boolean));
  }
}

/** A panel with a title. */
export function panel(title, ...parts) {
  return h("section", { class: "panel" }, h("h2", {}, title), ...parts);
}

/** Advice as a list: what was seen, and what to do. */
export const adviceList = (advice) => h("ul", { class: "advice" }, advice.map((each) => h("li", {}, h("b", {}, each.evidence), ` ${each.text}`)));

/** Links to GPUs, at most `most` of them, after the name of each node if there are several. */
export function gpuLinks({ fleet, router }, gpus, most = Infinity) {
  const nodes = Map.groupBy(gpus.slice(0, most), (gpu) => gpu.node);
  const links = [...nodes].flatMap(([node, members]) => [
    fleet.hasSeveralNodes() ? h("a", { class: "plain-link muted", href: router.filtered(`node="${node.replaceAll('"', "")}"`) }, fleet.shortNode(node)) : "",
    " ",
    ...members.flatMap((gpu) => {
      const name = `${gpu.gpu}${gpu.mig_id ? `:${gpu.mig_id}` : ""}`;
      return [h("a", { href: router.to("gpu", keyOfEvent(gpu)), "aria-label": fleet.labelOfGpu(gpu) }, name), " "];
    }),
  ]);
  return h("span", { class: "gpu-links" }, links, gpus.length > most ? h("span", { class: "muted" }, `+${gpus.length - most}`) : null);
}

/** The lines of an owner's GPUs over its life, as far as the daemon has their history. */
export class OwnerLines {
  constructor(context, group) {
    this.context = context;
    this.lines = new GpuLines(context, { group, heading: "h3", hasMean: true });
    this.modes = segmented("Show as", MODES, (mode) => context.router.set({ m: mode }));
    this.note = h("p", { class: "muted" });
    this.element = h("section", { class: "charts-section" }, h("div", { class: "toolbar" }, h("h2", {}, "GPUs over time"), this.modes.element), this.note, this.lines.element);
    this.timer = setInterval(() => this.fetch(), 2000);
  }

  /** Draws GPUs of accounts from `begin` to `end`, in Unix seconds; `end` null: now. */
  async draw(gpus, begin, end, marks) {
    const { fleet, router, changes } = this.context;
    if (!fleet.size) return;
    const longest = await longestWindow(fleet);
    if (this.isOver) return;
    const listed = [...new Set(gpus.map((gpu) => fleet.positions.get(keyOfEvent(gpu))))].filter((i) => i !== undefined).sort((a, b) => a - b);
    const positions = listed.slice(0, MAX_DRAWN_GPUS);
    const reach = fleet.current.time - longest;
    this.isPast = end !== null && end < reach;
    const gone = gpus.length - listed.length;
    const notes = [
      begin < reach && !this.isPast ? `The daemon keeps ${windowText(longest)} of each GPU; the line above has the whole life.` : "",
      gone > 0 && !this.isPast ? `${gone} of ${gpus.length} GPUs are no longer listed.` : "",
    ];
    this.notes = notes.filter(Boolean).join(" ");
    const isShown = positions.length > 0 && !this.isPast;
    this.lines.element.hidden = this.modes.element.hidden = !isShown;
    if (isShown) {
      const wanted = router.get("m");
      const mode = MODES.includes(wanted) ? wanted : positions.length > MAX_LINES ? "spread" : "lines";
      this.modes.select(mode);
      const keys = new Set(positions.map((i) => fleet.keys[i]));
      this.lines.marks = marks ?? marksOf(changes.list, keys);
      this.lines.show({ positions, names: NAMES, mode, seconds: windowFor(fleet.current.time - begin, longest), span: [begin, end] });
    }
    this.describe();
  }

  async fetch() {
    if (this.isPast || this.lines.element.hidden) return;
    await this.lines.fetch();
    this.describe();
  }

  describe() {
    const { lines } = this;
    const isEmpty = this.isPast || (!lines.element.hidden && lines.hasData && !lines.hasPoints());
    setText(this.note, isEmpty ? "No history of that time: it ended before what the daemon keeps, or before its start. The line above is from its account." : this.notes ?? "");
  }

  destroy() {
    this.isOver = true;
    clearInterval(this.timer);
    this.lines.destroy();
  }
}
