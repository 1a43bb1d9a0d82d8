// One GPU: now, why, history, health, accounting, owners, identity and MIG instances.

import { getJson } from "../core/api.js";
import { loadedCatalog } from "../core/catalog.js";
import { modelName, words } from "../text/format.js";
import { h, setAttribute, setText } from "../ui/dom.js";
import { HealthChip } from "../ui/marks.js";
import { GpuCharts } from "./gpu_charts.js";
import { AccountingPanel, IdentityPanel, InstancesPanel, NvlinksPanel, OwnersPanel, ProcessesPanel, ReadingsPanel } from "./gpu_facts.js";
import { HealthPanel, knownText } from "./gpu_health.js";
import { drawHealth } from "./gpu_reading.js";
import { IncidentsPanel } from "./incidents.js";
import { drawOwners } from "./owner_links.js";
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
    const found = fleet.find(wanted);
    if (found.length !== 1) return this.showChoice(wanted, found);
    const [position] = found;
    if (fleet.keys[position] !== this.key) this.build(position);
    if (all) this.fetch();
    this.instances.draw();
  }

  /** Shows links to the GPUs that have the wanted name, on several nodes; or that there is none. */
  showChoice(wanted, positions) {
    const { fleet, router } = this.context;
    const choice = `${fleet.roster} ${wanted}`;
    if (choice === this.choice) return;
    this.context.ready();
    this.destroyParts();
    this.key = null;
    this.choice = choice;
    const text = positions.length ? `${positions.length} GPUs are named ${wanted}. ` : wanted ? `No GPU is named ${wanted}. ` : "There is no GPU. ";
    const links = positions.map((i) => h("li", {}, h("a", { href: router.to("gpu", fleet.keys[i]) }, fleet.labelOf(i))));
    this.element.replaceChildren(h("h1", {}, "GPU"), h("p", { class: "empty" }, text, h("a", { href: router.to("fleet") }, "All GPUs")), h("ul", { class: "choice" }, links));
  }

  build(position) {
    const { fleet, router } = this.context;
    this.destroyParts();
    this.choice = null;
    this.key = fleet.keys[position];
    this.chip = new HealthChip();
    this.age = h("span", { class: "muted" });
    this.use = h("a", { class: "plain-link" });
    this.owner = h("span", { class: "owner" });
    const at = (step) => fleet.keys[(position + step + fleet.size) % fleet.size];
    this.charts = new GpuCharts(this.context, this.key);
    this.instances = new InstancesPanel(this.context, this.key, (...given) => new TableView(...given));
    this.panels = {
      happened: new IncidentsPanel(this.context, this.key), saturation: new SaturationPanel(), why: new WhyPanel(this.context), health: new HealthPanel(),
      owners: new OwnersPanel(this.context), accounting: new AccountingPanel(), identity: new IdentityPanel(), nvlinks: new NvlinksPanel(), processes: new ProcessesPanel(this.context, this.key), readings: new ReadingsPanel(loadedCatalog),
    };
    const { happened, saturation, why, health, owners, accounting, identity, nvlinks, processes, readings } = this.panels;
    this.element.replaceChildren(
      h(
        "div",
        { class: "gpu-head" },
        h("h1", {}, fleet.labelOf(position)),
        this.chip.element,
        this.use,
        this.owner,
        h("a", { class: "muted", href: router.filtered(`node="${fleet.gpus.node[position].replaceAll('"', "")}"`) }, fleet.gpus.node[position]),
        h("span", { class: "muted" }, `${modelName(fleet.gpus.model[position])} ${fleet.gpus.mig_profile[position] ?? ""}`),
        this.age,
        h("span", { class: "spring" }),
        fleet.size > 1 ? h("nav", { "aria-label": "Neighbours" }, h("button", { type: "button", onclick: () => this.context.jump() }, "Choose"), " ", h("a", { href: router.to("gpu", at(-1)) }, "◂ previous"), " ", h("a", { href: router.to("gpu", at(1)) }, "next ▸")) : null,
      ),
      h("div", { class: "gpu-now" }, h("div", { class: "gpu-state" }, health.element, saturation.element), h("div", { class: "gpu-history" }, this.instances.element, this.charts.element), h("div", { class: "gpu-reasons" }, why.element, happened.element)),
      processes.element,
      h("div", { class: "gpu-facts" }, owners.element, accounting.element, identity.element, nvlinks.element, readings.element),
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
      if (key !== this.key || this.charts === null) return; // the view has gone on meanwhile
      if (!fleet.isPaused) this.draw(gpu, reason);
      await this.charts.update({ ...gpu, time_seconds: Date.parse(gpu.time) / 1000 });
    } catch (error) {
      if (!("status" in error)) throw error;
      setText(this.age, error.status === 404 ? "no longer listed" : `no answer: ${error.message}`);
    } finally {
      this.context.ready();
      this.isFetching = false;
    }
  }

  draw(gpu, reason) {
    drawHealth(this.chip, { isStale: gpu.stale, health: gpu.health.state, healthText: knownText(gpu.health), age: gpu.age_seconds });
    setText(this.age, "");
    const use = gpu.stale ? "stale" : gpu.workload.use === "held" ? "idle, held by" : gpu.workload.use === "busy" ? `${words(gpu.workload.class)}, used by` : gpu.workload.use;
    setText(this.use, use);
    setAttribute(this.use, "href", this.context.router.filtered(`class=${gpu.workload.class}`));
    const position = this.context.fleet.positions.get(this.key);
    if (position !== undefined) drawOwners(this.owner, this.context, position);
    this.element.classList.toggle("is-raised", gpu.health.incidents.length > 0);
    for (const panel of Object.values(this.panels)) panel.draw(gpu, reason);
  }

  destroyParts() {
    this.charts?.destroy();
    this.instances?.destroy();
    this.charts = this.instances = null;
  }

  destroy() {
    clearInterval(this.timer);
    this.destroyParts();
  }
}
