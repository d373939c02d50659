const SIZES = {"mean": 5, "50 %": 0, "90 %": 4.5, "95 %": 5};
function dotsRoom(panel, chart) {
  const names = Math.max(0, ...chart.rows.map(row => wide(row.title, 500))), texts = Math.max(0, ...chart.rows.map(row => wide(row.text)));
  const width = Math.max(panel.clientWidth, 240);
  return {width, names, texts, crowded: names + texts > width * 0.5};
}
// `stacked`: names and numbers stand above their row, in all panels of a figure if one is crowded.
function drawDots(panel, chart, stacked) {
  const {width, names, texts} = dotsRoom(panel, chart), rows = chart.rows, step = stacked ? 44 : 26;
  const top = chart.levels.some(([name]) => name) ? 22 : 8, height = top + step * rows.length + 42;
  const left = stacked ? 10 : names + 18, end = width - (stacked ? 10 : texts + 16);
  const scale = chart.log ? Math.log10 : value => value, [low, high] = chart.ends;
  const pad = chart.log ? 0 : 0.03 * (high - low || 1), from = scale(low) - pad, to = scale(high) + pad;
  const x = value => left + (end - left) * (scale(value) - from) / (to - from || 1), bottom = top + step * rows.length;
  const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${chart.title}: ${rows.map(row => `${row.title} ${row.text}`).join("; ")}`});
  const count = Math.max(2, Math.round((end - left) / 80));
  for (const tick of chart.log ? logTicks(low, high, count) : ticks(low, high, count)) {
    svg.append(element("line", {class: "gridline", x1: x(tick), x2: x(tick), y1: top, y2: bottom}));
    svg.append(element("text", {x: x(tick), y: bottom + 17, "text-anchor": "middle"}, short(tick)));
  }
  svg.append(below(chart.label + (chart.log ? " to ❘ 50 %  ○ 90 %  ● 95 %" : ""), (left + end) / 2, bottom + 36, width));
  const levels = chart.levels.map(([name, value]) => ({name, value, text: name && Math.abs(value) > 1 ? `${name} ${full(value)}` : name}));
  for (const level of levels) {
    level.half = wide(level.text) / 2;
    level.x = Math.min(Math.max(x(level.value), level.half), width - level.half);
  }
  const [a, b] = [...levels].sort((a, b) => a.x - b.x), over = b ? a.half + b.half + 8 - (b.x - a.x) : 0;
  if (over > 0) {
    a.x = Math.max(a.half, a.x - over / 2);
    b.x = a.x + a.half + b.half + 8;
  }
  for (const level of levels) {
    svg.append(element("line", {class: "level", x1: x(level.value), x2: x(level.value), y1: top - 4, y2: bottom, "stroke-dasharray": level.name === "random" ? "2 4" : "6 5"}));
    svg.append(element("text", {x: level.x, y: top - 8, "text-anchor": "middle"}, level.text));
  }
  rows.forEach((row, n) => {
    const y = top + step * n + (stacked ? 25 : 11), group = element("g", {class: "c" + row.color});
    const words = stacked ? y - 13 : y + 6;
    svg.append(element("text", {class: "title", x: stacked ? 0 : left - 12, y: words, "text-anchor": stacked ? "start" : "end"}, cut(row.title, stacked ? width - texts - 8 : names + 2, 500)));
    svg.append(element("text", {class: "figure", x: width, y: words, "text-anchor": "end"}, row.text));
    for (const dot of row.dots) group.append(element("circle", {class: "run", cx: x(dot), cy: y + 8, r: 3}));
    if (row.bar) group.append(element("line", {class: row.beyond === null ? "bar" : "bar beyond", x1: Math.max(x(row.bar[0]), left), x2: Math.min(x(row.bar[1]), end), y1: y, y2: y}));
    if (row.beyond !== null) group.append(element("path", {class: "arrow", d: `M${x(row.beyond)},${y - 5}l8,5l-8,5z`}));
    for (const [name, value] of row.marks) {
      group.append(SIZES[name] ? element("circle", {class: name === "90 %" ? "ring" : "mark", cx: x(value), cy: y, r: SIZES[name]})
        : element("line", {class: "upright", x1: x(value), x2: x(value), y1: y - 7, y2: y + 7}));
    }
    svg.append(group);
  });
  panel.replaceChildren(svg);
}
