// Charts of several GPUs: a line per GPU and their mean, the spread of all as a band, or a map of GPU by time.

import { fetchPoints, MAX_GPUS, MAX_VALUES, Series } from "../core/history.js";
import { celsius, memory, percent, rate, watts } from "../text/format.js";
import { Chart, swatchOf } from "../ui/chart.js";
import { h } from "../ui/dom.js";
import { TimeMap } from "../ui/time_map.js";

const MAX_POINTS = 300;
const TAIL_POINTS = 5;
const COLOURS = 8;
export const MAX_LINES = 16; // eight colours, each with two kinds of line
export const MAX_DRAWN_GPUS = 256;

/** By name in the hash: title, field, format, range, and the field of its limit. */
export const QUANTITIES = {
  ru: ["Real utilization", "real_utilization_ratio", percent, [0, 1]],
  sm: ["SM", "sm_active_ratio", percent, [0, 1]],
  tensor: ["Tensor", "tensor_active_ratio", percent, [0, 1]],
  dram: ["DRAM", "dram_active_ratio", percent, [0, 1]],
  occ: ["Occupancy", "sm_occupancy_ratio", percent, [0, 1]],
  util: ["nvidia-smi", "gpu_utilization_ratio", percent, [0, 1]],
  gr: ["Engine", "graphics_engine_active_ratio", percent, [0, 1]],
  mem: ["Memory in use", "memory_used_bytes", memory, null, "memory_bytes"],
  power: ["Power", "power_watts", watts, null, "power_limit_watts"],
  temp: ["Temperature", "temperature_celsius", celsius, null, "max_operating_temperature_celsius"],
  rx: ["PCIe in", "pcie_receive_bytes_per_second", rate, null],
  tx: ["PCIe out", "pcie_transmit_bytes_per_second", rate, null],
  nvrx: ["NVLink in", "nvlink_receive_bytes_per_second", rate, null],
  nvtx: ["NVLink out", "nvlink_transmit_bytes_per_second", rate, null],
};

