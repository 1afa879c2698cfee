"""Notebooks executed with other parameters, and the records that they make."""
