"""What `gpus top` asks, reads and tells Prometheus: the real script with a played `nvidia-smi`, and
the real endpoint on loopback.
"""

import os
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from providers.cli import main, metrics
from providers.cli.metrics import Endpoint, Sample
from providers.errors import SpecError
from providers.remote import gauges

SHELLS = [words for words in (("bash",), ("dash",), ("busybox", "sh")) if shutil.which(words[0])]
H200 = "0, 97, 61440, 143771, 650.11, 700.00, 57, 0, NVIDIA H200"
BARE = "1, 3, 0, 24564, [N/A], [N/A], 41, [N/A], NVIDIA GeForce RTX 4090"
READ = gauges.read(0, f"{H200}\n{BARE}\ngpus-xids 2\n", "")


@pytest.mark.parametrize("words", SHELLS, ids=lambda words: words[0])
@pytest.mark.parametrize("stand_in", [False, True])
def test_the_question_is_answered_from_any_shell(words, stand_in, tmp_path) -> None:
    """Of a stand-in nobody reads the log of the computer that it runs on."""
    for name, body in (
        ("nvidia-smi", f'case "$*" in *utilization.gpu*) echo "{H200}" ;; esac'),
        ("dmesg", "echo 'NVRM: Xid (PCI:0000:04:00): 79'; echo other"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [*words, "-c", gauges.query(stand_in=stand_in)],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = gauges.read(done.returncode, done.stdout, done.stderr)
    assert [card.name for card in found.gauges] == ["NVIDIA H200"]
    if stand_in:
        assert found.xids is None
    elif words != ("busybox", "sh"):  # whose own dmesg comes before any on PATH
        assert found.xids == 1


def test_what_a_driver_does_not_say_is_unknown_and_never_zero() -> None:
    first, second = READ.gauges
    assert (first.busy_percent, first.power_w, first.uncorrected) == (97, 650.11, 0)
    assert (second.power_w, second.power_limit_w, second.uncorrected) == (None, None, None)
    assert READ.xids == 2 and READ.why == ""


@pytest.mark.parametrize(
    ("code", "output", "errors", "why"),
    [
        (9, "", "NVIDIA-SMI has failed\n", "NVIDIA-SMI has failed"),
        (0, "", "", "its driver lists no GPU"),
        (255, "", "ssh: connect: \x1b[2Jtimed out", "ssh: connect: \\x1b[2Jtimed out"),
        (0, "0, 1e99999, 2\n", "", "0, 1e99999, 2"),
    ],
)
def test_a_machine_that_does_not_answer_has_a_reason(code, output, errors, why) -> None:
    assert gauges.read(code, output, errors) == gauges.Reading(why=why)


def test_prometheus_reads_every_value_in_base_units_and_no_unknown_one() -> None:
    samples = [Sample("a", "dev", 1, READ), Sample('b"\n', "", 0, gauges.Reading(why="gone"))]
    lines = metrics.text(samples).splitlines()
    assert 'gpus_up{cluster="a",stack="dev",node="1"} 1' in lines
    assert r'gpus_up{cluster="b\"\n",stack="",node="0"} 0' in lines
    labels = 'cluster="a",stack="dev",node="1",gpu="0",model="NVIDIA H200"'
    assert f"gpus_busy_ratio{{{labels}}} 0.97" in lines
    assert f"gpus_memory_used_bytes{{{labels}}} 6.442450944e+10" in lines
    assert 'gpus_xid_total{cluster="a",stack="dev",node="1"} 2' in lines
    assert sum(line.startswith("gpus_power_watts{") for line in lines) == 1
    named = {line.split("{")[0] for line in lines if not line.startswith("#")}
    assert named == {line.split()[2] for line in lines if line.startswith("# TYPE")}


def test_the_endpoint_answers_what_was_published_last_and_nothing_else() -> None:
    endpoint = Endpoint("127.0.0.1", 0)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        assert b"gpus_busy_ratio{" not in opener.open(endpoint.url, timeout=10).read()
        endpoint.publish([Sample("a", "", 0, READ)])
        with opener.open(endpoint.url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"gpus_busy_ratio{" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            opener.open(endpoint.url.replace("metrics", "other"), timeout=10)
        with pytest.raises(SpecError, match="wanted an address that is free"):
            Endpoint(*metrics.address(endpoint.url.split("/")[2]))
    finally:
        endpoint.close()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--interval", "soon"), "--interval: wanted a duration of 1s or more"),
        (("--interval", "0"), "--interval: wanted a duration of 1s or more"),
        (("--serve", "http"), "--serve: wanted PORT or ADDRESS:PORT"),
        (("--serve", "70000"), "--serve: wanted PORT or ADDRESS:PORT"),
    ],
)
def test_a_wrong_option_is_one_clear_message(words, why, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    assert main.main(["top", *words]) == 2
    assert why in " ".join(capsys.readouterr().err.split())
