// Orders of the fleet. Missing values are last in each.

import { numberOf } from "../text/filter.js";
import { isHeld } from "../text/use.js";
import { SEVERITY } from "../text/states.js";

export const SORTS = [
  ["", "critical first"], ["health", "worst health first"], ["held", "idle but held first"], ["ru", "real utilization"],
  ["sm", "SM"], ["tensor", "tensor"], ["dram", "DRAM"], ["util", "nvidia-smi"], ["mem", "memory"], ["power", "power"],
  ["temp", "temperature"], ["class", "class"], ["owner", "owner"],
];

/** Whether the largest comes first unless the opposite is requested. */
const FALLING = new Set(["health", "held", "ru", "sm", "tensor", "dram", "util", "mem", "power", "temp"]);

/** Without a chosen order, critical and hot GPUs stand before all others. */
export function sorted(fleet, positions, sort) {
  if (!sort) {
    const urgency = (i) => Math.max(SEVERITY.hot - 1, SEVERITY[fleet.get("health_state", i)] ?? -1);
    return [...positions].sort((a, b) => urgency(b) - urgency(a) || a - b);
  }
  const isReversed = sort.startsWith("-");
  const name = sort.replace(/^-/, "");
  const sign = FALLING.has(name) === isReversed ? 1 : -1;
  const keys = new Map(positions.map((i) => [i, keyOf(fleet, i, name)]));
  return [...positions].sort((a, b) => {
    const [left, right] = [keys.get(a), keys.get(b)];
    if (left === null || right === null) return (left === null) - (right === null) || a - b;
    return sign * (left < right ? -1 : left > right ? 1 : 0) || a - b;
  });
}

/** The direction that a header shows. */
export function direction(sort, name) {
  if (sort.replace(/^-/, "") !== name) return null;
  return FALLING.has(name) === sort.startsWith("-") ? "ascending" : "descending";
}

function keyOf(fleet, i, name) {
  if (name === "health") return SEVERITY[fleet.get("health_state", i)] ?? -1;
  if (name === "held") return isHeld(fleet, i) ? 1 : 0;
  if (name === "class") return fleet.get("workload_class", i);
  if (name === "owner") return fleet.owners[i]?.join() || null;
  return fleet.isStale(i) ? null : numberOf(fleet, i, name);
}
