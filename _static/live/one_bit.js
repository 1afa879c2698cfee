// The mean field of a 1-bit self-attention network, book/dmft/mean_field.md: (B1), (B7) and (B8), and a figure of it.
// A net: {features, window, epsilon, words: {query, key, value, output}, positions: {..}}; words[name][a] are the bits of
// pattern a on groups of sites of one size, positions[name][a] its positional bits.
const oneBit = (() => {
  const dot = (left, right) => left.reduce((sum, value, i) => sum + value * right[i], 0);
  const signs = text => text.split(" ").map(row => [...row].map(bit => (bit === "+" ? 1 : -1)));
  // The published patterns, drawn with seed 1.
  const published = {
    features: 3, window: 4, epsilon: 0.02,
    words: {query: signs("+-- --- +-+"), key: signs("--- --+ -+-"), value: signs("-+- --+ -++"), output: signs("-++ -+- +++")},
    positions: {query: signs("+- ++ --"), key: signs("-- -- -+"), value: signs("-- +- -+")},
  };
  // A cycle of words, book/dmft/sequences.md: every combination of signs is one group of sites.
  const cycle = (count, window = 4) => {
    const xi = Array.from({length: count}, (_, a) => Array.from({length: 2 ** count}, (_, i) => ((i >> (count - 1 - a)) & 1 ? -1 : 1)));
    const before = xi.map((_, a) => (a ? xi[a - 1] : xi[count - 1].map(bit => -bit)));
    const none = xi.map(() => Array(Math.log2(window)).fill(1));
    return {features: count, window, epsilon: 0, words: {query: xi, key: xi, value: before, output: xi}, positions: {query: none, key: none, value: none}};
  };
  const code = (slot, bits) => Array.from({length: bits}, (_, j) => ((slot >> (bits - 1 - j)) & 1 ? 1 : -1));
  // (B1) of a token with these mean bits, as the token of a slot.
  const overlaps = (net, name, means, slot) => net.words[name].map((row, a) => {
    const positions = net.positions[name][a];
    return (1 - net.epsilon) * dot(row, means) / means.length + net.epsilon * dot(positions, code(slot, positions.length)) / positions.length;
  });
  // Add a token to the window and attend, (B2) and (B3).
  const append = (net, gamma, state, means) => {
    const slot = (state.slot + 1) % net.window, query = overlaps(net, "query", means, slot);
    const tokens = [...state.tokens];
    tokens[slot] = {key: overlaps(net, "key", means, slot), value: overlaps(net, "value", means, slot)};
    const present = tokens.filter(Boolean), logits = present.map(one => gamma / Math.sqrt(net.features) * dot(query, one.key));
    const top = Math.max(...logits), shares = logits.map(logit => Math.exp(logit - top)), total = shares.reduce((a, b) => a + b);
    const attention = query.map((_, a) => dot(shares, present.map(one => one.value[a])) / total);
    return {slot, tokens, attention};
  };
  const begin = (net, gamma) => append(net, gamma, {slot: -1, tokens: Array(net.window).fill(null)}, net.words.output[0]);
  // One token of (B7): its mean bits by the attention of the token before it.
  const written = (net, beta, state) => net.words.output[0].map((_, i) => Math.tanh(beta * dot(net.words.output.map(row => row[i]), state.attention)));
  const step = (net, beta, gamma, state) => {
    const means = written(net, beta, state);
    return {means, outputs: net.words.output.map(row => dot(row, means) / means.length), state: append(net, gamma, state, means)};
  };
  const run = (net, beta, gamma, steps, state = begin(net, gamma)) => {
    const seen = [];
    for (let t = 0; t < steps; t++) {
      const next = step(net, beta, gamma, state);
      state = next.state;
      seen.push(next);
    }
    return {seen, state};
  };
  const flat = state => [...state.attention, ...state.tokens.flatMap(one => [...one.key, ...one.value])];
  // Period within so many steps, or 0.
  const period = (net, beta, gamma, state, longest = 256) => {
    const first = flat(state);
    for (let t = 1; t <= longest; t++) {
      state = step(net, beta, gamma, state).state;
      if ((net.epsilon === 0 || t % net.window === 0) && Math.max(...flat(state).map((value, i) => Math.abs(value - first[i]))) < 1e-6) return t;
    }
    return 0;
  };
  // Rate at which two close runs part, per step: the largest Lyapunov exponent.
  const growth = (net, beta, gamma, state, steps = 1500, size = 1e-7) => {
    const nudged = (from, to, share) => from.map((value, i) => value + share * (to[i] - value));
    let other = {...state, attention: state.attention.map((value, a) => value + size * (a ? -1 : 1))}, sum = 0;
    for (let t = 0; t < steps; t++) {
      state = step(net, beta, gamma, state).state;
      other = step(net, beta, gamma, other).state;
      const there = flat(other), apart = Math.hypot(...flat(state).map((value, i) => value - there[i])) || 1e-300;
      if (t >= 200) sum += Math.log(apart / size);
      const share = size / apart;
      other = {slot: other.slot, attention: nudged(state.attention, other.attention, share), tokens: other.tokens.map((one, i) => (
        {key: nudged(state.tokens[i].key, one.key, share), value: nudged(state.tokens[i].value, one.value, share)}))};
    }
    return sum / (steps - 200);
  };
  return {published, cycle, begin, step, run, period, growth};
})();

