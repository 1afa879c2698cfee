"""The action of any levels and any energy, and its minimum."""
