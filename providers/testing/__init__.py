"""Contract suite, fault injection, clock: shipped, so that outside adapters can be held to the same
rules.
"""
