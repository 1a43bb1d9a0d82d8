// The state of all GPUs as columns, as the API sends it: one array per field, in the order of the roster.

export const LIVE_FIELDS = [
  "workload_class", "use", "bottleneck", "health_state", "real_utilization_ratio", "real_utilization_lower_ratio",
  "real_utilization_upper_ratio", "saturation_ratio", "limiting_resource", "sm_active_ratio", "tensor_active_ratio",
  "dram_active_ratio", "graphics_engine_active_ratio", "sm_occupancy_ratio", "gpu_utilization_ratio", "memory_used_bytes", "power_watts", "temperature_celsius",
];
const ALL_FIELDS = [...LIVE_FIELDS, "memory_bytes", "power_limit_watts", "max_operating_temperature_celsius"];

/** Fields of the first summary; those that rarely change are not in the stream. */
export const SUMMARY_FIELDS = ALL_FIELDS;

const MAX_KEPT_VALUES = 1.5e6; // of the frames for stepping back
const MAX_FRAMES = 600;

/** What is shown: one moment of all GPUs. */
class Frame {
  constructor(fields, sampleTime, stale, time) {
    Object.assign(this, { fields, sampleTime, stale, time });
  }

  copy() {
    const fields = Object.fromEntries(Object.entries(this.fields).map(([name, column]) => [name, column.slice()]));
    return new Frame(fields, this.sampleTime.slice(), this.stale.slice(), this.time);
  }
}

export class FleetState extends EventTarget {
  constructor() {
    super();
    this.size = 0;
    this.nodeCount = this.modelCount = 0;
    this.roster = "";
    this.node = "";
    this.domain = ""; // that the names of all nodes end with
    this.sources = [];
    this.demo = false;
    this.gpus = { node: [], gpu: [], uuid: [], mig_id: [], mig_profile: [], model: [], place: [] };
    this.owners = [];
    this.keys = [];
    this.all = []; // all positions
    this.positions = new Map();
    this.current = new Frame({}, [], [], 0);
    this.frames = [];
    this.at = null; // index of the frame that is shown while paused
    this.classSince = new Map(); // key -> Unix seconds
    this.isLoaded = false;
    this.version = 0; // of the data; increases with each batch
    this.kept = -Infinity;
    this.arrived = 0; // performance.now() of the newest data
  }

  get frame() {
    return this.at === null ? this.current : this.frames[this.at] ?? this.current;
  }

  get isPaused() {
    return this.at !== null;
  }

  /** Takes a summary: the roster, owners, sources and all fields. */
  load(summary) {
    const isNew = summary.roster !== this.roster;
    this.node = summary.node;
    this.domain = summary.domain;
    this.sources = summary.sources;
    this.demo = summary.source.demo;
    this.owners = summary.owners;
    if (isNew) {
      this.roster = summary.roster;
      this.gpus = summary.gpus;
      this.size = summary.gpus.gpu.length;
      this.nodeCount = new Set(summary.gpus.node).size;
      this.modelCount = new Set(summary.gpus.model).size;
      this.keys = summary.gpus.gpu.map((_, i) => keyOf(summary.gpus, i));
      this.positions = new Map(this.keys.map((key, i) => [key, i]));
      this.all = Array.from({ length: this.size }, (_, i) => i);
      this.frames = [];
      this.at = null;
    }
    this.current = new Frame(fieldsOf(summary), summary.sample_time, summary.stale, Date.parse(summary.time) / 1000);
    this.isLoaded = true;
    this.version++;
    this.arrived = performance.now();
    this.dispatchEvent(new CustomEvent("change", { detail: { all: true, roster: isNew } }));
  }

  /** Takes a batch of columns; returns whether its roster is the loaded one. */
  apply(batch) {
    if (batch.roster !== this.roster) return false;
    this.keep();
    this.version++;
    this.arrived = performance.now();
    const { current } = this;
    for (const [name, column] of Object.entries(fieldsOf(batch))) {
      const target = (current.fields[name] ??= new Array(this.size).fill(null));
      batch.at.forEach((position, i) => (target[position] = column[i]));
    }
    batch.at.forEach((position, i) => {
      current.sampleTime[position] = batch.sample_time[i];
      current.stale[position] = batch.stale[i];
    });
    current.time = Date.parse(batch.time) / 1000;
    if (!this.isPaused) this.dispatchEvent(new CustomEvent("change", { detail: { all: false } }));
    return true;
  }

  /** Keeps a copy of the picture for stepping back: one per second. */
  keep(always = false) {
    const now = performance.now();
    if (!always && now - this.kept < 900) return;
    this.kept = now;
    this.frames.push(this.current.copy());
    const most = Math.min(MAX_FRAMES, Math.max(2, Math.floor(MAX_KEPT_VALUES / Math.max(1, this.size * ALL_FIELDS.length))));
    while (this.frames.length > most) {
      this.frames.shift();
      if (this.at !== null) this.at = Math.max(0, this.at - 1);
    }
  }

