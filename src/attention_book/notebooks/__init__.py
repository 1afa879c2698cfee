"""Notebooks executed with other parameters."""
