"""Keep some heads of a model of transformers, and see what a probe of its embedding loses."""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from statmech_attention.reading import only_heads, own_slopes


def embedded(model, batch):
    """The mean of the last hidden states, padding left out."""
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    return ((mask * hidden).sum(dim=1) / mask.sum(dim=1)).numpy()


def compare(model, tokeniser, texts, labels, keep):
    """Accuracy on the second half of the texts with all heads, the best, and any."""
    half, options = len(texts) // 2, {"padding": True, "return_tensors": "pt"}
    known = tokeniser(texts[:half], **options)
    new = tokeniser(texts[half:], **options)
    best = np.argsort(-own_slopes(model, known, labels[:half]).slopes)
    drawn = np.random.default_rng(0).permutation(best)
    for name, kept in (("all", best), ("best", best[:keep]), ("any", drawn[:keep])):
        with only_heads(model, kept, **known):
            probe = LogisticRegression().fit(embedded(model, known), labels[:half])
            right = probe.score(embedded(model, new), labels[half:])
        print(f"{name:4} {len(kept):3} heads: accuracy {right:.3f}")
