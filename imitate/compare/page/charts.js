const data = JSON.parse(document.getElementById("data").textContent);
const charts = [...document.querySelectorAll("[data-chart]")], hidden = new Set();
let cost = "steps";
function draw() {
  for (const chart of charts) {
    const shown = data.charts[+chart.dataset.chart];
    drawCurves(chart, shown, cost in shown.costs ? cost : Object.keys(shown.costs)[0], hidden);
  };
}
for (const button of document.querySelectorAll("[data-cost]")) button.addEventListener("click", () => {
  cost = button.dataset.cost;
  for (const other of document.querySelectorAll("[data-cost]")) other.setAttribute("aria-pressed", other === button);
  draw();
});
for (const button of document.querySelectorAll("[data-learner]")) button.addEventListener("click", () => {
  const name = button.dataset.learner;
  hidden.has(name) ? hidden.delete(name) : hidden.add(name);
  button.setAttribute("aria-pressed", !hidden.has(name));
  draw();
});
draw();
addEventListener("resize", draw);

