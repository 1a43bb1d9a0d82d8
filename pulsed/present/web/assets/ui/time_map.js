// A row per GPU and a column per point of time, in one canvas: the larger the value, the further from the background.

import { clock } from "../text/format.js";
import { drawMark } from "./chart.js";
import { h, setText } from "./dom.js";
import { colour, heat, themeChanges } from "./palette.js";

const AXIS = 18;
const MAX_HEIGHT = 420;
const LABEL_ROW = 11; // pixels of a row that has a label
const LABELS = 96;

export class TimeMap {
  constructor({ title, format, range, heading = "h2", open }) {
    Object.assign(this, { title, format, range, open, rows: 0, cursor: null });
    this.said = h("small", { class: "muted" });
    this.canvas = h("canvas", { class: "time-map", role: "img", tabindex: "0", "aria-label": title });
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, h(heading, {}, title), this.said), this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.moveTo(null));
    this.canvas.addEventListener("click", () => this.cursor && this.open(this.cursor[0]));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.resized = new ResizeObserver(() => this.paint());
    this.resized.observe(this.element);
    this.onTheme = () => this.paint();
    themeChanges.addEventListener("change", this.onTheme);
  }

  /** Draws a column of values per GPU; `marks` have a time, a row and a state. */
  draw(series, columns, names, marks) {
    Object.assign(this, { time: series.time, step: series.step, columns, names, marks });
    this.paint();
  }

  /** The place of the cells. */
  shape() {
    const width = this.element.clientWidth - 26;
    const row = Math.max(2, Math.min(22, Math.floor(MAX_HEIGHT / Math.max(1, this.columns.length))));
    const left = width > 420 ? LABELS : 0;
    return { width, row, left, height: row * this.columns.length + AXIS, cell: (width - left) / Math.max(1, this.time.length) };
  }

  paint() {
    if (!this.columns || this.element.clientWidth < 60) return;
    const { width, row, left, height, cell } = this.shape();
    const scale = devicePixelRatio || 1;
    const { canvas } = this;
    const size = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.highest = this.range?.[1] ?? Math.max(...this.columns.flat().map((value) => value ?? 0), 1e-9);
    this.columns.forEach((column, at) => this.paintRow(context, column, left, at * row, cell, row));
    this.paintAxes(context, { width, row, left, height, cell });
    context.fillStyle = colour("fg");
    for (const { time, row: at, state } of this.marks) {
      context.fillStyle = colour(state);
      if (time >= this.time[0]) drawMark(context, left + cell * ((time - this.time[0]) / this.step), at * row, Math.max(3, row / 4));
    }
    if (this.cursor) {
      context.strokeStyle = colour("focus");
      context.lineWidth = 2;
      context.strokeRect(left + this.cursor[1] * cell, this.cursor[0] * row, Math.max(2, cell), row);
    }
    this.speak();
  }

  paintRow(context, column, left, top, cell, row) {
    const height = row > 4 ? row - 1 : row;
    column.forEach((value, i) => {
      if (value === null || value === undefined) return;
      context.fillStyle = heat(value / this.highest);
      context.fillRect(left + i * cell, top, Math.ceil(cell), height);
    });
  }

  paintAxes(context, { width, row, left, height, cell }) {
    context.fillStyle = colour("muted");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const every = Math.ceil(LABEL_ROW / row);
    if (left) this.names.forEach((name, at) => at % every === 0 && context.fillText(name, 0, (at + 0.5) * row + (row < LABEL_ROW ? 4 : 0), left - 6));
    const count = Math.max(2, Math.floor((width - left) / 110));
    for (let i = 0; i < count && this.time.length; i++) {
      const at = Math.floor((i * (this.time.length - 1)) / (count - 1));
      const text = clock(this.time[at]).slice(0, 5);
      const x = left + at * cell;
      context.fillText(text, Math.min(x, width - context.measureText(text).width), height - AXIS / 2 + 2);
    }
  }

  /** Writes the value at the cursor, else the scale. */
  speak() {
    const missing = this.columns.every((column) => column.every((value) => (value ?? null) === null));
    let text = missing ? "no reading" : `dark to bright: 0 to ${this.format(this.highest)}`;
    if (document.documentElement.dataset.theme !== "dark" && !missing) text = `bright to dark: 0 to ${this.format(this.highest)}`;
    if (this.cursor) {
      const [at, i] = this.cursor;
      const mark = this.marks.find((each) => each.row === at && Math.abs(each.time - this.time[i]) <= 2 * this.step);
      text = [`${this.names[at]}, ${clock(this.time[i])}: ${this.format(this.columns[at][i] ?? null)}`, mark?.text].filter(Boolean).join(", ");
      this.canvas.setAttribute("aria-label", `${this.title}: ${text}`);
    } else {
      this.canvas.setAttribute("aria-label", `${this.title} of ${this.names.length} GPUs over time; ${text}. Arrow keys move between cells, Enter opens the GPU.`);
    }
    setText(this.said, text);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const { left, row, cell } = this.shape();
    const [at, i] = [Math.floor((event.clientY - box.top) / row), Math.floor((event.clientX - box.left - left) / cell)];
    this.moveTo(at >= 0 && at < this.columns.length && i >= 0 && i < this.time.length ? [at, i] : null);
  }

  onKey(event) {
    const steps = { ArrowLeft: [0, -5], ArrowRight: [0, 5], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key === "Enter" && this.cursor) return this.open(this.cursor[0]);
    if (!(event.key in steps) || !this.columns?.length || !this.time.length) return;
    event.preventDefault();
    const within = (value, end) => Math.max(0, Math.min(end - 1, value));
    const [at, i] = this.cursor ?? [0, this.time.length - 1];
    const [down, along] = this.cursor ? steps[event.key] : [0, 0];
    this.moveTo([within(at + down, this.columns.length), within(i + along, this.time.length)]);
  }

  moveTo(cursor) {
    if (String(cursor) === String(this.cursor)) return;
    this.cursor = cursor;
    if (this.columns) this.paint();
  }

  destroy() {
    this.resized.disconnect();
    themeChanges.removeEventListener("change", this.onTheme);
  }
}
