// CPU and memory of the host, and pulsed's own: fetched now and then while the page is visible.

import { getJson } from "./api.js";

const INTERVAL_MS = 10000;

export class Host {
  constructor(connection) {
    this.document_ = null;
    this.connection = connection;
    this.fetch();
    setInterval(() => this.fetch(), INTERVAL_MS);
    setTimeout(() => this.fetch(), 1500); // the first one has no interval to measure the CPU over
  }

  async fetch() {
    if (document.hidden || ["offline", "signin"].includes(this.connection.state)) return;
    try {
      this.document_ = await getJson("host");
    } catch {
      this.document_ = null;
    }
  }
}
