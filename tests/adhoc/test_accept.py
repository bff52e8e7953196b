"""Acceptance over a real ssh server: the program travels, runs there and is judged here."""

import json

import pytest

from providers.acceptance.judge import judge
from providers.adhoc.sync import portal
from providers.errors import GpusError
from tests.unit.acceptance.recorded import XML


@pytest.mark.core
def test_a_machine_is_measured_over_ssh(bench) -> None:
    """Its driver is played, and it has no CUDA library: the inventory is judged, and what could
    not be measured is unknown.
    """
    machine = bench.rent()
    (bench.host.home / "smi.xml").write_text(XML, encoding="utf-8")
    bench.host.script(f'[ "$1" = -q ] && cat {bench.host.home}/smi.xml')
    found = portal().run(machine.inner.measured("quick"))
    verdict = judge(found, "H100", 8)
    assert verdict.word == "not what was sold" and "1 GPUs where 8 were sold" in verdict.reasons
    assert any("libcuda.so.1" in text for text in verdict.unknown)
    assert json.dumps(found).count("H200") == 1
    machine.release()


def test_a_lost_connection_is_no_verdict(bench) -> None:
    """What cannot be reached is an error, with what ssh said."""
    machine = bench.rent()
    bench.server.stop()
    with pytest.raises(GpusError, match="wanted the machine's measurements, found none"):
        portal().run(machine.inner.measured("quick"))
    bench.server.start()
    machine.release()
