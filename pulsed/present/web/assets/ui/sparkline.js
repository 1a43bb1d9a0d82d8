// A line of the last minutes with the strip of classes below it, in one canvas. Gaps stay gaps.

import { bottleneckOf } from "../core/catalog.js";
import { colour } from "./palette.js";
import { h } from "./dom.js";

const STRIP = 5;

export class Sparkline {
  constructor() {
    this.element = h("canvas", { class: "sparkline", "aria-hidden": "true" });
  }

  draw(series) {
    const { element } = this;
    const scale = devicePixelRatio || 1;
    const width = element.clientWidth;
    const height = element.clientHeight;
    if (!width) return;
    const size = [Math.round(width * scale), Math.round(height * scale)];
    if (element.width !== size[0] || element.height !== size[1]) [element.width, element.height] = size;
    const context = element.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const end = series.time.at(-1);
    if (end === undefined) return;
    const x = (time) => width * (1 - (end - time) / series.seconds);
    const bottom = height - STRIP - 3;
    const y = (ratio) => bottom - ratio * (bottom - 2) - 0.5;
    context.fillStyle = colour("line");
    context.fillRect(0, bottom, width, 1);
    drawLine(context, series, x, y, bottom);
    drawStrip(context, series, x, height - STRIP, width);
  }
}

function drawLine(context, series, x, y, bottom) {
  const ratios = series.fields.real_utilization_ratio;
  const line = new Path2D();
  const area = new Path2D();
  let start = null;
  for (let i = 0; i <= ratios.length; i++) {
    const ratio = ratios[i] ?? null;
    if (ratio === null) {
      if (start !== null) closeArea(area, x(series.time[i - 1]), start, bottom);
      start = null;
      continue;
    }
    const point = [x(series.time[i]), y(ratio)];
    if (start === null) {
      [start] = point;
      line.moveTo(...point);
      area.moveTo(start, bottom);
    } else {
      line.lineTo(...point);
    }
    area.lineTo(...point);
  }
  context.fillStyle = colour("track");
  context.fill(area);
  context.strokeStyle = colour("fg");
  context.lineWidth = 1.25;
  context.lineJoin = "round";
  context.stroke(line);
}

function closeArea(area, right, left, bottom) {
  area.lineTo(right, bottom);
  area.lineTo(left, bottom);
}

/** Draws the classes as colours of their bottlenecks; unknown is hatched, time without samples empty. */
export function drawStrip(context, series, x, top, right, height = STRIP) {
  const classes = series.fields.workload_class;
  for (let i = 0; i < classes.length; ) {
    let end = i + 1;
    while (end < classes.length && classes[end] === classes[i]) end++;
    const from = Math.max(x(series.time[0]), x(series.time[i]));
    const to = Math.min(right, x(series.time[end - 1] + series.step));
    const bottleneck = bottleneckOf(classes[i]);
    if (bottleneck === "unknown") {
      context.fillStyle = colour("unknown");
      for (let at = from; at < to; at += 3) context.fillRect(at, top, 1, height);
    } else if (bottleneck) {
      context.fillStyle = colour(bottleneck);
      context.fillRect(from, top, Math.max(1, to - from), height);
    }
    i = end;
  }
}