if (typeof module !== "undefined") module.exports = oneBit;
if (typeof document !== "undefined") document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("one-bit-live");
  if (!place) return;
  const element = (name, attributes, ...children) => {
    const made = ["svg", "path", "line", "text", "tspan", "rect"].includes(name)
      ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const colours = ["#3a8fd0", "#D55E00", "#009E73", "#b070d0"];
  const nets = {published: oneBit.published, cycle: oneBit.cycle(4)};
  const starts = {published: {beta: 1.27, gamma: 220}, cycle: {beta: 2, gamma: 16}};
  const choice = element("select", {"aria-label": "patterns"},
    element("option", {value: "published"}, "the published patterns"), element("option", {value: "cycle"}, "a cycle of four words"));
  const controls = element("div", {}), said = element("p", {"aria-live": "polite"}), plot = element("div", {}), knobs = {};
  controls.style.cssText = "display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.4rem 1.2rem;margin:1rem 0";
  controls.append(element("label", {}, "patterns: ", choice));
  const knob = (name, label, low, high, step, read, write) => {
    const input = element("input", {type: "range", min: low, max: high, step, style: "display:block;width:100%"}), value = element("output", {});
    const show = () => { value.textContent = `${label} = ${Number(read(Number(input.value)).toPrecision(4))}`; input.setAttribute("aria-valuetext", value.textContent); };
    input.addEventListener("input", () => { show(); draw(); });
    controls.append(element("label", {style: "display:block"}, value, input));
    knobs[name] = {get: () => read(Number(input.value)), set: number => { input.value = write(number); show(); }};
  };
  knob("beta", "inverse temperature of the tokens β", 0.5, 3, 0.01, value => value, value => value);
  knob("gamma", "sharpness of attention γ", 0, 2.5, 0.005, value => Number((10 ** value).toPrecision(2)), value => Math.log10(value));
  choice.addEventListener("change", () => { for (const name of ["beta", "gamma"]) knobs[name].set(starts[choice.value][name]); draw(); });
  place.replaceChildren(controls, said, plot);

  const words = (period, rate, size) => {
    if (size < 0.01) return "The network is all but silent.";
    if (period) return period === 1 ? "The network writes one word for ever." : `The network repeats itself every ${period} tokens.`;
    if (rate > 0.01) return `The network has not repeated itself in 256 tokens: two close runs part at a rate of ${rate.toFixed(2)} per token. So far this is chaos.`;
    return "The network has not repeated itself in 256 tokens, and close runs stay close: it moves on a torus, or approaches an orbit slowly.";
  };
  const picture = (net, seen, width) => {
    const left = 36, right = 8, lines = 150, row = Math.max(8, Math.min(22, 96 / seen[0].means.length)), top = 22;
    const height = lines + 2 * top + row * seen[0].means.length + 34, cell = (width - left - right) / seen.length;
    const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", style: "max-width:100%;color:inherit",
      "aria-label": "Overlaps of the last tokens with the output patterns, and the bits of these tokens"});
    const note = (x, y, text, more = {}, ...rest) => svg.append(element("text", {x, y, fill: "currentColor", "font-size": 12, ...more}, text, ...rest));
    // The axis and the colours end at the first of these that is not exceeded.
    const end = values => [0.25, 0.5, 1].find(most => Math.max(...values.map(Math.abs)) <= most) ?? 1;
    const most = end(seen.flatMap(one => one.outputs)), full = end(seen.flatMap(one => one.means));
    const up = value => top + lines / 2 * (1 - value / most);
    for (const value of [-most, 0, most]) {
      svg.append(element("line", {x1: left, x2: width - right, y1: up(value), y2: up(value), stroke: "currentColor", "stroke-opacity": 0.2}));
      note(left - 5, up(value) + 4, String(value).replace("-", "−"), {"text-anchor": "end"});
    }
    note(left, 14, "overlap of the token with output pattern", {},
      ...net.words.output.map((_, a) => element("tspan", {fill: colours[a], dx: 6, "font-weight": 700}, a + 1)));
    for (let a = 0; a < net.features; a++) svg.append(element("path", {
      d: "M" + seen.map((one, t) => `${(left + cell * (t + 0.5)).toFixed(1)},${up(one.outputs[a]).toFixed(1)}`).join("L"),
      fill: "none", stroke: colours[a], "stroke-width": 2}));
    const below = top + lines + top + 4;
    note(left, below - 6, `mean bits of the word: +${full} blue, −${full} red`);
    seen.forEach((one, t) => one.means.forEach((mean, i) => svg.append(element("rect", {
      x: (left + cell * t).toFixed(2), y: below + row * i, width: Math.max(cell - 0.5, 0.5).toFixed(2), height: row - 0.5,
      fill: mean < 0 ? "#d0553a" : "#3a78d0", "fill-opacity": (Math.abs(mean) / full).toFixed(3)}))));
    note((left + width) / 2, height - 6, "the last tokens, oldest first", {"text-anchor": "middle"});
    return svg;
  };
  let waiting = false;
  const draw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const net = nets[choice.value], beta = knobs.beta.get(), gamma = knobs.gamma.get();
      const past = oneBit.run(net, beta, gamma, 1500).state, {seen} = oneBit.run(net, beta, gamma, 48, past);
      const size = Math.max(...seen.flatMap(one => one.outputs.map(Math.abs)));
      const period = oneBit.period(net, beta, gamma, past), rate = period ? 0 : oneBit.growth(net, beta, gamma, past);
      said.textContent = words(period, rate, size);
      plot.replaceChildren(picture(net, seen, Math.max(280, Math.min(place.clientWidth, 760))));
    });
  };
  window.addEventListener("resize", draw);
  for (const name of ["beta", "gamma"]) knobs[name].set(starts.published[name]);
  draw();
});
