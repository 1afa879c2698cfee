"""Code of the part on theory."""
