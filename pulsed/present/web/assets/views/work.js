// Owners of GPUs: jobs, pods and processes, one line each, with what they get out of their GPUs. Those that hold idle GPUs
// come first. Findings are chips beside the name; many owners are grouped.

import { getJson } from "../core/api.js";
import { keyOfEvent } from "../core/fleet_state.js";
import { idleOf, joulesOf, meanOf, meanOfAll, peakMemory } from "../text/account.js";
import { energy, MISSING, memory, number, ownerName, ownerPage, percent, span, words } from "../text/format.js";
import { isHeld } from "../text/use.js";
import { h, setAttribute } from "../ui/dom.js";
import { longName } from "../ui/long_name.js";
import { scrollTable } from "../ui/table.js";
import { gpuLinks } from "./owner_parts.js";
import { processTable } from "./processes.js";

const INTERVAL_MS = 5000;
const OPEN_GROUP = 4; // owners of a group whose rows are shown at once
const ROWS = 200;
const FINDING_SECONDS = 180; // before which an owner has no findings
const MAX_AT_ONCE = 1000;
const MAX_LINKS = 16;
const MANY = 24; // owners from which they are grouped

/** Name in the hash, title, value to sort by, and text; of an owner or of a group of them. */
const COLUMNS = [
  ["owner", "Owner", (row) => row.name],
  ["gpus", "GPUs", (row) => row.gpuCount],
  ["ru", "Real work", (row) => row.means.ru, percent],
  ["idle", "Idle now", (row) => (row.isRunning ? row.idleNow : null), (count, row) => (count && row.longest ? `${count} for ${span(row.longest)}` : count === null ? MISSING : String(count))],
  ["waste", "Idle so far", (row) => row.idle.seconds, (seconds, row) => (seconds === null ? MISSING : `${gpuHours(seconds)}${row.idleCost === null ? "" : `, ${row.idleCost}`}`)],
  ["sm", "SM", (row) => row.means.sm, percent],
  ["tensor", "Tensor", (row) => row.means.tensor, percent],
  ["mfu", "MFU", (row) => row.means.mfu, percent],
  ["energy", "Energy", (row) => row.joules, energy],
  ["mem", "Peak memory", (row) => row.peak, memory],
  ["time", "Time", (row) => row.seconds, (seconds, row) => (row.isRunning ? span(seconds) : `ended, ${span(seconds)}`)],
];
const TEXT_COLUMNS = new Set(["owner", "gpus"]);
const QUANTITIES = { ru: "real_utilization_ratio", sm: "sm_active_ratio", tensor: "tensor_active_ratio", mfu: "mfu_ratio" };

const gpuHours = (seconds) => `${number(seconds / 3600, seconds < 36000 ? 2 : 0)}\u00a0GPU\u00a0h`;

/** What idle time costs by the prices of the daemon; null without prices. */
const costOf = (seconds, prices) => (seconds === null || !prices?.per_gpu_hour ? null : `${number((seconds / 3600) * prices.per_gpu_hour, 2)}\u00a0${prices.currency}`);

