// Charts with a line per GPU of the filter. The legend is shared, and turns lines off.

import { fetchPoints, Series } from "../core/history.js";
import { celsius, memory, percent, rate, watts } from "../text/format.js";
import { Chart, swatchOf } from "../ui/chart.js";
import { h } from "../ui/dom.js";
import { selected } from "./fleet.js";
import { sorted } from "./fleet_order.js";

const SECONDS = 600;
const POINTS = 300;
const TAIL_POINTS = 5;
const INTERVAL_MS = 2000;
const MAX_LINES = 16; // eight colours, each with two kinds of line
const COLOURS = 8;

const CHARTS = [
  ["Real utilization", "real_utilization_ratio", percent, [0, 1]], ["nvidia-smi", "gpu_utilization_ratio", percent, [0, 1]],
  ["Engine", "graphics_engine_active_ratio", percent, [0, 1]], ["SM", "sm_active_ratio", percent, [0, 1]],
  ["Tensor", "tensor_active_ratio", percent, [0, 1]], ["DRAM", "dram_active_ratio", percent, [0, 1]],
  ["Occupancy", "sm_occupancy_ratio", percent, [0, 1]], ["Memory in use", "memory_used_bytes", memory, null],
  ["PCIe in", "pcie_receive_bytes_per_second", rate, null], ["NVLink in", "nvlink_receive_bytes_per_second", rate, null],
  ["Power", "power_watts", watts, null], ["Temperature", "temperature_celsius", celsius, null],
];
const FIELDS = CHARTS.map(([, field]) => field);

export class PlotView {
  constructor(context) {
    this.context = context;
    this.charts = [];
    this.hidden = new Set();
    this.legend = h("div", { class: "legend", role: "group", "aria-label": "Lines" });
    this.note = h("p", { class: "muted", role: "status" });
    this.place = h("div", { class: "charts" });
    this.element = h("section", {}, h("div", { class: "toolbar" }, h("h1", {}, "Last 10 minutes"), this.legend), this.note, this.place);
    this.timer = setInterval(() => this.fetch(), INTERVAL_MS);
  }

  update() {
    const { fleet, router } = this.context;
    if (!fleet.isLoaded) return;
    const chosen = sorted(fleet, selected(this.context), router.get("sort"));
    const positions = chosen.slice(0, MAX_LINES);
    const key = positions.map((i) => fleet.keys[i]).join();
    if (key === this.key) return;
    this.key = key;
    this.positions = positions;
    this.series = positions.map(() => new Series(FIELDS, SECONDS));
    this.note.textContent = chosen.length > MAX_LINES ? `The first ${MAX_LINES} of ${chosen.length} GPUs: filter or sort to choose others.` : chosen.length ? "" : "No GPU matches the filter.";
    this.build();
    this.fetch();
  }

  build() {
    const { fleet } = this.context;
    for (const chart of this.charts) chart.destroy();
    const several = fleet.hasSeveralNodes();
    const lines = this.positions.map((i, at) => ({
      field: fleet.keys[i], label: `${several ? `${fleet.gpus.node[i]} ` : ""}${fleet.nameOf(i)}`,
      colour: `series-${1 + (at % COLOURS)}`, dash: at >= COLOURS ? [4, 3] : undefined,
    }));
    this.charts = CHARTS.map(([title, , format, range]) => new Chart({ title, lines, format, range, group: "plot", heading: "h2", legend: false }));
    this.place.replaceChildren(...this.charts.map((chart) => chart.element));
    this.legend.replaceChildren(...lines.map((line) => this.toggle(line)));
  }

  toggle(line) {
    const button = h("button", { type: "button", "aria-pressed": "true", class: "line-toggle" }, swatchOf(line), line.label);
    button.addEventListener("click", () => {
      if (!this.hidden.delete(line.field)) this.hidden.add(line.field);
      button.setAttribute("aria-pressed", String(!this.hidden.has(line.field)));
      this.draw();
    });
    return button;
  }

  async fetch() {
    const { fleet, connection } = this.context;
    if (!this.series?.length || this.isFetching || !connection.canAsk || fleet.isPaused) return;
    this.isFetching = true;
    const { series, positions } = this;
    const step = SECONDS / POINTS;
    const newest = series[0].time.at(-1);
    const isFull = newest === undefined || fleet.current.time - newest > TAIL_POINTS * step;
    const points = isFull ? POINTS : TAIL_POINTS;
    try {
      await fetchPoints(fleet, positions, series, { seconds: points * step, points });
      if (series === this.series) this.draw();
    } catch (error) {
      if (!("status" in error)) throw error;
      this.note.textContent = `No history: ${error.message}`;
    } finally {
      this.isFetching = false;
    }
  }

  draw() {
    const { fleet } = this.context;
    const time = this.series[0].time;
    this.charts.forEach((chart, at) => {
      const columns = this.positions.map((i, number) => {
        const key = fleet.keys[i];
        return [key, this.hidden.has(key) ? time.map(() => null) : this.series[number].fields[FIELDS[at]]];
      });
      chart.draw({ time, step: SECONDS / POINTS, fields: Object.fromEntries(columns) });
    });
  }

  destroy() {
    clearInterval(this.timer);
    for (const chart of this.charts) chart.destroy();
  }
}
