// The filter language: `ru<.1 & class!=idle | health>=warn`. Comparisons `< <= > >= = != ~` (contains), joined by `&` (or a
// blank) and `|`, negated by `!`, in parentheses; a single word is searched for in all texts. `pulsed top` has the same
// language in present/terminal/view_state.py; the tests hold both against one table.

import { SEVERITY } from "./states.js";
import { isHeld } from "./use.js";

const NUMBERS = {
  ru: "real_utilization_ratio", lower: "real_utilization_lower_ratio", upper: "real_utilization_upper_ratio",
  util: "gpu_utilization_ratio", gr: "graphics_engine_active_ratio", sm: "sm_active_ratio", occ: "sm_occupancy_ratio",
  tensor: "tensor_active_ratio", dram: "dram_active_ratio", sat: "saturation_ratio", mem: "memory_ratio",
  power: "power_watts", temp: "temperature_celsius",
};

const TEXTS = {
  gpu: (fleet, i) => `${fleet.gpus.gpu[i] || fleet.gpus.uuid[i] || ""}${fleet.gpus.mig_id?.[i] ? `:${fleet.gpus.mig_id[i]}` : ""}`,
  node: (fleet, i) => fleet.gpus.node[i] ?? "",
  model: (fleet, i) => (fleet.gpus.model[i] ?? "").replace(/^NVIDIA /, ""),
  uuid: (fleet, i) => fleet.gpus.uuid[i] ?? "",
  class: (fleet, i) => fleet.get("workload_class", i) ?? "unknown",
  bottleneck: (fleet, i) => fleet.get("bottleneck", i) ?? "unknown",
  health: (fleet, i) => fleet.get("health_state", i) ?? "unknown",
  limit: (fleet, i) => fleet.get("limiting_resource", i) ?? "unknown",
  use: (fleet, i) => (fleet.isStale(i) ? "unknown" : fleet.get("use", i) ?? "unknown"),
  owner: (fleet, i) => (fleet.owners[i] ?? []).join(" "),
  held: (fleet, i) => (!fleet.isStale(i) && isHeld(fleet, i) ? "yes" : "no"),
  stale: (fleet, i) => (fleet.isStale(i) ? "yes" : "no"),
};
const SEARCHED = Object.entries(TEXTS).filter(([name]) => name !== "held" && name !== "stale").map(([, get]) => get);
const ALLOWED = { health: Object.keys(SEVERITY), held: ["yes", "no"], stale: ["yes", "no"] };

export const FILTER_NAMES = [...Object.keys(NUMBERS), ...Object.keys(TEXTS)];

const ORDERS = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };
const COMPARE = { ...ORDERS, "=": (a, b) => a === b, "==": (a, b) => a === b, "!=": (a, b) => a !== b, "~": null };
const TOKEN = /<=|>=|!=|==|[<>=~&|!()]|"[^"]*"|[^\s<>=~&|!()]+/g;
const NUMBER = /^(-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?)(%?)$/i;
const MAX_LENGTH = 1000;
const MAX_NESTING = 50;
const MISSING = "--";

export class FilterError extends Error {}

/** Returns a function (fleet, position) -> boolean; throws FilterError. */
export function parseFilter(text) {
  if (text.length > MAX_LENGTH) throw new FilterError(`longer than ${MAX_LENGTH} characters`);
  const tokens = text.match(TOKEN) ?? [];
  if (tokens.filter((token) => token === "!" || token === "(").length > MAX_NESTING) throw new FilterError(`more than ${MAX_NESTING} of ! and (`);
  if (!tokens.length) return () => true;
  const parser = new Parser(tokens);
  const test = parser.either();
  if (parser.rest.length) throw new FilterError(`unexpected '${parser.rest[0]}'`);
  return test;
}

let lastFilter = ""; // the newest valid one

