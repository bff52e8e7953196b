"""Hardware facts (what a GPU is) and offers (who sells what, where, at which price, as of when)."""
