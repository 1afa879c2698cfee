// The theory of a small network solved in the page: the saddle point of the action (11), (12) and the mean predictor (9).
//
// Two layers of heads, one output, equal widths, unit prior variances. With lower triangular A1, A2 and a number a,
//   U3 = a^2,  U2 = F2 F2^T,  F2 = a A2,  U1 = F1 F1^T,  F1 = (1 x F2) A1,
// and the entropy is the sum of |A|^2 - 2 ln det A over the three.

// Examples from 8-bit integers: inputs[path][example * features + feature], labels of +1 and -1.
function unpack(packed) {
  const bytes = Int8Array.from(atob(packed.inputs), (character) => character.charCodeAt(0));
  const size = packed.examples * packed.features;
  return {
    ...packed,
    inputs: packed.scales.map((scale, path) =>
      Float64Array.from(bytes.subarray(path * size, (path + 1) * size), (integer) => scale * integer)),
    labels: Float64Array.from(packed.labels, (sign) => (sign === "+" ? 1 : -1)),
  };
}

// Kernels of pairs of paths p >= q, as lower triangles; of two different paths the sum of both orders.
function pathKernels({ examples, features, inputs }) {
  const dot = (p, i, q, j) => {
    let sum = 0;
    for (let f = 0; f < features; f++) sum += inputs[p][i * features + f] * inputs[q][j * features + f];
    return sum / features;
  };
  return inputs.map((_, p) => inputs.slice(0, p + 1).map((_, q) => {
    const kernel = [];
    for (let i = 0; i < examples; i++) {
      for (let j = 0; j <= i; j++) kernel.push(dot(p, i, q, j) + (p === q ? 0 : dot(q, i, p, j)));
    }
    return Float64Array.from(kernel);
  }));
}

// Energy (12) of an order parameter U, the derivative dE/dU, and (K + T)^-1 Y.
function energy(kernels, labels, U, temperature) {
  const P = labels.length, paths = U.length;
  const L = new Float64Array((P * (P + 1)) / 2), row = (i) => (i * (i + 1)) / 2;
  for (let p = 0; p < paths; p++) {
    for (let q = 0; q <= p; q++) {
      const factor = U[p][q] / paths, kernel = kernels[p][q];
      for (let at = 0; at < L.length; at++) L[at] += factor * kernel[at];
    }
  }
  // Cholesky factor of K + T in place, and its inverse.
  let volume = 0;
  const inverse = new Float64Array(L.length), solved = new Float64Array(P);
  for (let i = 0; i < P; i++) {
    const ri = row(i);
    L[ri + i] += temperature;
    for (let j = 0; j <= i; j++) {
      const rj = row(j);
      let sum = L[ri + j];
      for (let k = 0; k < j; k++) sum -= L[ri + k] * L[rj + k];
      L[ri + j] = i === j ? Math.sqrt(sum) : sum / L[rj + j];
    }
    if (!(L[ri + i] > 0)) return { value: Infinity };
    volume += 2 * Math.log(L[ri + i]);
    for (let k = 0; k < i; k++) {
      const factor = L[ri + k], rk = row(k);
      for (let j = 0; j <= k; j++) inverse[ri + j] -= factor * inverse[rk + j];
    }
    inverse[ri + i] = 1;
    for (let j = 0; j <= i; j++) inverse[ri + j] /= L[ri + i];
    for (let j = 0; j <= i; j++) solved[i] += inverse[ri + j] * labels[j];
  }
  let misfit = 0;
  const regression = new Float64Array(P), resolvent = new Float64Array(L.length);
  for (let k = 0; k < P; k++) {
    const rk = row(k);
    misfit += solved[k] ** 2;
    for (let i = 0; i <= k; i++) {
      const factor = inverse[rk + i], ri = row(i);
      regression[i] += factor * solved[k];
      for (let j = 0; j <= i; j++) resolvent[ri + j] += factor * inverse[rk + j];
    }
  }
  for (let i = 0, at = 0; i < P; i++) {
    for (let j = 0; j <= i; j++, at++) resolvent[at] = (i === j ? 1 : 2) * (resolvent[at] - regression[i] * regression[j]);
  }
  const slope = U.map((line) => line.map(() => 0));
  for (let p = 0; p < paths; p++) {
    for (let q = 0; q <= p; q++) {
      let sum = 0;
      for (let at = 0; at < L.length; at++) sum += resolvent[at] * kernels[p][q][at];
      slope[p][q] = slope[q][p] = sum / (P * paths) / (p === q ? 1 : 2);
    }
  }
  return { value: (volume + misfit) / P, slope, regression };
}