/** Positions of the GPUs that the filter selects; while it is not valid, those of the last one that was. */
export function selected({ fleet, router }) {
  const filter = router.get("q");
  if (isValid(filter)) lastFilter = filter;
  if (!lastFilter) return fleet.all;
  const matches = parseFilter(lastFilter);
  return fleet.all.filter((i) => matches(fleet, i));
}

function isValid(filter) {
  try {
    return Boolean(parseFilter(filter));
  } catch (error) {
    if (error instanceof FilterError) return false;
    throw error;
  }
}

/** Parses by recursive descent; `rest` are the tokens that are left. */
class Parser {
  constructor(tokens) {
    this.rest = tokens;
  }

  either() {
    const tests = [this.all()];
    while (this.takes("|")) tests.push(this.all());
    return (fleet, i) => tests.some((test) => test(fleet, i));
  }

  all() {
    const tests = [this.one()];
    while (this.takes("&") || (this.rest.length && !"|)".includes(this.rest[0]))) tests.push(this.one());
    return (fleet, i) => tests.every((test) => test(fleet, i));
  }

  one() {
    if (this.takes("!")) {
      const test = this.one();
      return (fleet, i) => !test(fleet, i);
    }
    if (this.takes("(")) {
      const test = this.either();
      if (!this.takes(")")) throw new FilterError("a parenthesis is not closed");
      return test;
    }
    const name = this.word("a name");
    if (this.rest.length && Object.hasOwn(COMPARE, this.rest[0])) return comparison(name.toLowerCase(), this.rest.shift(), this.word(`a value after ${name}`));
    const wanted = name.toLowerCase();
    return (fleet, i) => SEARCHED.some((get) => get(fleet, i).toLowerCase().includes(wanted));
  }

  takes(token) {
    const isNext = this.rest[0] === token;
    if (isNext) this.rest.shift();
    return isNext;
  }

  word(what) {
    if (!this.rest.length || Object.hasOwn(COMPARE, this.rest[0]) || ["&", "|", "!", "(", ")"].includes(this.rest[0])) throw new FilterError(`${what} is missing`);
    return this.rest.shift().replace(/^"|"$/g, "");
  }
}

function comparison(name, sign, value) {
  if (Object.hasOwn(NUMBERS, name) && sign !== "~") return numberTest(name, sign, value);
  if (!Object.hasOwn(TEXTS, name)) throw new FilterError(`there is no ${name}; there are ${FILTER_NAMES.join(", ")}`);
  const [get, wanted, allowed] = [TEXTS[name], value.toLowerCase(), ALLOWED[name]];
  if (Object.hasOwn(ORDERS, sign) && name !== "health") throw new FilterError(`${name} is a text; use = != or ~`);
  if (sign !== "~" && allowed && !allowed.includes(wanted)) throw new FilterError(`${name} is one of ${allowed.join(", ")}`);
  if (Object.hasOwn(ORDERS, sign)) return (fleet, i) => ORDERS[sign](SEVERITY[get(fleet, i)], SEVERITY[wanted]);
  const isWanted = sign !== "!=";
  if (sign === "~" || name === "owner") return (fleet, i) => get(fleet, i).toLowerCase().includes(wanted) === isWanted;
  return (fleet, i) => (get(fleet, i).toLowerCase() === wanted) === isWanted;
}

function numberTest(name, sign, value) {
  if (value === MISSING && !Object.hasOwn(ORDERS, sign)) return (fleet, i) => (numberOf(fleet, i, name) === null) === (sign !== "!=");
  const found = NUMBER.exec(value);
  if (!found) throw new FilterError(`${name}: ${value} is not a number`);
  const given = Number(found[1]);
  const limit = found[2] || (NUMBERS[name].endsWith("_ratio") && given > 1) ? given / 100 : given;
  return (fleet, i) => {
    const number = numberOf(fleet, i, name);
    return number !== null && !fleet.isStale(i) && COMPARE[sign](number, limit);
  };
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