/** What owners can be grouped by. */
const GROUPS = {
  "": null,
  none: null,
  "workload or user": ({ owner }) => (owner.workload ? `${owner.workload_kind ?? "workload"} ${owner.namespace}/${owner.workload}` : owner.user),
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
    this.group = h("select", { onchange: () => router.set({ by: this.group.value }) }, Object.keys(GROUPS).map((name) => h("option", { value: name }, name || "automatic")));
    this.headers = COLUMNS.map(([name, title]) => h("th", { scope: "col", class: `w-${name}${TEXT_COLUMNS.has(name) ? "" : " number"}` }, h("button", { type: "button", onclick: () => this.sortBy(name) }, title)));
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
      this.context.ready();
    } catch (error) {
      if (!("status" in error)) throw error;
      this.summary.textContent = `No owners: ${error.message}`;
    }
  }

  draw() {
    const { router } = this.context;
    const text = router.get("q").toLowerCase();
    const chosen = router.get("by") in GROUPS ? router.get("by") : "";
    const sort = router.get("sort");
    this.group.value = chosen;
    this.headers.forEach((header, i) => setAttribute(header, "aria-sort", direction(sort, COLUMNS[i][0])));
    const rows = this.jobs.map((job) => this.rowOf(job)).filter((row) => (/[<>=|&]/.test(text) ? true : row.search.includes(text)));
    const { running, idleGpus } = this;
    const by = chosen === "none" ? "" : chosen || (running >= MANY ? "workload or user" : "");
    const cut = this.jobs.length < running ? ` The ${this.jobs.length} with the most idle GPUs are shown.` : "";
    const idle = idleGpus ? `${idleGpus} ${idleGpus > 1 ? "GPUs are" : "GPU is"} idle but held` : "No GPU is idle but held";
    const isYoung = this.jobs.some((job) => job.state === "running" && job.elapsed_seconds < FINDING_SECONDS);
    const young = isYoung ? " Owners of less than 3 minutes have no findings yet." : "";
    this.summary.textContent = `${running} ${running === 1 ? "owner" : "owners"} now. ${idle}.${cut}${young}`;
    const shown = by ? this.grouped(rows, GROUPS[by], sort, !chosen) : ordered(rows, sort);
    const key = JSON.stringify([shown.map((row) => [row.id, row.texts, row.isRunning, row.findings, row.isBroken]), [...this.opened], this.context.fleet.roster]);
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
    const workload = job.owner.workload && !name.includes(job.owner.workload) ? job.owner.workload : "";
    const who = [job.owner.user, job.owner.account, workload].filter(Boolean).join(", ");
    return withTexts({
      job, owner, name, who, isRunning, id: `${owner} ${job.begin}`, gpuCount: job.gpu_count,
      means: Object.fromEntries(Object.entries(QUANTITIES).map(([key, quantity]) => [key, meanOf(job, quantity)])),
      idleNow: idleGpus.length, idleKeys: idleGpus.map(keyOfEvent), longest: Math.max(0, ...idleGpus.map((gpu) => gpu.idle_runs.last_seconds)),
      isBroken: isRunning && job.gpus.some((gpu) => fleet.get("health_state", fleet.positions.get(keyOfEvent(gpu)) ?? -1) === "crit"),
      idle: idleOf(job.total), idleCost: costOf(idleOf(job.total).seconds, job.cost), joules: joulesOf(job.total), peak: peakMemory(job.gpus), seconds: job.elapsed_seconds,
      findings: job.advice.map((each) => each.id), search: `${name} ${who} ${job.owner.workload} ${job.owner.id}`.toLowerCase(),
    });
  }

  /** Returns the rows of groups, each followed by the rows of its owners; grouped by itself, only groups of some owners. */
  grouped(rows, nameOf, sort, isAutomatic) {
    const groups = Map.groupBy(rows, ({ id, job }) => nameOf(job) || (isAutomatic ? id : ""));
    const heads = [...groups].map(([name, members]) => ({ ...groupRow(name || "not known", members), isFolded: isAutomatic && members.length > OPEN_GROUP }));
    return ordered(heads, sort).flatMap((head) => (isAutomatic && head.members.length === 1 ? head.members : !isAutomatic || this.opened.has(head.id) || head.members.length <= OPEN_GROUP ? [head, ...ordered(head.members, sort)] : [head]));
  }

  elements(row) {
    if (row.members) return [this.groupLine(row)];
    const { router } = this.context;
    const { job, name, who, isRunning, idleNow } = row;
    const isOpen = this.opened.has(row.id);
    const line = h(
      "tr",
      { "data-held": idleNow > 0, class: isRunning ? null : "ended" },
      h("th", { scope: "row" }, h("span", { class: "owner-cell" }, h("a", { href: router.to(...ownerPage(row.owner)), "data-row": true, "data-id": `link ${row.id}` }, longName(name)), " ", who ? h("small", { class: "muted" }, who) : null, this.chips(row, isOpen))),
      h("td", { class: "w-gpus", "data-label": "GPUs" }, h("b", {}, row.texts[1]), " ", h("small", {}, gpuLinks(this.context, job.gpus, MAX_LINKS))),
      this.cells(row),
    );
    return isOpen ? [line, h("tr", { class: "findings" }, h("td", { colspan: COLUMNS.length }, findingList(job)))] : [line];
  }

  groupLine(row) {
    const isOpen = this.opened.has(row.id);
    const count = `${row.members.length} owners`;
    const toggle = row.isFolded ? h("button", { type: "button", "aria-expanded": String(isOpen), "data-id": row.id, onclick: () => this.toggleOpen(row.id) }, count) : h("small", { class: "muted" }, count);
    return h("tr", { class: "group", "data-held": row.idleNow > 0 }, h("th", { scope: "rowgroup" }, longName(row.name), " ", toggle), h("td", { class: "w-gpus", "data-label": "GPUs" }, h("b", {}, row.texts[1])), this.cells(row));
  }

  /** The cells after owner and GPUs. */
  cells({ texts, idleNow }) {
    return COLUMNS.slice(2).map(([column, title], at) => h("td", { class: `number w-${column}${column === "idle" && idleNow ? " held" : ""}`, "data-label": title }, texts[at + 2]));
  }

  toggleOpen(id) {
    if (!this.opened.delete(id)) this.opened.add(id);
    this.draw();
  }

  /** What stands out about an owner, as chips that open the details. */
  chips({ id, job, findings, isBroken }, isOpen) {
    const names = [...new Set(findings)].map(words);
    const unjudged = job.not_judged ?? [];
    const marks = [isBroken ? "crit" : "", ...names].filter(Boolean);
    if (!marks.length && !unjudged.length) return null;
    const label = marks.length ? marks.slice(0, 3).map((mark) => h("span", { class: "chip", "data-health": mark === "crit" ? "crit" : "warn" }, mark === "crit" ? "x crit" : mark)) : h("span", { class: "chip", "data-health": "ok" }, "not evaluated");
    const more = marks.length > 3 ? ` +${marks.length - 3}` : "";
    return h("button", { type: "button", class: "plain chips", "aria-expanded": String(isOpen), "data-id": `findings ${id}`, onclick: () => this.toggleOpen(id) }, label, more);
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
    idleNow: new Set(members.flatMap((row) => row.idleKeys)).size, idle: { ...idle, ratio: idle.seconds === null || !observed ? null : idle.seconds / observed },
    idleCost: costOf(idle.seconds, jobs[0].cost), longest: Math.max(...members.map((row) => row.longest)), isBroken: members.some((row) => row.isBroken),
    joules: total(members.map((row) => row.joules)), peak: peaks.length ? Math.max(...peaks) : null,
    seconds: Math.max(...members.map((row) => row.seconds)), findings: members.flatMap((row) => row.findings),
  });
}

/** By the chosen column; without one, running owners with most idle GPUs come first. Missing values are last. */
function ordered(rows, sort) {
  if (!sort) return [...rows].sort((a, b) => Number(b.isRunning) - Number(a.isRunning) || Number(b.isBroken) - Number(a.isBroken) || b.idleNow - a.idleNow || (b.idle.joules ?? 0) - (a.idle.joules ?? 0));
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
