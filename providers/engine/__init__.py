"""The one loop that calls adapters: acquire, wait, journal, registry."""
