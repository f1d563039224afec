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

const FOCUSABLE = "a[href], button:enabled, input:enabled, select:enabled, summary, [tabindex='0']";

/** Give an element new children; if one of the old ones had the focus, its successor at the same place gets it. */
export function renew(element, ...children) {
  const at = [...element.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  element.replaceChildren(...children);
  if (at < 0) return;
  const now = [...element.querySelectorAll(FOCUSABLE)];
  now[Math.min(at, now.length - 1)]?.focus({ preventScroll: true });
}

/** Move the focus among the pictures of a gallery with the arrow keys, Home and End; one of them is a tab stop. */
export function arrows(event) {
  const all = [...event.currentTarget.querySelectorAll("button.shot")], at = all.indexOf(document.activeElement);
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (at < 0 || next === undefined || !all[next]) return;
  event.preventDefault();
  all[at].tabIndex = -1;
  all[next].tabIndex = 0;
  all[next].focus();
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

/** Return the mean of the numbers among values, or null if there are none. */
export function average(values) {
  const known = (values ?? []).filter(value => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** Return a text cut in the middle, so that names that begin alike stay different. */
export function middle(text, most = 28) {
  return text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`;
}
