function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const pen = document.createElement("canvas").getContext("2d");
function wide(text, weight = 400) {
  pen.font = `${weight} 12.5px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}
function cut(text, room, weight) {
  if (wide(text, weight) <= room) return text;
  while (text.length > 3 && wide(text + "…", weight) > room) text = text.slice(0, -1);
  return text.trimEnd() + "…";
}
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(x => x * power).find(x => x >= raw * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) found.push(n * step);
  return found;
}
function logTicks(low, high, count) {
  const decades = Math.log10(high / low), every = decades > count ? [1] : decades > count / 3 ? [1, 3] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    found.push(...every.map(digit => digit * 10 ** power).filter(value => value >= low && value <= high));
  }
  return found;
}
function short(value) {
  const size = Math.abs(value);
  const text = size >= 1e6 ? +(value / 1e6).toFixed(2) + "M" : size >= 1e4 ? +(value / 1e3).toFixed(1) + "k" : +value.toFixed(2) + "";
  return text.replace("-", "−");
}
function full(value) {
  const digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return value.toLocaleString("en", {maximumFractionDigits: digits}).replace("-", "−");
}
// The name of an axis, in its middle or as near to it as the chart's width allows.
function below(text, middle, y, width) {
  const half = wide(text) / 2 + 2;
  return element("text", {x: Math.min(Math.max(middle, half), width - half), y, "text-anchor": "middle"}, text);
}
// Heights as near to those wanted as a gap between neighbours allows.
function spread(wanted, top, bottom, gap) {
  const order = wanted.map((_, n) => n).sort((a, b) => wanted[a] - wanted[b]), found = [];
  let last = top - gap;
  for (const n of order) last = found[n] = Math.max(wanted[n], last + gap);
  let next = bottom + gap;
  for (const n of order.reverse()) next = found[n] = Math.min(found[n], next - gap);
  return found;
}
