// Owners, accounting, identity and MIG instances of a GPU.

import { getJson } from "../core/api.js";
import { bottleneckOf } from "../core/catalog.js";
import { energy, memory, number, ownerPage, percent, quantityText, quantityWords, span, words } from "../text/format.js";
import { copyButton } from "../ui/copy.js";
import { h } from "../ui/dom.js";
import { BottleneckMark } from "../ui/marks.js";
import { scrollTable } from "../ui/table.js";
import { processTable } from "./processes.js";

/** Rebuilds a panel only when its text changes, so that the focus and open parts stay. */
class FactsPanel {
  constructor(title) {
    this.body = h("div");
    this.element = h("section", { class: "panel" }, h("h2", {}, title), this.body);
  }

  show(...parts) {
    const text = parts.map((part) => part.textContent).join("\n");
    if (text === this.shown) return;
    this.shown = text;
    this.body.replaceChildren(...parts);
  }
}

const MAX_OWNERS = 3;

const facts = (pairs) =>
  h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

export class OwnersPanel extends FactsPanel {
  constructor(context) {
    super("Owners");
    this.context = context;
  }

  draw(gpu) {
    const { known, owners } = gpu.attribution;
    if (!known) return this.show(h("p", {}, "Not known: no source names an owner. This GPU may be free."));
    if (!owners.length) return this.show(h("p", {}, "Free: no job or pod has this GPU."));
    const note = owners.length > 1 ? [h("p", { class: "muted" }, `${owners.length} owners share this GPU.`)] : [];
    const parts = owners.map((owner) => ownerFacts(owner, this.context.router));
    const rest = parts.length > MAX_OWNERS ? [h("details", {}, h("summary", {}, `${parts.length - MAX_OWNERS} more`), ...parts.splice(MAX_OWNERS))] : [];
    this.show(...note, ...parts, ...rest);
  }
}

function ownerFacts(owner, router) {
  return facts([
    [words(owner.kind), h("div", { class: "copyable" }, h("code", {}, h("a", { href: router.to(...ownerPage(`${owner.kind}:${owner.id}`)) }, owner.id)), copyButton(owner.name || owner.id))],
    ["user", owner.user ?? owner.user_id], ["account", owner.account], ["partition", owner.partition], ["name", owner.name],
    ["namespace", owner.namespace], ["container", owner.container], ["workload", owner.workload ? h("a", { href: router.to("workload", [owner.namespace, owner.workload_kind ?? "workload", owner.workload]) }, `${owner.workload_kind ?? ""} ${owner.workload}`) : null],
  ]);
}

/** Processes that use the GPU, where the source lists them; hidden without any. */
export class ProcessesPanel extends FactsPanel {
  constructor(context, key) {
    super("Processes");
    Object.assign(this, { context, key });
    this.element.classList.add("wide");
    this.element.hidden = true;
  }

  async draw() {
    try {
      const document_ = await getJson("processes");
      this.element.hidden = !document_.published || !document_.processes.some((process) => process.gpus);
      if (!this.element.hidden) this.show(processTable(this.context, document_, this.key));
    } catch {
      // the panel stays as it is
    }
  }
}

export class AccountingPanel extends FactsPanel {
  constructor() {
    super("Accounting");
  }

  draw(gpu) {
    if (!gpu.accounting) return this.show(h("p", {}, "None for this GPU."));
    const { counters, since } = gpu.accounting;
    const observed = counters.observed_seconds ?? 0;
    const rows = Object.entries(counters.workload_class_seconds ?? {}).sort(([, a], [, b]) => b - a);
    const body = rows.map(([name, seconds]) => classRow(name, seconds, seconds / observed, counters.class_energy_joules?.[name] ?? null));
    const idle = Object.entries(counters.idle_seconds ?? {}).map(([kind, seconds]) => [
      `idle, ${words(kind)}`, `${span(seconds)}, ${energy(counters.idle_energy_joules?.[kind] ?? null)}`,
    ]);
    const from = since ? ` since ${new Date(since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })}` : "";
    this.show(
      h("p", { class: "muted" }, `${span(observed)} observed${from}`),
      scrollTable({ caption: "Time and energy by class", head: ["Class", "Time", "Share", "Energy"], numbers: (i) => i > 0, body: h("tbody", {}, body) }),
      facts([...idle, ["PCIe in, out", bytesOf(counters, "pcie")], ["NVLink in, out", bytesOf(counters, "nvlink")], ["C2C in, out", bytesOf(counters, "c2c")]]),
    );
  }
}

