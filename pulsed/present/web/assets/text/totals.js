// Sums over GPUs, in one pass. Stale GPUs and missing values are not in them; how many are is part of the result. MIG
// instances of a board that is among the GPUs are not counted: the board has them.

import { SEVERITY, okText } from "./states.js";

const FIELDS = { power: "power_watts", memoryUsed: "memory_used_bytes", memory: "memory_bytes" };

/** Counts by state, for each of FIELDS its `sum`, null without any value, and `count`, and `utilization`. */
export function totalsOf(fleet, positions) {
  const { fields, stale } = fleet.frame;
  const uses = fields.use ?? [];
  const totals = { gpus: 0, busy: 0, held: 0, free: 0, idle: 0, unknown: 0, stale: 0 };
  const columns = Object.entries(FIELDS).map(([name, field]) => [fields[field] ?? [], (totals[name] = { sum: null, count: 0 })]);
  const utilization = new Utilization(fields);
  const gpus = withoutParts(fleet, positions);
  for (const i of gpus) {
    totals.gpus++;
    if (stale[i]) {
      totals.stale++;
      continue;
    }
    totals[uses[i] ?? "unknown"]++;
    utilization.add(i);
    for (const [column, total] of columns) {
      const value = column[i] ?? null;
      if (value === null) continue;
      total.sum += value;
      total.count++;
    }
  }
  totals.utilization = utilization.mean();
  totals.health = countHealth(fleet, gpus);
  totals.okText = okTextOf(fleet, gpus);
  return totals;
}

/** The mean real utilization: a value if it is known of all GPUs, and bounds. A GPU without bounds can be at 0 or 1. */
class Utilization {
  constructor(fields) {
    this.values = fields.real_utilization_ratio ?? [];
    this.bounds = [fields.real_utilization_lower_ratio ?? [], fields.real_utilization_upper_ratio ?? []];
    this.gpus = this.known = this.bounded = this.sum = this.lower = this.upper = 0;
  }

  add(i) {
    const [value, lower, upper] = [this.values[i] ?? null, this.bounds[0][i] ?? null, this.bounds[1][i] ?? null];
    this.gpus++;
    this.known += value !== null;
    this.bounded += lower !== null || upper !== null;
    this.sum += value ?? 0;
    this.lower += lower ?? 0;
    this.upper += upper ?? 1;
  }

  mean() {
    const { gpus, known } = this;
    if (!known && !this.bounded) return { ratio: null, lower: null, upper: null, known };
    return { ratio: known === gpus ? this.sum / gpus : null, lower: this.lower / gpus, upper: this.upper / gpus, known };
  }
}

/** Numbers of GPUs by health, and the text of the state ok. */
export function healthOf(fleet, positions) {
  const gpus = withoutParts(fleet, positions);
  return { counts: countHealth(fleet, gpus), okText: okTextOf(fleet, gpus) };
}

/** The state ok with how many checks of a GPU in it are known, as a mean. */
function okTextOf(fleet, gpus) {
  const { health_state: states = [], known_checks: known = [], applicable_checks: applicable = [] } = fleet.frame.fields;
  const ok = gpus.filter((i) => states[i] === "ok");
  const mean = (column) => ok.reduce((sum, i) => sum + (column[i] ?? 0), 0) / ok.length;
  const [knownMean, applicableMean] = [mean(known), mean(applicable)];
  return knownMean < applicableMean ? okText(Math.floor(knownMean), Math.ceil(applicableMean)) : okText();
}

function countHealth(fleet, gpus) {
  const states = fleet.frame.fields.health_state ?? [];
  const counts = {};
  for (const i of gpus) {
    const state = states[i] ?? "unknown";
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

export const worstOf = (counts) =>
  Object.keys(counts).reduce((worst, state) => ((SEVERITY[state] ?? -1) > (SEVERITY[worst] ?? -1) ? state : worst), "unknown");

/** The rows without MIG instances of boards among them. */
function withoutParts(fleet, positions) {
  const { node, uuid, gpu, mig_id: mig } = fleet.gpus;
  const name = (i) => `${node[i]} ${uuid[i]} ${gpu[i]}`;
  const boards = new Set();
  let hasParts = false;
  for (const i of positions) {
    if (mig[i]) hasParts = true;
    else boards.add(name(i));
  }
  return hasParts ? positions.filter((i) => !mig[i] || !boards.has(name(i))) : positions;
}
