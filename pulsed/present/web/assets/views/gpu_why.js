// Why a GPU has its class: the rules that were tried, with the values that decided, and the inputs that would settle an
// unknown class.

import { MISSING, percent, rate, span, words } from "../text/format.js";
import { SEVERITY } from "../text/states.js";
import { copyable } from "../ui/copy.js";
import { h, setText } from "../ui/dom.js";
import { BottleneckMark } from "../ui/marks.js";

const NAMES = { sm: "SM", tensor: "tensor", dram: "DRAM", graphics_engine: "engine", fp64: "FP64", real_utilization: "real utilization", io: "PCIe", media: "media" };

export class WhyPanel {
  constructor(context) {
    this.context = context;
    this.mark = new BottleneckMark();
    this.name = h("span");
    this.since = h("small", { class: "muted" });
    this.body = h("div");
    this.element = h("section", { class: "panel" }, h("h2", {}, "Why ", this.mark.element, this.name, this.since), this.body);
  }

  /** Draws the document of a GPU and that of `/gpus/{gpu}/class`. */
  draw({ workload, stale, time, health }, reason) {
    this.mark.draw(stale ? "unknown" : workload.bottleneck);
    setText(this.name, stale ? `was: ${words(workload.class)}` : words(workload.class));
    const now = Date.parse(time) / 1000;
    setText(this.since, workload.since && !stale ? `for ${span(now - Date.parse(workload.since) / 1000)}` : "");
    const isLost = health.checks.some(({ id, state }) => id === "gpu_lost" && SEVERITY[state] > 0);
    const parts = isLost ? [h("p", {}, "The GPU does not answer: it has no readings.")] : reason.candidates.length ? this.unknown(reason) : this.known(reason);
    const text = parts.map((part) => part.textContent).join("\n");
    if (text === this.shown) return;
    this.shown = text;
    this.body.replaceChildren(...parts);
  }

  known({ rules, class: shown, raw_class: newest }) {
    const intro = newest === shown ? [] : [h("p", { class: "muted" }, `The newest sample alone is ${words(newest)}; the class changes only if this lasts.`)];
    const allowed = rules.filter((rule) => rule.holds !== false);
    const tried = rules.filter((rule) => rule.holds === false);
    return [
      ...intro,
      h("p", {}, "The first rule of the class table that matches:"),
      ruleList(allowed),
      ...allowed.filter((rule) => rule.reason).map((rule) => h("p", { class: "muted" }, rule.reason)),
      ...(tried.length ? [h("details", {}, h("summary", {}, `Earlier rules, which do not match: ${tried.length}`), ruleList(tried))] : []),
    ];
  }

  unknown({ rules, candidates, deciding_inputs: deciding }) {
    const inputs = Object.entries(deciding);
    return [
      h("p", {}, `The inputs allow several classes: ${candidates.map(words).join(", ")}.`),
      h("h3", {}, inputs.length > 1 ? "These inputs would settle it" : "This input would settle it"),
      h("ul", {}, inputs.map(([name, quantity]) => inputItem(name, quantity))),
      ...this.howToGet(Object.values(deciding)),
      h("p", { class: "muted" }, h("code", {}, "pulsed doctor"), " on the node lists what each input needs."),
      h("details", {}, h("summary", {}, "Possible rules"), ruleList(rules.filter((rule) => rule.holds !== false))),
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
  const verdict = rule.holds === true ? "matches" : rule.holds === false ? "does not match" : "possible";
  const conditions = rule.conditions.map((condition) =>
    h("li", { "data-state": String(condition.holds) }, `${nameOf(condition)} ${valueOf(condition)} `, h("span", { class: "muted" }, `${condition.comparison === "<" ? "<" : "≥"} ${format(condition.variable, condition.threshold)}`), ` ${condition.holds === true ? "✓" : condition.holds === false ? "✗" : "?"}`),
  );
  const list = conditions.length ? h("ul", {}, conditions) : h("p", { class: "muted" }, "No condition: no other rule matches.");
  return h("li", {}, h("b", {}, words(rule.class)), h("span", { class: "muted" }, ` ${verdict}`), list);
}

const nameOf = ({ variable, inputs }) => NAMES[variable] + (inputs.some((name) => name.startsWith("c2c_")) ? " and C2C" : "");

function valueOf({ variable, low, high }) {
  if (low === high) return format(variable, low);
  const top = high === null ? "…" : format(variable, high);
  return `${MISSING} (${format(variable, low)} to ${top})`;
}

const format = (variable, value) => (variable === "io" ? rate(value) : percent(value));
