"""One folder a cloud: its rehearsal server, with its own tables."""
