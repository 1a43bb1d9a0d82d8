// Changes that charts mark: what was wrong with a GPU, and when.

import { keyOfEvent } from "../core/fleet_state.js";
import { changeText, isNews, stateOf } from "./change_text.js";
import { SEVERITY } from "./states.js";

/** Returns the marks of changes about GPUs with these keys: [{ time, state, text, key }]. */
export function marksOf(changes, keys) {
  return changes
    .filter((change) => isNews(change) && SEVERITY[stateOf(change)] > SEVERITY.info && keys.has(keyOfEvent(change)) && (change.event !== "health" || change.check))
    .map((change) => ({
      time: Date.parse(change.time) / 1000, state: stateOf(change), key: keyOfEvent(change), text: `GPU ${change.gpu} ${changeText(change)}`,
    }));
}
