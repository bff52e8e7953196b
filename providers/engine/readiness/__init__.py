"""Readiness: a machine that was launched becomes usable;
logins, the workload's start, its output.
"""
