// One job or pod: what `pulsed job` prints, its life as lines, its GPUs, and a comparison with another one.

import { getJson } from "../core/api.js";
import { keyOfEvent } from "../core/fleet_state.js";
import { changesOf, idleOf, joulesOf, meanOf } from "../text/account.js";
import { marksOf } from "../text/event_marks.js";
import { energy, memory, moment, percent, span, watts, words } from "../text/format.js";
import { Bar } from "../ui/bar.js";
import { Chart } from "../ui/chart.js";
import { copyText } from "../ui/copy.js";
import { h, setText } from "../ui/dom.js";
import { scrollTable } from "../ui/table.js";
import { incidentTable } from "./incidents.js";
import { adviceList, OwnerLines, panel, Slot } from "./owner_parts.js";

const INTERVAL_MS = 10000; // the daemon looks into files of accounts
const MAX_ROWS = 256;

export class JobView {
  constructor(context) {
    const { router } = context;
    this.context = context;
    this.id = router.view === "pod" ? `pod:${router.rest}` : router.rest;
    this.life = new Chart({ title: "Real work over its life", lines: [{ field: "real", label: "real work of all GPUs", colour: "series-3" }], format: percent, range: [0, 1], group: `job ${this.id}` });
    this.lines = new OwnerLines(context, `job ${this.id}`);
    this.title = h("h1", {}, words(router.view), " ", router.rest);
    this.state = h("span");
    this.summary = h("p", { class: "muted" });
    this.problem = h("p", { class: "empty", role: "status", hidden: true });
    this.slots = Object.fromEntries(["links", "verdict", "comparison", "gpus", "events", "facts"].map((name) => [name, new Slot()]));
    this.other = h("input", { type: "search", id: "with", placeholder: "4712 or pod:ml/train-1", autocomplete: "off", spellcheck: "false" });
    this.other.value = router.get("with");
    const compare = h("form", { class: "compare", onsubmit: (event) => (event.preventDefault(), router.set({ with: this.other.value.trim() })) }, h("label", { for: "with" }, "Compare with "), this.other, h("button", {}, "Compare"));
    const link = h("button", { type: "button", onclick: async () => setText(link, (await copyText(location.href)) ? "Copied" : "Copy the address") }, "Copy link");
    this.content = h("div", { hidden: true }, this.slots.verdict.element, this.slots.comparison.element, this.life.element, this.lines.element, this.slots.gpus.element, this.slots.events.element, this.slots.facts.element);
    this.element = h("section", { class: "job" }, h("div", { class: "gpu-head" }, this.title, this.state, h("span", { class: "spring" }), compare, link), this.summary, this.slots.links.element, this.problem, this.content);
    this.timer = setInterval(() => this.job?.end || this.fetch(), INTERVAL_MS);
    this.fetch();
  }

  update({ all = true } = {}) {
    const other = this.context.router.get("with");
    if (other !== this.comparedWith) this.fetch();
    else if (all && this.job) this.draw();
  }

  async fetch() {
    const { connection, fleet, router } = this.context;
    if (!this.id) return this.fail("No job is named. Choose one in ", h("a", { href: router.to("work") }, "Work"), ".");
    if (connection.isDown || document.hidden || fleet.isPaused) return;
    const other = (this.comparedWith = router.get("with"));
    const path = `jobs/${encodeURIComponent(this.id)}`;
    const isUnknown = (error) => error.status === 404 && other;
    try {
      const found = await getJson(path, { report: true, with: other || null }).catch((error) => (isUnknown(error) ? error : Promise.reject(error)));
      const job = "status" in found ? await getJson(path, { report: true }) : found; // the second job is unknown
      if (other !== this.comparedWith || this.isOver) return;
      this.job = job;
      this.draw();
      if (job !== found) this.fail(`Not compared: ${found.message}.`);
    } catch (error) {
      if (!("status" in error)) throw error;
      if (error.status === 404) this.fail(`${error.message}. Accounts that ended are kept for some days. `, h("a", { href: router.to("work") }, "All owners"));
      else this.fail(`No answer: ${error.message}`);
    }
  }

  fail(...parts) {
    this.context.ready();
    this.problem.hidden = false;
    this.problem.replaceChildren(...parts);
  }

  draw() {
    const { job, slots } = this;
    const { report } = job;
    const { roster } = this.context.fleet; // of which GPUs there are links
    this.problem.hidden = true;
    this.content.hidden = false;
    setText(this.title, report.title);
    setText(this.state, job.state);
    this.state.className = job.end ? "badge" : "badge live-badge";
    setText(this.summary, `${report.summary}; ${moment(Date.parse(job.begin) / 1000)} to ${job.end ? moment(Date.parse(job.end) / 1000) : "now"}`);
    slots.links.show(job.owner, ({ namespace, workload, workload_kind: kind }) => workload && h("p", {}, "Workload ", h("a", { href: this.context.router.to("workload", [namespace, kind ?? "workload", workload]) }, `${kind ?? ""} ${workload}`.trim())));
    slots.verdict.show([report.facts, job.advice, report.advice, meanOf(job, "real_utilization_ratio")], () => this.verdict());
    slots.comparison.show(job.comparison ?? null, (comparison) => comparison && comparisonPanel(comparison));
    slots.gpus.show([job.gpus, roster], () => this.gpus());
    slots.events.show([job.incidents, roster], ([incidents]) => incidents.length > 0 && panel("What happened to its GPUs", incidentTable(this.context, incidents, { caption: "What happened to its GPUs" })));
    slots.facts.show([report, job.hosts], () => this.facts());
    this.drawLines();
  }

