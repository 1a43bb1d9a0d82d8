// A cell per GPU, grouped by node, in one canvas; below it a table of what the filter selects. Nodes are in the order of rack,
// tray and slot where the source has them, else of their names. Cells are as large as the room allows.

import { celsius, watts, words } from "../text/format.js";
import { ownersText } from "../text/use.js";
import { BOTTLENECKS, HEALTH, HEALTH_GLYPH, SEVERITY } from "../text/states.js";
import { colour, heat, themeChanges } from "../ui/palette.js";
import { h, setText } from "../ui/dom.js";
import { healthTextOf, readingOf, ruText, shownHealth } from "./gpu_reading.js";
import { segmented } from "../ui/segmented.js";
import { TableView } from "./table.js";

const CELLS = [120, 96, 80, 64, 48, 40, 32, 26, 22, 18, 15, 12, 9]; // sizes, the largest first
const SWATCH = 9;
const NODE_GAP = 6;
const LINE_GAP = 4;
const LABEL = 15; // height of the name of a node
const NAMED_CELL = 18; // least size of cells with the index of the GPU, and of nodes with a name
const LETTER = 6.2; // width of a letter of a name
const TABLE_ROWS = 200;
const RING = / (warn|hot|crit)$/;
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

  /** Places of all cells with the largest size at which the map fits into the window. */
  layout(width) {
    const { fleet } = this.context;
    const room = Math.max(260, 40 * Math.round((innerHeight - this.canvas.getBoundingClientRect().top - scrollY - 90) / 40));
    const key = `${fleet.roster} ${width} ${room}`;
    if (this.places?.key === key) return this.places;
    const nodes = nodesOf(fleet);
    let places;
    for (const cell of CELLS) {
      places = this.placesOf(nodes, width, cell);
      if (places.height <= room) break;
    }
    this.places = { key, ...places };
    return this.places;
  }

  /** Places of all cells of a size: nodes side by side, each with rows of GPUs; a board with MIG instances has a row of its own. */
  placesOf(nodes, width, cell) {
    const { fleet } = this.context;
    const x = new Int32Array(fleet.size);
    const y = new Int32Array(fleet.size);
    const hasNames = cell >= NAMED_CELL;
    const head = hasNames ? LABEL : 0;
    const names = [];
    const most = Math.max(1, Math.min(16, Math.floor(width / cell)));
    let [left, top, highest] = [0, 0, 0]; // of the line of nodes
    for (const [node, cells] of nodes) {
      const rows = rowsOf(fleet.gpus, cells, most);
      const columns = Math.max(...rows.map((row) => row.length));
      const wide = hasNames ? Math.max(columns * cell, Math.min(fleet.shortNode(node).length, 24) * LETTER) : columns * cell;
      if (left && left + wide > width) {
        top += head + highest * cell + LINE_GAP;
        left = highest = 0;
      }
      if (hasNames) names.push({ node: fleet.shortNode(node), left, top, wide });
      rows.forEach((row, down) =>
        row.forEach((i, along) => {
          x[i] = left + along * cell;
          y[i] = top + head + down * cell;
        }),
      );
      highest = Math.max(highest, rows.length);
      left += wide + NODE_GAP;
    }
    return { cell, x, y, names, height: top + head + highest * cell + 2 };
  }

  /** Writes the names of the nodes. */
  drawNames(context) {
    context.fillStyle = colour("muted");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    for (const { node, left, top, wide } of this.places.names) context.fillText(node, left, top, wide);
  }

  draw() {
    const { fleet } = this.context;
    const width = this.canvas.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    const { x, y, cell: cellSize, height } = this.layout(width);
    const size = `${width}x${height}x${scale}x${cellSize}`;
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
      this.drawNames(context);
    }
    for (let i = 0; i < fleet.size; i++) {
      const cell = this.cellOf(i);
      if (this.drawn[i] === cell) continue;
      this.drawn[i] = cell;
      drawCell(context, x[i], y[i], cell, cellSize, cellSize >= NAMED_CELL ? indexOf(fleet, i) : "");
    }
    this.drawCursor(context);
    this.describe();
  }

  /** How a cell looks: its fill, then the colour of its ring if a check is raised. */
  cellOf(i) {
    const { fleet } = this.context;
    const fill = this.fillOf(i);
    const state = fleet.get("health_state", i);
    return fill && this.mode !== "health" && SEVERITY[state] >= SEVERITY.warn ? `${fill} ${state}` : fill;
  }

  /** The fill of a cell: a colour, `-` for a missing value, `~` for a stale one; empty if the filter excludes it. */
  fillOf(i) {
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
    const { x, y, cell } = this.places;
    context.strokeStyle = colour("focus");
    context.lineWidth = 2;
    context.strokeRect(x[this.cursor] - 0.5, y[this.cursor] - 0.5, cell, cell);
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
    const { x, y, cell } = this.places;
    for (let i = 0; i < x.length; i++) {
      if (left >= x[i] && left < x[i] + cell && top >= y[i] && top < y[i] + cell) return i;
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
    const { x, y, cell: size } = this.places;
    const context = this.canvas.getContext("2d");
    context.clearRect(x[cell] - 2, y[cell] - 2, size + 4, size + 4);
    this.drawNames(context);
    for (let i = 0; i < x.length; i++) {
      if (Math.abs(x[i] - x[cell]) <= size + 2 && Math.abs(y[i] - y[cell]) <= size + 2) this.drawn[i] = "dirty";
    }
  }

  textOf(i) {
    const { fleet } = this.context;
    const reading = readingOf(fleet, i);
    const power = reading.isStale ? null : fleet.get("power_watts", i);
    const parts = [
      fleet.labelOf(i), `real utilization ${ruText(reading)}`, words(reading.class_ ?? "unknown"),
      `health ${healthTextOf(reading)}`, watts(power),
      celsius(reading.isStale ? null : fleet.get("temperature_celsius", i)), ownersText(fleet, i), placeText(fleet.gpus.place[i]),
    ];
    return parts.filter(Boolean).join(", ");
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

/** Cells of a node in rows of at most `most`; a board with MIG instances has a row with them. */
function rowsOf({ uuid, gpu, mig_id: mig }, cells, most) {
  const split = new Set(cells.filter((i) => mig[i]).map((i) => `${uuid[i]} ${gpu[i]}`));
  const groups = [...Map.groupBy(cells, (i) => (split.has(`${uuid[i]} ${gpu[i]}`) ? `${uuid[i]} ${gpu[i]}` : "")).values()];
  return groups.flatMap((group) => Array.from({ length: Math.ceil(group.length / most) }, (_, at) => group.slice(at * most, (at + 1) * most)));
}

/** Returns the GPUs of each node, in the order of rack, tray, slot and name; numbers in names count. */
function nodesOf(fleet) {
  const nodes = Map.groupBy(Array(fleet.size).keys(), (i) => fleet.gpus.node[i]);
  const order = new Intl.Collator("en", { numeric: true });
  const keys = new Map([...nodes].map(([node, [first]]) => [node, [...(fleet.gpus.place[first] ?? []).slice(0, 3), node]]));
  return [...nodes].sort(([a], [b]) => {
    const [left, right] = [keys.get(a), keys.get(b)];
    if (left.length !== right.length) return right.length - left.length; // those in a rack first
    return left.map((part, at) => order.compare(part, right[at])).find((sign) => sign) ?? 0;
  });
}

const PLACE = ["chassis", "tray", "slot", "NVLink fabric"];

/** Rack and NVLink fabric of a GPU in words, as far as they are known. */
const placeText = (place) => (place ?? []).map((part, i) => part && `${PLACE[i]} ${part}`).filter(Boolean).join(", ");

/** What is written into a cell. */
const indexOf = ({ gpus }, i) => (gpus.mig_id[i] ? `:${gpus.mig_id[i]}` : gpus.gpu[i]);

function drawCell(context, x, y, shown, cell = SWATCH, text = "") {
  const state = RING.exec(shown)?.[1];
  const look = state ? shown.slice(0, -state.length - 1) : shown;
  const size = cell - 1;
  context.clearRect(x, y, cell, cell);
  if (!look) {
    context.fillStyle = colour("track");
    const dot = Math.round(cell / 4);
    context.fillRect(x + (size - dot) / 2, y + (size - dot) / 2, dot, dot);
  } else if (look === "-" || look === "~") {
    context.strokeStyle = colour("line-strong");
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    context.beginPath();
    context.moveTo(x + 1, y + size - 1);
    context.lineTo(x + size - 1, y + 1);
    if (look === "~") {
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + size - 1, y + size - 1);
    }
    context.stroke();
  } else {
    context.fillStyle = look;
    context.fillRect(x, y, size, size);
  }
  if (state) drawRing(context, x, y, state, size);
  if (look && text) drawIndex(context, x + size / 2, y + size / 2, look, text, size);
}

/** A ring in the colour of a health state, apart from the fill of the cell. */
function drawRing(context, x, y, state, size) {
  const wide = Math.max(2, Math.round(size / 9));
  context.lineWidth = wide + 2;
  context.strokeStyle = colour("bg");
  context.strokeRect(x + wide / 2 + 1, y + wide / 2 + 1, size - wide - 2, size - wide - 2);
  context.lineWidth = wide;
  context.strokeStyle = colour(state);
  context.strokeRect(x + wide / 2, y + wide / 2, size - wide, size - wide);
}

function drawIndex(context, x, y, look, text, size) {
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = look === "-" || look === "~" ? colour("fg") : isLight(look) ? "#0d1117" : "#ffffff";
  context.fillText(text, x, y + 0.5, size - 2);
  context.textAlign = "left";
}

/** Whether dark text is read better on a colour of the style sheet or of the ramp. */
function isLight(look) {
  const [red, green, blue] = look.startsWith("#") ? [1, 3, 5].map((at) => parseInt(look.slice(at, at + 2), 16)) : look.match(/\d+/g).map(Number);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 120;
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
    return [...steps, swatch("-", "no reading"), swatch("~", "stale"), ...rings()];
  }
  const names = mode === "health" ? HEALTH : BOTTLENECKS;
  const shown = names.map((name) => {
    const look = mode === "health" ? healthColour(name) : name === "unknown" ? "-" : colour(name);
    return swatch(look, `${mode === "health" ? HEALTH_GLYPH[name] : ""} ${name}`.trim());
  });
  return [...shown, swatch("~", "stale"), ...(mode === "health" ? [] : rings())];
}

const rings = () => ["warn", "hot", "crit"].map((state) => swatch(`${colour("track")} ${state}`, state, 15));

function swatch(look, text, size = SWATCH) {
  const canvas = h("canvas", { width: size, height: size, "aria-hidden": "true" });
  drawCell(canvas.getContext("2d"), 0, 0, look, size);
  return h("span", {}, canvas, text);
}
