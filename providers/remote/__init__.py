"""Reaching machines: the line to one (OpenSSH's client, or the rehearsal's stand-in), commands,
files, ports, and the look at its GPUs.
"""