const product = (a, b) => a.map((line) => b[0].map((_, j) => line.reduce((sum, value, k) => sum + value * b[k][j], 0)));
const transposed = (a) => a[0].map((_, j) => a.map((line) => line[j]));
// The block-diagonal matrix 1 x F.
const repeated = (F, times) => {
  const size = F.length * times, n = F.length, same = (i, j) => Math.floor(i / n) === Math.floor(j / n);
  return Array.from({ length: size }, (_, i) => Array.from({ length: size }, (_, j) => (same(i, j) ? F[i % n][j % n] : 0)));
};

// Coordinates of the network of the heads that are kept: a, then the rows of A2, then those of A1.
function network(heads, kernels, labels, alpha, temperature) {
  const [first, second] = heads.map((layer) => layer.length);
  const across = Math.sqrt(kernels.length); // heads of a layer; both have as many
  const kept = heads[0].flatMap((h1) => heads[1].map((h2) => across * h1 + h2));
  const small = kept.map((p, i) => kept.slice(0, i + 1).map((q) => kernels[Math.max(p, q)][Math.min(p, q)]));
  const rows = (size) => Array.from({ length: size }, (_, i) => i + 1);
  const sizes = [1, ...rows(second), ...rows(kept.length)]; // every row ends with a diagonal entry
  const start = sizes.flatMap((size) => [...new Array(size - 1).fill(0), 1]);
  const curvature = start.map((one) => (one ? 4 : 2)); // of the entropy, at the start

  function factors(x) {
    let at = 1;
    const triangle = (size) => rows(size).map((length) => {
      at += length;
      return [...x.slice(at - length, at), ...new Array(size - length).fill(0)];
    });
    const A2 = triangle(second), A1 = triangle(kept.length), F2 = A2.map((line) => line.map((value) => x[0] * value));
    const wide = repeated(F2, first), F1 = product(wide, A1);
    return { A1, A2, wide, F1, U: product(F1, transposed(F1)) };
  }

  function action(x) {
    const found = factors(x);
    let value = 0;
    const gradient = x.map((entry, i) => {
      if (start[i] && !(entry > 0)) value = Infinity;
      value += entry ** 2 - (start[i] ? 2 * Math.log(entry) : 0);
      return 2 * entry - (start[i] ? 2 / entry : 0);
    });
    if (!(value < Infinity)) return { value: Infinity };
    const one = energy(small, labels, found.U, temperature);
    if (!(one.value < Infinity)) return { value: Infinity };
    const byF1 = product(one.slope, found.F1).map((line) => line.map((entry) => 2 * alpha * entry));
    const byA1 = product(transposed(found.wide), byF1), byWide = product(byF1, transposed(found.A1));
    const byF2 = rows(second).map((_, i) => rows(second).map((_, j) => {
      let sum = 0;
      for (let h = 0; h < first; h++) sum += byWide[h * second + i][h * second + j];
      return sum;
    }));
    let at = 1;
    byF2.forEach((line, i) => line.forEach((entry, j) => { gradient[0] += entry * found.A2[i][j]; }));
    for (let i = 0; i < second; i++) for (let j = 0; j <= i; j++) gradient[at++] += x[0] * byF2[i][j];
    for (let i = 0; i < kept.length; i++) for (let j = 0; j <= i; j++) gradient[at++] += byA1[i][j];
    return { value: value + alpha * one.value, energy: one.value, gradient, U: found.U, regression: one.regression };
  }
  return { kept, start, curvature, action };
}