function classRow(name, seconds, share, joules) {
  const mark = new BottleneckMark();
  mark.draw(bottleneckOf(name) ?? "unknown");
  return h("tr", {}, h("th", { scope: "row" }, mark.element, ` ${words(name)}`), [span(seconds), percent(share), energy(joules)].map((text) => h("td", { class: "number" }, text)));
}

function bytesOf(counters, link) {
  const [received, sent] = ["receive", "transmit"].map((way) => counters[`observed_${link}_${way}_bytes`] ?? null);
  return received === null && sent === null ? null : `${memory(received)}, ${memory(sent)}`;
}

export class IdentityPanel extends FactsPanel {
  constructor() {
    super("Identity");
  }

  draw(gpu) {
    const { metrics } = gpu;
    const link = metrics.pcie_link_width === null ? null : `x${number(metrics.pcie_link_width)} of x${number(metrics.pcie_link_width_max)}, generation ${number(metrics.pcie_link_generation)} of ${number(metrics.pcie_link_generation_max)}`;
    this.show(
      facts([
        ["model", gpu.model], ["node", gpu.node], ["index", gpu.gpu], ["UUID", gpu.uuid && h("span", { class: "mono" }, gpu.uuid)],
        ["MIG", gpu.mig && `${gpu.mig.profile ?? ""} id ${gpu.mig.id}`], ["memory", memory(metrics.memory_bytes)],
        ["power limit", metrics.power_limit_watts === null ? null : `${number(metrics.power_limit_watts)} W`], ["PCIe link", link],
        ["age of the sample", span(gpu.age_seconds)], ["weights of real utilization", gpu.real_utilization.preset],
      ]),
    );
  }
}

/** The NVLinks that the source has one by one; hidden without any. */
export class NvlinksPanel extends FactsPanel {
  constructor() {
    super("NVLinks");
  }

  draw({ nvlinks = [] }) {
    this.element.hidden = !nvlinks.length;
    const body = nvlinks.map(({ link, state, is_down: down, counters }) => {
      const counts = Object.entries(counters).filter(([, count]) => count).map(([kind, count]) => `${number(count)} ${words(kind)}`);
      return h("tr", {}, h("th", { scope: "row" }, String(link)), h("td", {}, down ? "down, and should be up" : state ?? "–"), h("td", {}, counts.join(", ") || "–"));
    });
    this.show(scrollTable({ caption: "NVLinks", head: ["Link", "State", "Errors and recoveries"], body: h("tbody", {}, body) }));
  }
}

const GROUP_ORDER = ["activity", "traffic", "memory", "power", "errors", "state"];

/** All readings, folded: missing ones are listed as such. */
export class ReadingsPanel extends FactsPanel {
  constructor(catalogOf) {
    super("All readings");
    this.catalogOf = catalogOf;
  }

  draw(gpu) {
    const tables = this.catalogOf();
    if (!tables) return;
    const names = Object.keys(gpu.metrics);
    const missing = names.filter((name) => gpu.metrics[name] === null);
    if (!this.details) {
      this.details = h("details", {}, h("summary", {}, ""), h("div"));
      this.body.append(this.details);
    }
    const [summary, place] = this.details.children;
    summary.textContent = `${names.length - missing.length} readings, ${missing.length} missing`;
    if (!this.details.open) return;
    place.replaceChildren(
      ...GROUP_ORDER.map((group) => h("div", {}, h("h3", {}, words(group)), facts(names.filter((name) => tables.quantities[name]?.group === group && gpu.metrics[name] !== null).map((name) => [h("span", { title: `${name}: ${tables.quantities[name].meaning}` }, quantityWords(name)), quantityText(name, gpu.metrics[name])])))),
      h("h3", {}, "missing"), h("p", { class: "muted" }, missing.map(quantityWords).join(", ")),
    );
  }
}

export class InstancesPanel {
  constructor(context, key, makeTable) {
    Object.assign(this, { context, key });
    this.table = makeTable(context, "MIG instances of this GPU");
    this.element = h("section", { class: "panel wide", hidden: true }, h("h2", {}, "MIG instances"), this.table.element);
  }

  draw() {
    const { fleet } = this.context;
    const position = fleet.positions.get(this.key);
    const instances = position === undefined ? [] : fleet.instancesOf(position);
    this.element.hidden = !instances.length;
    if (instances.length) this.table.update(instances);
  }

  destroy() {
    this.table.destroy();
  }
}
