const figures = JSON.parse(document.getElementById("data").textContent), hidden = new Set();
let cost = "steps", zoomed = false;
const panels = [...document.querySelectorAll("[data-chart]")];
const chartOf = panel => figures[panel.closest("figure").dataset.name][+panel.dataset.chart];
const dotsOf = ({by}) => by && (by[cost] || Object.values(by)[0]);
function drawPanel(panel) {
  const shown = chartOf(panel), beside = [...panel.closest("figure").querySelectorAll("[data-chart]")];
  if (shown.by) drawDots(panel, dotsOf(shown), beside.some(each => dotsRoom(each, dotsOf(chartOf(each))).crowded));
  else drawLines(panel, shown, cost in shown.axes ? cost : Object.keys(shown.axes)[0], hidden,
    ("near" in panel.dataset || zoomed) && shown.near || shown.heights);
}
const draw = () => panels.forEach(drawPanel);
function choose(buttons, use) {
  for (const button of buttons) button.addEventListener("click", () => {
    for (const other of buttons) other.setAttribute("aria-pressed", other === button);
    use(button.dataset);
    draw();
  });
}
for (const bar of document.querySelectorAll(".switch")) choose([...bar.querySelectorAll("button")], chosen => {
  if (chosen.cost) {
    cost = chosen.cost;
    for (const other of document.querySelectorAll("[data-cost]")) other.setAttribute("aria-pressed", other.dataset.cost === cost);
  } else zoomed = chosen.range === "near";
});
for (const button of document.querySelectorAll("[data-learner]")) button.addEventListener("click", () => {
  const name = button.dataset.learner;
  hidden.has(name) ? hidden.delete(name) : hidden.add(name);
  button.setAttribute("aria-pressed", !hidden.has(name));
  draw();
});
draw();
let wait;
addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(draw, 60); });

// A figure as one SVG, with its styles as attributes and on light paper: what papers and slides take.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "opacity", "font-family", "font-size", "font-weight", "visibility"];
function asSvg(figure) {
  document.documentElement.classList.add("light");
  const box = figure.querySelector(".panels").getBoundingClientRect();
  const whole = element("svg", {xmlns: "http://www.w3.org/2000/svg", viewBox: `-8 -8 ${box.width + 16} ${box.height + 16}`, width: box.width + 16, height: box.height + 16});
  whole.append(element("rect", {x: -8, y: -8, width: "100%", height: "100%", fill: "#ffffff"}));
  for (const title of figure.querySelectorAll("h3")) {
    const place = title.getBoundingClientRect(), style = getComputedStyle(title);
    whole.append(element("text", {x: place.left - box.left, y: place.top - box.top + 16, "font-family": style.fontFamily, "font-size": "14", "font-weight": "600", fill: style.color}, title.textContent.trim()));
  }
  for (const svg of figure.querySelectorAll("svg")) {
    const place = svg.getBoundingClientRect(), copy = svg.cloneNode(true), made = copy.querySelectorAll("*");
    svg.querySelectorAll("*").forEach((node, n) => {
      const style = getComputedStyle(node);
      for (const name of STYLES) made[n].setAttribute(name, style.getPropertyValue(name));
      made[n].removeAttribute("class");
    });
    copy.querySelector("[data-cross]")?.remove();
    copy.setAttribute("x", place.left - box.left);
    copy.setAttribute("y", place.top - box.top);
    whole.append(copy);
  }
  document.documentElement.classList.remove("light");
  return whole;
}
// The points of a figure: of every axis, whatever is shown.
function asCsv(figure) {
  const rows = [["panel", "learner", "axis", "x", "what", "value", "low", "high"]];
  for (const chart of figures[figure.dataset.name]) {
    for (const line of chart.lines || []) for (const axis in line.points) {
      for (const [x, ...values] of line.points[axis]) rows.push([chart.title, line.title, chart.axes[axis], x, chart.label, ...values]);
    }
    for (const panel of Object.values(chart.by || {})) for (const row of panel.rows) {
      for (const [what, value] of row.marks) rows.push([panel.title, row.title, panel.label, "", what, value, ...(what === "mean" && row.bar || [])]);
      for (const dot of row.dots) rows.push([panel.title, row.title, panel.label, "", "run", dot]);
    }
  }
  return rows.map(row => row.map(cell => /[",]/.test(cell ?? "") ? `"${cell.replaceAll('"', '""')}"` : cell).join(",")).join("\n") + "\n";
}
function save(name, url) {
  Object.assign(document.createElement("a"), {download: name, href: url}).click();
}
for (const button of document.querySelectorAll("[data-save]")) button.addEventListener("click", () => {
  const figure = button.closest("figure"), name = figure.dataset.name;
  if (button.dataset.save === "csv") return save(name + ".csv", "data:text/csv;charset=utf-8," + encodeURIComponent(asCsv(figure)));
  const svg = asSvg(figure);
  const url = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
  if (button.dataset.save === "svg") return save(name + ".svg", url);
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas"), scale = 3;
    [canvas.width, canvas.height] = [image.width * scale, image.height * scale];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    save(name + ".png", canvas.toDataURL("image/png"));
  };
  image.src = url;
});
