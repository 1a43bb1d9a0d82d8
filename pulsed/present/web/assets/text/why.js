// Why a GPU has its class: the rules in their order, each with the values that decide. The rules come from the daemon,
// with the thresholds in force.

import { loadedCatalog } from "../core/catalog.js";

/** The bottleneck of a class; null until the rules are loaded. */
export function bottleneckOf(class_) {
  if (class_ === null || class_ === undefined) return null;
  if (class_ === "unknown") return "unknown";
  return loadedCatalog()?.rules.find((rule) => rule.class === class_)?.bottleneck ?? null;
}

/**
 * Evaluates the rules for the document of a GPU: up to the one that matches, or all that are possible.
 * Each has `state` (true, false or null: open) and its conditions with `value`, `low`, `high` and `state`.
 * The daemon's bounds are narrower than those of the page: its class settles a rule that is open here.
 */
export function explain(gpu, catalog) {
  const found = [];
  const { raw_class: settled } = gpu.workload;
  for (const rule of catalog.rules) {
    const conditions = rule.conditions.map(([variable, comparison, threshold]) => {
      const bounds = boundsOf(variable, gpu, catalog);
      const hasC2c = quantitiesOf(variable, gpu, catalog).some((name) => name.startsWith("c2c_"));
      return { variable, comparison, threshold, hasC2c, ...bounds, state: holds(bounds, comparison, threshold) };
    });
    const state = conditions.some((each) => each.state === false) ? false : conditions.every((each) => each.state) ? true : null;
    found.push({ ...rule, conditions, state });
    if (state === true || (state === null && rule.class === settled)) break;
  }
  return found;
}

/** Inputs without a reading that leave a possible rule open: with them the class would be known. */
export function decisiveInputs(rules, gpu, catalog) {
  const names = new Set();
  for (const rule of rules.filter((each) => each.state === null)) {
    for (const condition of rule.conditions.filter((each) => each.state === null)) {
      const quantities =
        condition.variable === "real_utilization" ? gpu.real_utilization.missing_inputs : quantitiesOf(condition.variable, gpu, catalog);
      for (const name of quantities) if ((gpu.metrics[name] ?? null) === null) names.add(name);
    }
  }
  return [...names];
}

function boundsOf(variable, gpu, catalog) {
  if (variable === "real_utilization") {
    const { ratio, lower, upper } = gpu.real_utilization;
    return { value: upper - lower < 1e-9 ? (ratio ?? lower) : null, low: lower, high: upper };
  }
  if (variable === "io") return trafficOf(quantitiesOf(variable, gpu, catalog), gpu);
  const value = gpu.metrics[catalog.variables[variable][0]] ?? null;
  return value === null ? { value, low: 0, high: ceilingOf(variable, gpu) } : { value, low: value, high: value };
}

/** The quantities that determine a variable; those of the link between chips exist on superchips alone. */
export function quantitiesOf(variable, gpu, catalog) {
  const hasC2c = gpu.saturation.missing.includes("c2c");
  return catalog.variables[variable].filter((name) => hasC2c || !name.startsWith("c2c_") || (gpu.metrics[name] ?? null) !== null);
}

/** The largest direction of PCIe and C2C; the instances of a GPU have none of their own. */
function trafficOf(quantities, gpu) {
  if (gpu.mig) return { value: 0, low: 0, high: 0 };
  const values = quantities.map((name) => gpu.metrics[name] ?? null);
  const low = Math.max(0, ...values);
  const isOpen = values.includes(null);
  return { value: isOpen ? null : low, low, high: isOpen ? Infinity : low };
}

/** A pipe is not busier than the SMs, and these not busier than the engine. */
function ceilingOf(variable, gpu) {
  const { sm_active_ratio: sm, graphics_engine_active_ratio: engine } = gpu.metrics;
  const above = { tensor: [sm, engine], fp64: [sm, engine], sm: [engine] }[variable] ?? [];
  return Math.min(1, ...above.filter((value) => (value ?? null) !== null));
}

function holds({ low, high }, comparison, threshold) {
  if (comparison === "<") return high < threshold ? true : low >= threshold ? false : null;
  return low >= threshold ? true : high < threshold ? false : null;
}
