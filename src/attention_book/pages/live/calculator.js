// The calculator: sliders for width and temperature, boxes for the heads; the saddle point is solved at every move.
(() => {
  const { theory, gp, ...ofPaths } = TASK.colours, COLOURS = Object.values(ofPaths); // paths (1,1), (1,2), (2,1), (2,2)
  const ROLES = ["good 1→1", "adversarial 1→2", "denoising 2→1", "adversarial 2→2"];
  const HEADS = [["step head", "random head"], ["uniform head", "random head"]];
  const WIDTHS = [3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 5000, Infinity];

  // The network from left to right, each path as wide as the root of its weight.
  function drawNetwork(svg, state, found) {
    svg.replaceChildren();
    const [left, middle, right, end] = [[20, 80], 115, 215, [300, 80]], heights = [45, 115];
    const kept = new Map(found.kept.map((path, place) => [path, found.U[place][place]]));
    for (const path of [1, 3, 2, 0]) {
      if (!kept.has(path)) continue;
      const [y1, y2] = [heights[path >> 1], heights[path & 1]], shift = (path - 1.5) * 3;
      const points = `M${left} C${60},${80 + shift} ${70},${y1 + shift} ${middle},${y1 + shift} S${right - 45},${y2 + shift} ${right},${y2 + shift} S${270},${80 + shift} ${end}`;
      svg.append(element("path", {
        d: points, fill: "none", stroke: COLOURS[path], "stroke-opacity": 0.85,
        "stroke-width": Math.min(14, 2.5 * Math.sqrt(kept.get(path))).toFixed(2),
      }));
    }
    [["tokens", ...left], ["output", ...end]].forEach(([text, x, y]) => {
      svg.append(element("circle", { cx: x, cy: y, r: 7, class: "node" }), element("text", { x, y: y + 24, "text-anchor": "middle" }, text));
    });
    [middle, right].forEach((x, layer) => heights.forEach((y, head) => {
      if (!state.heads[layer].includes(head)) return;
      svg.append(element("circle", { cx: x, cy: y, r: 10, class: "node" }));
      svg.append(element("text", { x, y: head ? y + 25 : y - 16, "text-anchor": "middle" }, HEADS[layer][head]));
    }));
  }

  // The order parameter on a fixed scale, red positive and blue negative as in all figures, numbers inside.
  function drawMatrix(svg, found) {
    svg.replaceChildren();
    const size = found.kept.length, step = 148 / size, depth = (value) => Math.min(1, Math.asinh(Math.abs(value)) / Math.asinh(12));
    found.U.forEach((line, i) => {
      line.forEach((value, j) => {
        const strength = depth(value), x = 30 + j * step, y = 24 + i * step;
        svg.append(element("rect", { x, y, width: step - 1, height: step - 1, fill: signed(value), "fill-opacity": strength.toFixed(3) }));
        svg.append(element("text", { x: x + step / 2, y: y + step / 2 + 4, "text-anchor": "middle", class: strength > 0.55 ? "on-dark" : "" }, shown(value)));
      });
      const place = 24 + (i + 0.5) * step;
      svg.append(element("circle", { cx: 16, cy: place, r: 6, fill: COLOURS[found.kept[i]] }));
      svg.append(element("circle", { cx: 30 + (i + 0.5) * step, cy: 12, r: 6, fill: COLOURS[found.kept[i]] }));
    });
  }

  function curveOf(svg, curve, at) {
    const wide = curve.some((value) => value < 0.75), low = wide ? 0.5 : 0.75, step = wide ? 0.1 : 0.05;
    drawCurve(svg, { widths: WIDTHS, curve, at, low, step, ticks: [0, 2, 4, 6, 8, 10, 13], colours: TASK.colours });
  }

  function begin(root) {
    const task = loadTask(TASK), heat = Number(root.querySelector("input[name=temperature]").value), state = { width: 4, temperature: heat, heads: [[0, 1], [0, 1]] };
    const [network, matrix, curveSvg] = ["network", "matrix", "curve"].map((name) => root.querySelector(`svg.${name}`));
    const [width, temperature] = ["width", "temperature"].map((name) => root.querySelector(`input[name=${name}]`));
    const text = root.querySelector("[role=status]"), list = root.querySelector("ul");
    let warm = null, curve = [], waiting = 0, key = "";
    const solveAt = (place, from) => solveNetwork(task, { width: WIDTHS[place], temperature: 10 ** state.temperature, heads: state.heads, from });

    // The other widths are solved one by one while the reader looks, from the widest to the narrowest.
    function fill(place, from) {
      if (place < 0) return;
      waiting = setTimeout(() => {
        const found = solveAt(place, from);
        curve[place] = found.accuracy;
        curveOf(curveSvg, curve, state.width);
        fill(place - 1, found.x);
      }, 30);
    }

    function update(said = "") {
      const now = JSON.stringify([state.temperature, state.heads]), found = solveAt(state.width, warm);
      warm = found.x;
      if (now !== key) {
        clearTimeout(waiting);
        [key, curve] = [now, []];
        fill(WIDTHS.length - 1, null);
      }
      curve[state.width] = found.accuracy;
      drawNetwork(network, state, found);
      drawMatrix(matrix, found);
      curveOf(curveSvg, curve, state.width);
      const [N, T] = [named(WIDTHS[state.width]), Number((10 ** state.temperature).toPrecision(2))];
      root.querySelector("output[name=width]").textContent = N;
      root.querySelector("output[name=temperature]").textContent = T;
      width.setAttribute("aria-valuetext", N === "∞" ? "infinite width" : `${N} neurons per layer`);
      temperature.setAttribute("aria-valuetext", `temperature ${T}`);
      list.replaceChildren(...found.kept.map((path, place) => {
        const entry = document.createElement("li");
        entry.style.setProperty("--path", COLOURS[path]);
        entry.textContent = `${ROLES[path]}: ${shown(found.U[place][place])}`;
        return entry;
      }));
      text.textContent = `${said}Test accuracy ${found.accuracy.toFixed(3)} at N = ${N}.`;
      root.dataset.solved = JSON.stringify({ accuracy: found.accuracy, gradient: found.gradient, U: found.U });
    }

    width.addEventListener("input", () => { state.width = Number(width.value); update(); });
    temperature.addEventListener("input", () => { state.temperature = Number(temperature.value); update(); });
    root.querySelectorAll("input[type=checkbox]").forEach((box) => box.addEventListener("change", () => {
      const [layer, head] = box.value.split(",").map(Number), others = state.heads[layer].filter((one) => one !== head);
      if (!box.checked && !others.length) {
        box.checked = true;
        return update("A layer needs at least one head: this one stays. ");
      }
      state.heads[layer] = box.checked ? [...others, head].sort() : others;
      warm = null;
      update();
    }));
    update();
    root.hidden = false;
  }

  document.querySelectorAll(".calculator.paths[hidden]").forEach(begin);
})();
