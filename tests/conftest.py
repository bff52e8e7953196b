"""What holds for every test: generated examples are never judged by the clock, and Ctrl-C is heard, whoever started the tests."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("gpus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpus")
# A shell without job control starts what runs in the background deaf to SIGINT, and so would be every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
