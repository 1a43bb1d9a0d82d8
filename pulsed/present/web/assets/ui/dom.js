// Elements from text only: nothing here, or elsewhere on this page, interprets a string as markup.

/** h("a", { class: "x", href: "#/" }, "text", element) */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
}

/** Writes a text if it has changed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets or removes an attribute if it has changed. */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value === true ? "" : value);
  }
}

export function setProperty(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

/** Runs a function at most once per frame, or per pause in milliseconds, however often it is requested. */
export function oncePerFrame(run, pause = () => 0) {
  let isRequested = false;
  let last = -Infinity;
  const frame = () =>
    requestAnimationFrame(() => {
      isRequested = false;
      last = performance.now();
      run();
    });
  return (isUrgent = false) => {
    const wait = isUrgent ? 0 : last + pause() - performance.now();
    if (isRequested && !isUrgent) return;
    isRequested = true;
    if (wait > 0) setTimeout(frame, wait);
    else frame();
  };
}
