// What both calculators draw with: numbers, elements, the order parameter, and a curve against the width.
const SVG = "http://www.w3.org/2000/svg";
const element = (name, attributes = {}, text = "") => {
  const made = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  if (text) made.textContent = text;
  return made;
};
const shown = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
const named = (width) => (width === Infinity ? "∞" : String(width));
const signed = (value) => (value < 0 ? "#2166AC" : "#B2182B"); // red positive and blue negative, as in all figures

// Test accuracy against width, with the chosen width as a dot and the limit of infinite width as a dashed line.
function drawCurve(svg, { widths, curve, at, low, step, ticks, colours }) {
  svg.replaceChildren();
  const [x0, x1, y0, y1] = [44, 388, 216, 28];
  const x = (place) => x0 + ((x1 - x0) * place) / (widths.length - 1), y = (value) => y0 - ((y0 - y1) * Math.max(0, value - low)) / (1 - low);
  for (let value = low; value < 1.01; value += step) {
    svg.append(element("line", { x1: x0, x2: x1, y1: y(value), y2: y(value), class: "grid" }));
    svg.append(element("text", { x: x0 - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2)));
  }
  ticks.forEach((place) => svg.append(element("text", { x: x(place), y: y0 + 18, "text-anchor": "middle" }, named(widths[place]))));
  svg.append(element("text", { x: (x0 + x1) / 2, y: y0 + 38, "text-anchor": "middle" }, "width N"));
  svg.append(element("text", { x: 4, y: 12 }, "test accuracy"));
  const limit = curve[widths.length - 1];
  if (limit !== undefined) {
    svg.append(element("line", { x1: x0, x2: x1, y1: y(limit), y2: y(limit), stroke: colours.gp, "stroke-width": 2, "stroke-dasharray": "5 4" }));
    svg.append(element("text", { x: x0 + 4, y: y(limit) + 15 }, `infinite width: ${limit.toFixed(3)}`));
  }
  const points = curve.map((value, place) => `${x(place)},${y(value)}`).filter((_, place) => curve[place] !== undefined);
  svg.append(element("polyline", { points: points.join(" "), fill: "none", stroke: colours.theory, "stroke-width": 2.5 }));
  svg.append(element("circle", { cx: x(at), cy: y(curve[at]), r: 7, fill: colours.theory }));
}
