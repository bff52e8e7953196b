"""Declare the GPUs you want, not where."""
