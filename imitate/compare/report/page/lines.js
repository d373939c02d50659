let clips = 0;
// The value of a line at x as (mean, low, high): in between two points, or of the last one.
function valueAt(line, points, x) {
  const after = points.findIndex(point => point[0] > x);
  if (after === 0 || !points.length) return null;
  const a = points.at(after < 0 ? -1 : after - 1), b = points[after];
  if (line.steps || !b) return a.slice(1);
  const share = (x - a[0]) / (b[0] - a[0]);
  return a.slice(1).map((value, n) => value === null || b[n + 1] === null ? null : value + share * (b[n + 1] - value));
}
function drawLines(panel, chart, axis, hidden, [low, high]) {
  const lines = chart.lines.filter(line => !hidden.has(line.name) && line.points[axis]);
  const width = Math.max(panel.clientWidth, 240), near = chart.near && low === chart.near[0];
  const names = [...lines.map(line => line.title), ...chart.levels.map(([name, value]) => `${name} ${full(value)}`)];
  const beyond = line => { const end = line.points[axis].at(-1)[1]; return end > high ? " ↑" : end < low ? " ↓" : ""; };
  const arrow = lines.some(beyond) ? 16 : 0;
  const room = Math.min(Math.max(0, ...names.map(name => wide(name, 550))) + 4 + arrow, width * 0.36), gap = 15;
  const height = Math.max(width < 400 ? 236 : width < 620 ? 300 : 360, gap * names.length + 62);
  const top = 10, bottom = 42, right = room + (chart.ends ? 18 : 34);
  // CPU seconds may fall again: the last training of an offline learner can take fewer than one before.
  const reached = lines.flatMap(line => line.points[axis].map(point => point[0]));
  const most = Math.max(axis === Object.keys(chart.axes)[0] ? chart.limit : 0, ...reached) || 1;
  const levels = ticks(low, high, 5), left = 16 + Math.max(...levels.map(tick => wide(short(tick))));
  const end = width - right, x = value => left + (end - left) * value / most;
  const y = value => top + (height - top - bottom) * (high - value) / (high - low);
  const clamp = value => Math.min(Math.max(value, top), height - bottom);
  const words = lines.map(line => {
    const last = line.points[axis].at(-1);
    return `${line.title} ends at ${full(last[1])} ${chart.ends ? "after" : "at"} ${full(last[0])}`;
  });
  const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: 0,
    "aria-label": `${chart.title} ${chart.label} against ${chart.axes[axis]}${near ? ", near the expert" : ""}: ${words.join("; ") || "none shown"}`});
  const clip = `clip${clips++}`, box = element("clipPath", {id: clip});
  box.append(element("rect", {x: left, y: top - 3, width: end - left + 4, height: height - top - bottom + 6}));
  svg.append(box);
  for (const tick of levels) {
    svg.append(element("line", {class: "gridline", x1: left, x2: end, y1: y(tick), y2: y(tick)}));
    svg.append(element("text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, short(tick)));
  }
  for (const tick of ticks(0, most, Math.max(2, Math.round((end - left) / 90)))) {
    svg.append(element("line", {class: "tick", x1: x(tick), x2: x(tick), y1: height - bottom, y2: height - bottom + 4}));
    svg.append(element("text", {x: x(tick), y: height - 22, "text-anchor": "middle"}, short(tick)));
  }
  svg.append(element("line", {class: "tick", x1: left, x2: end, y1: height - bottom, y2: height - bottom}));
  svg.append(below(chart.axes[axis], (left + end) / 2, height - 4, width));
  const drawing = element("g", {"clip-path": `url(#${clip})`});
  svg.append(drawing);
  for (const [name, value] of chart.levels) if (value >= low && value <= high) {
    drawing.append(element("line", {class: "level", x1: left, x2: end, y1: y(value), y2: y(value), "stroke-dasharray": name === "expert" ? "6 5" : "2 4"}));
  }
  const labels = [];
  for (const line of lines) {
    const points = line.points[axis], group = element("g", {class: "c" + line.color}), last = points.at(-1);
    const path = line.steps ? points.flatMap((p, n) => n ? [[p[0], ...points[n - 1].slice(1)], p] : [p]) : points;
    if (path.every(point => point[2] !== null)) {
      const edge = path.map(p => `${x(p[0])},${y(p[2])}`), back = path.map(p => `${x(p[0])},${y(p[3])}`).reverse();
      group.append(element("path", {class: "band", d: "M" + edge.concat(back).join("L") + "Z"}));
    }
    group.append(element("path", {class: "line", d: "M" + path.map(p => `${x(p[0])},${y(p[1])}`).join("L"), "stroke-dasharray": line.dash}));
    if (chart.ends) for (const point of points) group.append(element("circle", {cx: x(point[0]), cy: y(point[1]), r: 2.4}));
    drawing.append(group);
    const off = beyond(line);
    labels.push({text: cut(line.title, room - (off ? arrow : 0), 550) + off, full: line.title, color: "c" + line.color, dash: line.dash, x: x(last[0]), y: clamp(y(last[1]))});
  }
  for (const [name, value] of chart.levels) if (value >= low && value <= high) labels.push({text: `${name} ${full(value)}`, color: "", x: end, y: y(value)});
  const places = spread(labels.map((label, n) => chart.ends ? label.y : top + 8 + n * 18), top + 2, height - bottom - 2, chart.ends ? gap : 18);
  labels.forEach((label, n) => {
    const group = element("g", {class: label.color});
    if (!chart.ends) group.append(element("path", {class: "line", d: `M${end + 6},${places[n]}H${end + 28}`, "stroke-dasharray": label.dash}));
    else if (end - label.x > 3 || Math.abs(places[n] - label.y) > 3) group.append(element("path", {class: "leader", d: `M${label.x + 4},${label.y}L${Math.max(end + 4, label.x + 4)},${label.y}L${end + 14},${places[n]}`}));
    const text = element("text", {class: label.color ? "name" : "", x: end + (chart.ends ? 17 : 33), y: places[n] + 4}, label.text);
    if (label.full) text.append(element("title", {}, label.full));
    group.append(text);
    svg.append(group);
  });
  const across = element("line", {class: "cross", "data-cross": "", y1: top, y2: height - bottom, visibility: "hidden"});
  svg.append(across);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  panel.replaceChildren(svg, tip);
  crosshair(panel, svg, tip, across, {lines, axis, chart, x, left, end, most, near});
}
// All values at one x: under the mouse, a finger, or by the arrow keys.
function crosshair(panel, svg, tip, across, {lines, axis, chart, x, left, end, most}) {
  let at = most;
  const hide = () => { tip.hidden = true; across.setAttribute("visibility", "hidden"); };
  const show = value => {
    at = Math.min(Math.max(value, 0), most);
    const rows = lines.map(line => [line, valueAt(line, line.points[axis], at)]).filter(([, found]) => found);
    rows.sort(([, a], [, b]) => b[0] - a[0]);
    across.setAttribute("x1", x(at));
    across.setAttribute("x2", x(at));
    across.setAttribute("visibility", "visible");
    const head = document.createElement("b");
    head.textContent = chart.ends ? `${full(Math.round(at * 100) / 100)} ${chart.axes[axis]}` : `score ${full(at)}`;
    tip.replaceChildren(head, ...rows.map(([line, [mean, low, high]]) => {
      const row = document.createElement("p"), swatch = document.createElement("i"), ends = document.createElement("small");
      swatch.className = "swatch c" + line.color;
      ends.textContent = low === null ? "" : `${full(low)} to ${full(high)}`;
      row.append(swatch, `${line.title} `, Object.assign(document.createElement("b"), {textContent: full(mean)}), " ", ends);
      return row;
    }));
    tip.hidden = false;
    const before = x(at) > (left + end) / 2, room = panel.clientWidth - tip.offsetWidth;
    tip.style.top = tip.offsetWidth > 0.6 * panel.clientWidth ? "100%" : "";  // on a phone it would cover the lines
    tip.style.left = `${Math.max(0, Math.min(room, before ? x(at) - 12 - tip.offsetWidth : x(at) + 12))}px`;
  };
  const move = event => {
    const box = svg.getBoundingClientRect(), place = (event.clientX - box.left) * panel.clientWidth / box.width;
    place < left - 6 || place > end + 6 ? hide() : show(most * (place - left) / (end - left));
  };
  svg.addEventListener("pointermove", move);
  svg.addEventListener("pointerdown", move);
  svg.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") hide(); });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (way) { event.preventDefault(); show(tip.hidden ? at : at + way * most / 16); }
    if (event.key === "Escape") hide();
  });
}
