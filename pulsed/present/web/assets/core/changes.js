// The newest changes of all kinds: those that the daemon keeps, then those of the stream.

import { getJson } from "./api.js";
import { keyOfEvent } from "./fleet_state.js";

const MAX = 1000;

export class Changes extends EventTarget {
  constructor(connection, fleet) {
    super();
    this.fleet = fleet;
    this.list = []; // the newest first
    connection.addEventListener("change", ({ detail }) => this.add([detail]));
    connection.addEventListener("state", () => connection.state === "live" && this.fetch());
  }

  async fetch() {
    try {
      const { changes } = await getJson("events/recent", { limit: MAX });
      this.list = [];
      this.add(changes.reverse());
    } catch {
      // the connection shows its state; the next one fetches again
    }
  }

  /** Adds changes, the oldest first. */
  add(changes) {
    for (const change of changes) {
      this.list.unshift(change);
      if (change.event === "workload_class") {
        this.fleet.classSince.set(keyOfEvent(change), Date.parse(change.time) / 1000);
      }
    }
    if (this.list.length > MAX) this.list.length = MAX;
    this.dispatchEvent(new Event("change"));
  }
}
