"""Recorded results: small netCDF files that say how they were made, and the states of interrupted runs."""

from statmech_attention.results.store import digest, load, record, save

__all__ = ["digest", "load", "record", "save"]
