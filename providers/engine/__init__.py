"""The one package that calls adapters: launch, readiness, reconcile, termination, journal."""
