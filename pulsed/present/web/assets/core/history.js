// The last minutes of GPUs as points of equal length: fetched once, then extended by short requests or by the stream.

import { getJson } from "./api.js";

/** Points of one GPU. `time` in Unix seconds, a column per field; null is a gap or a missing value. */
export class Series {
  constructor(fields, seconds) {
    Object.assign(this, { names: fields, seconds, step: 1, interval: 1, time: [] });
    this.fields = Object.fromEntries(fields.map((name) => [name, []])); // means, and classes
    this.low = Object.fromEntries(fields.map((name) => [name, []]));
    this.high = Object.fromEntries(fields.map((name) => [name, []]));
  }

  /** Replaces the points from the first one of a document on. */
  merge(document_, gpu) {
    this.step = document_.step_seconds;
    this.interval = gpu.interval_seconds ?? this.interval;
    const keep = this.time.findIndex((time) => time >= document_.time[0] - 1e-6);
    this.cut(keep < 0 ? this.time.length : keep);
    document_.time.forEach((time, i) => {
      this.time.push(time);
      for (const name of this.names) {
        const column = gpu.fields[name];
        this.fields[name].push((column?.mean ?? column)?.[i] ?? null);
        this.low[name].push(column?.min?.[i] ?? null);
        this.high[name].push(column?.max?.[i] ?? null);
      }
    });
    this.trim();
  }

  /** Adds a sample of the stream to its point; points in between are gaps, unless they are shorter than the interval. */
  push(time, values) {
    const point = Math.floor(time / this.step) * this.step;
    const newest = this.time.at(-1);
    if (newest !== undefined && point <= newest) return;
    const isGap = newest !== undefined && time - newest > Math.max(2.5 * this.interval, 2.5 * this.step);
    for (let at = (newest ?? point - this.step) + this.step; at <= point + 1e-6; at += this.step) {
      if (point - at > this.seconds) continue;
      this.time.push(at);
      const isEmpty = isGap && at < point - 1e-6;
      for (const name of this.names) this.fields[name].push(isEmpty ? null : (values[name] ?? null));
    }
    this.trim();
  }

  trim() {
    const oldest = (this.time.at(-1) ?? 0) - this.seconds;
    let drop = 0;
    while (this.time[drop] < oldest - 1e-6) drop++;
    if (drop) for (const column of this.columns()) column.splice(0, drop);
  }

  cut(length) {
    for (const column of this.columns()) column.length = Math.min(column.length, length);
  }

  columns() {
    return [this.time, ...[this.fields, this.low, this.high].flatMap((each) => Object.values(each))];
  }
}

export const MAX_GPUS = 64; // of one request
export const MAX_VALUES = 1e5; // GPUs x points x fields of one answer

/** Fetches points of GPUs at positions into their series, which are in the same order. */
export async function fetchPoints(fleet, positions, series, { seconds, points }) {
  const fields = series[0].names;
  for (let at = 0; at < positions.length; at += MAX_GPUS) {
    const some = positions.slice(at, at + MAX_GPUS);
    const nodes = new Set(some.map((i) => fleet.gpus.node[i]));
    const query = { gpu: some.map((i) => fleet.apiName(i)).join(), seconds, points, fields: fields.join() };
    if (nodes.size === 1) query.node = [...nodes][0];
    const document_ = await getJson("history", query);
    for (const gpu of document_.gpus) {
      const i = some.findIndex((position) => fleet.isSame(position, gpu));
      if (i >= 0) series[at + i].merge(document_, gpu);
    }
  }
}
