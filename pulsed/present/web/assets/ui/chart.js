// A chart over time: lines, bands between two fields, and the strip of classes below. Cursors of all charts of a group move
// together. Arrow keys move the cursor of a focused chart, + and - zoom at it, Escape ends the zoom; a drag zooms, too.

import { clock, memory } from "../text/format.js";
import { h, setText } from "./dom.js";
import { colour, themeChanges } from "./palette.js";
import { drawStrip } from "./sparkline.js";

const HEIGHT = 168;
const STRIP = 6;
const KEY_STEP = 5; // points
const TIME_STEPS = [60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
const GIB_STEPS = Array.from({ length: 16 }, (_, i) => 2 ** (26 + i));

export class Chart {
  /**
   * @param lines [{ field, label, colour, dash?, limit? }]; `low` and `high` of a line may name fields of a band
   * @param range of the y axis: [0, 1], or null for one that fits
   * @param legend whether lines are named below the chart; else the lowest and the highest value stand beside the title
   */
  constructor({ title, lines, format, range = null, group, heading = "h3", legend = true }) {
    Object.assign(this, { title, lines, format, range, group, legend, series: null });
    this.values = lines.map((line) => h("b", {}));
    this.when = h("small", { class: "muted" });
    const keys = lines.map((line, i) => h("span", {}, swatchOf(line), `${line.label} `, this.values[i]));
    this.place = h("div", { class: "plot", tabindex: "0", role: "img", "aria-label": title });
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, h(heading, {}, title), this.when), this.place, legend ? h("div", { class: "legend" }, keys) : null);
    this.place.addEventListener("keydown", (event) => this.onKey(event));
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(this.place);
    this.seen = new IntersectionObserver(([entry]) => this.onSeen(entry.isIntersecting), { rootMargin: "100px" });
    this.seen.observe(this.place);
    this.onTheme = () => this.rebuild();
    themeChanges.addEventListener("change", this.onTheme);
  }

  /** Draws a series; `limit` of a line is a number that is drawn as a level, `marks` are moments: [{ time, state, text }]. */
  draw(series, limits = {}, marks = []) {
    Object.assign(this, { series, limits, marks });
    this.isDrawn = this.isInView || !this.plot;
    if (this.isDrawn) this.paint();
  }

  paint() {
    if (!this.plot) this.rebuild();
    else this.plot.setData(this.data(), !this.isZoomed);
    this.showValues();
  }

  /** Charts out of view are painted once, and again when they are seen. */
  onSeen(isInView) {
    this.isInView = isInView;
    if (!isInView || this.isDrawn || !this.series) return;
    this.isDrawn = true;
    this.paint();
  }

  data() {
    const columns = this.lines.flatMap((line) => {
      const { series } = this;
      if (line.limit) return [series.time.map(() => this.limits[line.limit] ?? null)];
      const column = series.fields[line.field] ?? [];
      if (!line.low) return [column];
      return [column, series.fields[line.high], series.fields[line.low]];
    });
    return [this.series.time, ...columns];
  }

  rebuild() {
    const width = this.place.clientWidth;
    if (!this.series || !width) return;
    this.plot?.destroy();
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const series = [{}];
    const bands = [];
    for (const line of this.lines) {
      const stroke = colour(line.colour);
      series.push({ label: line.label, stroke, width: line.width ?? 1.5, dash: line.dash, points: { show: false } });
      if (line.low) {
        bands.push({ series: [series.length, series.length + 1], fill: `${stroke}44` });
        series.push({ stroke: `${stroke}66`, width: 0.5, points: { show: false } }, { stroke: `${stroke}66`, width: 0.5, points: { show: false } });
      }
    }
    this.plot = new uPlot(
      {
        width,
        height: HEIGHT,
        padding: [8, 16, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: this.group, scales: ["x", null] }, drag: { x: true, y: false }, points: { size: 6 } },
        scales: { x: { time: true }, y: { range: this.range ? () => this.range : (_, low, high) => [0, high > 0 ? 1.08 * high : 1] } },
        axes: [
          { ...axis, gap: STRIP + 6, size: 34, values: (_, ticks) => timeLabels(ticks), incrs: TIME_STEPS },
          { ...axis, size: 58, incrs: this.format === memory ? GIB_STEPS : undefined, values: (plot, ticks) => this.labels(plot, ticks) },
        ],
        series,
        bands,
        hooks: {
          setCursor: [() => this.showValues()],
          setScale: [(plot, key) => key === "x" && this.onScale(plot)],
          drawAxes: [(plot) => this.drawStrip(plot)],
          draw: [(plot) => this.drawMarks(plot)],
        },
      },
      this.data(),
      this.place,
    );
  }

  /** Labels of the y axis; none twice, and none of a chart without any reading. */
  labels(plot, ticks) {
    const hasReading = plot.data.slice(1).some((column) => column?.some((value) => (value ?? null) !== null));
    const texts = ticks.map((tick) => this.format(tick));
    return texts.map((text, i) => (!(hasReading || this.range) || text === texts[i - 1] ? "" : text));
  }

  drawStrip(plot) {
    if (!this.series.fields.workload_class?.length) return;
    const { ctx, bbox } = plot;
    const scale = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top + bbox.height, bbox.width, 20 * scale);
    ctx.clip();
    const x = (time) => plot.valToPos(time, "x", true);
    drawStrip(ctx, this.series, x, bbox.top + bbox.height + 2 * scale, bbox.left + bbox.width, STRIP * scale);
    ctx.restore();
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const scale = devicePixelRatio || 1;
    const { min, max } = plot.scales.x;
    for (const { time, state } of this.marks) {
      if (time < min || time > max) continue;
      const x = Math.round(plot.valToPos(time, "x", true));
      ctx.fillStyle = colour(state);
      ctx.globalAlpha = 0.55;
      ctx.fillRect(x, bbox.top, scale, bbox.height);
      ctx.globalAlpha = 1;
      drawMark(ctx, x, bbox.top, 5 * scale);
    }
  }

  /** Returns the texts of the marks at a point. */
  marksAt(i) {
    const { time, step } = this.series;
    return this.marks.filter((mark) => Math.abs(mark.time - time[i]) <= 2 * step).map((mark) => mark.text).slice(0, 2);
  }

  onScale(plot) {
    const time = plot.data[0];
    const { min, max } = plot.scales.x;
    this.isZoomed = time.length > 1 && (min > time[0] + 1 || max < time.at(-1) - 1);
  }

  /** Writes the values at the cursor, else the newest. */
  showValues() {
    if (!this.series) return;
    const at = this.plot?.cursor.idx ?? null;
    const i = at ?? this.series.time.length - 1;
    const when = at === null || !this.series.time[i] ? "" : [clock(this.series.time[i]), ...this.marksAt(i)].join(", ");
    setText(this.when, this.legend ? when : `${when} ${this.span(i)}`.trim());
    const texts = this.lines.map((line) =>
      this.format(line.limit ? (this.limits[line.limit] ?? null) : (this.series.fields[line.field]?.[i] ?? null)),
    );
    texts.forEach((text, number) => setText(this.values[number], text));
    const label = `${this.title}: ${this.lines.map((line, number) => `${line.label} ${texts[number]}`).join(", ")}`;
    if (document.activeElement === this.place || !this.hasLabel) {
      this.hasLabel = true;
      this.place.setAttribute("aria-label", label);
    }
  }

  /** Returns the lowest and the highest value of all lines at a point. */
  span(i) {
    const values = this.lines.map((line) => this.series.fields[line.field]?.[i] ?? null).filter((value) => value !== null);
    if (!values.length) return "";
    const [low, high] = [this.format(Math.min(...values)), this.format(Math.max(...values))];
    return low === high ? low : `${low} to ${high}`;
  }

  onKey(event) {
    const { plot } = this;
    if (!plot) return;
    const last = this.series.time.length - 1;
    const at = plot.cursor.idx ?? last;
    const move = { ArrowLeft: -KEY_STEP, ArrowRight: KEY_STEP, Home: -Infinity, End: Infinity }[event.key];
    if (move !== undefined) this.moveCursor(Math.max(0, Math.min(last, at + move)));
    else if (event.key === "+" || event.key === "-") this.zoom(this.series.time[at], event.key === "+" ? 0.5 : 2);
    else if (event.key === "Escape" && this.isZoomed) plot.setData(plot.data);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  moveCursor(i) {
    const left = this.plot.valToPos(this.series.time[i], "x");
    this.plot.setCursor({ left, top: HEIGHT / 3 }, true, true);
  }

  zoom(time, factor) {
    const { min, max } = this.plot.scales.x;
    const half = ((max - min) * factor) / 2;
    const [first, end] = [this.series.time[0], this.series.time.at(-1)];
    this.plot.setScale("x", { min: Math.max(first, time - half), max: Math.min(end, time + half) });
  }

  fit() {
    if (!this.plot) return this.rebuild();
    const width = this.place.clientWidth;
    if (width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  destroy() {
    this.resized.disconnect();
    this.seen.disconnect();
    themeChanges.removeEventListener("change", this.onTheme);
    this.plot?.destroy();
  }
}

/** Labels of times: of midnight and of whole days the day. */
function timeLabels(ticks) {
  return ticks.map((tick) => {
    const date = new Date(1000 * tick);
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
    return isMidnight ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : clock(tick).slice(0, 5);
  });
}

/** Draws the triangle of a mark, with its point at the bottom. */
export function drawMark(context, x, top, size) {
  context.beginPath();
  context.moveTo(x - size, top);
  context.lineTo(x + size, top);
  context.lineTo(x, top + 1.6 * size);
  context.fill();
}

export function swatchOf(line) {
  const mark = h("i", { class: line.dash ? "line-mark dashed" : "line-mark", "aria-hidden": "true" });
  mark.style.setProperty("--colour", `var(--${line.colour})`);
  return mark;
}
