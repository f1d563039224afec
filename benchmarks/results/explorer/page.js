"use strict";
(() => {
  const { texts, lines, falling, nemenyi } = JSON.parse(document.getElementById("data").textContent);
  const NAMES = Object.keys(texts), ALL = "all", MOST_SHOWN = 2000, SVG = "http://www.w3.org/2000/svg";
  const results = lines.map(line => Object.fromEntries([
    ...NAMES.map((name, i) => [name, texts[name][line[i]]]),
    ...["value", "delta", "low", "high", "seeds", "seconds"].map((name, i) => [name, line[NAMES.length + i]]),
  ]));
  const COLUMNS = [
    ["data", "Data"], ["backbone", "Backbone"], ["row", "Row"], ["value", "Value"],
    ["delta", "Difference"], ["low", "95 % interval"], ["verdict", "Verdict"], ["seeds", "Seeds"], ["seconds", "Seconds per run"],
  ];
  const NUMBERS = new Set(["value", "delta", "seeds", "seconds"]);
  const form = document.getElementById("filters");
  let sorted = { by: "value", down: true };

  const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;
  const number = (value, digits = 4) => value === null ? "" : value.toFixed(digits);
  const signed = value => value === null ? "" : (value > 0 ? "+" : "") + value.toFixed(4);
  const titled = name => name.replace(/^(nll|ece)$/, text => text.toUpperCase()).replace(/_fg$/, "").replaceAll("_", " ").replace(/\bf1\b/, "F1");
  const unique = values => [...new Set(values)];

  function node(name, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function options(name, values, first) {
    form.elements[name].replaceChildren(...values.map(value => new Option(name === "metric" ? titled(value) : value, value, false, value === first)));
  }

  function chosen(withMetric = true) {
    const wanted = Object.fromEntries(new FormData(form));
    return results.filter(line =>
      line.bench === wanted.bench && (!withMetric || line.metric === wanted.metric)
      && (wanted.data === ALL || line.data === wanted.data)
      && (wanted.backbone === ALL || line.backbone === wanted.backbone)
      && line.row.toLowerCase().includes(wanted.row.toLowerCase()));
  }

  // Mean ranks over the trials that have a value of every row.
  function ranked(found, isFalling) {
    const rows = unique(found.map(line => line.row)), trials = Map.groupBy(found, line => `${line.data}, ${line.backbone}`);
    const whole = [...trials.values()].filter(lines => lines.length === rows.length && lines.every(l => l.value !== null));
    const sums = new Map(rows.map(row => [row, 0]));
    for (const lines of whole) {
      for (const line of lines) {
        const ahead = lines.filter(l => isFalling ? l.value < line.value : l.value > line.value).length;
        const ties = lines.filter(l => l.value === line.value).length;
        sums.set(line.row, sums.get(line.row) + ahead + (ties + 1) / 2);
      }
    }
    const ranks = rows.map(row => ({ row, rank: sums.get(row) / whole.length }));
    return { ranks: ranks.sort((a, b) => a.rank - b.rank), trials: whole.length };
  }

  function showRanks() {
    const metric = form.elements.metric.value, { ranks, trials } = ranked(chosen(), falling.includes(metric));
    const place = document.getElementById("ranks"), note = document.getElementById("ranks-note"), k = ranks.length;
    place.replaceChildren();
    if (k < 2 || trials < 2) {
      note.textContent = "Ranks need at least two rows, and two data sets or backbones with all of them.";
      return;
    }
    const critical = k < nemenyi.length ? nemenyi[k] * Math.sqrt(k * (k + 1) / (6 * trials)) : null;
    note.textContent = `${trials} combinations of data and backbone; 1 is best. ` + (critical === null ? "" :
      `Rows joined by a bar cannot be told apart by Nemenyi's test at 5 % (critical difference ${critical.toFixed(2)}; Demšar, ` +
      "JMLR 2006), which takes the combinations for independent; several of one data set are not.");
    place.append(rankChart(ranks, critical));
  }

  function rankChart(ranks, critical) {
    const k = ranks.length, width = 1100, left = 390, right = 710, cliques = critical === null ? [] : cliquesOf(ranks, critical);
    const top = 40 + 10 * cliques.length, half = Math.ceil(k / 2), height = top + 20 * half + 20;
    const x = rank => left + (rank - 1) / (k - 1) * (right - left);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Critical-difference diagram" });
    svg.append(node("line", { class: "axis", x1: left, x2: right, y1: 24, y2: 24 }));
    for (let rank = 1; rank <= k; rank += Math.ceil(k / 12)) {
      svg.append(node("line", { class: "axis", x1: x(rank), x2: x(rank), y1: 19, y2: 24 }));
      svg.append(node("text", { class: "soft", x: x(rank), y: 14, "text-anchor": "middle" }, String(rank)));
    }
    cliques.forEach(([first, last], i) =>
      svg.append(node("line", { class: "bar", x1: x(first) - 3, x2: x(last) + 3, y1: 34 + 10 * i, y2: 34 + 10 * i })));
    ranks.forEach(({ row, rank }, i) => {
      const isLeft = i < half, y = top + 20 * (isLeft ? i : k - 1 - i) + 8, end = isLeft ? left - 12 : right + 12;
      svg.append(node("polyline", { class: "lead", points: `${x(rank)},24 ${x(rank)},${y} ${end},${y}` }));
      svg.append(node("text", { x: isLeft ? end - 4 : end + 4, y: y + 4, "text-anchor": isLeft ? "end" : "start" },
        `${row} ${rank.toFixed(1)}`));
    });
    return svg;
  }

  // The widest spans of ranks within the critical difference, without those inside another.
  function cliquesOf(ranks, critical) {
    const spans = [];
    ranks.forEach(({ rank }, i) => {
      const last = ranks.findLastIndex(other => other.rank - rank <= critical);
      if (last > i && (spans.length === 0 || last > spans.at(-1)[1])) spans.push([i, last]);
    });
    return spans.map(([first, last]) => [ranks[first].rank, ranks[last].rank]);
  }

  function showFront(id, title, ofLines, isLog) {
    const byRow = Map.groupBy(chosen(false), line => line.row), points = [];
    for (const [row, lines] of byRow) {
      const scores = lines.filter(l => l.metric === "macro_f1_fg" && l.value !== null).map(l => l.value);
      const costs = ofLines(lines).filter(value => value !== null);
      if (scores.length && costs.length) points.push({ row, x: mean(costs), y: mean(scores) });
    }
    const place = document.getElementById(id);
    place.replaceChildren(...(points.length ? [frontChart(points, title, isLog)] : []));
  }

  function frontChart(points, title, isLog) {
    const width = 560, height = 340, box = { left: 60, right: 530, top: 34, bottom: 290 };
    const scale = value => isLog ? Math.log10(Math.max(value, 1e-3)) : value;
    const range = values => { const low = Math.min(...values), high = Math.max(...values), pad = (high - low || 1) * .06; return [low - pad, high + pad]; };
    const [x0, x1] = range(points.map(p => scale(p.x))), [y0, y1] = range(points.map(p => p.y));
    const x = p => box.left + (scale(p.x) - x0) / (x1 - x0) * (box.right - box.left);
    const y = p => box.bottom - (p.y - y0) / (y1 - y0) * (box.bottom - box.top);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Macro F1 against ${title}` });
    svg.append(node("text", { class: "soft", x: box.left, y: 18 }, "macro F1"));
    svg.append(node("text", { class: "soft", x: box.right, y: height - 12, "text-anchor": "end" }, title));
    svg.append(node("polyline", { class: "lead", points: `${box.left},${box.top} ${box.left},${box.bottom} ${box.right},${box.bottom}` }));
    for (let i = 0; i <= 4; i++) {
      const yValue = y0 + i / 4 * (y1 - y0), xValue = x0 + i / 4 * (x1 - x0);
      svg.append(node("text", { class: "soft", x: box.left - 6, y: y({ y: yValue }) + 4, "text-anchor": "end" }, yValue.toFixed(3)));
      svg.append(node("text", { class: "soft", x: box.left + i / 4 * (box.right - box.left), y: box.bottom + 18, "text-anchor": "middle" },
        isLog ? (10 ** xValue).toPrecision(2) : xValue.toFixed(3)));
    }
    const best = points.filter(p => !points.some(q => q.x <= p.x && q.y >= p.y && (q.x < p.x || q.y > p.y))).sort((a, b) => a.x - b.x);
    svg.append(node("polyline", { class: "front", points: best.map(p => `${x(p)},${y(p)}`).join(" ") }));
    for (const p of points) {
      const text = `${p.row}: macro F1 ${p.y.toFixed(4)}, ${title} ${p.x.toPrecision(3)}`;
      svg.append(node("circle", { class: "dot", cx: x(p), cy: y(p), r: 4 }, node("title", {}, text)));
      if (best.includes(p)) {
        const isRight = x(p) > (box.left + box.right) / 2;
        svg.append(node("text", { x: x(p) + (isRight ? -8 : 8), y: y(p) - 6, "text-anchor": isRight ? "end" : "start" }, p.row));
      }
    }
    return svg;
  }

  function showTable() {
    const found = chosen(), { by, down } = sorted, table = document.getElementById("table");
    const order = (a, b) => a[by] === b[by] ? 0 : a[by] === null ? 1 : b[by] === null ? -1 : (a[by] < b[by]) === down ? 1 : -1;
    const shown = [...found].sort(order).slice(0, MOST_SHOWN);
    document.getElementById("count").textContent = `${found.length} results` +
      (found.length > shown.length ? `, of which the first ${shown.length} are shown; use the filters to see the others.` : ".");
    const ends = found.flatMap(line => [line.low, line.high]).filter(value => value !== null);
    const most = Math.max(...ends.map(Math.abs), 1e-9), head = table.createTHead(), body = document.createElement("tbody");
    head.replaceChildren(headLine());
    for (const line of shown) {
      const tr = body.insertRow();
      for (const [key] of COLUMNS) {
        const td = tr.insertCell();
        if (NUMBERS.has(key)) td.className = "number";
        if (key === "low") { if (line.low !== null) { td.append(interval(line, most)); td.title = `${signed(line.low)} to ${signed(line.high)}`; } }
        else td.textContent = key === "delta" ? signed(line.delta) : key === "value" ? number(line.value)
          : key === "seconds" ? number(line.seconds, 1) : line[key] ?? "";
        if (key === "verdict") td.classList.add(...["better", "worse"].filter(word => line.verdict === word));
      }
    }
    table.replaceChildren(head, body);
  }

  function headLine() {
    const tr = document.createElement("tr");
    for (const [key, title] of COLUMNS) {
      const th = document.createElement("th"), button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: title + (sorted.by === key ? (sorted.down ? " ↓" : " ↑") : "") });
      button.onclick = () => { sorted = { by: key, down: sorted.by === key ? !sorted.down : NUMBERS.has(key) }; showTable(); };
      th.setAttribute("aria-sort", sorted.by !== key ? "none" : sorted.down ? "descending" : "ascending");
      if (NUMBERS.has(key)) th.className = "number";
      th.scope = "col";
      th.append(button);
      tr.append(th);
    }
    return tr;
  }

  function interval(line, most) {
    const x = value => 60 + value / most * 56;
    return node("svg", { viewBox: "0 0 120 12", "aria-hidden": "true" },
      node("line", { class: "zero", x1: 60, x2: 60, y1: 0, y2: 12 }),
      node("line", { class: "span", x1: x(line.low), x2: x(line.high), y1: 6, y2: 6 }),
      node("circle", { class: "dot", cx: x(line.delta), cy: 6, r: 3 }));
  }

  function show() {
    showRanks();
    showFront("front-ece", "ECE", lines => lines.filter(l => l.metric === "ece").map(l => l.value), false);
    showFront("front-seconds", "seconds per run", lines => lines.filter(l => l.metric === "macro_f1_fg").map(l => l.seconds), true);
    showTable();
  }

  // Data sets and backbones of the chosen bench.
  function narrow() {
    const bench = form.elements.bench.value, here = results.filter(line => line.bench === bench);
    for (const name of ["data", "backbone"]) options(name, [ALL, ...unique(here.map(line => line[name]))], form.elements[name].value);
    options("metric", unique(here.map(line => line.metric)), form.elements.metric.value || "macro_f1_fg");
  }

  options("bench", texts.bench, texts.bench[0]);
  narrow();
  form.addEventListener("input", event => { if (event.target.name === "bench") narrow(); show(); });
  form.addEventListener("submit", event => event.preventDefault());
  show();
})();
