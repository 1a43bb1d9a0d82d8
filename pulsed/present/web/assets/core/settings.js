// Settings of this browser: theme and keys. Without storage (private windows) they last as long as the page.

const values = new Map();

export function setting(name, fallback) {
  try {
    return localStorage.getItem(`pulsed.${name}`) ?? values.get(name) ?? fallback;
  } catch {
    return values.get(name) ?? fallback;
  }
}

export function setSetting(name, value) {
  values.set(name, value);
  try {
    localStorage.setItem(`pulsed.${name}`, value);
  } catch {
    // kept in memory
  }
}
