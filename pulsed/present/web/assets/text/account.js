// Numbers of the account of a job or pod, or of one of its GPUs, as the daemon gives them.

import { SEVERITY } from "./states.js";

/** Mean of a quantity; null if it was never known. */
export const meanOf = (part, name) => part.statistics?.[name]?.mean ?? null;

/** Observed seconds of idle, with `ratio`, a share of the observed time, and energy; null where no class was known. */
export const idleOf = ({ summary }) => ({ seconds: summary.idle_seconds, ratio: summary.idle_ratio, joules: summary.idle_joules });

export const joulesOf = ({ summary }) => summary.joules;

/** The largest memory in use of a GPU; null if it was never known. */
export function peakMemory(gpus) {
  const peaks = gpus.map((gpu) => gpu.peaks.memory_used_bytes).filter((peak) => peak !== null);
  return peaks.length ? Math.max(...peaks) : null;
}

/** Mean of a quantity over several accounts, weighted by the GPU seconds in which it was known. */
export function meanOfAll(accounts, name) {
  const known = accounts.map((account) => account.statistics?.[name]).filter(Boolean);
  const seconds = known.reduce((total, each) => total + each.seconds, 0);
  return seconds > 0 ? known.reduce((total, each) => total + each.seconds * each.mean, 0) / seconds : null;
}

/** Changes of health of the GPUs while the owner had them, as those of `/events`, the newest first. */
export function changesOf(account) {
  const changes = account.gpus.flatMap(({ node, gpu, uuid, mig_id, events }) =>
    events
      .filter(({ before, after, check }) => check && (SEVERITY[before] > SEVERITY.ok || SEVERITY[after] > SEVERITY.ok))
      .map((event) => ({ event: "health", node, gpu, uuid, mig_id, ...event })),
  );
  return changes.sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
}
