"""Sizing: what memory, disk and split a model needs, and which GPUs hold it."""
