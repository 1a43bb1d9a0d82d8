// Sums over GPUs, in one pass. Stale and missing values are not in them; how many are is part of the result.

import { SEVERITY } from "./states.js";

const FIELDS = {
  ru: "real_utilization_ratio", lower: "real_utilization_lower_ratio", upper: "real_utilization_upper_ratio",
  power: "power_watts", memoryUsed: "memory_used_bytes", memory: "memory_bytes",
};

/** Counts by state, and for each of FIELDS its `sum`, `mean` and `count`; sum and mean are null without any value. */
export function totalsOf(fleet, positions) {
  const { fields, stale } = fleet.frame;
  const uses = fields.use ?? [];
  const totals = { gpus: 0, busy: 0, held: 0, free: 0, idle: 0, unknown: 0, stale: 0 };
  const columns = Object.entries(FIELDS).map(([name, field]) => [fields[field] ?? [], (totals[name] = { sum: null, mean: null, count: 0 })]);
  for (const i of positions) {
    if (isPartOfBoard(fleet, i)) continue;
    totals.gpus++;
    if (stale[i]) {
      totals.stale++;
      continue;
    }
    totals[uses[i] ?? "unknown"]++;
    for (const [column, total] of columns) {
      const value = column[i] ?? null;
      if (value === null) continue;
      total.sum += value;
      total.count++;
    }
  }
  for (const [, total] of columns) if (total.count) total.mean = total.sum / total.count;
  totals.health = healthOf(fleet, positions);
  return totals;
}

/** Numbers of GPUs by health. */
export function healthOf(fleet, positions) {
  const states = fleet.frame.fields.health_state ?? [];
  const counts = {};
  for (const i of positions) {
    if (isPartOfBoard(fleet, i)) continue;
    const state = states[i] ?? "unknown";
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

export const worstOf = (counts) =>
  Object.keys(counts).reduce((worst, state) => ((SEVERITY[state] ?? -1) > (SEVERITY[worst] ?? -1) ? state : worst), "unknown");

/** Whether a row is a MIG instance whose board has a row, too: sums would count it twice. */
function isPartOfBoard(fleet, i) {
  const { node, uuid, gpu, mig_id: mig } = fleet.gpus;
  if (!mig[i]) return false;
  if (fleet.boards?.roster !== fleet.roster) {
    const names = new Set();
    for (let at = 0; at < fleet.size; at++) if (!mig[at]) names.add(`${node[at]} ${uuid[at]} ${gpu[at]}`);
    fleet.boards = { roster: fleet.roster, names };
  }
  return fleet.boards.names.has(`${node[i]} ${uuid[i]} ${gpu[i]}`);
}