  /** Freezes the picture, or goes on; data arrives all the time. */
  pause(isPaused) {
    if (isPaused) this.keep(true);
    this.at = isPaused ? this.frames.length - 1 : null;
    this.dispatchEvent(new CustomEvent("change", { detail: { all: true } }));
  }

  /** Shows an earlier or later moment. */
  step(count) {
    if (this.at === null) this.pause(true);
    this.at = Math.max(0, Math.min(this.frames.length - 1, this.at + count));
    this.dispatchEvent(new CustomEvent("change", { detail: { all: true } }));
  }

  /** Value of a field of a GPU; null: no reading, never 0. */
  get(field, position) {
    return this.frame.fields[field]?.[position] ?? null;
  }

  isStale(position) {
    return this.frame.stale[position] === true;
  }

  ageOf(position) {
    const time = this.frame.sampleTime[position];
    return time ? Math.max(0, this.frame.time - time) : null;
  }

  /** Positions of the GPUs with a key, UUID, `node:index` or index. */
  find(name) {
    if (this.positions.has(name)) return [this.positions.get(name)];
    const { node, gpu, uuid, mig_id: mig } = this.gpus;
    const found = [];
    for (let i = 0; i < this.size; i++) {
      const suffix = mig[i] ? `:${mig[i]}` : "";
      if ([gpu[i] + suffix, `${uuid[i]}${suffix}`, `${node[i]}:${gpu[i]}${suffix}`, `${this.shortNode(node[i])}:${gpu[i]}${suffix}`].includes(name)) found.push(i);
    }
    return found;
  }

  /** Positions of the MIG instances of the board of a GPU. */
  instancesOf(position) {
    const { node, gpu, uuid, mig_id: mig } = this.gpus;
    return [...Array(this.size).keys()].filter(
      (i) => i !== position && mig[i] && node[i] === node[position] && uuid[i] === uuid[position] && gpu[i] === gpu[position],
    );
  }

  /** Name of a GPU in the API: its UUID, unless it has characters that paths and lists do not allow. */
  apiName(position) {
    const { gpu, uuid, mig_id: mig } = this.gpus;
    const board = /^[\w.:-]+$/.test(uuid[position] ?? "") ? uuid[position] : gpu[position];
    return `${board}${mig[position] ? `:${mig[position]}` : ""}`;
  }

  /** Path and query of a GPU in the API. */
  apiPath(position) {
    return [`gpus/${encodeURIComponent(this.apiName(position))}`, { node: this.gpus.node[position] }];
  }

  /** Whether the keys of a GPU in a document are those of a position. */
  isSame(position, gpu) {
    return this.keys[position] === keyOfEvent(gpu) && this.gpus.node[position] === gpu.node;
  }

  /** Short name such as `GPU 3` or `GPU 3:7`. */
  nameOf(position) {
    const { gpu, mig_id: mig } = this.gpus;
    return `GPU ${gpu[position]}${mig[position] ? `:${mig[position]}` : ""}`;
  }

  /** The name of a node without the domain that all share. */
  shortNode(node) {
    return this.domain && node.endsWith(this.domain) ? node.slice(0, -this.domain.length) : node;
  }

  /** Name of a GPU of the fleet, or of a document: `GPU 3`, with several nodes `gpu-node-03 · 5`. */
  labelOf(position) {
    const { node, gpu, mig_id: mig } = this.gpus;
    return this.labelOfGpu({ node: node[position], gpu: gpu[position], mig_id: mig[position] });
  }

  labelOfGpu({ node, gpu, mig_id: mig }) {
    const index = `${gpu}${mig ? `:${mig}` : ""}`;
    return this.hasSeveralNodes() ? `${this.shortNode(node)} · ${index}` : `GPU ${index}`;
  }

  hasSeveralNodes() {
    return this.nodeCount > 1;
  }
}

/** The fields of a document, and how many health checks of each GPU apply and are known. */
function fieldsOf({ fields, known_checks, applicable_checks }) {
  return { ...fields, known_checks, applicable_checks };
}

/** Key of a GPU in links: its UUID, else `node:index`; with the MIG id of an instance. */
function keyOf(gpus, i) {
  const board = gpus.uuid[i] || `${gpus.node[i]}:${gpus.gpu[i]}`;
  return gpus.mig_id[i] ? `${board}:${gpus.mig_id[i]}` : board;
}

export const keyOfEvent = (event) =>
  keyOf({ uuid: [event.uuid], node: [event.node], gpu: [event.gpu], mig_id: [event.mig_id] }, 0);
