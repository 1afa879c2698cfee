"""The model, equations (1) to (7): inputs, queries and keys, weights -> attention matrices, attentioned inputs, outputs."""
