// Keeps the state of the fleet current: a summary, then one stream of columns. Without a stream it polls.
//
// A browser does not retry a stream that was answered with an error, such as 503 for too many clients: the back-off is
// this module's. Ages are measured by this browser's monotonic clock, never against the clock of the server.

import { address, getJson } from "./api.js";
import { LIVE_FIELDS, SUMMARY_FIELDS } from "./fleet_state.js";
import { StreamSlots } from "./stream_slots.js";

const BACK_OFF_MS = [1000, 30000];
const OFFLINE_MS = 4000; // most between two attempts while the daemon does not answer
const POLL_MS = 2000;
const POLL_LARGE_MS = 15000; // from LARGE GPUs on
const LARGE = 1000; // GPUs
const LARGE_RATE = 0.2; // batches per second
const REFRESH_MS = 500;
const REFRESH_LARGE_MS = 5000;
const HIDDEN_MS = 30000;
const SILENT_MS = 50000; // the server sends a comment, which scripts do not see, after 15 s; samples may be as rare
const CHANGES = ["health", "removal", "owner", "finding", "xid"];
const MAX_CLASS_CHANGES = 256; // GPUs; the classes of more change too often to be sent one by one

export class Connection extends EventTarget {
  constructor(fleet) {
    super();
    this.fleet = fleet;
    this.state = "connecting"; // live, polling, offline, signin, hidden
    this.problem = "";
    this.failures = 0;
    this.slots = new StreamSlots();
    this.stream = null;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.onVisibility());
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.restart());
    addEventListener("online", () => this.restart());
  }

  /** Whether views may send requests: the page is visible, and the daemon answered last. */
  get canAsk() {
    return !document.hidden && !this.isDown;
  }

  get isDown() {
    return this.state === "offline" || this.state === "signin";
  }

  start() {
    this.restart();
    setInterval(() => this.checkSilence(), 5000);
  }

  /** Fetches a summary, and opens a stream unless there is one. */
  async restart() {
    clearTimeout(this.timer);
    if (this.isRestarting || document.hidden) return;
    this.isRestarting = true;
    try {
      await this.fetchSummary();
      if (!this.stream && performance.now() >= (this.retryAt ?? 0)) await this.open();
    } catch (error) {
      this.close();
      this.failures++;
      this.become(error.status === 401 || error.status === 403 ? "signin" : "offline", error.message);
      this.later(Math.min(OFFLINE_MS, this.backOff()));
    } finally {
      this.isRestarting = false;
    }
    if (!this.stream && !this.isDown) {
      this.become("polling");
      this.later(this.isLarge ? POLL_LARGE_MS : POLL_MS);
    }
  }

  async fetchSummary() {
    this.fleet.load(await getJson("gpus", { view: "summary", fields: SUMMARY_FIELDS.join() }));
    if (this.isDown) this.become("connecting");
  }

  async open() {
    if (!(await this.slots.take()) || document.hidden) {
      this.retryAt = performance.now() + BACK_OFF_MS[1];
      return;
    }
    const changes = this.fleet.size > MAX_CLASS_CHANGES ? CHANGES : [...CHANGES, "workload_class"];
    const types = ["tick", ...changes].join();
    const stream = new EventSource(address("events", { format: "columns", fields: LIVE_FIELDS.join(), max_rate: this.isLarge ? LARGE_RATE : 1, types }));
    this.stream = stream;
    this.opened = performance.now();
    stream.addEventListener("open", () => {
      this.failures = 0;
      this.become("live");
    });
    stream.addEventListener("roster", ({ data }) => {
      if (JSON.parse(data).roster !== this.fleet.roster) this.refreshSoon();
    });
    stream.addEventListener("columns", ({ data }) => {
      const batch = JSON.parse(data);
      const isTurned = batch.at.some((position, i) => batch.stale[i] !== this.fleet.current.stale[position]);
      if (isTurned) this.refreshSoon(); // a source went down or came back
      if (this.fleet.apply(batch)) this.become("live");
      else this.refreshSoon();
    });
    stream.addEventListener("lag", () => this.restart());
    for (const kind of changes) {
      stream.addEventListener(kind, ({ data }) => this.onChange({ event: kind, ...JSON.parse(data) }));
    }
    stream.addEventListener("error", () => {
      if (stream !== this.stream) return;
      this.close();
      this.failures++;
      const wait = this.backOff();
      this.retryAt = performance.now() + wait;
      this.later(Math.min(wait, POLL_MS));
    });
  }

  onChange(change) {
    this.dispatchEvent(new CustomEvent("change", { detail: change }));
    if (change.event === "owner" || change.event === "removal") this.refreshSoon();
  }

  /** Fetches a new roster, owners and sources, which are in the summary. */
  refreshSoon() {
    this.summaryTimer ||= setTimeout(() => {
      this.summaryTimer = 0;
      this.restart();
    }, this.isLarge ? REFRESH_LARGE_MS : REFRESH_MS);
  }

  get isLarge() {
    return this.fleet.size >= LARGE;
  }

  onVisibility() {
    clearTimeout(this.hiddenTimer);
    if (document.hidden) {
      this.hiddenTimer = setTimeout(() => {
        this.close();
        clearTimeout(this.timer);
        this.become("hidden");
      }, HIDDEN_MS);
    } else if (!this.stream) {
      this.retryAt = 0;
      this.restart();
    }
  }

  /** A stream without events for long may be dead: the summary shows whether the server responds. */
  checkSilence() {
    if (document.hidden || this.state !== "live") return;
    if (performance.now() - Math.max(this.fleet.arrived, this.opened) > SILENT_MS) this.restart();
  }

  close() {
    this.stream?.close();
    this.stream = null;
    this.slots.release();
  }

  later(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.restart(), milliseconds);
  }

  backOff() {
    const [least, most] = BACK_OFF_MS;
    return Math.min(most, least * 2 ** Math.min(10, this.failures - 1)) * (0.5 + Math.random() / 2);
  }

  become(state, problem = "") {
    if (state === this.state && problem === this.problem) return;
    Object.assign(this, { state, problem });
    this.dispatchEvent(new Event("state"));
  }
}
