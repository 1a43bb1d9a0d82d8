// Values as text. A missing value is `--`, never 0; a measured 0 is `0`; what rounds to 0 is `<1`.

export const MISSING = "--";
const NBSP = "\u00a0";

export const number = (value, digits = 0) =>
  value === null || value === undefined ? MISSING : value.toLocaleString("en", { maximumFractionDigits: digits });

export function percent(ratio) {
  if (ratio === null || ratio === undefined) return MISSING;
  return `${percentNumber(ratio)}${NBSP}%`;
}

export function percentNumber(ratio) {
  if (ratio === null || ratio === undefined) return MISSING;
  const value = 100 * ratio;
  return value > 0 && value < 0.5 ? "<1" : String(Math.round(value));
}

/** A ratio with bounds: the value, the range that the missing inputs leave open, or `--`. */
export function percentRange(ratio, lower, upper) {
  const isOpen = lower !== null && upper !== null && Math.round(100 * lower) < Math.round(100 * upper);
  const range = isOpen ? `${percentNumber(lower)}..${percentNumber(upper)}` : "";
  if (ratio === null) return range ? `${range}${NBSP}%` : MISSING;
  return percent(ratio) + (range ? ` (${range})` : "");
}

const SI = ["", "k", "M", "G", "T", "P"];

export function si(value, unit) {
  if (value === null || value === undefined) return MISSING;
  let step = 0;
  while (Math.abs(value) >= 1000 && step < SI.length - 1) {
    value /= 1000;
    step++;
  }
  return `${number(value, Math.abs(value) < 10 && step ? 1 : 0)}${NBSP}${SI[step]}${unit}`;
}

export const watts = (value) => (value === null ? MISSING : value >= 10000 ? si(value, "W") : `${number(value)}${NBSP}W`);
export const celsius = (value) => (value === null ? MISSING : `${number(value)}${NBSP}°C`);
export const rate = (value) => si(value, "B/s");

/** Bytes of memory, in GiB or TiB. */
export function memory(value) {
  if (value === null || value === undefined) return MISSING;
  const gib = value / 2 ** 30;
  return gib >= 10240 ? `${number(gib / 1024, 1)}${NBSP}TiB` : `${number(gib, gib < 10 ? 1 : 0)}${NBSP}GiB`;
}

export function memoryOf(used, total) {
  if (used === null && total === null) return MISSING;
  if (total === null) return `${memory(used)}/${MISSING}`;
  const [unit, digits] = total >= 10240 * 2 ** 30 ? [2 ** 40, 1] : [2 ** 30, (used ?? 0) < 10 * 2 ** 30 ? 1 : 0];
  return `${used === null ? MISSING : number(used / unit, digits)}/${memory(total)}`;
}

export const powerOf = (used, limit) =>
  limit === null ? watts(used) : `${used === null ? MISSING : number(used)}/${watts(limit)}`;

export function energy(joules) {
  if (joules === null || joules === undefined) return MISSING;
  const wh = joules / 3600;
  return wh >= 1000 ? `${number(wh / 1000, 2)}${NBSP}kWh` : `${number(wh, wh < 10 ? 1 : 0)}${NBSP}Wh`;
}

/** A time span such as `42 s`, `14 m`, `3 h 20 m`, `5 d`. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return MISSING;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}${NBSP}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}${NBSP}m`;
  if (whole < 86400) {
    const minutes = Math.floor((whole % 3600) / 60);
    return `${Math.floor(whole / 3600)}${NBSP}h${minutes ? `${NBSP}${minutes}${NBSP}m` : ""}`;
  }
  return `${Math.floor(whole / 86400)}${NBSP}d`;
}

/** A window of time in words: `10 min`, `6 h`. */
export const windowText = (seconds) => (seconds % 3600 === 0 ? `${seconds / 3600} h` : seconds % 60 === 0 ? `${seconds / 60} min` : `${Math.round(seconds)} s`);

/** Day and minute of a Unix time. */
export const moment = (time) => new Date(1000 * time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const clock = (time) =>
  new Date(1000 * time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Words of an identifier: `memory_bound` becomes `memory bound`. */
export const words = (name) => String(name ?? MISSING).replaceAll("_", " ");

/** A name of a quantity for people: without its unit. */
export const quantityName = (name) =>
  words(name.replace(/_(active_ratio|ratio|bytes_per_second|bytes|watts|celsius|hertz|total|seconds_total|joules_total)$/, ""))
    .replace(/^sm\b/, "SM").replace(/^(dram|pcie|nvlink|c2c|fp64|fp32|fp16|xid|ecc|gpu)\b/, (found) => found.toUpperCase());

/** A name of a quantity in words, also of counters of memory errors. */
export const quantityWords = (name) =>
  quantityName(name)
    .replace(/^ECC sbe (volatile|aggregate).*/, (_, kind) => `corrected memory errors, ${LIFE[kind]}`)
    .replace(/^ECC dbe (volatile|aggregate).*/, (_, kind) => `uncorrected memory errors, ${LIFE[kind]}`);
const LIFE = { volatile: "since the reset", aggregate: "lifetime" };

/** The value of a quantity, with the unit that its name ends with. */
export function quantityText(name, value) {
  if (name.endsWith("_ratio")) return percent(value);
  if (name.endsWith("_bytes_per_second")) return rate(value);
  if (name.endsWith("_bytes")) return memory(value);
  if (name.endsWith("_celsius")) return celsius(value);
  if (name.endsWith("_watts")) return watts(value);
  if (name.endsWith("_seconds") || name.endsWith("_seconds_total")) return span(value);
  return number(value, 3);
}

/** Short name of a model: without the maker. */
export const modelName = (model) => (model ? model.replace(/^NVIDIA\s+/, "") : "unknown model");

/** An owner as in `slurm_job:4711` or `pod:namespace/name/container`. */
export function ownerName(owner) {
  const [kind, ...rest] = owner.split(":");
  const id = rest.join(":");
  if (kind === "slurm_job") return `job ${id}`;
  if (kind === "pod") return id.split("/").slice(0, 2).join("/");
  return `${words(kind)} ${id}`;
}

/** View and parts of the page of an owner, such as `pod`, `[namespace, name]`. */
export function ownerPage(owner) {
  const [kind, ...rest] = owner.split(":");
  const id = rest.join(":");
  const names = id.split("/");
  return kind === "pod" && names.length > 1 ? ["pod", names.slice(0, 2)] : ["job", [id]];
}

