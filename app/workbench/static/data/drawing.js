// Drawing the points of the map: circles, or single pixels when there are too many of them.
const FAINT = 0.06, BEHIND = 0.15, CIRCLE = 0.8, PIXEL = 0.7;

/**
 * Draw points as circles, those of one kind after the other.
 * @param points  { xy, toX, toY, kind, kinds: [{ colour, big }], only: kind that stands out or -1, chosen: Set or null }
 */
export function drawCircles(pen, { xy, toX, toY, kind, kinds, only, chosen }) {
  const count = xy.length / 2, radius = count > 4000 ? 2 : 2.8, parts = kinds.map(() => []);
  for (let i = 0; i < count; i++) if (kind[i] >= 0) parts[kind[i]].push(i);
  parts.forEach((rows, number) => {
    const { colour, big } = kinds[number], r = radius * (big ? 1.5 : 1);
    pen.fillStyle = colour;
    pen.globalAlpha = only >= 0 && only !== number ? FAINT : chosen ? BEHIND : CIRCLE;
    dots(rows, r);
    if (!chosen) return;
    pen.globalAlpha = 1;
    dots(rows.filter(row => chosen.has(row)), r * 1.2);
  });

  function dots(rows, r) {
    pen.beginPath();
    for (const i of rows) { const x = toX(xy[2 * i]), y = toY(xy[2 * i + 1]); pen.moveTo(x + r, y); pen.arc(x, y, r, 0, 7); }
    pen.fill();
  }
}

/** Draw points as squares of two pixels by writing the image itself, which takes a fraction of the time. */
export function drawPixels(pen, { xy, toX, toY, kind, kinds, only, chosen }, scale, background) {
  const { width, height } = pen.canvas, image = pen.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const behind = rgb(pen, background), colours = kinds.map(({ colour }) => rgb(pen, colour));
  const shade = (number, alpha) => pack(colours[number].map((c, i) => Math.round(alpha * c + (1 - alpha) * behind[i])));
  const plain = kinds.map((_, number) => shade(number, only >= 0 && only !== number ? FAINT : chosen ? BEHIND : PIXEL));
  const strong = kinds.map((_, number) => shade(number, 1));
  const size = Math.max(2, Math.round(1.6 * scale));
  const dot = (i, colour) => {
    const x = Math.round(toX(xy[2 * i]) * scale), y = Math.round(toY(xy[2 * i + 1]) * scale);
    if (x < 0 || y < 0 || x + size > width || y + size > height) return;
    for (let dy = 0; dy < size; dy++) for (let at = (y + dy) * width + x, end = at + size; at < end; at++) pixels[at] = colour;
  };
  // What stands out is drawn last, so that nothing covers it.
  const later = [];
  for (let i = 0; i < kind.length; i++) {
    if (kind[i] < 0) continue;
    if (chosen?.has(i) || kinds[kind[i]].big || kind[i] === only) later.push(i); else dot(i, plain[kind[i]]);
  }
  for (const i of later) dot(i, chosen && !chosen.has(i) ? plain[kind[i]] : strong[kind[i]]);
  pen.putImageData(image, 0, 0);
}

function rgb(pen, colour) {
  pen.fillStyle = "#ffffff";
  pen.fillStyle = colour;
  const hex = pen.fillStyle;
  return hex.startsWith("#") ? [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)) : [255, 255, 255];
}

const pack = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
