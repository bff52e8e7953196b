"""What runs on the machines: which GPUs hold it, how it is split over them, how it is started, what
it costs. Imports model, errors and catalog.
"""
