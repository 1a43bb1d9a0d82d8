// Whether a GPU is used and who has it, as the daemon says.

import { ownerName } from "./format.js";

/** Whether a GPU is not used while an owner or memory in use holds it. */
export function isHeld(fleet, i) {
  return fleet.get("use", i) === "held";
}

/** Its owners; `no owner` for a GPU that is in use without one. */
export function ownersText(fleet, i) {
  const owners = fleet.owners[i];
  if (owners === null || owners === undefined) return "owner unknown";
  return owners.map(ownerName).join(", ") || (fleet.get("use", i) === "free" ? "free" : "no owner");
}
