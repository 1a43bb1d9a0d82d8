// Why a GPU has its class: the rules that were tried, with the values that decided, and the inputs that would settle an
// unknown class.

import { catalog } from "../core/catalog.js";
import { MISSING, percent, rate, span, words } from "../text/format.js";
import { decisiveInputs, explain } from "../text/why.js";
import { copyable } from "../ui/copy.js";
import { h, setText } from "../ui/dom.js";
import { BottleneckMark } from "../ui/marks.js";

const NAMES = { sm: "SM", tensor: "tensor", dram: "DRAM", graphics_engine: "engine", fp64: "FP64", real_utilization: "real utilization", io: "PCIe" };

export class WhyPanel {
  constructor(context) {
    this.context = context;
    this.mark = new BottleneckMark();
    this.name = h("span");
    this.since = h("small", { class: "muted" });
    this.body = h("div");
    this.element = h("section", { class: "panel" }, h("h2", {}, "Why ", this.mark.element, this.name, this.since), this.body);
  }

  async draw(gpu) {
    const { workload, stale } = gpu;
    this.mark.draw(stale ? "unknown" : workload.bottleneck);
    setText(this.name, stale ? `was: ${words(workload.class)}` : words(workload.class));
    const now = Date.parse(gpu.time) / 1000;
    setText(this.since, workload.since && !stale ? `for ${span(now - Date.parse(workload.since) / 1000)}` : "");
    let tables;
    try {
      tables = await catalog();
    } catch {
      return; // the connection shows its state
    }
    const rules = explain(gpu, tables);
    const parts = workload.raw_class === "unknown" ? this.unknown(rules, gpu, tables) : this.known(rules, workload);
    const text = parts.map((part) => part.textContent).join("\n");
    if (text === this.shown) return;
    this.shown = text;
    this.body.replaceChildren(...parts);
  }

  known(rules, workload) {
    const matched = rules.at(-1);
    const intro = workload.raw_class === workload.class ? [] : [h("p", { class: "muted" }, `The newest sample alone is ${words(workload.raw_class)}; a class changes when it lasts.`)];
    const reason = matched?.reason ? [h("p", { class: "muted" }, matched.reason)] : [];
    const tried = rules.slice(0, -1);
    return [
      ...intro,
      h("p", {}, "The first rule of the class table that matches:"),
      ruleList([matched].filter(Boolean)),
      ...reason,
      ...(tried.length ? [h("details", {}, h("summary", {}, `Rules before it, which do not match: ${tried.length}`), ruleList(tried))] : []),
    ];
  }

  unknown(rules, gpu, tables) {
    const possible = rules.filter((rule) => rule.state !== false);
    const inputs = decisiveInputs(possible, gpu, tables);
    return [
      h("p", {}, `The inputs allow several classes: ${gpu.workload.candidates.map(words).join(", ")}.`),
      h("h3", {}, inputs.length > 1 ? "These inputs would settle it" : "This input would settle it"),
      h("ul", {}, inputs.map((name) => inputItem(name, tables.quantities[name]))),
      ...this.howToGet(inputs.map((name) => tables.quantities[name])),
      h("p", { class: "muted" }, h("code", {}, "pulsed doctor"), " on the node lists what each input needs."),
      h("details", {}, h("summary", {}, "Rules that are possible"), ruleList(possible)),
    ];
  }

  /** What adds missing quantities to the source: lines of dcgm-exporter's counters file, or a setting for dcgmi. */
  howToGet(quantities) {
    const kinds = new Set(this.context.fleet.sources.map((source) => source.kind));
    const ids = quantities.flatMap(({ fields }) => fields.slice(0, 1).map((field) => field.id));
    const lines = quantities.map((quantity) => quantity.counters_line).filter(Boolean);
    if (kinds.has("dcgmi") && ids.length) return [h("p", {}, "Option of pulsed:"), copyable(`--set source.dcgmi.fields=[${ids.join()}]`)];
    if (!lines.length || kinds.has("nvml")) return [];
    return [h("p", {}, "Lines of dcgm-exporter's counters file:"), copyable(lines.join("\n"))];
  }
}

function inputItem(name, { meaning, fields }) {
  const field = fields[0] ? `DCGM field ${fields[0].id} ${fields[0].name}` : "computed by pulsed from other readings";
  return h("li", {}, h("b", {}, name), `: ${meaning}. `, h("span", { class: "muted" }, field));
}

function ruleList(rules) {
  return h("ul", { class: "rules" }, rules.map(ruleItem));
}

function ruleItem(rule) {
  const verdict = rule.state === true ? "matches" : rule.state === false ? "does not match" : "possible";
  const conditions = rule.conditions.map((condition) =>
    h("li", { "data-state": String(condition.state) }, `${condition.hasC2c ? "PCIe and C2C" : NAMES[condition.variable]} ${valueOf(condition)} `, h("span", { class: "muted" }, `${condition.comparison === "<" ? "<" : "≥"} ${format(condition.variable, condition.threshold)}`), ` ${condition.state === true ? "✓" : condition.state === false ? "✗" : "?"}`),
  );
  const list = conditions.length ? h("ul", {}, conditions) : h("p", { class: "muted" }, "No condition: no other rule matches.");
  return h("li", {}, h("b", {}, words(rule.class)), h("span", { class: "muted" }, ` ${verdict}`), list);
}

function valueOf({ variable, value, low, high }) {
  if (value !== null) return format(variable, value);
  const top = high === Infinity ? "…" : format(variable, high);
  return `${MISSING} (${format(variable, low)} to ${top})`;
}

const format = (variable, value) => (variable === "io" ? rate(value) : percent(value));