export class GpuLines {
  /** @param hasMean whether lines have the mean of all GPUs with them */
  constructor(context, { group, heading = "h2", hasMean = false }) {
    Object.assign(this, { context, group, heading, hasMean, charts: [], hidden: new Set(), positions: [], span: null, marks: [] });
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "Lines" });
    this.problem = h("p", { class: "muted", role: "status" });
    this.place = h("div", { class: "charts" });
    this.element = h("div", {}, this.legend, this.problem, this.place);
  }

  /**
   * Chooses what is shown.
   * @param mode `lines`, `spread` or `map`
   * @param span [begin, end] in Unix seconds, outside of which nothing is drawn; end null: now
   */
  show({ positions, names, mode, seconds, span = null }) {
    const { fleet } = this.context;
    this.span = span;
    const wanted = [positions.map((i) => fleet.keys[i]), names, seconds].join();
    if (wanted !== this.wanted) {
      this.wanted = wanted;
      Object.assign(this, { positions, names, seconds });
      const fields = names.map((name) => QUANTITIES[name][1]);
      this.series = positions.map(() => new Series(fields, seconds));
      this.points = Math.max(2, Math.min(MAX_POINTS, Math.floor(seconds), Math.floor(MAX_VALUES / (Math.min(MAX_GPUS, positions.length || 1) * fields.length || 1))));
      this.built = null;
    }
    const built = `${wanted} ${mode}`;
    if (built === this.built) return;
    this.built = built;
    this.mode = mode;
    this.build();
    if (this.hasData) this.draw();
    this.fetch();
  }

  get hasData() {
    return this.series?.some((each) => each.time.length);
  }

  build() {
    for (const chart of this.charts) chart.destroy();
    const lines = this.lines();
    this.charts = this.names.map((name) => {
      const [title, , format, range, limit] = QUANTITIES[name];
      const given = { title, format, range, heading: this.heading };
      if (this.mode === "map") return new TimeMap({ ...given, open: (at) => this.context.router.open("gpu", this.context.fleet.keys[this.positions[at]]) });
      const levels = limit ? [{ limit: "limit", label: "limit", colour: "muted", dash: [3, 4] }] : [];
      return new Chart({ ...given, lines: [...lines, ...levels], group: this.group, legend: false });
    });
    this.place.replaceChildren(...this.charts.map((chart) => chart.element));
    this.place.classList.toggle("maps", this.mode === "map");
    const shown = this.mode === "map" ? [] : this.mode === "spread" ? [h("span", {}, swatchOf(lines[0]), `mean of ${this.positions.length} GPUs; the band is from the lowest to the highest`)] : lines.map((line) => this.toggle(line));
    this.legend.replaceChildren(...(this.positions.length ? shown : []));
  }

  lines() {
    const { fleet } = this.context;
    const mean = { field: "mean", label: "mean", colour: "fg", width: 2.5 };
    if (this.mode === "spread") return [{ ...mean, colour: "series-1", low: "low", high: "high" }];
    const lines = this.positions.map((i, at) => ({ field: fleet.keys[i], label: this.context.fleet.labelOf(i), colour: `series-${1 + (at % COLOURS)}`, dash: at % (2 * COLOURS) >= COLOURS ? [4, 3] : undefined }));
    return this.hasMean && lines.length > 1 ? [...lines, mean] : lines;
  }

  toggle(line) {
    const button = h("button", { type: "button", "aria-pressed": String(!this.hidden.has(line.field)), class: "line-toggle" }, swatchOf(line), line.label);
    button.addEventListener("click", () => {
      if (!this.hidden.delete(line.field)) this.hidden.add(line.field);
      button.setAttribute("aria-pressed", String(!this.hidden.has(line.field)));
      this.draw();
    });
    return button;
  }

  /** Fetches all points, then the newest ones; not more often than every second point. */
  async fetch() {
    const { fleet, connection } = this.context;
    if (!this.series?.length || !this.names.length || this.isFetching || !connection.canAsk || fleet.isPaused) return;
    const { series, positions, points, seconds } = this;
    const step = seconds / points;
    const now = performance.now();
    const newest = Math.max(...series.map((each) => each.time.at(-1) ?? 0));
    const isFull = !newest || fleet.current.time - newest > TAIL_POINTS * step;
    if (!isFull && now - this.fetched < 1500 * step) return;
    this.fetched = now;
    this.isFetching = true;
    try {
      const count = isFull ? points : TAIL_POINTS;
      await this.fetchKept(positions, series, { seconds: count * step, points: count });
      this.problem.textContent = "";
      if (series === this.series && !fleet.isPaused) this.draw();
    } catch (error) {
      if (!("status" in error)) throw error;
      this.problem.textContent = `No history: ${error.message}`;
    } finally {
      this.isFetching = false;
    }
    if (series !== this.series) this.fetch();
  }

  /** Fetches points; fields that the configuration does not keep are left out, and stay empty. */
  async fetchKept(positions, series, window) {
    try {
      await fetchPoints(this.context.fleet, positions, series, window);
    } catch (error) {
      const unkept = error.status === 400 && /'(\w+)' is not kept/.exec(error.message)?.[1];
      if (!unkept || !series[0].names.includes(unkept) || series[0].names.length === 1) throw error;
      for (const each of series) each.names = each.names.filter((name) => name !== unkept);
      await this.fetchKept(positions, series, window);
    }
  }

  draw() {
    const { fleet } = this.context;
    const time = this.time();
    const keys = this.positions.map((i) => fleet.keys[i]);
    const marks = this.marks.filter((mark) => keys.includes(mark.key));
    this.charts.forEach((chart, at) => {
      const [, field, , , limit] = QUANTITIES[this.names[at]];
      const columns = this.series.map((each) => aligned(each, field, time));
      const series = { time, step: this.seconds / this.points, fields: {} };
      if (this.mode === "map") return chart.draw(series, columns, this.positions.map((i) => this.context.fleet.labelOf(i)), marks.map((mark) => ({ ...mark, row: keys.indexOf(mark.key) })));
      const shown = columns.filter((_, number) => !this.hidden.has(keys[number]));
      if (this.mode === "spread" || this.hasMean) Object.assign(series.fields, spreadOf(shown, time.length));
      if (this.hidden.has("mean")) series.fields.mean = time.map(() => null);
      if (this.mode === "lines") columns.forEach((column, number) => (series.fields[keys[number]] = this.hidden.has(keys[number]) ? time.map(() => null) : column));
      chart.draw(series, { limit: limit ? this.common(limit) : null }, marks);
    });
  }

  /** The times of all series within the span. */
  time() {
    const [begin, end] = this.span ?? [-Infinity, null];
    const step = this.seconds / this.points;
    const all = new Set(this.series.flatMap((each) => each.time));
    return [...all].filter((time) => time > begin - step && time <= (end ?? Infinity)).sort((a, b) => a - b);
  }

  /** Whether a point within the span has a value. */
  hasPoints() {
    const time = this.time();
    return this.series.some((each) => each.names.some((name) => aligned(each, name, time).some((value) => value !== null)));
  }

  /** The limit that all GPUs have; null if they differ. */
  common(field) {
    const values = this.positions.map((i) => this.context.fleet.get(field, i));
    const highest = Math.max(...values.map((value) => value ?? Infinity));
    return Number.isFinite(highest) && values.every((value) => value > 0.99 * highest) ? highest : null;
  }

  destroy() {
    for (const chart of this.charts) chart.destroy();
  }
}

/** Returns the values of a field at these times. */
function aligned(series, field, time) {
  const column = series.fields[field] ?? [];
  if (series.time.length === time.length && series.time[0] === time[0]) return column;
  const at = new Map(series.time.map((each, i) => [each, i]));
  return time.map((each) => column[at.get(each)] ?? null);
}

/** Returns the mean, the lowest and the highest of columns at each point; null without any value. */
function spreadOf(columns, length) {
  const spread = { mean: [], low: [], high: [] };
  for (let i = 0; i < length; i++) {
    const values = columns.map((column) => column[i] ?? null).filter((value) => value !== null);
    spread.mean.push(values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
    spread.low.push(values.length ? Math.min(...values) : null);
    spread.high.push(values.length ? Math.max(...values) : null);
  }
  return spread;
}
