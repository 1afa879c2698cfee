// The solvable model of two paths in one layer, book/theory/solvable.md: (I2) to (I7) and the minimum of the action.
// A model: {rho, first, second, gamma, load, heat}; noise of variance 1, signals in one direction, no offsets.
const solvable = (() => {
  // x = 1/g from the eigenvalues of Q U, by Newton's method from above, where the function is convex; h = 1/2.
  const response = ([a, b, d], {rho, first, second, gamma, heat}) => {
    const half = (a + d) / 2 + rho * b, det = (1 - rho * rho) * Math.max(a * d - b * b, 0);
    const root = Math.sqrt(Math.max(half * half - det, 0)), large = half + root, low = large > 0 ? det / large : 0;
    let x = heat + half;
    for (let step = 0; step < 60; step++) {
      let value = x - heat, slope = 1;
      for (const one of [large / 2, low / 2]) {
        const share = x / (x + gamma * one);
        value -= one * share;
        slope -= gamma * (one * share / x) ** 2;
      }
      const next = x - value / slope;
      if (Math.abs(next - x) <= 1e-16 * x) break;
      x = next;
    }
    const c = gamma / (2 * x), norm = (1 + c * large) * (1 + c * low), area = c * (a * d - b * b);
    // V = (U + c det(U) adj(Q)) / det(1 + c Q U)
    const q = c * (first * first * (a + area) + 2 * first * second * (b - rho * area) + second * second * (d + area)) / norm;
    return {x, q, volume: Math.log(x) + heat / x - 1 + Math.log(norm) / gamma, misfit: 1 / (x * (1 + q))};
  };
  // The point: logarithms of the readout's U and of the diagonal of the factor, and what is below the diagonal.
  const overlap = ([top, one, two, below]) => {
    const p = Math.exp(one), r = Math.exp(two), u = Math.exp(top);
    return [u * p * p, u * p * below, u * (below * below + r * r)];
  };
  const action = (point, model) => {
    const [top, one, two, below] = point, at = response(overlap(point), model);
    const entropy = Math.exp(2 * one) + Math.exp(2 * two) + below * below - 2 * one - 2 * two + Math.exp(top) - top;
    return entropy + model.load * (at.volume + at.misfit);
  };
  // Central difference of sixth order.
  const slope = (f, step) => (45 * (f(step) - f(-step)) - 9 * (f(2 * step) - f(-2 * step)) + f(3 * step) - f(-3 * step)) / (60 * step);
  const moved = (point, i, by) => point.map((value, place) => value + (place === i ? by : 0));
  const gradient = (point, model) => point.map((_, i) => slope(by => action(moved(point, i, by), model), 4e-3));
  const solveLinear = (matrix, right) => {
    const rows = matrix.map((row, i) => [...row, right[i]]), n = rows.length;
    for (let i = 0; i < n; i++) {
      const pivot = rows.slice(i).reduce((best, row, k) => Math.abs(row[i]) > Math.abs(rows[best][i]) ? i + k : best, i);
      [rows[i], rows[pivot]] = [rows[pivot], rows[i]];
      for (let j = i + 1; j < n; j++) for (let k = n; k >= i; k--) rows[j][k] -= rows[i][k] * rows[j][i] / rows[i][i];
    }
    for (let i = n - 1; i >= 0; i--) {
      rows[i][n] /= rows[i][i];
      for (let j = 0; j < i; j++) rows[j][n] -= rows[j][i] * rows[i][n];
    }
    return rows.map(row => row[n]);
  };
  // Newton's method; a multiple of 1 is added to the Hessian until a step lowers the action.
  const minimum = (model, start = [0, 0, 0, 0]) => {
    let point = start, damping = 0;
    for (let step = 0; step < 200; step++) {
      const down = gradient(point, model), here = action(point, model);
      if (Math.max(...down.map(Math.abs)) < 1e-11 * (1 + model.load)) break;
      const hessian = point.map((_, i) => {
        const [more, less] = [1e-3, -1e-3].map(by => gradient(moved(point, i, by), model));
        return more.map((value, j) => (value - less[j]) / 2e-3);
      });
      let next, gained = false;
      for (let tries = 0; tries < 40 && !gained; tries++) {
        const raised = hessian.map((row, i) => row.map((value, j) => value + (i === j ? damping : 0)));
        const change = solveLinear(raised, down), size = Math.max(...change.map(Math.abs));
        next = point.map((value, i) => value - change[i] * Math.min(1, 1.5 / size));
        const downhill = change.reduce((sum, value, i) => sum + value * down[i], 0) > 0;
        gained = downhill && action(next, model) <= here + 1e-12 * (1 + Math.abs(here));
        damping = gained ? damping / 10 : Math.max(4 * damping, 0.1);
        if (damping < 0.01) damping = 0;
      }
      if (!gained) break;
      point = next;
    }
    return point;
  };
  // The minima reached from the prior and from a network twenty times narrower; the place of the lower one; whether they differ.
  const minima = model => {
    const prior = minimum(model), other = minimum(model, minimum({...model, load: 20 * model.load}));
    const two = Math.abs(overlap(other)[0] - overlap(prior)[0]) > 1e-3 * overlap(prior)[0];
    return {points: [prior, other], lowest: two && action(other, model) < action(prior, model) ? 1 : 0, two};
  };
  // The noise correlation between two at which `holds`, of what `minima` finds, becomes true.
  const edge = (model, low, high, holds) => {
    for (let step = 0; step < 12; step++) {
      const middle = (low + high) / 2;
      if (holds(minima({...model, rho: middle}))) high = middle; else low = middle;
    }
    return high;
  };
  // Phi by the continued fraction of its tail, and by its series in the middle.
  const normal = value => {
    const z = Math.abs(value);
    let upper;
    if (z > 4) {
      let tail = z;
      for (let k = 80; k > 0; k--) tail = z + k / tail;
      upper = Math.exp(-z * z / 2) / (tail * Math.sqrt(2 * Math.PI));
    } else {
      let term = z, sum = z;
      for (let k = 1; k < 120; k++) sum += term *= z * z / (2 * k + 1);
      upper = 0.5 - sum * Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI);
    }
    return value > 0 ? 1 - upper : upper;
  };
  const accuracy = (u, model) => {
    const [a, b, d] = u, {rho} = model;
    const first = [a + rho * b, b + rho * d]; // U Q U
    const change = [a * first[0] + b * (rho * a + b), b * first[0] + d * (rho * a + b), b * first[1] + d * (rho * b + d)];
    const reach = 0.02 / (1 + Math.abs(a) + Math.abs(d));
    const spread = -model.gamma / 2 * slope(t => response(u.map((value, i) => value + t * change[i]), model).misfit, reach);
    const {q} = response(u, model);
    return normal(q / (1 + q) / Math.sqrt(spread));
  };
  // As the chapter defines the phases.
  const phase = ([a, b, d]) => {
    const r = b / Math.sqrt(a * d);
    return r < -0.5 ? "subtracts the second path" : r > 0.5 ? "adds both paths as one" : d < a / 4 ? "has switched off the second path" : "weighs both paths";
  };
  return {response, overlap, action, minimum, minima, edge, accuracy, phase};
})();

