"""What holds for every test: generated examples are never judged by the clock."""

from hypothesis import HealthCheck, settings

settings.register_profile("gpus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpus")
