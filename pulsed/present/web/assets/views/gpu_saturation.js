// What a GPU does at this moment: real utilization, then each resource as a share of its practical peak.

import { MISSING, percent, percentRange, rate, words } from "../text/format.js";
import { Bar } from "../ui/bar.js";
import { h, setAttribute, setText } from "../ui/dom.js";

/** Resources of the saturation with the quantity that each is a share of. */
const RESOURCES = [
  ["tensor", "Tensor", "tensor_active_ratio", "compute"], ["fp64", "FP64", "fp64_active_ratio", "compute"],
  ["fp32", "FP32", "fp32_active_ratio", "compute"], ["fp16", "FP16", "fp16_active_ratio", "compute"],
  ["integer", "Integer", "integer_active_ratio", "compute"], ["dram", "DRAM", "dram_active_ratio", "memory"],
  ["pcie", "PCIe", null, "io"], ["nvlink", "NVLink", null, "io"], ["c2c", "C2C", null, "io"],
];
const PLAIN = [["SM", "sm_active_ratio"], ["Engine", "graphics_engine_active_ratio"], ["Occupancy", "sm_occupancy_ratio"], ["Memory in use", "memory_used_ratio"]];

export class SaturationPanel {
  constructor() {
    this.ru = row("Real utilization");
    this.resources = RESOURCES.map(([, label]) => row(label));
    this.plain = PLAIN.map(([label]) => row(label));
    this.limit = h("small", { class: "muted" });
    this.element = h(
      "section",
      { class: "panel" },
      h("h2", {}, "Now ", this.limit),
      h("div", { class: "bars" }, this.ru.element, this.plain.map((each) => each.element)),
      h("h3", {}, "Share of the practical peak"),
      h("div", { class: "bars" }, this.resources.map((each) => each.element)),
    );
  }

  draw(gpu) {
    const { real_utilization: ru, saturation, metrics, workload, stale } = gpu;
    const smi = metrics.gpu_utilization_ratio ?? null;
    this.ru.bar.draw({ ...ru, ghost: stale ? null : smi, isStale: stale, bottleneck: workload.bottleneck });
    setText(this.ru.text, stale ? MISSING : percentRange(ru.ratio, ru.lower, ru.upper));
    setAttribute(this.ru.element, "title", smi === null ? null : `nvidia-smi ${percent(smi)}`);
    PLAIN.forEach(([label, name], i) => {
      const value = stale ? null : (metrics[name] ?? null);
      this.plain[i].bar.draw({ ratio: value, isStale: stale, bottleneck: "idle" });
      setText(this.plain[i].text, percent(value));
      setAttribute(this.plain[i].element, "title", value === null ? `${label}: no reading of ${name}` : null);
    });
    const limiting = saturation.limiting_resource;
    RESOURCES.forEach(([name, , quantity, kind], i) => this.drawResource(this.resources[i], gpu, name, quantity, kind, name === limiting));
    setText(this.limit, limitText(gpu));
  }

  drawResource(place, gpu, name, quantity, kind, isLimit) {
    const share = gpu.stale ? null : (gpu.saturation.resources[name] ?? null);
    place.element.hidden = name === "c2c" && share === null && !gpu.saturation.missing.includes(name); // superchips alone have it
    place.bar.draw({ ratio: share, isStale: gpu.stale, bottleneck: kind });
    const raw = quantity ? percent(gpu.metrics[quantity] ?? null) : traffic(gpu.metrics, name);
    setText(place.text, `${percent(share)}${share === null ? "" : ` (${raw})`}`);
    setAttribute(place.element, "data-limit", isLimit && !gpu.stale);
    setAttribute(place.element, "title", share === null && !gpu.stale ? `${name}: its inputs have no reading` : null);
  }
}

function row(label) {
  const bar = new Bar({ label });
  const text = h("span");
  return { bar, text, element: h("div", { class: "bar-row" }, h("span", {}, label), bar.element, text) };
}

function traffic(metrics, name) {
  const values = ["receive", "transmit"].map((way) => metrics[`${name}_${way}_bytes_per_second`] ?? null);
  const known = values.filter((value) => value !== null);
  return known.length ? rate(Math.max(...known)) : MISSING;
}

function limitText({ saturation, stale }) {
  const { limiting_resource: limit, ratio, lower, upper } = saturation;
  if (stale || !limit || limit === "none") return "";
  const share = percentRange(ratio, lower, upper);
  return limit === "unknown" ? `limit unknown: ${share} of a peak` : `limit: ${words(limit)}, ${share} of its peak`;
}
