"""Imports ahead of need what a cluster's check and plan use. Owns which modules those are."""

from __future__ import annotations


def warm_up() -> None:
    """Starts to import what a cluster's check needs, in the pause until it comes: the engine
    configures a provider first.
    """
    import threading

    def warm() -> None:
        import providers.model.spec
        import providers.plugin.cluster
        import providers.plugin.ownership
        import providers.plugin.volume
        from providers.catalog.offers import load

        load()
        import providers.engine.market.closed_places
        import providers.engine.market.planning
        import providers.engine.reconcile.condition
        import providers.planner.brief
        import providers.planner.check
        import providers.planner.plan
        import providers.planner.render
        import providers.plugin.preview
        import providers.plugin.running
        import providers.workloads.sizing.disk  # noqa: F401

    threading.Thread(target=warm, daemon=True).start()
