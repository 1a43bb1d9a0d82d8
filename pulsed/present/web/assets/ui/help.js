// The help: keys, legend, how the filter works, and what pulsed itself costs.

import { setSetting } from "../core/settings.js";
import { FILTER_NAMES } from "../text/filter.js";
import { MISSING, number, si, span } from "../text/format.js";
import { BOTTLENECKS, HEALTH } from "../text/states.js";
import { Bar } from "./bar.js";
import { h } from "./dom.js";
import { areKeysOn, KEYS } from "./keyboard.js";
import { BottleneckMark, healthChip } from "./marks.js";

export class Help {
  constructor(context) {
    this.context = context;
    this.cost = h("p");
    const keys = h("input", { type: "checkbox", onchange: () => setSetting("keys", keys.checked ? "on" : "off") });
    keys.checked = areKeysOn();
    this.element = h(
      "dialog",
      { "aria-labelledby": "help-title" },
      h("header", {}, h("h1", { id: "help-title" }, "Help"), h("button", { type: "button", onclick: () => this.element.close() }, "Close")),
      h("h2", {}, "Bars"),
      ...exampleBars(),
      h("h2", {}, "Bottleneck of the workload class"),
      h("div", { class: "legend" }, BOTTLENECKS.map((name) => h("span", {}, bottleneckMark(name), name))),
      h("h2", {}, "Health"),
      h("div", { class: "legend" }, HEALTH.map((state) => healthChip(state))),
      h("h2", {}, "Keys"),
      h("dl", { class: "facts" }, KEYS.flatMap(([key, meaning]) => [h("dt", {}, key.split(" ").map((each) => h("kbd", {}, each))), h("dd", {}, meaning)])),
      h("label", {}, keys, " Single keys are on"),
      h("h2", {}, "Filter"),
      h("p", {}, "Words match names, owners and states. Comparisons (< <= > >= = != ~) such as ", h("code", {}, "ru<.1 & class!=idle | health>=warn"), " match values; ~ means contains, ! not. A missing value matches only ", h("code", {}, "ru=--"), "."),
      h("p", { class: "muted" }, `Fields: ${FILTER_NAMES.join(", ")}`),
      h("h2", {}, "Cost of pulsed"),
      this.cost,
    );
    document.body.append(this.element);
  }

  open() {
    const { fleet, host } = this.context;
    const age = fleet.isLoaded ? span((performance.now() - fleet.arrived) / 1000) : MISSING;
    const cpu = host.pulsedShare === null ? MISSING : `${number(100 * host.pulsedShare, 1)}\u00a0% of a core`;
    const memory = si(host.document_?.pulsed_memory_bytes, "B");
    this.cost.textContent = `CPU: ${cpu}. Memory: ${memory}. Age of the newest data: ${age}.`;
    this.element.showModal();
  }
}

function bottleneckMark(name) {
  const mark = new BottleneckMark();
  mark.draw(name);
  return mark.element;
}

function exampleBars() {
  const examples = [
    [{ ratio: 0.62, bottleneck: "compute", ghost: 1 }, "a value; the line is what nvidia-smi shows"],
    [{ ratio: null, lower: 0.38, upper: 0.61, bottleneck: "memory" }, "a range, because inputs are missing"],
    [{ ratio: 0, bottleneck: "idle" }, "a measured 0"],
    [{ ratio: null, lower: null, upper: null }, "no reading"],
  ];
  return examples.map(([values, meaning]) => {
    const bar = new Bar({ label: "Example", isHidden: true });
    bar.draw(values);
    return h("div", { class: "bar-row example" }, bar.element, h("span", {}, meaning));
  });
}
