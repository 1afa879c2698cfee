"""Measure the speed of minimisers, batches of problems and samplers."""
