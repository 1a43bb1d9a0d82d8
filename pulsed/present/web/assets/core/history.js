// Samples of the last minutes of single GPUs: fetched once, then extended by short requests or by the stream.

import { getJson } from "./api.js";

/** Columns over time: `time` in Unix seconds, and one array per field. Time without a sample is a gap, not a value. */
export class Series {
  constructor(fields, seconds) {
    this.seconds = seconds;
    this.interval = 1;
    this.time = [];
    this.fields = Object.fromEntries(fields.map((name) => [name, []]));
  }

  /** Appends samples that are newer than the newest. */
  add(document_) {
    this.interval = document_.interval_seconds || this.interval;
    const newest = this.time.at(-1) ?? -Infinity;
    document_.time.forEach((time, i) => {
      if (time <= newest) return;
      this.time.push(time);
      for (const [name, column] of Object.entries(this.fields)) column.push(document_.fields[name]?.[i] ?? null);
    });
    this.trim();
  }

  push(time, values) {
    if (!time || time <= (this.time.at(-1) ?? -Infinity)) return;
    this.time.push(time);
    for (const [name, column] of Object.entries(this.fields)) column.push(values[name] ?? null);
    this.trim();
  }

  trim() {
    const oldest = (this.time.at(-1) ?? 0) - this.seconds;
    let drop = 0;
    while (this.time[drop] < oldest) drop++;
    if (!drop) return;
    this.time.splice(0, drop);
    for (const column of Object.values(this.fields)) column.splice(0, drop);
  }

  /** Time and fields with an empty entry wherever samples are missing, for charts that shall not join the ends. */
  withGaps() {
    const limit = Math.max(3, 2.5 * this.interval);
    const time = [];
    const columns = Object.fromEntries(Object.keys(this.fields).map((name) => [name, []]));
    for (let i = 0; i < this.time.length; i++) {
      if (i && this.time[i] - this.time[i - 1] > limit) {
        time.push((this.time[i] + this.time[i - 1]) / 2);
        for (const column of Object.values(columns)) column.push(null);
      }
      time.push(this.time[i]);
      for (const [name, column] of Object.entries(columns)) column.push(this.fields[name][i]);
    }
    return { time, fields: columns };
  }
}

export async function fetchHistory(fleet, position, fields, seconds) {
  const [path, query] = fleet.apiPath(position);
  return getJson(`${path}/history`, { ...query, seconds, fields: fields.join() });
}
