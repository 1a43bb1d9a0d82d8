// The filter language: `ru<.1 & class!=idle | health>=warn`, or plain words, which match names and owners.
// A missing value matches no comparison of numbers: it is not known whether it would.

import { SEVERITY } from "./states.js";
import { isHeld, ownersText } from "./use.js";

const NUMBERS = {
  ru: "real_utilization_ratio", lower: "real_utilization_lower_ratio", upper: "real_utilization_upper_ratio",
  sat: "saturation_ratio", sm: "sm_active_ratio", tensor: "tensor_active_ratio", dram: "dram_active_ratio",
  util: "gpu_utilization_ratio", power: "power_watts", temp: "temperature_celsius",
};
const TEXTS = { class: "workload_class", bottleneck: "bottleneck", limit: "limiting_resource" };
const ROSTER = { node: "node", gpu: "gpu", uuid: "uuid", model: "model" };
const OTHERS = ["mem", "health", "owner", "stale", "held"];

export const FILTER_NAMES = [...Object.keys(NUMBERS), ...Object.keys(TEXTS), ...Object.keys(ROSTER), ...OTHERS];

const COMPARE = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "=": (a, b) => a === b, "!=": (a, b) => a !== b,
};

export class FilterError extends Error {}

/** Returns a function (fleet, position) -> boolean; throws FilterError. */
export function parseFilter(text) {
  const alternatives = text.split("|").map((part) => part.split("&").map((term) => term.trim()).filter(Boolean).map(parseTerm));
  if (alternatives.every((terms) => !terms.length)) return () => true;
  return (fleet, i) => alternatives.some((terms) => terms.length && terms.every((term) => term(fleet, i)));
}

function parseTerm(term) {
  const found = /^(\w+)\s*(<=|>=|!=|<|>|=)\s*(.*)$/.exec(term);
  if (!found) return matchesWords(term);
  const [, name, operator, operand] = found;
  if (!FILTER_NAMES.includes(name)) throw new FilterError(`"${name}" is not a field; there are ${FILTER_NAMES.join(", ")}`);
  const value = operand.trim().toLowerCase();
  if (!value) throw new FilterError(`"${term}": a value is missing`);
  if (name in NUMBERS || name === "mem") return comparesNumber(name, operator, value);
  if (name === "health") return comparesHealth(operator, value);
  if (!["=", "!="].includes(operator)) throw new FilterError(`"${term}": ${name} allows = and != only`);
  const isWanted = operator === "=";
  return (fleet, i) => hasText(fleet, i, name, value) === isWanted;
}

function matchesWords(term) {
  const text = term.toLowerCase();
  return (fleet, i) => searchText(fleet, i).includes(text);
}

function comparesNumber(name, operator, text) {
  const match = /^((?:\d+(?:\.\d+)?|\.\d+)(?:e-?\d+)?)\s*(%?)$/.exec(text);
  if (!match) throw new FilterError(`"${text}" is not a number`);
  const operand = Number(match[1]) / (match[2] ? 100 : 1);
  return (fleet, i) => {
    const value = numberOf(fleet, i, name);
    return value !== null && !fleet.isStale(i) && COMPARE[operator](value, operand);
  };
}

function comparesHealth(operator, text) {
  if (!(text in SEVERITY)) throw new FilterError(`health is one of ${Object.keys(SEVERITY).join(", ")}`);
  return (fleet, i) => COMPARE[operator](SEVERITY[fleet.get("health_state", i)] ?? -1, SEVERITY[text]);
}

function hasText(fleet, i, name, wanted) {
  if (name in ROSTER) return String(fleet.gpus[ROSTER[name]][i] ?? "").toLowerCase() === wanted;
  if (name in TEXTS) return String(fleet.get(TEXTS[name], i) ?? "unknown").toLowerCase() === wanted;
  if (name === "owner") return ownersText(fleet, i).toLowerCase().includes(wanted);
  const isTrue = name === "stale" ? fleet.isStale(i) : isHeld(fleet, i);
  return isTrue === ["1", "yes", "true"].includes(wanted);
}

/** Value that sorts and filters compare; null: missing. */
export function numberOf(fleet, i, name) {
  if (name === "mem") {
    const used = fleet.get("memory_used_bytes", i);
    const total = fleet.get("memory_bytes", i);
    return used === null || !total ? null : used / total;
  }
  return fleet.get(NUMBERS[name], i);
}

function searchText(fleet, i) {
  const { node, gpu, uuid, model } = fleet.gpus;
  const state = `${fleet.get("workload_class", i)} ${fleet.get("health_state", i)}`;
  return `gpu ${gpu[i]} ${node[i]} ${uuid[i]} ${model[i]} ${state} ${ownersText(fleet, i)}`.toLowerCase();
}
