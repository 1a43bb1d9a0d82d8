// Owners of GPUs: jobs, pods and processes, with what they get out of their GPUs. Those that hold idle GPUs come first.

import { getJson } from "../core/api.js";
import { keyOfEvent } from "../core/fleet_state.js";
import { energy, MISSING, memory, number, ownerName, percent, span, words } from "../text/format.js";
import { isHeld } from "../text/use.js";
import { Bar } from "../ui/bar.js";
import { h } from "../ui/dom.js";
import { scrollTable } from "../ui/table.js";

const INTERVAL_MS = 5000;
const ROWS = 200;
const MOST_AT_ONCE = 1000;
const HEADERS = ["Owner", "GPUs", "Real work", "Idle now", "Idle so far", "Energy", "Peak memory", "Since", "What to do"];

export class WorkView {
  constructor(context) {
    this.context = context;
    this.jobs = null;
    this.rows = ROWS;
    this.isSearch = false;
    this.summary = h("p", { class: "muted", role: "status" });
    this.body = h("tbody");
    this.empty = h("p", { class: "empty", hidden: true }, "No job or pod has a GPU, or the source gives no owners.");
    const table = scrollTable({ caption: "Owners of GPUs, those with idle GPUs first", label: "Owners", class_: "work", head: HEADERS, numbers: (i) => i > 0 && i < 8, body: this.body });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.showMore() }, `Show ${ROWS} more`);
    this.processes = h("div");
    this.element = h("section", {}, h("div", { class: "toolbar" }, h("h1", {}, "Work")), this.summary, table, this.empty, this.more, this.processes);
    this.timer = setInterval(() => this.fetch(), INTERVAL_MS);
    this.fetch();
  }

  update() {
    const isSearch = this.context.router.get("q") !== "";
    if (isSearch !== this.isSearch) {
      this.isSearch = isSearch; // a search is among all owners
      this.fetch();
    }
    if (this.jobs) this.draw();
  }

  showMore() {
    this.rows += ROWS;
    this.fetch();
  }

  async fetch() {
    const { connection, fleet } = this.context;
    if (!connection.canAsk || fleet.isPaused) return;
    try {
      const wanted = this.isSearch ? Number.POSITIVE_INFINITY : this.rows;
      const jobs = [];
      let answer;
      do {
        answer = await getJson("jobs", { sort: "idle", limit: Math.min(wanted - jobs.length, MOST_AT_ONCE), offset: jobs.length });
        jobs.push(...answer.jobs);
      } while (answer.jobs.length && jobs.length < Math.min(wanted, answer.running));
      [this.jobs, this.running, this.idleGpus] = [jobs, answer.running, answer.idle_gpus];
      this.more.hidden = jobs.length < wanted;
      this.draw();
      await this.fetchProcesses();
    } catch (error) {
      if (!("status" in error)) throw error;
      this.summary.textContent = `No owners: ${error.message}`;
    }
  }

  draw() {
    const { router } = this.context;
    const text = router.get("q").toLowerCase();
    const rows = this.jobs.map((job) => this.rowOf(job)).filter((row) => !/[<>=|&]/.test(text) ? row.search.includes(text) : true);
    rows.sort((a, b) => Number(b.isRunning) - Number(a.isRunning) || b.idleNow - a.idleNow || b.idleJoules - a.idleJoules);
    const { running, idleGpus } = this;
    const cut = this.jobs.length < running ? ` The ${this.jobs.length} with most idle GPUs are shown.` : "";
    const idle = idleGpus ? `${idleGpus} ${idleGpus > 1 ? "GPUs are" : "GPU is"} idle but held` : "No GPU is idle but held";
    this.summary.textContent = `${running} ${running === 1 ? "owner" : "owners"} now. ${idle}.${cut}`;
    const key = JSON.stringify([rows.map((row) => row.texts), router.rest]);
    if (key === this.key) return;
    this.key = key;
    this.empty.hidden = rows.length > 0;
    this.body.replaceChildren(...rows.map((row) => this.element_(row)));
  }

  rowOf(job) {
    const { fleet } = this.context;
    const { counters } = job.total;
    const observed = counters.observed_seconds;
    const isClassKnown = isSome(observed, counters.workload_class_seconds?.unknown);
    const idle = isClassKnown ? sum(counters.idle_seconds) : null;
    const joules = isClassKnown ? sum(counters.idle_energy_joules) : null;
    const unknown = counters.real_utilization_unknown_seconds ?? 0;
    const work = isSome(observed, unknown) ? (counters.real_utilization_seconds ?? null) : null;
    const real = work === null ? null : work / (observed - unknown);
    const isRunning = job.state === "running";
    const idleGpus = isRunning ? job.gpus.filter((gpu) => isHeld(fleet, fleet.positions.get(keyOfEvent(gpu)) ?? -1)) : [];
    const longest = Math.max(0, ...idleGpus.map((gpu) => gpu.idle_runs.last_seconds));
    const peak = Math.max(...job.gpus.map((gpu) => gpu.peaks.memory_used_bytes ?? -1));
    const name = ownerName(`${job.owner.kind}:${job.owner.id}`);
    const texts = [
      String(job.gpu_count), percent(real), idleGpus.length ? `${idleGpus.length}${longest ? ` for ${span(longest)}` : ""}` : isRunning ? "0" : MISSING,
      `${percent(idle === null ? null : idle / observed)}, ${energy(joules)}`, energy(sum(counters.class_energy_joules)), memory(peak < 0 ? null : peak),
      isRunning ? `${span(job.elapsed_seconds)}` : `ended, ${span(job.elapsed_seconds)}`,
    ];
    const who = [job.owner.user, job.owner.account, job.owner.workload].filter(Boolean).join(", ");
    return { job, name, who, real, texts, isRunning, idleNow: idleGpus.length, idleJoules: joules ?? 0, search: `${name} ${who} ${job.owner.id}`.toLowerCase() };
  }

  element_({ job, name, who, real, texts, isRunning, idleNow }) {
    const { router } = this.context;
    const bar = new Bar({ label: "Real work", isSmall: true, isHidden: true });
    bar.draw({ ratio: real, bottleneck: "compute" });
    const gpus = h("span", { class: "gpu-links" }, job.gpus.slice(0, 16).flatMap((gpu) => [h("a", { href: router.to("gpu", keyOfEvent(gpu)) }, `${gpu.gpu}${gpu.mig_id ? `:${gpu.mig_id}` : ""}`), " "]));
    const advice = job.advice.map((each) => h("li", {}, h("b", {}, each.evidence), ` ${each.text}`));
    const unjudged = (job.not_judged ?? []).map((each) => h("p", { class: "muted" }, `${words(each.finding)} not judged: ${each.missing}`));
    return h(
      "tr",
      { "data-held": idleNow > 0, "aria-current": router.rest && [job.owner.id, `pod:${job.owner.namespace}/${job.owner.name}`].includes(router.rest) ? "true" : null, class: isRunning ? null : "ended" },
      h("th", { scope: "row" }, name, who ? h("small", { class: "muted" }, ` ${who}`) : null),
      h("td", { class: "number" }, texts[0], " ", h("small", {}, "(", gpus, ")")),
      h("td", { class: "number ru" }, bar.element, texts[1]),
      texts.slice(2).map((text, i) => h("td", { class: i === 0 && idleNow ? "number held" : "number" }, text)),
      h("td", { class: "what" }, advice.length ? h("ul", {}, advice) : h("span", { class: "muted" }, job.elapsed_seconds < 180 ? "advice after 3 minutes" : "no advice"), unjudged),
    );
  }

  async fetchProcesses() {
    const { published, visible, processes } = await getJson("processes");
    if (!published) return;
    const rows = processes.slice(0, 200).map((each) =>
      h("tr", {}, h("th", { scope: "row" }, String(each.pid)), h("td", {}, each.user), h("td", {}, each.slurm_job ? `job ${each.slurm_job}` : each.pod_uid ?? ""), h("td", { class: "number" }, memory(each.memory_bytes)), h("td", { class: "mono what" }, each.command)),
    );
    this.processes.replaceChildren(
      h("h2", {}, "Processes of jobs and pods"),
      h("p", { class: "muted" }, visible ? `${number(processes.length)} processes. That they use a GPU does not follow.` : "Processes of others are hidden on this host."),
      scrollTable({ caption: "Processes", label: "Processes", head: ["PID", "User", "Owner", "Memory", "Command"], body: h("tbody", {}, rows) }),
    );
  }

  destroy() {
    clearInterval(this.timer);
  }
}

/** Whether something of the observed time remains without the unknown part; the sums are of rounded numbers. */
const isSome = (observed, unknown) => (observed ?? 0) - (unknown ?? 0) > 1e-6;

/** Sum of a counter by kind; null if there is none. */
function sum(byKind) {
  const values = Object.values(byKind ?? {});
  return values.length ? values.reduce((total, value) => total + value, 0) : byKind ? 0 : null;
}
