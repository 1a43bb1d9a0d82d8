// CPU and memory of the host, and pulsed's own: fetched now and then while the page is visible.

import { getJson } from "./api.js";

const INTERVAL_MS = 10000;

export class Host {
  constructor(connection) {
    this.document_ = null;
    this.pulsedShare = null; // of a core, between the last two requests
    this.connection = connection;
    this.fetch();
    setInterval(() => this.fetch(), INTERVAL_MS);
    setTimeout(() => this.fetch(), 1500); // the first one has no interval to measure the CPU over
  }

  async fetch() {
    if (!this.connection.canAsk) return;
    try {
      const before = this.document_ ? { at: this.at, cpu: this.document_.pulsed_cpu_seconds } : null;
      this.document_ = await getJson("host");
      this.at = performance.now() / 1000;
      if (before) this.pulsedShare = (this.document_.pulsed_cpu_seconds - before.cpu) / (this.at - before.at);
    } catch {
      this.document_ = null;
    }
  }
}
