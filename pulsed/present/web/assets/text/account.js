// Numbers of the account of a job or pod, or of one of its GPUs. Means are the daemon's `statistics`.

import { keyOfEvent } from "../core/fleet_state.js";
import { words } from "./format.js";
import { SEVERITY } from "./states.js";

/** Sum of a counter by kind; null if there is none. */
function sum(byKind) {
  const values = Object.values(byKind ?? {});
  return values.length ? values.reduce((total, value) => total + value, 0) : byKind ? 0 : null;
}

/** Mean of a quantity; null if it was never known. */
export const meanOf = (part, name) => part.statistics?.[name]?.mean ?? null;

/** Observed seconds of idle, with `ratio`, a share of the observed time, and energy; null where no class was known. */
export function idleOf({ counters }) {
  const observed = counters.observed_seconds ?? 0;
  const isKnown = observed - (counters.workload_class_seconds?.unknown ?? 0) > 1e-6; // sums are of rounded numbers
  if (!isKnown) return { seconds: null, ratio: null, joules: null };
  const seconds = sum(counters.idle_seconds);
  return { seconds, ratio: seconds === null ? null : seconds / observed, joules: sum(counters.idle_energy_joules) };
}

export const joulesOf = ({ counters }) => sum(counters.class_energy_joules);

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

/** What happened to the GPUs while the owner had them: [{ time, state, key, gpu, text }], the newest first. */
export function eventsOf(account) {
  const events = account.gpus.flatMap((gpu) =>
    gpu.events
      .filter(({ before, after, check }) => check && (SEVERITY[before] > SEVERITY.ok || SEVERITY[after] > SEVERITY.ok))
      .map(({ time, check, before, after, message }) => ({
        time: Date.parse(time) / 1000, state: after, key: keyOfEvent(gpu), gpu, text: `${words(check)}: ${before} → ${after}${message ? `. ${message}` : ""}`,
      })),
  );
  return events.sort((a, b) => b.time - a.time);
}
