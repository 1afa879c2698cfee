// The calculator of sentences: sliders for width, temperature and sentences, boxes for the heads of two layers of three.
(() => {
  const WIDTHS = [5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 5000, Infinity], ALL = [[0, 1, 2], [0, 1, 2]];
  const pathName = (path) => `${Math.floor(path / 3) + 1}→${(path % 3) + 1}`;
  const task = loadLanguage(LANGUAGE);

  // A square matrix in colours, zero transparent, as a picture below its title.
  function drawSquare(svg, title, size, strength) {
    const canvas = document.createElement("canvas"), pixels = new ImageData(size, size);
    for (let at = 0; at < size * size; at++) {
      const value = strength(Math.floor(at / size), at % size), colour = signed(value).match(/\w\w/g).map((two) => parseInt(two, 16));
      pixels.data.set([...colour, Math.round(255 * Math.abs(value))], 4 * at);
    }
    [canvas.width, canvas.height] = [size, size];
    canvas.getContext("2d").putImageData(pixels, 0, 0);
    svg.replaceChildren(
      element("text", { x: 134, y: 12, "text-anchor": "middle" }, title),
      element("image", { href: canvas.toDataURL(), x: 34, y: 46, width: 200, height: 200 }));
  }

  function drawMatrix(svg, { U, kept }) {
    const step = 200 / kept.length, most = Math.max(...U.flat().map(Math.abs)), few = kept.length < 7;
    const strength = (value) => Math.sign(value) * Math.asinh(Math.abs(value)) / Math.asinh(most);
    drawSquare(svg, "order parameter U of the paths", kept.length, (i, j) => strength(U[i][j]));
    kept.forEach((path, i) => {
      const at = 34 + (i + 0.5) * step;
      svg.append(element("text", { x: 30, y: at + 16, "text-anchor": "end" }, pathName(path)));
      svg.append(element("text", { x: at - 3, y: 42, transform: `rotate(-40 ${at - 3} 42)` }, pathName(path)));
      U[i].forEach((value, j) => {
        if (!few && Math.abs(value) < 0.95) return;
        const name = `${few ? "" : "small"} ${Math.abs(strength(value)) > 0.55 ? "on-dark" : ""}`;
        const text = shown(value, few && Math.abs(value) < 9.95 ? 1 : 0);
        svg.append(element("text", { x: 34 + (j + 0.5) * step, y: at + 16, "text-anchor": "middle", class: name }, text));
      });
    });
  }

  // The kernel between labelled sentences by the word that is asked for, without its means over rows and columns.
  function drawKernel(svg, { train, kernels }, { U, kept }) {
    const asked = (words) => words[words.indexOf(words[words.length - 1]) - 1], P = train.examples;
    const order = [...train.labels.keys()].sort((i, j) => asked(train.read[i]) - asked(train.read[j]));
    const place = (i, j) => (Math.max(i, j) * (Math.max(i, j) + 1)) / 2 + Math.min(i, j);
    const entry = (i, j) => kept.reduce((sum, p, a) => kept.slice(0, a + 1).reduce((part, q, b) => part + U[a][b] * kernels[p][q][place(i, j)], sum), 0);
    const K = order.map((i) => order.map((j) => entry(i, j)));
    const means = K.map((line) => line.reduce((sum, value) => sum + value, 0) / P), mean = means.reduce((sum, value) => sum + value, 0) / P;
    const bare = K.map((line, i) => line.map((value, j) => value - means[i] - means[j] + mean));
    const most = Math.max(...bare.flatMap((line, i) => line.filter((_, j) => j !== i).map(Math.abs)));
    drawSquare(svg, "kernel of the sentences, centred", P, (i, j) => Math.max(-1, Math.min(1, bare[i][j] / most)));
    const middle = 34 + 200 * order.filter((i) => train.labels[i] > 0).length / P;
    for (const [sign, at] of [["+1", (34 + middle) / 2], ["−1", (234 + middle) / 2]]) {
      svg.append(element("text", { x: 28, y: at + 16, "text-anchor": "end" }, sign), element("text", { x: at, y: 40, "text-anchor": "middle" }, sign));
    }
  }

  // A new sentence, every word on the colour of what it adds to the output: the output is linear in the tokens.
  function drawSentence(place, answer, number, { weights, kept, outputs }) {
    const words = task.test.read[number], { features } = task.test;
    const added = words.map((word, s) => Math.sqrt(features) * kept.reduce((sum, p, a) => sum + weights[a][word] * task.test.seen[number][p][s], 0));
    place.replaceChildren(...words.flatMap((word, s) => {
      const made = document.createElement("span"), strength = Math.min(1, Math.abs(added[s]));
      made.textContent = LANGUAGE.names[word];
      made.title = `adds ${shown(added[s])}`;
      made.style.boxShadow = `inset 0 -${(0.7 * strength).toFixed(2)}em ${signed(added[s])}66`;
      return [made, s % 2 && s < 9 ? (s < 7 ? ", " : ": ") : " "];
    }));
    const noun = LANGUAGE.names[words[9]], said = outputs[number], label = task.test.labels[number];
    answer.textContent = `Was the first ${noun} a kind one? Output ${shown(said)}, ${said > 0 ? "yes" : "no"}: ${said * label > 0 ? "right" : "wrong"}.`;
  }

  function begin(root) {
    const find = (what) => root.querySelector(what), knob = (name) => find(`input[name=${name}]`);
    const [width, temperature, examples] = ["width", "temperature", "examples"].map(knob);
    const heads = ALL.map((layer) => [...layer]);
    let curve = [], waiting = 0, key = "", number = 0, found = null;
    const at = () => Number(width.value), heat = () => 10 ** Number(temperature.value);
    const solveAt = (place, some = heads) => (
      solveNetwork(fewer(task, Number(examples.value)), { width: WIDTHS[place], temperature: heat(), heads: some }));
    const draw = () => drawCurve(find("svg.curve"), { widths: WIDTHS, curve, at: at(), low: 0.5, step: 0.1, ticks: [0, 1, 3, 5, 7, 9, 12], colours: LANGUAGE.colours });
    // Numbers of the text beside the calculator.
    const tell = (name, value) => document.querySelectorAll(`[data-sentences=${name}]`).forEach((one) => { one.textContent = value; });
    const without = (layer, head) => ALL.map((all, place) => (place === layer ? all.filter((one) => one !== head) : all));
    const elsewhere = { limit: [WIDTHS.length - 1, ALL], mean: [null, without(1, 1)], back: [null, without(0, 0)], all: [null, ALL] };

    // What else is shown is solved piece by piece while the reader looks; the text stands below this script.
    function fill() {
      const pieces = WIDTHS.map((_, place) => () => { curve[place] ??= solveAt(place).accuracy; draw(); }).reverse();
      for (const [name, [place, some]] of Object.entries(elsewhere)) pieces.push(() => {
        if (!document.querySelector(`[data-sentences=${name}]`)) return;
        const one = solveAt(place ?? at(), some);
        tell(name, shown(one.accuracy));
        if (name === "all") tell("pair", shown(one.U[0][1], 0));
        tell("width", named(WIDTHS[at()]));
      });
      const next = () => { if (pieces.length) { pieces.shift()(); waiting = setTimeout(next, 20); } };
      waiting = setTimeout(next, 20);
    }

    function update(said = "") {
      clearTimeout(waiting);
      const now = [temperature.value, examples.value, heads].join(";");
      if (now !== key) [key, curve] = [now, []];
      found = solveAt(at());
      curve[at()] = found.accuracy;
      const [N, T, P] = [named(WIDTHS[at()]), Number(heat().toPrecision(2)), examples.value];
      for (const [input, value] of [[width, N], [temperature, T], [examples, P]]) {
        find(`output[name=${input.name}]`).textContent = value;
        input.setAttribute("aria-valuetext", value === "∞" ? "infinite" : String(value));
      }
      draw();
      drawMatrix(find("svg.matrix"), found);
      drawKernel(find("svg.kernel"), fewer(task, Number(P)), found);
      drawSentence(find(".words"), find(".answer"), number, found);
      find("[role=status]").textContent = `${said}${shown(100 * found.accuracy, 1)} % of ${task.test.examples} new sentences are right at N = ${N}. Log evidence ${shown(found.evidence, 1)} nats.`;
      fill();
    }

    let frame = 0; // at most one solution a frame
    const soon = () => { frame ||= requestAnimationFrame(() => { frame = 0; update(); }); };
    [width, temperature, examples].forEach((input) => input.addEventListener("input", soon));
    find("button").addEventListener("click", () => {
      number = (number + 1) % task.test.examples;
      drawSentence(find(".words"), find(".answer"), number, found);
    });
    root.querySelectorAll("input[type=checkbox]").forEach((box) => box.addEventListener("change", () => {
      const [layer, head] = box.value.split(",").map(Number), others = heads[layer].filter((one) => one !== head);
      const stays = !box.checked && !others.length;
      if (stays) box.checked = true;
      heads[layer] = box.checked ? [...others, head].sort() : others;
      update(stays ? "A layer needs at least one head: this one stays. " : "");
    }));
    find(".live").hidden = false;
    find(".still")?.remove();
    update();
  }

  document.querySelectorAll(".calculator.transformer:has(.live[hidden])").forEach(begin);
})();
