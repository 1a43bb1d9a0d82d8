// Owners of GPUs: jobs, pods and processes, one line each, with what they get out of their GPUs. Those that hold idle GPUs
// come first. Findings are behind their number.

import { getJson } from "../core/api.js";
import { keyOfEvent } from "../core/fleet_state.js";
import { idleOf, joulesOf, meanOf, meanOfAll, peakMemory } from "../text/account.js";
import { energy, MISSING, memory, ownerName, ownerPage, percent, span, words } from "../text/format.js";
import { isHeld } from "../text/use.js";
import { h, setAttribute } from "../ui/dom.js";
import { scrollTable } from "../ui/table.js";
import { gpuLinks } from "./owner_parts.js";
import { processTable } from "./processes.js";

const INTERVAL_MS = 5000;
const ROWS = 200;
const MAX_AT_ONCE = 1000;
const MAX_LINKS = 8;

/** Name in the hash, title, value to sort by, and text; of an owner or of a group of them. */
const COLUMNS = [
  ["owner", "Owner", (row) => row.name],
  ["gpus", "GPUs", (row) => row.gpuCount],
  ["ru", "Real work", (row) => row.means.ru, percent],
  ["sm", "SM", (row) => row.means.sm, percent],
  ["tensor", "Tensor", (row) => row.means.tensor, percent],
  ["mfu", "MFU", (row) => row.means.mfu, percent],
  ["idle", "Idle now", (row) => (row.isRunning ? row.idleNow : null)],
  ["waste", "Idle so far", (row) => row.idle.ratio, (ratio, row) => (ratio === null ? MISSING : `${percent(ratio)}, ${energy(row.idle.joules)}`)],
  ["energy", "Energy", (row) => row.joules, energy],
  ["mem", "Peak memory", (row) => row.peak, memory],
  ["time", "Time", (row) => row.seconds, (seconds, row) => (row.isRunning ? span(seconds) : `ended, ${span(seconds)}`)],
  ["findings", "Findings", (row) => row.findings],
];
const TEXT_COLUMNS = new Set(["owner", "findings"]);
const QUANTITIES = { ru: "real_utilization_ratio", sm: "sm_active_ratio", tensor: "tensor_active_ratio", mfu: "mfu_ratio" };

/** What owners can be grouped by. */
const GROUPS = {
  "": null,
  user: ({ owner }) => owner.user,
  account: ({ owner }) => owner.account,
  namespace: ({ owner }) => owner.namespace,
  workload: ({ owner }) => owner.workload && `${owner.workload_kind ?? "workload"} ${owner.namespace}/${owner.workload}`,
  node: ({ gpus }) => [...new Set(gpus.map((gpu) => gpu.node))].sort().join(", "),
};

