// Sums over GPUs. Stale and missing values are not in them; how many are is part of the result.

import { isHeld } from "./filter.js";
import { worst } from "./states.js";

export function totalsOf(fleet, positions) {
  const boards = positions.filter((i) => !isPartOfBoard(fleet, i));
  const fresh = boards.filter((i) => !fleet.isStale(i));
  const counts = { gpus: boards.length, busy: 0, held: 0, free: 0, unknown: 0, stale: boards.length - fresh.length };
  const health = {};
  for (const i of fresh) {
    const class_ = fleet.get("workload_class", i);
    if (class_ === "idle") counts[isHeld(fleet, i) ? "held" : "free"]++;
    else if (class_ === "unknown" || class_ === null) counts.unknown++;
    else counts.busy++;
  }
  for (const i of boards) {
    const state = fleet.get("health_state", i) ?? "unknown";
    health[state] = (health[state] ?? 0) + 1;
  }
  return {
    ...counts,
    health,
    worstHealth: worst(Object.keys(health)),
    ru: meanOf(fleet, fresh, "real_utilization_ratio"),
    lower: meanOf(fleet, fresh, "real_utilization_lower_ratio"),
    upper: meanOf(fleet, fresh, "real_utilization_upper_ratio"),
    power: sumOf(fleet, fresh, "power_watts"),
    memoryUsed: sumOf(fleet, fresh, "memory_used_bytes"),
    memory: sumOf(fleet, fresh, "memory_bytes"),
  };
}

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

function sumOf(fleet, positions, field) {
  const values = positions.map((i) => fleet.get(field, i)).filter((value) => value !== null);
  return { value: values.length ? values.reduce((sum, value) => sum + value, 0) : null, count: values.length };
}

function meanOf(fleet, positions, field) {
  const { value, count } = sumOf(fleet, positions, field);
  return { value: value === null ? null : value / count, count };
}
