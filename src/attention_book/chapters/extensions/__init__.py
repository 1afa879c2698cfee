"""Pages of the part on other layers."""
