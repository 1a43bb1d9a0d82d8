// How much history the daemon has, and the windows of time that charts offer.

import { getJson } from "./api.js";

const WINDOWS = [60, 300, 600, 1800, 3600, 21600, 86400];
const LONGEST_WINDOW = WINDOWS.at(-1);
const DEFAULT = 600;

let pending = null;

/** Returns the seconds that the daemon keeps of a fleet that is loaded. */
export function longestWindow(fleet) {
  const node = fleet.gpus.node[0];
  pending ??= getJson("history", { gpu: fleet.apiName(0), node, seconds: LONGEST_WINDOW, points: 2 }).then(
    ({ seconds }) => seconds,
    () => {
      pending = null;
      return DEFAULT;
    },
  );
  return pending;
}

/** Returns the windows that the daemon can fill; the last one is all it has. */
export const windowsUpTo = (longest) => [...WINDOWS.filter((seconds) => seconds < longest), Math.min(longest, LONGEST_WINDOW)];

/** Returns the shortest window that has a span of time, or the longest. */
export const windowFor = (seconds, longest) => windowsUpTo(longest).find((each) => each >= seconds) ?? longest;

/** Returns the chosen window: that of the hash if the daemon can fill it. */
export function chosenWindow(router, longest) {
  const windows = windowsUpTo(longest);
  const wanted = Number(router.get("s", DEFAULT));
  return windows.includes(wanted) ? wanted : windows.includes(DEFAULT) ? DEFAULT : windows.at(-1);
}
