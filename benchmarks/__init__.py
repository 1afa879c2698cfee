"""Measure speed and memory, solve random problems, kill runs."""
