// Sentences of the toy language along the nine paths of two layers of three heads: (3) and (7).

// Softmax over the keys s of one query t; a logit is that of the two words and of their distance, at most two.
function attended({ words, content, distance }, sentence, layer, head, query) {
  const near = (s) => Math.max(-2, Math.min(2, s - query)) + 2;
  const logits = sentence.map((word, s) => content[layer][head][word * words + sentence[query]] + distance[layer][head][near(s)]);
  const top = Math.max(...logits), shares = logits.map((logit) => Math.exp(logit - top));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => share / total);
}

// How much of each token the last one sees along each path, h1 slowest.
function columns(heads, sentence) {
  const each = [0, 1, 2], queries = sentence.map((_, t) => t), last = sentence.length - 1;
  return each.flatMap((h1) => {
    const first = queries.map((t) => attended(heads, sentence, 0, h1, t));
    return each.map((h2) => {
      const second = attended(heads, sentence, 1, h2, last);
      return queries.map((s) => second.reduce((sum, share, t) => sum + share * first[t][s], 0));
    });
  });
}

// Sentences as [a-s] for words 0 to 18. A word is a one-hot vector of squared length N_0.
function readSentences(heads, { sentences, labels }) {
  const examples = labels.length, features = heads.words, tokens = sentences.length / examples;
  const read = Array.from({ length: examples }, (_, i) => (
    Array.from(sentences.slice(i * tokens, (i + 1) * tokens), (letter) => letter.charCodeAt(0) - 97)));
  const seen = read.map((sentence) => columns(heads, sentence)), inputs = seen[0].map(() => new Float64Array(examples * features));
  seen.forEach((paths, i) => paths.forEach((shares, p) => shares.forEach((share, s) => {
    inputs[p][i * features + read[i][s]] += Math.sqrt(features) * share;
  })));
  return { examples, features, inputs, read, seen, labels: Float64Array.from(labels, (sign) => (sign === "+" ? 1 : -1)) };
}

function loadLanguage(packed) {
  const bytes = Int8Array.from(atob(packed.content), (character) => character.charCodeAt(0)), { words } = packed;
  const table = (layer, head) => Float64Array.from(bytes.subarray((3 * layer + head) * words ** 2, (3 * layer + head + 1) * words ** 2), (ten) => ten / 10);
  const heads = { words, distance: packed.distance, content: [0, 1].map((layer) => [0, 1, 2].map((head) => table(layer, head))) };
  const train = readSentences(heads, packed.train), test = readSentences(heads, packed.test);
  return { train, test, kernels: pathKernels(train) };
}

// The task of the first so many sentences.
function fewer({ train, test, kernels }, examples) {
  const rows = (examples * (examples + 1)) / 2, labels = train.labels.subarray(0, examples);
  return { train: { ...train, examples, labels }, test, kernels: kernels.map((line) => line.map((kernel) => kernel.subarray(0, rows))) };
}
