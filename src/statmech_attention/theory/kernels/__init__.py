"""Kernels of paths and of tokens, and the regression on them."""
