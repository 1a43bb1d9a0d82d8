// What tiles, table and cells show of a GPU, from the columns of the fleet.

import { MISSING, percentRange, span, words } from "../text/format.js";
import { SEVERITY, okText } from "../text/states.js";
import { isHeld } from "../text/use.js";

export function readingOf(fleet, i) {
  const get = (name) => fleet.get(name, i);
  const isStale = fleet.isStale(i);
  const health = get("health_state") ?? "unknown";
  return {
    isStale,
    age: fleet.ageOf(i),
    ratio: get("real_utilization_ratio"),
    lower: get("real_utilization_lower_ratio"),
    upper: get("real_utilization_upper_ratio"),
    ghost: get("gpu_utilization_ratio"),
    class_: get("workload_class"),
    isHeld: isHeld(fleet, i),
    bottleneck: get("bottleneck") ?? "unknown",
    health,
    healthText: health === "ok" ? okText(get("known_checks"), get("applicable_checks")) : undefined,
    limit: get("limiting_resource"),
  };
}

export function ruText(reading) {
  return reading.isStale ? MISSING : percentRange(reading.ratio, reading.lower, reading.upper);
}

/** The class with the time since when; of a stale GPU the last one. */
export function classText(reading, since, now) {
  const name = words(reading.class_ ?? "unknown");
  if (reading.isStale) return `was: ${name}`;
  return since ? `${name}, ${span(now - since)}` : name;
}

/** Draws the chip of a GPU's health: of a stale GPU its age, unless a check is raised. */
export function drawHealth(chip, reading) {
  const state = shownHealth(reading);
  chip.draw(state, state === "stale" ? staleText(reading) : reading.healthText);
}

/** The health of a GPU, or `stale`. */
export const shownHealth = ({ isStale, health }) => (isStale && !(SEVERITY[health] > 0) ? "stale" : health);

/** The health of a GPU in words. */
export const healthTextOf = (reading) => (shownHealth(reading) === reading.health && reading.healthText) || shownHealth(reading);

const staleText = (reading) => `stale ${reading.age === null ? "" : span(reading.age)}`.trim();