  verdict() {
    const { job } = this;
    const ratio = meanOf(job, "real_utilization_ratio");
    const bar = new Bar({ label: "Real work" });
    bar.draw({ ratio, bottleneck: "compute" });
    const facts = new Map(job.report.facts);
    return h(
      "section",
      { class: "panel verdict" },
      h("h2", {}, "Verdict"),
      h("p", { class: "big" }, facts.get("Verdict")),
      h("p", { class: "work" }, facts.get("Real work")),
      bar.element,
      h("h3", {}, "What to do"),
      job.advice.length ? adviceList(job.advice) : h("p", {}, job.report.advice.join(" ")),
    );
  }

  drawLines() {
    const { job } = this;
    const begin = Date.parse(job.begin) / 1000;
    const end = job.end ? Date.parse(job.end) / 1000 : null;
    const { bucket_seconds: step, gpu_seconds: known, real_utilization_seconds: work } = job.timeline;
    const marks = marksOf(changesOf(job), new Set(job.gpus.map(keyOfEvent)));
    const time = known.map((_, i) => begin + i * step);
    const real = known.map((seconds, i) => (seconds > 0 ? Math.min(1, work[i] / seconds) : null));
    if (time.length) this.life.draw({ time, step, fields: { real } }, {}, marks);
    this.life.element.hidden = time.length < 2;
    this.lines.draw(job.gpus, begin, end, marks).then(() => this.lines.fetch()).finally(() => this.context.fleet.isLoaded && this.context.ready());
  }

  gpus() {
    const { job, context } = this;
    const { fleet, router } = context;
    const head = ["GPU", "Held", "Real work", "SM", "Tensor", "DRAM", "MFU", "Power", "Energy", "Peak memory", "Idle", "Problems"];
    const isWrong = (gpu) => gpu.conditions.some(({ until }) => until === null);
    const ordered = [...job.gpus].sort((a, b) => isWrong(b) - isWrong(a)); // those with a problem first
    const rows = ordered.slice(0, MAX_ROWS).map((gpu) => {
      const name = fleet.labelOfGpu(gpu);
      const key = keyOfEvent(gpu);
      const idle = idleOf(gpu);
      const texts = [
        span(gpu.held_seconds), ...["real_utilization_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "mfu_ratio"].map((each) => percent(meanOf(gpu, each))),
        watts(meanOf(gpu, "power_watts")), energy(joulesOf(gpu)), memory(gpu.peaks.memory_used_bytes), percent(idle.ratio),
      ];
      const problems = [...gpu.conditions.map((each) => words(each.check)), gpu.shared_by > 1 ? `shared by ${gpu.shared_by}` : ""].filter(Boolean);
      return h("tr", {}, h("th", { scope: "row" }, fleet.positions.has(key) ? h("a", { href: router.to("gpu", key), "data-row": true }, name) : name), texts.map((text) => h("td", { class: "number" }, text)), h("td", { class: "what" }, problems.join(", ")));
    });
    const more = job.gpus.length > MAX_ROWS ? h("p", { class: "muted" }, `The first ${MAX_ROWS} of ${job.gpus.length} GPUs.`) : null;
    return panel(`GPUs (${job.gpu_count})`, scrollTable({ caption: "GPUs", label: "GPUs of the job", class_: "job-gpus", head, numbers: (i) => i > 0 && i < 11, body: h("tbody", {}, rows) }), more);
  }

  facts() {
    const { report } = this.job;
    const shown = report.facts.filter(([title]) => !["Verdict", "Real work", "Life"].includes(title));
    const notJudged = report.unknown.length ? panel("Not known", h("ul", {}, report.unknown.map((text) => h("li", {}, text)))) : null;
    return h(
      "div",
      { class: "gpu-facts" },
      panel("Account", h("dl", { class: "facts" }, shown.flatMap(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]))),
      report.statistics.length ? panel("Mean and spread", textTable("Mean and spread", report.statistics)) : null,
      report.balance.length ? panel("Host, links and network", textTable("While SMs worked and while they waited", report.balance)) : null,
      notJudged,
    );
  }

  destroy() {
    this.isOver = true;
    clearInterval(this.timer);
    this.life.destroy();
    this.lines.destroy();
  }
}

/** A table of texts whose first row is the head. */
function textTable(caption, [head, ...rows]) {
  const last = head.length - 1;
  const isNumber = (i) => i > 0 && i < last;
  const body = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), cells.map((text, i) => h("td", { class: isNumber(i + 1) ? "number" : null }, text))));
  const titles = head.map((text, i) => (text ? text : h(i ? "td" : "th", i ? {} : { scope: "col" }, i ? "" : h("span", { class: "visually-hidden" }, "Quantity"))));
  return scrollTable({ caption, label: caption, head: titles, numbers: isNumber, body: h("tbody", {}, body) });
}

function comparisonPanel({ first, second, rows, notes }) {
  return panel("Compared", h("dl", { class: "facts" }, h("dt", {}, "first"), h("dd", {}, first), h("dt", {}, "second"), h("dd", {}, second)), textTable("Comparison", rows), notes.map((note) => h("p", {}, note)));
}