export class WorkView {
  constructor(context) {
    const { router } = context;
    this.context = context;
    this.jobs = null;
    this.rows = ROWS;
    this.isSearch = false;
    this.opened = new Set();
    this.summary = h("p", { class: "muted", role: "status" });
    this.group = h("select", { onchange: () => router.set({ by: this.group.value }) }, Object.keys(GROUPS).map((name) => h("option", { value: name }, name || "none")));
    this.headers = COLUMNS.map(([name, title]) => h("th", { scope: "col", class: TEXT_COLUMNS.has(name) ? null : "number" }, h("button", { type: "button", onclick: () => this.sortBy(name) }, title)));
    this.body = h("tbody");
    this.empty = h("p", { class: "empty", hidden: true }, "No job or pod has a GPU, or the source gives no owners.");
    const table = scrollTable({ caption: "Owners of GPUs", label: "Owners", class_: "work", head: this.headers, body: this.body });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.showMore() }, `Show ${ROWS} more`);
    this.processes = h("div");
    this.element = h("section", {}, h("div", { class: "toolbar" }, h("h1", {}, "Work"), h("label", {}, "Group by ", this.group)), this.summary, table, this.empty, this.more, this.processes);
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

  sortBy(name) {
    const { router } = this.context;
    router.set({ sort: router.get("sort") === name ? `-${name}` : name });
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
        answer = await getJson("jobs", { sort: "idle", limit: Math.min(wanted - jobs.length, MAX_AT_ONCE), offset: jobs.length });
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
    const by = router.get("by") in GROUPS ? router.get("by") : "";
    const sort = router.get("sort");
    this.group.value = by;
    this.headers.forEach((header, i) => setAttribute(header, "aria-sort", direction(sort, COLUMNS[i][0])));
    const rows = this.jobs.map((job) => this.rowOf(job)).filter((row) => (/[<>=|&]/.test(text) ? true : row.search.includes(text)));
    const { running, idleGpus } = this;
    const cut = this.jobs.length < running ? ` The ${this.jobs.length} with the most idle GPUs are shown.` : "";
    const idle = idleGpus ? `${idleGpus} ${idleGpus > 1 ? "GPUs are" : "GPU is"} idle but held` : "No GPU is idle but held";
    this.summary.textContent = `${running} ${running === 1 ? "owner" : "owners"} now. ${idle}.${cut}`;
    const shown = by ? this.grouped(rows, GROUPS[by], sort) : ordered(rows, sort);
    const key = JSON.stringify([shown.map((row) => [row.id, row.texts, row.longest, row.isRunning]), [...this.opened]]);
    if (key === this.key) return;
    this.key = key;
    this.empty.hidden = rows.length > 0;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.body.replaceChildren(...shown.flatMap((row) => this.elements(row)));
    if (focused) this.body.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  rowOf(job) {
    const { fleet } = this.context;
    const isRunning = job.state === "running";
    const idleGpus = isRunning ? job.gpus.filter((gpu) => isHeld(fleet, fleet.positions.get(keyOfEvent(gpu)) ?? -1)) : [];
    const owner = `${job.owner.kind}:${job.owner.id}`;
    const name = ownerName(owner);
    const who = [job.owner.user, job.owner.account, job.owner.workload].filter(Boolean).join(", ");
    return withTexts({
      job, owner, name, who, isRunning, id: `${owner} ${job.begin}`, gpuCount: job.gpu_count,
      means: Object.fromEntries(Object.entries(QUANTITIES).map(([key, quantity]) => [key, meanOf(job, quantity)])),
      idleNow: idleGpus.length, longest: Math.max(0, ...idleGpus.map((gpu) => gpu.idle_runs.last_seconds)),
      idle: idleOf(job.total), joules: joulesOf(job.total), peak: peakMemory(job.gpus), seconds: job.elapsed_seconds,
      findings: job.advice.length + (job.not_judged ?? []).length, search: `${name} ${who} ${job.owner.id}`.toLowerCase(),
    });
  }

  /** Returns the rows of groups, each followed by the rows of its owners. */
  grouped(rows, nameOf, sort) {
    const groups = Map.groupBy(rows, ({ job }) => nameOf(job) || "");
    const heads = [...groups].map(([name, members]) => groupRow(name || "not known", members));
    return ordered(heads, sort).flatMap((head) => [head, ...ordered(head.members, sort)]);
  }

  elements(row) {
    if (row.members) return [h("tr", { class: "group" }, h("th", { scope: "rowgroup" }, row.name, h("small", { class: "muted" }, ` ${row.members.length} owners`)), row.texts.slice(1).map((text, i) => h("td", { class: i < COLUMNS.length - 2 ? "number" : null, "data-label": COLUMNS[i + 1][1] }, text)))];
    const { router } = this.context;
    const { job, name, who, texts, isRunning, idleNow, longest } = row;
    const isOpen = this.opened.has(row.id);
    const cells = texts.slice(2, -1).map((text, i) => h("td", { class: i === 4 && idleNow ? "number held" : "number", "data-label": COLUMNS[i + 2][1] }, i === 4 && idleNow && longest ? `${text} for ${span(longest)}` : text));
    const line = h(
      "tr",
      { "data-held": idleNow > 0, class: isRunning ? null : "ended" },
      h("th", { scope: "row" }, h("a", { href: router.to(...ownerPage(row.owner)), "data-row": true, "data-id": `link ${row.id}` }, name), who ? h("small", { class: "muted" }, ` ${who}`) : null),
      h("td", { class: "number", "data-label": "GPUs" }, texts[1], " ", h("small", {}, "(", gpuLinks(this.context, job.gpus, MAX_LINKS), ")")),
      cells,
      h("td", {}, this.findings(row, isOpen)),
    );
    return isOpen ? [line, h("tr", { class: "findings" }, h("td", { colspan: COLUMNS.length }, findingList(job)))] : [line];
  }

  findings({ id, job, findings }, isOpen) {
    if (!findings) return h("span", { class: "muted" }, job.elapsed_seconds < 180 ? "after 3 minutes" : "none");
    const text = job.advice.length ? `${job.advice.length} ${job.advice.length > 1 ? "findings" : "finding"}` : "not evaluated";
    const toggle = () => {
      if (!this.opened.delete(id)) this.opened.add(id);
      this.draw();
    };
    return h("button", { type: "button", "aria-expanded": String(isOpen), "data-id": `findings ${id}`, onclick: toggle }, text);
  }

  async fetchProcesses() {
    const document_ = await getJson("processes");
    if (document_.published) this.processes.replaceChildren(h("h2", { class: "later" }, "Processes"), processTable(this.context, document_));
  }

  destroy() {
    clearInterval(this.timer);
  }
}