// Minimise by BFGS, started with the curvature of the entropy; a step is halved until the action falls enough.
function minimise({ start, curvature, action }, from, tolerance = 1e-7) {
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  let x = from ?? start, now = action(x), steps = 0;
  if (!(now.value < Infinity)) [x, now] = [start, action(start)];
  const fresh = () => curvature.map((c, i) => curvature.map((_, j) => (i === j ? 1 / c : 0)));
  let inverse = fresh();
  const largest = () => Math.max(...now.gradient.map(Math.abs));
  while (largest() > tolerance && steps < 300) {
    let direction = inverse.map((line) => -dot(line, now.gradient)), fall = dot(direction, now.gradient);
    if (!(fall < 0)) { inverse = fresh(); direction = inverse.map((line) => -dot(line, now.gradient)); fall = dot(direction, now.gradient); }
    if (-fall < 1e-15 * (1 + Math.abs(now.value))) break; // rounding hides what is left of the gradient
    let length = 1, next, y;
    do {
      y = x.map((value, i) => value + length * direction[i]);
      next = action(y);
      length /= 2;
    } while (!(next.value <= now.value + 1e-4 * 2 * length * fall) && length > 1e-12);
    if (!(next.value < Infinity) || length <= 1e-12) break;
    const s = y.map((value, i) => value - x[i]), g = next.gradient.map((value, i) => value - now.gradient[i]), sg = dot(s, g);
    if (sg > 0) {
      const Hg = inverse.map((line) => dot(line, g)), scale = (1 + dot(g, Hg) / sg) / sg;
      inverse = inverse.map((line, i) => line.map((v, j) => v + scale * s[i] * s[j] - (Hg[i] * s[j] + s[i] * Hg[j]) / sg));
    }
    [x, now] = [y, next];
    steps++;
  }
  return { ...now, x, steps, gradient: largest() };
}

// Mean outputs (9) on test examples.
function meanOutputs(train, test, kept, U, regression) {
  const { examples, features } = train, scale = 1 / (kept.length * features);
  const seen = kept.map((p) => {
    const sum = new Float64Array(features);
    for (let i = 0; i < examples; i++) for (let f = 0; f < features; f++) sum[f] += regression[i] * train.inputs[p][i * features + f];
    return sum;
  });
  const weights = U.map((line) => seen[0].map((_, f) => scale * line.reduce((sum, entry, b) => sum + entry * seen[b][f], 0)));
  const outputs = Array.from({ length: test.examples }, (_, i) => kept.reduce((output, p, a) => {
    for (let f = 0; f < features; f++) output += weights[a][f] * test.inputs[p][i * features + f];
    return output;
  }, 0));
  return { weights, outputs };
}

// Theory of the network of some heads, [[of layer 1], [of layer 2]], at one width (Infinity too) and temperature.
function solveNetwork(task, { width, temperature, heads = [[0, 1], [0, 1]], from = null, tolerance = 1e-7 }) {
  const { train, test, kernels } = task, alpha = train.examples / width;
  const problem = network(heads, kernels, train.labels, alpha, temperature);
  const found = minimise(problem, from, tolerance);
  const { weights, outputs } = meanOutputs(train, test, problem.kept, found.U, found.regression);
  const right = outputs.filter((output, i) => output * test.labels[i] > 0).length;
  // To leading order, -N (S - S_0) / 2 - P ln(2 pi) / 2, where the smallest entropy S_0 counts the diagonal entries.
  const least = problem.start.reduce((sum, one) => sum + one, 0), P = train.examples;
  const nats = width === Infinity ? P * found.energy : width * (found.value - least);
  const evidence = -(nats + P * Math.log(2 * Math.PI)) / 2;
  return { ...found, kept: problem.kept, weights, outputs, evidence, accuracy: right / test.examples };
}

function loadTask(packed) {
  const [train, test] = [unpack(packed.train), unpack(packed.test)];
  return { train, test, kernels: pathKernels(train) };
}
