"""Acceptance of a rented machine: what it measures of itself, and whether that is what was sold."""