const withTexts = (row) => ({ ...row, texts: COLUMNS.map(([, , value, text]) => textOf(value(row), text, row)) });

function textOf(value, text, row) {
  if (text) return text(value, row);
  return value === null ? MISSING : String(value);
}

function groupRow(name, members) {
  const total = (values) => values.filter((value) => value !== null).reduce((sum, value) => (sum ?? 0) + value, null);
  const jobs = members.map(({ job }) => job);
  const observed = total(jobs.map((job) => job.total.counters.observed_seconds ?? null));
  const idle = { seconds: total(members.map((row) => row.idle.seconds)), joules: total(members.map((row) => row.idle.joules)) };
  const peaks = members.map((row) => row.peak).filter((peak) => peak !== null);
  const gpus = new Set(jobs.filter((job) => job.state === "running").flatMap((job) => job.gpus.map(keyOfEvent)));
  return withTexts({
    name, members, id: `group ${name}`, isRunning: members.some((row) => row.isRunning), gpuCount: gpus.size,
    means: Object.fromEntries(Object.entries(QUANTITIES).map(([key, quantity]) => [key, meanOfAll(jobs, quantity)])),
    idleNow: total(members.map((row) => row.idleNow)), idle: { ...idle, ratio: idle.seconds === null || !observed ? null : idle.seconds / observed },
    joules: total(members.map((row) => row.joules)), peak: peaks.length ? Math.max(...peaks) : null,
    seconds: Math.max(...members.map((row) => row.seconds)), findings: total(members.map((row) => row.job.advice.length)),
  });
}

/** By the chosen column; without one, running owners with most idle GPUs come first. Missing values are last. */
function ordered(rows, sort) {
  if (!sort) return [...rows].sort((a, b) => Number(b.isRunning) - Number(a.isRunning) || b.idleNow - a.idleNow || (b.idle.joules ?? 0) - (a.idle.joules ?? 0));
  const name = sort.replace(/^-/, "");
  const [, , value] = COLUMNS.find(([each]) => each === name) ?? COLUMNS[0];
  const sign = isFalling(sort, name) ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    if (left === null || right === null) return (left === null) - (right === null);
    return sign * (left < right ? -1 : left > right ? 1 : 0);
  });
}

/** Numbers begin with the largest, names with the first. */
const isFalling = (sort, name) => (name === "owner") === sort.startsWith("-");

function direction(sort, name) {
  if (sort.replace(/^-/, "") !== name) return null;
  return isFalling(sort, name) ? "descending" : "ascending";
}

function findingList(job) {
  const advice = job.advice.map((each) => h("li", {}, h("b", {}, each.evidence), ` ${each.text}`));
  const unjudged = (job.not_judged ?? []).map((each) => h("li", { class: "muted" }, `${words(each.finding)} not evaluated: ${each.missing}`));
  return h("ul", {}, advice, unjudged);
}
