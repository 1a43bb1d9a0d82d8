// Class rules, quantities with their DCGM fields, and health checks: fetched once, when a view explains something.

import { getJson } from "./api.js";

let pending = null;
let loaded = null;

export function catalog() {
  pending ??= getJson("catalog").then(
    (document_) => (loaded = document_),
    (error) => {
      pending = null;
      throw error;
    },
  );
  return pending;
}

/** Returns the tables if they are loaded, else null. */
export const loadedCatalog = () => loaded;

/** The bottleneck of a class; null until the rules are loaded. */
export function bottleneckOf(class_) {
  if (class_ === null || class_ === undefined) return null;
  if (class_ === "unknown") return "unknown";
  return loaded?.rules.find((rule) => rule.class === class_)?.bottleneck ?? null;
}
