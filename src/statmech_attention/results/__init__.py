"""Recorded results: small netCDF files that say how they were made, and the states of interrupted runs."""

from statmech_attention.results.store import digest, is_current, load, reason_to_make, record, save

__all__ = ["digest", "is_current", "load", "reason_to_make", "record", "save"]
