// Letters, glyphs and order of bottlenecks and health states.

export const BOTTLENECKS = ["compute", "memory", "io", "mixed", "idle", "unknown"];
export const LETTER = { compute: "C", memory: "M", io: "I", mixed: "X", idle: "-", unknown: "?" };

/** From the worst on. */
export const HEALTH = ["crit", "hot", "warn", "info", "ok", "unknown"];
export const HEALTH_GLYPH = { crit: "x", hot: "^", warn: "!", info: "i", ok: "", unknown: "?", stale: "~" };
export const SEVERITY = { unknown: -1, ok: 0, info: 1, warn: 2, hot: 3, crit: 4 };

/** The state ok with how many checks are known, `ok 4/23`: few of them prove little. */
export const okText = (known, applicable) => (known < applicable ? `ok ${known}/${applicable}` : "ok");
