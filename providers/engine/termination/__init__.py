"""Termination: machines are released, and confirmed gone."""
