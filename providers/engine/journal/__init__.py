"""The journal: what was ordered, placed, blocked and leased, on disk before it happens."""
