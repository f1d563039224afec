// Geometry of the map: the points under the pointer and inside a drawn line.
const CELLS = 192;

/** Return the limits of points [x0, y0, x1, y1 …]: { x, y, width, height }. */
export function limits(xy) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < xy.length; i += 2) {
    left = Math.min(left, xy[i]); right = Math.max(right, xy[i]);
    top = Math.min(top, xy[i + 1]); bottom = Math.max(bottom, xy[i + 1]);
  }
  return { x: left, y: top, width: Math.max(right - left, 1e-9), height: Math.max(bottom - top, 1e-9) };
}

/** Return a function that finds the nearest point to (x, y) within a distance, -1 if there is none. */
export function finder(xy) {
  const box = limits(xy), cell = (v, start, size) => Math.max(0, Math.min(CELLS - 1, Math.floor(CELLS * (v - start) / size)));
  const count = xy.length / 2, of = new Int32Array(count), starts = new Int32Array(CELLS * CELLS + 1), order = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    of[i] = cell(xy[2 * i + 1], box.y, box.height) * CELLS + cell(xy[2 * i], box.x, box.width);
    starts[of[i] + 1]++;
  }
  for (let c = 0; c < CELLS * CELLS; c++) starts[c + 1] += starts[c];
  const next = starts.slice();
  for (let i = 0; i < count; i++) order[next[of[i]]++] = i;

  return (x, y, distance) => {
    let best = -1, least = distance * distance;
    const rows = [cell(y - distance, box.y, box.height), cell(y + distance, box.y, box.height)];
    const columns = [cell(x - distance, box.x, box.width), cell(x + distance, box.x, box.width)];
    for (let r = rows[0]; r <= rows[1]; r++) for (let at = starts[r * CELLS + columns[0]]; at < starts[r * CELLS + columns[1] + 1]; at++) {
      const i = order[at], d = (xy[2 * i] - x) ** 2 + (xy[2 * i + 1] - y) ** 2;
      if (d <= least) { best = i; least = d; }
    }
    return best;
  };
}

/** Return the numbers of the points inside a polygon [[x, y] …], by the even-odd rule. */
export function inside(xy, polygon) {
  const box = limits(polygon.flat()), found = [];
  for (let i = 0; i < xy.length / 2; i++) {
    const x = xy[2 * i], y = xy[2 * i + 1];
    if (x < box.x || x > box.x + box.width || y < box.y || y > box.y + box.height) continue;
    let is = false;
    for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
      const [xa, ya] = polygon[a], [xb, yb] = polygon[b];
      if ((ya > y) !== (yb > y) && x < (xb - xa) * (y - ya) / (yb - ya) + xa) is = !is;
    }
    if (is) found.push(i);
  }
  return found;
}
