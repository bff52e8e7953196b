"""Rules, ranking, plan, blocks: pure functions over the offer table."""
