// Processes of jobs and pods, and of GPUs: a row per process and GPU.

import { keyOfEvent } from "../core/fleet_state.js";
import { MISSING, memory, number, ownerPage, percent, span } from "../text/format.js";
import { h } from "../ui/dom.js";
import { scrollTable } from "../ui/table.js";

const HEAD = ["PID", "GPU", "GPU memory", "SM share", "CPU", "Host memory", "User", "Time", "Owner", "Command"];
const ROWS = 200;

/** By PID and start: CPU time, and when it was read, in seconds. */
let before = new Map();

/** Returns how many CPUs each process of a document used since the document before; null: not known yet. */
function cpusOf(processes) {
  const at = performance.now() / 1000;
  const last = before;
  before = new Map();
  return new Map(
    processes.map((process) => {
      const name = `${process.pid} ${process.start}`;
      const { cpu_seconds: cpu } = process;
      const old = last.get(name);
      if (old && at - old.at < 1) before.set(name, old);
      else before.set(name, { cpu, at, cpus: old && cpu !== null && old.cpu !== null ? (cpu - old.cpu) / (at - old.at) : null });
      return [process, before.get(name).cpus];
    }),
  );
}

/** Returns a table of the processes of a document; with a GPU, of those that use it. */
export function processTable({ fleet, router }, { visible, processes }, key = null) {
  const now = fleet.current.time;
  const cpus = cpusOf(processes);
  const pairs = processes.flatMap((process) => (process.gpus?.length ? process.gpus : [null]).map((gpu) => [process, gpu])).filter(([, gpu]) => !key || (gpu && keyIn(fleet, gpu) === key));
  const rows = pairs.slice(0, ROWS).map(([process, gpu]) => {
    const owner = process.slurm_job ? `slurm_job:${process.slurm_job}` : process.pod_uid ? `pod:${process.pod_uid}` : null;
    const place = gpu && keyIn(fleet, gpu);
    const name = gpu && `GPU ${gpu.gpu}${gpu.mig_id ? `:${gpu.mig_id}` : ""}`;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, String(process.pid)),
      h("td", {}, fleet.positions.has(place) ? h("a", { href: router.to("gpu", place) }, name) : name ?? MISSING),
      [memory(gpu?.memory_bytes ?? null), percent(gpu?.sm_utilization_ratio ?? null), percent(cpus.get(process)), memory(process.memory_bytes)].map((text) => h("td", { class: "number" }, text)),
      h("td", {}, process.user ?? MISSING),
      h("td", { class: "number" }, process.start ? span(now - Date.parse(process.start) / 1000) : MISSING),
      h("td", {}, owner ? h("a", { href: router.to(...ownerPage(owner)) }, process.slurm_job ? `job ${process.slurm_job}` : "pod") : MISSING),
      h("td", { class: "mono what" }, process.command ?? MISSING),
    );
  });
  const lists = processes.some((process) => process.gpus);
  const note = !visible ? "Processes of others are hidden on this host." : lists ? "" : " The source does not list which GPUs they use.";
  return h(
    "div",
    {},
    h("p", { class: "muted" }, `${number(pairs.length)} ${pairs.length === 1 ? "row" : "rows"}.${note}`),
    rows.length > 0 && scrollTable({ caption: "Processes", label: "Processes", head: HEAD, numbers: (i) => (i > 1 && i < 6) || i === 7, body: h("tbody", {}, rows) }),
  );
}

/** Key of the GPU of a process, which is on the daemon's node. */
const keyIn = (fleet, gpu) => keyOfEvent({ node: fleet.node, ...gpu });
