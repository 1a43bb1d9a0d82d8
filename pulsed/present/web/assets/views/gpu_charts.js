// The charts of a GPU: the last minutes, with synchronised cursors and the strip of classes below each.

import { fetchPoints, Series } from "../core/history.js";
import { celsius, memory, percent, rate, watts } from "../text/format.js";
import { marksOf } from "../text/event_marks.js";
import { Chart } from "../ui/chart.js";
import { h } from "../ui/dom.js";
import { WindowSelect } from "../ui/window_select.js";

const MAX_POINTS = 300;
const TAIL_POINTS = 8; // of each short request

const CHARTS = [
  {
    title: "Real utilization", range: [0, 1], format: percent,
    lines: [
      { field: "real_utilization_ratio", low: "real_utilization_lower_ratio", high: "real_utilization_upper_ratio", label: "real", colour: "series-3" },
      { field: "gpu_utilization_ratio", label: "nvidia-smi", colour: "muted", dash: [3, 4] },
    ],
  },
  {
    title: "Pipes and memory bandwidth", range: [0, 1], format: percent,
    lines: [
      { field: "sm_active_ratio", label: "SM", colour: "series-1" }, { field: "tensor_active_ratio", label: "tensor", colour: "series-3" },
      { field: "dram_active_ratio", label: "DRAM", colour: "series-4" }, { field: "fp64_active_ratio", label: "FP64", colour: "series-2" },
      { field: "fp32_active_ratio", label: "FP32", colour: "series-5" }, { field: "fp16_active_ratio", label: "FP16", colour: "series-6" },
    ],
  },
  {
    title: "Power", format: watts,
    lines: [{ field: "power_watts", label: "power", colour: "series-2" }, { limit: "power_limit_watts", label: "limit", colour: "muted", dash: [3, 4] }],
  },
  {
    title: "Temperature", format: celsius,
    lines: [
      { field: "temperature_celsius", label: "die", colour: "series-2" }, { field: "memory_temperature_celsius", label: "memory", colour: "series-4" },
      { limit: "max_operating_temperature_celsius", label: "highest for normal operation", colour: "muted", dash: [3, 4] },
    ],
  },
  {
    title: "Memory in use", format: memory,
    lines: [{ field: "memory_used_bytes", label: "used", colour: "series-4" }, { limit: "memory_bytes", label: "size", colour: "muted", dash: [3, 4] }],
  },
  {
    title: "PCIe and NVLink", format: rate,
    lines: [
      { field: "pcie_receive_bytes_per_second", label: "PCIe in", colour: "series-1" }, { field: "pcie_transmit_bytes_per_second", label: "PCIe out", colour: "series-6" },
      { field: "nvlink_receive_bytes_per_second", label: "NVLink in", colour: "series-3" }, { field: "nvlink_transmit_bytes_per_second", label: "NVLink out", colour: "series-5" },
    ],
  },
  { title: "SM clock", format: (value) => (value === null ? "--" : `${Math.round(value / 1e6)}\u00a0MHz`), lines: [{ field: "sm_clock_hertz", label: "SM clock", colour: "series-1" }, { limit: "sm_clock_max_hertz", label: "highest", colour: "muted", dash: [3, 4] }] },
  { title: "Occupancy", range: [0, 1], format: percent, lines: [{ field: "sm_occupancy_ratio", label: "occupancy", colour: "series-5" }, { field: "graphics_engine_active_ratio", label: "engine", colour: "series-1" }] },
];
const FIELDS = [...new Set(["workload_class", ...CHARTS.flatMap(({ lines }) => lines.flatMap(({ field, low, high }) => [field, low, high]))])].filter(Boolean);

export class GpuCharts {
  constructor(context, key) {
    Object.assign(this, { context, key });
    this.charts = CHARTS.map((chart) => new Chart({ ...chart, group: `gpu ${key}` }));
    this.window = new WindowSelect(context, () => {
      const { gpus, positions } = context.fleet;
      const position = positions.get(key);
      return { node: gpus.node[position], gpu: gpus.gpu[position] };
    });
    this.problem = h("p", { class: "muted", role: "status" });
    this.element = h("section", { class: "charts-section" }, h("div", { class: "toolbar" }, h("h2", {}, "History"), this.window.element, this.problem), h("div", { class: "charts" }, this.charts.map((chart) => chart.element)));
  }

  /** Fetches new points and draws; `gpu` is the document of the GPU. */
  async update(gpu) {
    const { fleet, changes } = this.context;
    await this.window.update();
    const { seconds } = this.window;
    if (seconds !== this.series?.seconds) this.series = new Series(FIELDS, seconds);
    const { series } = this;
    const step = seconds / Math.min(MAX_POINTS, seconds);
    const now = performance.now();
    if (series.time.length && now - this.fetched < 1500 * step) return; // every second point is soon enough
    this.fetched = now;
    const isNew = !series.time.length || gpu.time_seconds - series.time.at(-1) > TAIL_POINTS * step;
    const points = isNew ? seconds / step : TAIL_POINTS;
    try {
      await this.fetch(fleet.positions.get(this.key), series, points * step, points);
      this.problem.textContent = "";
    } catch (error) {
      this.problem.textContent = `No history: ${error.message}`;
      return;
    }
    if (series !== this.series || fleet.isPaused) return;
    const marks = marksOf(changes.list, new Set([this.key]));
    for (const chart of this.charts) chart.draw(series, gpu.metrics, marks);
  }

  /** Fetches points; fields that the configuration does not keep are left out, and stay empty. */
  async fetch(position, series, seconds, points) {
    try {
      await fetchPoints(this.context.fleet, [position], [series], { seconds, points });
    } catch (error) {
      const unkept = error.status === 400 && /'(\w+)' is not kept/.exec(error.message)?.[1];
      if (!unkept || !series.names.includes(unkept)) throw error;
      series.names = series.names.filter((name) => name !== unkept);
      await this.fetch(position, series, seconds, points);
    }
  }

  destroy() {
    for (const chart of this.charts) chart.destroy();
  }
}
