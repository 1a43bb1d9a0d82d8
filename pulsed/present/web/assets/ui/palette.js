// Colours for canvases, from the style sheet: one definition for both themes.

import { setting, setSetting } from "../core/settings.js";

const CIVIDIS = ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"];
const cache = new Map();
export const themeChanges = new EventTarget();

export function colour(name) {
  if (!cache.has(name)) cache.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return cache.get(name);
}

const isDark = () => document.documentElement.dataset.theme === "dark";

/** Colour of a ratio on the ramp: the larger, the further from the background. */
export function heat(ratio) {
  if (!cache.has("ramp")) cache.set("ramp", ramp(isDark() ? CIVIDIS : [...CIVIDIS].reverse()));
  return cache.get("ramp")[Math.round(63 * Math.min(1, Math.max(0, ratio)))];
}

function ramp(stops) {
  const rgb = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: 64 }, (_, i) => {
    const place = (i / 63) * (rgb.length - 1);
    const left = Math.min(rgb.length - 2, Math.floor(place));
    const mix = rgb[left].map((value, at) => Math.round(value + (rgb[left + 1][at] - value) * (place - left)));
    return `rgb(${mix.join(" ")})`;
  });
}

/** `auto` follows the system. */
export function applyTheme(theme = setting("theme", "auto")) {
  const isSystemDark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = theme === "dark" || (theme === "auto" && isSystemDark) ? "dark" : "light";
  cache.clear();
  themeChanges.dispatchEvent(new Event("change"));
}

export function nextTheme() {
  const themes = ["auto", "light", "dark"];
  const theme = themes[(themes.indexOf(setting("theme", "auto")) + 1) % themes.length];
  setSetting("theme", theme);
  applyTheme(theme);
  return theme;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme());