if (typeof module !== "undefined") module.exports = solvable;
if (typeof document !== "undefined") document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("solvable-live");
  if (!place) return;
  const element = (name, attributes, ...children) => {
    const made = ["svg", "path", "line", "text", "circle"].includes(name)
      ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const log = (low, high, first) => ({low: Math.log10(low), high: Math.log10(high), step: 0.02, start: Math.log10(first), read: value => 10 ** value});
  const plain = (low, high, step, start) => ({low, high, step, start, read: value => value});
  const knobs = {
    // Even steps of the logarithm of 1 - rho, from 0 to 0.999.
    rho: {label: "noise correlation ρ", low: 0, high: 3, step: 0.02, start: 1.5, read: value => 1 - 10 ** -value},
    first: {label: "first signal", ...plain(0, 3, 0.05, 0.5)},
    second: {label: "second signal", ...plain(-3, 3, 0.05, 0)},
    gamma: {label: "examples per feature P/N₀", ...log(0.1, 10, 0.25)},
    load: {label: "load α = P/N", ...log(0.1, 100, 10)},
    heat: {label: "temperature T", ...log(0.01, 100, 0.05)},
  };
  const model = {};
  const controls = element("div", {class: "solvable-knobs"}), said = element("p", {"aria-live": "polite"}), plot = element("div", {});
  for (const [name, knob] of Object.entries(knobs)) {
    const input = element("input", {type: "range", min: knob.low, max: knob.high, step: knob.step, value: knob.start, style: "display:block;width:100%"});
    const value = element("output", {});
    const read = () => {
      model[name] = knob.read(Number(input.value));
      value.textContent = knob.label + " = " + Number(model[name].toPrecision(3));
      input.setAttribute("aria-valuetext", value.textContent);
    };
    input.addEventListener("input", () => { read(); draw(); });
    controls.append(element("label", {style: "display:block"}, value, input));
    read();
  }
  controls.style.cssText = "display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.4rem 1.2rem;margin:1rem 0";
  place.replaceChildren(controls, said, plot);

  const cell = (value, largest) => {
    const share = Math.min(1, Math.abs(value) / largest), colour = value < 0 ? "59,110,190" : "200,80,50";
    return element("td", {style: `background:rgba(${colour},${0.65 * share});padding:.5rem 1rem;text-align:right`}, value.toFixed(3).replace("-", "−"));
  };
  const across = {
    rho: {label: "noise correlation ρ", values: k => 1 - 10 ** (-k / 16), to: value => -Math.log10(1 - value) / 3, ticks: [0, 0.9, 0.99, 0.999]},
    load: {label: "load α", values: k => 0.1 * 1000 ** (k / 48), to: value => Math.log10(10 * value) / 3, ticks: [0.1, 1, 10, 100]},
  };
  // Numbers of the text beside the figure.
  const tell = (which, models, k, holds) => {
    const value = k > 0 ? solvable.edge(model, models[k - 1].rho, models[k].rho, holds).toFixed(3) : "no value";
    for (const one of document.querySelectorAll(`[data-solvable=${which}]`)) one.textContent = value;
  };
  const curve = (name, width) => {
    const {label, values, to, ticks} = across[name], height = 260, left = 44, bottom = 40;
    const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Accuracy against " + label, style: "max-width:100%;color:inherit"});
    const right = value => left + (width - left - 24) * to(value);
    const up = value => height - bottom - (height - bottom - 12) * (value - 0.5) / 0.5;
    const text = (x, y, anchor, content) => element("text", {x, y, "text-anchor": anchor, fill: "currentColor", "font-size": 13}, content);
    for (const value of [0.5, 0.6, 0.7, 0.8, 0.9, 1]) svg.append(
      element("line", {x1: left, x2: width - 24, y1: up(value), y2: up(value), stroke: "currentColor", "stroke-opacity": 0.15}), text(left - 6, up(value) + 4, "end", value.toFixed(1)));
    for (const value of ticks) svg.append(text(right(value), height - bottom + 18, "middle", String(value)));
    svg.append(text((left + width) / 2, height - 6, "middle", label));
    // Each branch is followed from the end at which it is the only one.
    const lines = {limit: [], prior: [], network: []}, models = Array.from({length: 49}, (_, k) => ({...model, [name]: values(k)}));
    const seconds = [], lower = []; // places with a second minimum, and where that one is the lowest
    let warm;
    const rising = models.map(at => warm = solvable.minimum(at, warm));
    warm = solvable.minima(models[48]).points[1];
    const falling = models.slice().reverse().map(at => warm = solvable.minimum(at, warm)).reverse();
    models.forEach((at, k) => {
      const us = [rising[k], falling[k]].map(solvable.overlap), two = Math.abs(us[1][0] - us[0][0]) > 1e-3 * us[0][0];
      const lowest = two && solvable.action(falling[k], at) < solvable.action(rising[k], at) ? 1 : 0;
      const place = u => [right(at[name]), up(solvable.accuracy(u, at))].map(value => value.toFixed(1)).join(",");
      lines.network.push(place(us[lowest]));
      lines.limit.push(place([1, 0, 1]));
      if (two) lines.prior.push(place(us[1 - lowest]));
      if (two) seconds.push(k);
      if (lowest) lower.push(k);
    });
    if (name === "rho") {
      tell("begins", models, seconds[0], found => found.two);
      tell("changes", models, lower[0], found => found.lowest === 1);
    }
    for (const [which, colour, dash] of [["limit", "#D55E00", ""], ["prior", "#3a8fd0", "4 4"], ["network", "#3a8fd0", ""]]) if (lines[which].length) svg.append(
      element("path", {d: "M" + lines[which].join("L"), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash}));
    const {points, lowest} = solvable.minima(model);
    svg.append(element("circle", {cx: right(model[name]), cy: up(solvable.accuracy(solvable.overlap(points[lowest]), model)), r: 5, fill: "#3a8fd0"}));
    return svg;
  };
  let waiting = false;
  const draw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const {points, lowest, two} = solvable.minima(model), u = solvable.overlap(points[lowest]), largest = Math.max(...u.map(Math.abs));
      const other = two ? ` A second minimum of the action has an accuracy of ${solvable.accuracy(solvable.overlap(points[1 - lowest]), model).toFixed(3)}.` : "";
      const share = solvable.accuracy(u, model), limit = solvable.accuracy([1, 0, 1], model);
      said.textContent = `The network ${solvable.phase(u)}. Test accuracy ${share.toFixed(3)}; in the Gaussian-process limit at this temperature ${limit.toFixed(3)}.${other}`;
      const matrix = element("table", {style: "width:auto;margin:0 0 1rem"}, element("caption", {style: "caption-side:top"}, "order parameter U of the lowest minimum"),
        element("tr", {}, cell(u[0], largest), cell(u[1], largest)), element("tr", {}, cell(u[1], largest), cell(u[2], largest)));
      const wide = place.clientWidth > 640, width = wide ? Math.floor(place.clientWidth / 2) - 8 : Math.min(place.clientWidth, 420);
      const key = element("p", {}, "test accuracy:   ", element("span", {style: "color:#3a8fd0"}, "— network (dashed: the other minimum)"), "   ", element("span", {style: "color:#D55E00"}, "— limit"));
      const both = element("div", {style: "display:flex;flex-wrap:wrap;gap:12px"}, curve("rho", width), curve("load", width));
      plot.replaceChildren(matrix, key, both);
    });
  };
  window.addEventListener("resize", draw);
  draw();
});
