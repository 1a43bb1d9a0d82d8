// Compute against memory as a point, with the last minute as its tail: near the right edge memory is the limit, near the
// top compute is.

import { percent } from "../text/format.js";
import { h } from "../ui/dom.js";
import { colour } from "../ui/palette.js";

const SIZE = 190;
const EDGE = 26;
const TAIL_SECONDS = 60;

export class BalancePanel {
  constructor() {
    this.points = [];
    this.canvas = h("canvas", { role: "img", class: "balance", "aria-label": "Compute and memory: no reading" });
    this.element = h("section", { class: "panel balance-panel" }, h("h2", {}, "Balance ", h("small", { class: "muted" }, "shares of the peaks, last minute")), this.canvas);
  }

  draw(gpu) {
    const { compute, memory } = gpu.saturation;
    const time = Date.parse(gpu.time) / 1000;
    if (!gpu.stale && time !== this.points.at(-1)?.time) this.points.push({ time, compute, memory });
    this.points = this.points.filter((point) => time - point.time <= TAIL_SECONDS);
    const isKnown = compute !== null && memory !== null && !gpu.stale;
    this.canvas.setAttribute("aria-label", isKnown ? `Compute ${percent(compute)}, memory ${percent(memory)} of their peaks` : "Compute or memory has no reading");
    this.paint(isKnown);
  }

  paint(isKnown) {
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== SIZE * scale) this.canvas.width = this.canvas.height = SIZE * scale;
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, SIZE, SIZE);
    const side = SIZE - EDGE - 6;
    const x = (ratio) => EDGE + ratio * side;
    const y = (ratio) => 6 + (1 - ratio) * side;
    context.strokeStyle = colour("line");
    context.lineWidth = 1;
    for (const step of [0, 0.25, 0.5, 0.75, 1]) {
      context.strokeRect(x(0), y(1), x(step) - x(0), side);
      context.strokeRect(x(0), y(1), side, y(step) - y(1));
    }
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x(0), y(0));
    context.lineTo(x(1), y(1));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("muted");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillText("memory", EDGE + side / 2, SIZE - 6);
    context.save();
    context.translate(12, 6 + side / 2);
    context.rotate(-Math.PI / 2);
    context.fillText("compute", 0, 0);
    context.restore();
    const known = this.points.filter((point) => point.compute !== null && point.memory !== null);
    context.fillStyle = colour("fg");
    known.forEach((point, i) => {
      const isLast = isKnown && i === known.length - 1;
      context.globalAlpha = isLast ? 1 : 0.12 + (0.3 * i) / known.length;
      context.beginPath();
      context.arc(x(Math.min(1, point.memory)), y(Math.min(1, point.compute)), isLast ? 5 : 2.5, 0, 2 * Math.PI);
      context.fill();
    });
    context.globalAlpha = 1;
  }
}
