const table = document.querySelector("#results table"), unfold = document.getElementById("unfold");
if (unfold) unfold.addEventListener("click", () => {
  const folded = table.classList.toggle("folded");
  unfold.setAttribute("aria-expanded", !folded);
  unfold.textContent = folded ? "All columns" : "Fewer columns";
});
for (const head of table.querySelectorAll("thead th")) head.firstChild.addEventListener("click", () => {
  const down = head.getAttribute("aria-sort") !== "descending", n = head.cellIndex;
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0], key = row => row.cells[n].dataset.value;
  const order = (a, b) => {
    const [p, q] = [key(a), key(b)];
    if (p === "" || q === "") return (p === "") - (q === "");
    const found = n === 0 ? p.localeCompare(q) : p - q;
    return down ? -found : found;
  };
  const rows = [...body.rows].filter(row => !row.classList.contains("reference")).sort(order);
  body.prepend(...rows);
});
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", async () => {
  const said = document.getElementById("copied");
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    said.textContent = "Copied.";
  } catch {
    const area = document.createElement("textarea");
    area.value = button.dataset.copy;
    document.body.append(area);
    area.select();
    said.textContent = document.execCommand("copy") ? "Copied." : "This browser does not let pages copy: take table.md or table.tex.";
    area.remove();
  }
});

