"""Readers of the records of trained networks."""
