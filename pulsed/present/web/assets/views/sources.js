// Where the data comes from: state of each source with its error, age and interval; the host; and what pulsed costs.

import { getJson } from "../core/api.js";
import { memoryOf, MISSING, number, percent, si, span } from "../text/format.js";
import { copyable } from "../ui/copy.js";
import { h, setText } from "../ui/dom.js";
import { healthChip } from "../ui/marks.js";
import { scrollTable } from "../ui/table.js";
import { raisedCheck } from "./gpu_health.js";

const INTERVAL_MS = 5000;
const HOST_FACTS = ["CPU of the host", "memory of the host"]; // not beside GPUs of several nodes

export class SourcesView {
  constructor(context) {
    this.context = context;
    this.body = h("tbody");
    this.problems = h("div");
    this.summary = h("p", { class: "muted", role: "status" });
    this.facts = Object.fromEntries(["version", "CPU of pulsed", "memory of pulsed", "age of the newest data", ...HOST_FACTS].map((name) => [name, h("dd", {}, MISSING)]));
    const head = ["Target", "Kind", "State", "Newest sample", "Interval", "Error and what to do"];
    const facts = h("dl", { class: "facts" }, Object.entries(this.facts).flatMap(([name, value]) => [h("dt", {}, name), value]));
    this.element = h(
      "section",
      {},
      h("h1", {}, "Sources"),
      this.summary,
      scrollTable({ caption: "Sources", label: "Sources", class_: "sources", head, body: this.body }),
      h("section", { class: "panel cost" }, h("h2", {}, "Daemon and host"), this.problems, facts),
    );
    this.timer = setInterval(() => this.fetch(), INTERVAL_MS);
    this.fetch();
  }

  async fetch() {
    if (!this.context.connection.canAsk) return;
    try {
      const [{ sources, time }, host, version] = await Promise.all([getJson("gpus", { view: "summary", fields: "health_state" }), getJson("host"), this.version ?? getJson("version")]);
      this.version = version;
      this.drawSources(sources, Date.parse(time));
      this.drawHost(host, version);
      this.context.ready();
    } catch (error) {
      if (!("status" in error)) throw error;
      this.summary.textContent = `Unknown: ${error.message}`;
    }
  }

  drawSources(sources, now) {
    const up = sources.filter((source) => source.up).length;
    const ended = sources.filter((source) => source.ended).length;
    setText(this.summary, `${up} of ${sources.length} sources are up${ended ? `, ${ended} ended` : ""}`);
    const rows = [...sources].sort((a, b) => Number(a.up) - Number(b.up)).slice(0, 500).map((source) => {
      const age = source.last_sample_time ? (now - Date.parse(source.last_sample_time)) / 1000 : null;
      return h(
        "tr",
        {},
        h("th", { scope: "row", class: "what" }, source.target, source.demo ? h("small", { class: "muted" }, " simulated GPUs") : null),
        h("td", {}, source.kind),
        h("td", {}, healthChip(source.up || source.ended ? "ok" : "crit", source.up ? "up" : source.ended ? "ended" : "down")),
        h("td", {}, age === null ? "none yet" : `${span(age)} ago`),
        h("td", {}, source.interval_seconds ? `${number(source.interval_seconds, 1)} s` : MISSING),
        h("td", { class: "what" }, source.error ? copyable(source.error, "p") : ""),
      );
    });
    this.body.replaceChildren(...rows);
  }

  drawHost(host, version) {
    const at = performance.now() / 1000;
    const share = this.before && at - this.before.at > 1 ? (host.pulsed_cpu_seconds - this.before.cpu) / (at - this.before.at) : null;
    this.before = { at, cpu: host.pulsed_cpu_seconds };
    const { facts } = this;
    this.problems.replaceChildren(...host.problems.map((check) => raisedCheck(check, Date.now() / 1000)));
    setText(facts.version, `pulsed ${version.version}, Python ${version.python}`);
    setText(facts["CPU of pulsed"], share === null ? "being measured" : `${number(100 * share, 1)} % of a core, this page included`);
    setText(facts["memory of pulsed"], si(host.pulsed_memory_bytes, "B"));
    setText(facts["CPU of the host"], `${percent(host.cpu_busy_ratio)} of ${number(host.cpu_count)} threads, load ${number(host.load_average, 1)}`);
    setText(facts["memory of the host"], memoryOf(host.memory_used_bytes, host.memory_bytes));
    this.update();
  }

  update() {
    const { fleet } = this.context;
    for (const name of HOST_FACTS) this.facts[name].hidden = this.facts[name].previousElementSibling.hidden = fleet.hasSeveralNodes();
    if (fleet.isLoaded) setText(this.facts["age of the newest data"], span((performance.now() - fleet.arrived) / 1000));
  }

  destroy() {
    clearInterval(this.timer);
  }
}
