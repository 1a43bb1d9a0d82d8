// A cell per GPU, grouped by node, in one canvas; below it a table of what the filter selects.

import { celsius, watts, words } from "../text/format.js";
import { ownersText } from "../text/use.js";
import { BOTTLENECKS, HEALTH, HEALTH_GLYPH } from "../text/states.js";
import { colour, heat, themeChanges } from "../ui/palette.js";
import { h, setText } from "../ui/dom.js";
import { readingOf, ruText, shownHealth } from "./gpu_reading.js";
import { segmented } from "../ui/segmented.js";
import { TableView } from "./table.js";

const CELL = 9;
const NODE_GAP = 5;
const LINE_GAP = 3;
const TABLE_ROWS = 200;
const MODES = ["real utilization", "bottleneck", "health"];

export class HeatmapView {
  constructor(context) {
    this.context = context;
    this.modes = segmented("Colour", MODES, (mode) => context.router.set({ c: mode === MODES[0] ? "" : mode }));
    this.canvas = h("canvas", { class: "heatmap", role: "img", tabindex: "0", "aria-describedby": "heatmap-keys" });
    this.speech = h("p", { class: "cell-text", "aria-live": "polite" });
    this.legend = h("div", { class: "legend" });
    this.table = new TableView(context, "GPUs of the filter");
    this.table.element.hidden = true;
    this.tableTitle = h("h2", { hidden: true });
    this.element = h(
      "div",
      {},
      h("div", { class: "toolbar" }, this.modes.element, this.legend),
      this.canvas,
      h("p", { id: "heatmap-keys", class: "visually-hidden" }, "Arrow keys move between cells, Enter opens the GPU. The table below lists the GPUs of the filter."),
      this.speech,
      this.tableTitle,
      this.table.element,
    );
    this.cursor = -1;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.moveTo(-1));
    this.canvas.addEventListener("click", (event) => this.open(this.cellAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(this.canvas);
    this.onTheme = () => this.redraw();
    themeChanges.addEventListener("change", this.onTheme);
  }

  update(positions, { sort }) {
    const { fleet, router } = this.context;
    this.mode = MODES.includes(router.get("c")) ? router.get("c") : MODES[0];
    this.modes.select(this.mode);
    this.positions = positions;
    this.selected = positions.length < fleet.size ? new Set(positions) : null;
    this.draw();
    const rows = this.selected || sort ? positions.slice(0, TABLE_ROWS) : [];
    setText(this.tableTitle, rows.length ? `${positions.length} GPUs${positions.length > rows.length ? `, the first ${rows.length}` : ""}` : "");
    this.table.element.hidden = this.tableTitle.hidden = !rows.length;
    if (rows.length) this.table.update(rows, { sort });
  }

  redraw() {
    this.drawn = null;
    if (this.positions) this.draw();
  }

  /** Places of all cells: nodes side by side, each with rows of GPUs; a board with MIG instances has a row of its own. */
  layout(width) {
    const { fleet } = this.context;
    const key = `${fleet.roster} ${width}`;
    if (this.places?.key === key) return this.places;
    const x = new Int32Array(fleet.size);
    const y = new Int32Array(fleet.size);
    const nodes = Map.groupBy(Array(fleet.size).keys(), (i) => fleet.gpus.node[i]);
    const most = Math.max(1, Math.min(16, Math.floor(width / CELL)));
    let [left, top, highest] = [0, 0, 0]; // of the line of nodes
    for (const cells of nodes.values()) {
      const rows = rowsOf(fleet.gpus, cells, most);
      const columns = Math.max(...rows.map((row) => row.length));
      if (left && left + columns * CELL > width) {
        top += highest * CELL + LINE_GAP;
        left = highest = 0;
      }
      rows.forEach((row, down) =>
        row.forEach((i, along) => {
          x[i] = left + along * CELL;
          y[i] = top + down * CELL;
        }),
      );
      highest = Math.max(highest, rows.length);
      left += columns * CELL + NODE_GAP;
    }
    this.places = { key, x, y, height: top + highest * CELL + 2 };
    return this.places;
  }

  draw() {
    const { fleet } = this.context;
    const width = this.canvas.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    const { x, y, height } = this.layout(width);
    const size = `${width}x${height}x${scale}`;
    if (this.size !== size) {
      this.size = size;
      this.canvas.width = width * scale;
      this.canvas.height = height * scale;
      this.canvas.style.height = `${height}px`;
      this.drawn = null;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const state = `${fleet.roster} ${this.mode} ${this.selected ? this.positions.join() : ""}`;
    if (this.state !== state || !this.drawn) {
      this.state = state;
      this.drawn = new Array(fleet.size).fill("");
      context.clearRect(0, 0, width, height);
    }
    for (let i = 0; i < fleet.size; i++) {
      const cell = this.cellOf(i);
      if (this.drawn[i] === cell) continue;
      this.drawn[i] = cell;
      drawCell(context, x[i], y[i], cell);
    }
    this.drawCursor(context);
    this.describe();
  }

  /** How a cell looks: a colour, `-` for a missing value, `~` for a stale one; empty if the filter excludes it. */
  cellOf(i) {
    const { fleet } = this.context;
    if (this.selected && !this.selected.has(i)) return "";
    if (this.mode === "health") {
      const state = shownHealth(readingOf(fleet, i));
      return state === "stale" ? "~" : healthColour(state);
    }
    if (fleet.isStale(i)) return "~";
    if (this.mode === "bottleneck") {
      const bottleneck = fleet.get("bottleneck", i) ?? "unknown";
      return bottleneck === "unknown" ? "-" : colour(bottleneck);
    }
    const ratio = fleet.get("real_utilization_ratio", i);
    return ratio === null ? "-" : heat(ratio);
  }

  drawCursor(context) {
    if (this.cursor < 0) return;
    const { x, y } = this.places;
    context.strokeStyle = colour("focus");
    context.lineWidth = 2;
    context.strokeRect(x[this.cursor] - 0.5, y[this.cursor] - 0.5, CELL, CELL);
    this.drawn[this.cursor] = "cursor";
  }

  describe() {
    const { fleet } = this.context;
    const label = `Map of ${fleet.size} GPUs by ${this.mode}`;
    if (this.canvas.getAttribute("aria-label") !== label) this.canvas.setAttribute("aria-label", label);
    const key = `${this.mode} ${document.documentElement.dataset.theme}`;
    if (this.legendKey === key) return;
    this.legendKey = key;
    this.legend.replaceChildren(...legendOf(this.mode));
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const { x, y } = this.places;
    for (let i = 0; i < x.length; i++) {
      if (left >= x[i] && left < x[i] + CELL && top >= y[i] && top < y[i] + CELL) return i;
    }
    return -1;
  }

  point(event) {
    const cell = this.cellAt(event);
    if (cell !== this.cursor) this.moveTo(cell);
  }

  onKey(event) {
    const { x, y } = this.places;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Enter") this.open(this.cursor);
    if (!(event.key in steps)) return;
    event.preventDefault();
    if (this.cursor < 0) return this.moveTo(0);
    const [dx, dy] = steps[event.key];
    this.moveTo(nearest(x, y, this.cursor, dx, dy));
  }

  moveTo(cell) {
    const before = this.cursor;
    this.cursor = cell;
    if (before >= 0) this.clearAround(before);
    this.draw();
    setText(this.speech, cell < 0 ? "" : this.textOf(cell));
  }

  /** The ring of the cursor covers the neighbours' borders. */
  clearAround(cell) {
    const { x, y } = this.places;
    const context = this.canvas.getContext("2d");
    context.clearRect(x[cell] - 2, y[cell] - 2, CELL + 4, CELL + 4);
    for (let i = 0; i < x.length; i++) {
      if (Math.abs(x[i] - x[cell]) <= CELL + 2 && Math.abs(y[i] - y[cell]) <= CELL + 2) this.drawn[i] = "dirty";
    }
  }

  textOf(i) {
    const { fleet } = this.context;
    const reading = readingOf(fleet, i);
    const power = reading.isStale ? null : fleet.get("power_watts", i);
    const parts = [
      `${fleet.gpus.node[i]} ${fleet.nameOf(i)}`, `real utilization ${ruText(reading)}`, words(reading.class_ ?? "unknown"),
      `health ${shownHealth(reading)}`, watts(power),
      celsius(reading.isStale ? null : fleet.get("temperature_celsius", i)), ownersText(fleet, i),
    ];
    return parts.join(", ");
  }

  open(cell) {
    if (cell >= 0) this.context.router.open("gpu", this.context.fleet.keys[cell]);
  }

  destroy() {
    this.resized.disconnect();
    this.table.destroy();
    themeChanges.removeEventListener("change", this.onTheme);
  }
}

/** Cells of a node in rows of at most `most`; boards with MIG instances begin a row, and their instances follow. */
function rowsOf({ uuid, gpu, mig_id: mig }, cells, most) {
  const groups = cells.some((i) => mig[i]) ? [...Map.groupBy(cells, (i) => `${uuid[i]} ${gpu[i]}`).values()] : [cells];
  return groups.flatMap((group) => Array.from({ length: Math.ceil(group.length / most) }, (_, at) => group.slice(at * most, (at + 1) * most)));
}

function drawCell(context, x, y, cell) {
  const size = CELL - 1;
  context.clearRect(x, y, CELL, CELL);
  if (!cell) {
    context.fillStyle = colour("track");
    context.fillRect(x + 3, y + 3, 2, 2);
  } else if (cell === "-" || cell === "~") {
    context.strokeStyle = colour("line-strong");
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    context.beginPath();
    context.moveTo(x + 1, y + size - 1);
    context.lineTo(x + size - 1, y + 1);
    if (cell === "~") {
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + size - 1, y + size - 1);
    }
    context.stroke();
  } else {
    context.fillStyle = cell;
    context.fillRect(x, y, size, size);
  }
}

const healthColour = (state) =>
  state === "ok" ? colour("track") : state === "unknown" || !state ? "-" : colour(state);

/** The next cell in a direction: the closest in it, or the same one at the border. */
function nearest(x, y, from, dx, dy) {
  let best = from;
  let least = Infinity;
  for (let i = 0; i < x.length; i++) {
    const along = dx ? (x[i] - x[from]) * dx : (y[i] - y[from]) * dy;
    const across = Math.abs(dx ? y[i] - y[from] : x[i] - x[from]);
    if (along <= 0 || (dx && across > 0)) continue;
    const distance = along + 4 * across;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}

function legendOf(mode) {
  if (mode === MODES[0]) {
    const steps = [0, 0.25, 0.5, 0.75, 1].map((ratio) => swatch(heat(ratio), `${100 * ratio} %`));
    return [...steps, swatch("-", "no reading"), swatch("~", "stale")];
  }
  const names = mode === "health" ? HEALTH : BOTTLENECKS;
  const shown = names.map((name) => {
    const look = mode === "health" ? healthColour(name) : name === "unknown" ? "-" : colour(name);
    return swatch(look, `${mode === "health" ? HEALTH_GLYPH[name] : ""} ${name}`.trim());
  });
  return [...shown, swatch("~", "stale")];
}

function swatch(look, text) {
  const canvas = h("canvas", { width: CELL, height: CELL, "aria-hidden": "true" });
  drawCell(canvas.getContext("2d"), 0, 0, look);
  return h("span", {}, canvas, text);
}
