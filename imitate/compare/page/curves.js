function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(x => x * power).find(x => x >= raw * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) found.push(n * step);
  return found;
}
function short(value) {
  const size = Math.abs(value);
  const text = size >= 1e6 ? +(value / 1e6).toFixed(2) + "M" : size >= 1e4 ? +(value / 1e3).toFixed(1) + "k" : +value.toFixed(2) + "";
  return text.replace("-", "−");
}
function full(value) {
  return value.toLocaleString("en", {maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0}).replace("-", "−");
}
function drawCurves(chart, data, cost, hidden) {
  const width = Math.max(chart.clientWidth, 240), height = width < 400 ? 230 : width < 560 ? 290 : 380;
  const right = 10, top = 12, bottom = 42;
  const drawn = data.learners.filter(learner => !hidden.has(learner.title) && learner.lines[cost]);
  const values = data.levels.map(level => level[1]);
  let most = cost === "steps" ? data.budget : 0;
  for (const learner of drawn) for (const [x, mean] of learner.lines[cost]) { values.push(mean); most = Math.max(most, x); }
  let low = Math.min(...values), high = Math.max(...values);
  const margin = 0.07 * (high - low || 1);
  low -= margin; high += margin;
  const levels = ticks(low, high, 5), longest = Math.max(...levels.map(tick => short(tick).length));
  const left = Math.max(48, 14 + 8 * longest);
  most = most || 1;
  const x = value => left + (width - left - right) * value / most;
  const y = value => top + (height - top - bottom) * (high - Math.min(Math.max(value, low), high)) / (high - low);
  const words = drawn.map(learner => {
    const last = learner.lines[cost].at(-1);
    return `${learner.title} ends at ${full(last[1])} ${data.at} ${full(last[0])}`;
  });
  const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `${data.label} against ${data.costs[cost]}: ${words.join("; ") || "none shown"}`});
  for (const tick of levels) {
    svg.append(element("line", {class: "gridline", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}));
    svg.append(element("text", {x: left - 7, y: y(tick) + 4, "text-anchor": "end"}, short(tick)));
  }
  for (const tick of ticks(0, most, width < 560 ? 4 : 8)) {
    const end = x(tick) > width - 24;
    svg.append(element("text", {x: end ? width - right : x(tick), y: height - 22, "text-anchor": end ? "end" : "middle"}, short(tick)));
  }
  svg.append(element("text", {x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle"}, data.costs[cost]));
  for (const [name, value] of data.levels) {
    svg.append(element("line", {class: "level", x1: left, x2: width - right, y1: y(value), y2: y(value), "stroke-dasharray": name === "expert" ? "6 5" : "2 4"}));
  }
  for (const learner of drawn) {
    const points = learner.lines[cost], group = element("g", {class: "c" + learner.color});
    if (points.every(point => point[2] !== null)) {
      const edge = points.map(p => `${x(p[0])},${y(p[2])}`), back = points.map(p => `${x(p[0])},${y(p[3])}`).reverse();
      group.append(element("path", {class: "band", d: "M" + edge.concat(back).join("L") + "Z"}));
    }
    group.append(element("path", {class: "line", d: "M" + points.map(p => `${x(p[0])},${y(p[1])}`).join("L"), "stroke-dasharray": learner.dash}));
    for (const point of points) {
      const dot = element("circle", {cx: x(point[0]), cy: y(point[1]), r: 3});
      const half = point[2] === null ? "" : `, interval ${full(point[2])} to ${full(point[3])}`;
      dot.append(element("title", {}, `${learner.title} ${data.at} ${full(point[0])} ${data.costs[cost]}: ${full(point[1])}${half}`));
      group.append(dot);
    }
    svg.append(group);
  }
  for (const [name, value] of data.levels) {
    svg.append(element("text", {class: "halo", x: width - right, y: y(value) - 5, "text-anchor": "end"}, `${name} ${full(value)}`));
  }
  chart.replaceChildren(svg);
}
