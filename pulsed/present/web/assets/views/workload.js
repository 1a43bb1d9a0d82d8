// A workload of Kubernetes: what its pods do together, and what each got out of its GPUs.

import { getJson } from "../core/api.js";
import { idleOf, joulesOf, meanOf } from "../text/account.js";
import { energy, number, ownerName, ownerPage, percent, span, watts } from "../text/format.js";
import { h, setText } from "../ui/dom.js";
import { scrollTable } from "../ui/table.js";
import { adviceList, gpuLinks, OwnerLines, panel, Slot } from "./owner_parts.js";

const INTERVAL_MS = 5000;

export class WorkloadView {
  constructor(context) {
    this.context = context;
    [this.namespace, this.kind, ...this.name] = context.router.parts;
    this.name = this.name.join("/");
    this.lines = new OwnerLines(context, `workload ${this.name}`);
    this.problem = h("p", { class: "empty", role: "status", hidden: true });
    this.slots = { verdict: new Slot(), pods: new Slot() };
    this.content = h("div", { hidden: true }, this.slots.verdict.element, this.lines.element, this.slots.pods.element);
    this.element = h("section", { class: "job" }, h("div", { class: "gpu-head" }, h("h1", {}, `${this.kind ?? "Workload"} ${this.namespace ?? ""}/${this.name}`)), this.problem, this.content);
    this.timer = setInterval(() => this.fetch(), INTERVAL_MS);
    this.fetch();
  }

  update() {
    if (this.pods) this.drawLines();
  }

  async fetch() {
    const { connection, fleet } = this.context;
    if (connection.isDown || document.hidden || fleet.isPaused) return;
    try {
      const [{ workloads }, { jobs }] = await Promise.all([getJson("workloads"), getJson("jobs", { namespace: this.namespace, limit: 1000 })]);
      if (this.isOver) return;
      this.row = workloads.find((row) => row.namespace === this.namespace && row.workload === this.name && row.workload_kind === this.kind);
      this.pods = jobs.filter(({ owner }) => owner.workload === this.name && owner.workload_kind === this.kind);
      this.draw();
      this.context.ready();
    } catch (error) {
      if (!("status" in error)) throw error;
      this.problem.hidden = false;
      setText(this.problem, `No answer: ${error.message}`);
    }
  }

  draw() {
    this.problem.hidden = this.pods.length > 0;
    this.content.hidden = !this.pods.length;
    setText(this.problem, "No pod of this workload has or had a GPU here.");
    this.slots.verdict.show([this.row, this.pods.map((pod) => pod.advice)], () => this.verdict());
    this.slots.pods.show(this.pods, () => this.podTable());
    this.drawLines();
  }

  verdict() {
    const { row, pods } = this;
    const running = pods.filter((pod) => !pod.end);
    const facts = row
      ? [["Real utilization", percent(row.real_utilization_ratio)], ["GPUs", number(row.gpus, 2)], ["Pods", String(row.pods)], ["Power", watts(row.power_watts ?? null)], ["Energy", energy(row.energy_joules_total)]]
      : [["GPUs", "none now"]];
    const advice = running.flatMap((pod) => pod.advice.map((each) => ({ ...each, evidence: `${pod.owner.name}: ${each.evidence}` })));
    return panel(
      "Now",
      h("dl", { class: "totals" }, facts.filter(([, text]) => text).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)))),
      h("h3", {}, "What to do"),
      advice.length ? adviceList(advice.slice(0, 50)) : h("p", {}, "Nothing stands out."),
    );
  }

  podTable() {
    const { router } = this.context;
    const head = ["Pod", "State", "GPUs", "Real work", "SM", "Tensor", "Idle", "Energy", "Since"];
    const rows = this.pods.map((pod) => {
      const owner = `${pod.owner.kind}:${pod.owner.id}`;
      const texts = [...["real_utilization_ratio", "sm_active_ratio", "tensor_active_ratio"].map((name) => percent(meanOf(pod, name))), percent(idleOf(pod.total).ratio), energy(joulesOf(pod.total)), span(pod.elapsed_seconds)];
      return h("tr", {}, h("th", { scope: "row" }, h("a", { href: router.to(...ownerPage(owner)), "data-row": true }, ownerName(owner))), h("td", {}, pod.state), h("td", {}, gpuLinks(this.context, pod.gpus, 8)), texts.map((text) => h("td", { class: "number" }, text)));
    });
    return panel(`Pods (${this.pods.length})`, scrollTable({ caption: "Pods", label: "Pods", head, numbers: (i) => i > 2, body: h("tbody", {}, rows) }));
  }

  drawLines() {
    const running = this.pods.filter((pod) => !pod.end);
    const begin = Math.min(...running.map((pod) => Date.parse(pod.begin) / 1000));
    this.lines.element.hidden = !running.length;
    if (running.length) this.lines.draw(running.flatMap((pod) => pod.gpus), begin, null);
  }

  destroy() {
    this.isOver = true;
    clearInterval(this.timer);
    this.lines.destroy();
  }
}
