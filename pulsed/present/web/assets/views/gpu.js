// One GPU: now, why, history, health, accounting, owners, identity and MIG instances.

import { getJson } from "../core/api.js";
import { loadedCatalog } from "../core/catalog.js";
import { modelName } from "../text/format.js";
import { h, setText } from "../ui/dom.js";
import { HealthChip } from "../ui/marks.js";
import { BalancePanel } from "./gpu_balance.js";
import { GpuCharts } from "./gpu_charts.js";
import { AccountingPanel, IdentityPanel, InstancesPanel, OwnersPanel, ReadingsPanel } from "./gpu_facts.js";
import { HealthPanel } from "./gpu_health.js";
import { drawHealth } from "./gpu_reading.js";
import { SaturationPanel } from "./gpu_saturation.js";
import { WhyPanel } from "./gpu_why.js";
import { TableView } from "./table.js";

const INTERVAL_MS = 2000;

export class GpuView {
  constructor(context) {
    this.context = context;
    this.element = h("section", {});
    this.timer = setInterval(() => this.fetch(), INTERVAL_MS);
  }

  update({ all = true } = {}) {
    const { fleet, router } = this.context;
    if (!fleet.isLoaded) return;
    const wanted = router.rest || fleet.keys[0] || "";
    const position = fleet.find(wanted);
    if (position < 0) return this.showMissing(wanted);
    if (fleet.keys[position] !== this.key) this.build(position);
    if (all) this.fetch();
    this.instances.draw();
  }

  showMissing(wanted) {
    this.key = null;
    const { router } = this.context;
    this.element.replaceChildren(h("h1", {}, "GPU"), h("p", { class: "empty" }, wanted ? `No GPU is named ${wanted}. ` : "There is no GPU. ", h("a", { href: router.to("fleet") }, "All GPUs")));
  }

  build(position) {
    const { fleet, router } = this.context;
    this.destroyParts();
    this.key = fleet.keys[position];
    this.chip = new HealthChip();
    this.age = h("span", { class: "muted" });
    const at = (step) => fleet.keys[(position + step + fleet.size) % fleet.size];
    this.charts = new GpuCharts(this.context, this.key);
    this.instances = new InstancesPanel(this.context, this.key, (...given) => new TableView(...given));
    this.panels = {
      saturation: new SaturationPanel(), why: new WhyPanel(this.context), balance: new BalancePanel(), health: new HealthPanel(),
      owners: new OwnersPanel(this.context), accounting: new AccountingPanel(), identity: new IdentityPanel(), readings: new ReadingsPanel(loadedCatalog),
    };
    const { saturation, why, balance, health, owners, accounting, identity, readings } = this.panels;
    this.element.replaceChildren(
      h(
        "div",
        { class: "gpu-head" },
        h("h1", {}, fleet.nameOf(position)),
        h("span", { class: "muted" }, `${fleet.gpus.node[position]}, ${modelName(fleet.gpus.model[position])} ${fleet.gpus.mig_profile[position] ?? ""}`),
        this.chip.element,
        this.age,
        h("span", { class: "spring" }),
        fleet.size > 1 ? h("nav", { "aria-label": "Neighbours" }, h("a", { href: router.to("gpu", at(-1)) }, "◂ previous"), " ", h("a", { href: router.to("gpu", at(1)) }, "next ▸")) : null,
      ),
      h("div", { class: "gpu-now" }, saturation.element, h("div", { class: "stack" }, why.element, balance.element), health.element),
      this.instances.element,
      this.charts.element,
      h("div", { class: "gpu-facts" }, owners.element, accounting.element, identity.element, readings.element),
    );
    this.fetch();
  }

  /** Fetches the document of the GPU; while the picture is paused it stays. */
  async fetch() {
    const { fleet, connection } = this.context;
    const position = fleet.positions.get(this.key);
    if (position === undefined || !connection.canAsk || fleet.isPaused || this.isFetching) return;
    this.isFetching = true;
    const { key } = this;
    try {
      const [path, query] = fleet.apiPath(position);
      const [gpu, reason] = await Promise.all([getJson(path, query), getJson(`${path}/class`, query)]);
      if (key === this.key && !fleet.isPaused) this.draw(gpu, reason);
      await this.charts.update({ ...gpu, time_seconds: Date.parse(gpu.time) / 1000 });
    } catch (error) {
      if (!("status" in error)) throw error;
      setText(this.age, error.status === 404 ? "no longer listed" : `no answer: ${error.message}`);
    } finally {
      this.isFetching = false;
    }
  }

  draw(gpu, reason) {
    drawHealth(this.chip, { isStale: gpu.stale, health: gpu.health.state, age: gpu.age_seconds });
    setText(this.age, "");
    for (const panel of Object.values(this.panels)) panel.draw(gpu, reason);
  }

  destroyParts() {
    this.charts?.destroy();
    this.instances?.destroy();
  }

  destroy() {
    clearInterval(this.timer);
    this.destroyParts();
  }
}
