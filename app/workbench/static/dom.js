// Builds elements without HTML strings, so that names from data cannot become markup.

/** Return an element with attributes (functions are listeners, false and null are left out) and children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Return an SVG element. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  element.append(...children.flat());
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** Return a number with a sign and a true minus. */
export function signed(value, digits) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? `±${text}` : `${value < 0 ? "−" : "+"}${text}`;
}

/** Return a count with its noun. */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
