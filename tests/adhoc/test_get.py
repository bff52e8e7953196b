"""`gpus get`: it looks until there is room, whatever becomes of its process, and buys once."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from providers.cli.main import main
from providers.engine.market.reopening import reopening
from providers.errors import GpusError, SpecError
from providers.model.place import Block, Scope
from providers.rehearsal.scenario import ANY
from providers.rehearsal.store import open_store
from providers.remote import notice
from tests.adhoc.provision_rig import machines

pytestmark = pytest.mark.usefixtures("own_home")

REGION = "us-central1"
WORDS = ("get", "L4:1", "--provider", "gcp", "--region", REGION, "--max-price", "5")
HOUR_S = 3_600.0


@pytest.fixture
def webhook():
    """(its URL, the notices that it was sent)."""
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", sent
    server.shutdown()
    server.server_close()


def looking(*words) -> subprocess.Popen[str]:
    code = "from providers.cli.main import main; raise SystemExit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True, bufsize=1
    )


def said(process, word) -> list[str]:
    """What it said up to a line with that word."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError("".join(lines))


def sold_out(count=0) -> None:
    open_store().set_stock("gcp", ANY, ANY, ANY, count, ANY)


def orders() -> int:
    """How often a machine was asked for."""
    return len([each for each in open_store().requests("*nsert*") if each.provider == "gcp"])


@pytest.mark.long
def test_famine_of_six_hours_ends_in_one_machine_though_the_wait_is_killed_twice(webhook) -> None:
    """The third process goes on with the deadline of the first; one notice is sent, and what was
    asked for meanwhile is a handful of orders.
    """
    url, notices = webhook
    words = (*WORDS, "--within", "12h", "--notify", url)
    sold_out()
    store, begun = open_store(), open_store().now()
    for first in (True, False):
        process = looking(*words)
        heard = said(process, "still looking")
        assert first != any("goes on looking" in line for line in heard)
        for _ in range(3):
            store.advance(HOUR_S)
            heard = said(process, "still looking")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        assert machines() == [] and not notices
    process = looking(*words)
    assert any("goes on looking" in line for line in said(process, "still looking"))
    tried = orders()
    sold_out(1)
    store.advance(HOUR_S)
    assert process.wait(timeout=60) == 0
    assert len(machines()) == 1 and orders() == tried + 1
    assert [each["title"] for each in notices] == ["gpus: acquired"]
    hours = (store.now() - begun) / HOUR_S
    assert 6 < hours < 8 and tried <= 6 * hours
    # The same words again find it, and buy nothing.
    assert looking(*words).wait(timeout=60) == 0
    assert len(machines()) == 1 and orders() == tried + 1


@pytest.mark.long
def test_time_that_is_over_is_an_error_and_a_notice(webhook, capfd) -> None:
    """A last try is made at the end, then all is told; a second run begins anew."""
    url, notices = webhook
    sold_out()
    process = looking(*WORDS, "--within", "30m", "--notify", url)
    said(process, "still looking")
    open_store().advance(HOUR_S)
    heard = said(process, "looked for 30m")
    assert process.wait(timeout=60) == 1 and "tries" in heard[-1]
    assert [each["title"] for each in notices] == ["gpus: gave up"]
    again = looking(*WORDS, "--within", "30m")
    assert not any("goes on looking" in line for line in said(again, "still looking"))
    again.send_signal(signal.SIGINT)
    assert again.wait(timeout=60) == 130 and machines() == []


@pytest.mark.long
def test_two_that_look_for_the_same_are_told_so() -> None:
    """Only one of them may buy."""
    sold_out()
    first = looking(*WORDS)
    said(first, "still looking")
    second = looking(*WORDS)
    assert "has been at work on it" in said(second, "process")[-1]
    assert second.wait(timeout=60) == 2
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=60) == 143


@pytest.mark.long
def test_what_no_wait_would_change_ends_at_once(capsys) -> None:
    """A cap below every price; and no cap at all."""
    began = time.monotonic()
    assert main(["get", "L4:1", "--max-price", "0.01", "--provider", "gcp"]) == 1
    assert main(["get", "L4:1"]) == 2
    assert "--max-price: wanted the most it may cost an hour" in capsys.readouterr().err
    assert time.monotonic() - began < 60


BLOCK = ("--provider", "aws", "--region", "us-east-1", "--set", "aws:regions=us-east-1")
TERMS = ("--block-lasts", "1d", "--block-max-price", "800")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("get", "--capacity", "block", *TERMS[:2]), "--block-max-price: wanted a block's length"),
        (("get", "--capacity", "block", *TERMS[2:]), "--block-lasts: wanted a block's length"),
        (("get", "--capacity", "block"), "as in --block-lasts 1d --block-max-price 900"),
        (("get", "--max-price", "9", *TERMS), "--capacity: wanted block, whose terms are given"),
        (("run", "--capacity", "block", "--keep"), "`gpus get` waits until the block begins"),
    ],
)
def test_block_is_asked_for_with_a_cap_of_its_own(words, text, capsys) -> None:
    """And of a command that waits for its beginning; nothing is asked of any cloud."""
    assert main([words[0], "H100:8", *BLOCK, *words[1:]]) == 2
    assert text in " ".join(capsys.readouterr().err.split())
    assert not open_store().requests("*")


@pytest.mark.long
def test_block_is_paid_once_and_waited_for_though_the_wait_is_killed() -> None:
    """The same words go on waiting for the same block, and launch into it."""
    words = ("get", "H100:8", *BLOCK, "--capacity", "block", *TERMS, "--within", "1h")
    begins = "its block is paid for, and begins"
    process = looking(*words)
    first = said(process, begins)[-1]
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    again = looking(*words)
    assert said(again, begins)[-1] == first and machines() == []
    open_store().advance(26 * HOUR_S)
    assert again.wait(timeout=120) == 0
    assert len(machines()) == 1
    assert len(open_store().requests("ec2.PurchaseCapacityBlock")) == 1


def test_place_that_opens_first_is_the_next_one() -> None:
    """Of places that are left alone; at once where one is not."""
    from providers.engine.market import planning
    from providers.model.spec import read_cluster

    plan = planning.plan(read_cluster("a", {"gpu": "L4:1", "providers": ["gcp"]}).ask())
    regions = {each.region for each in plan.candidates}
    late = [Block(Scope("gcp", region), 900.0, "sold out") for region in sorted(regions)]
    late[2] = late[2]._replace(until=300.0)
    found = reopening(plan, late, 100.0)
    assert found is not None and (found.at, found.first.region) == (300.0, late[2].scope.region)
    assert (free := reopening(plan, late[1:], 100.0)) is not None and free.at == 100.0
    assert reopening(planning.plan(read_cluster("a", {"gpu": "L4:1", "providers": ["modal"],
        "max_price_per_hour": 0.01}).ask()), (), 0.0) is None  # fmt: skip


@pytest.mark.parametrize(
    "text", ["slack://token/a/b", "https://user:word@host/", "env:", "nonsense"]
)
def test_address_with_a_token_is_no_argument(text) -> None:
    """It would be seen in the list of processes, and is not repeated in the message."""
    with pytest.raises(SpecError, match="wanted env:NAME, file:PATH, or the http") as refused:
        notice.targets([text])
    assert "token/a" not in str(refused.value) and "word" not in str(refused.value)


@pytest.mark.long
def test_notice_that_nobody_takes_is_told_without_its_address(monkeypatch, tmp_path) -> None:
    """What is shown is the reference."""
    monkeypatch.setenv("NOTIFY", "http://127.0.0.1:9/secret")
    path = tmp_path / "address"
    path.write_text("http://127.0.0.1:9/secret\n")
    to = notice.targets(["env:NOTIFY", f"file:{path}"])
    assert notice.send(to, "a", "b") == ("env:NOTIFY", f"file:{path}")
    with pytest.raises(SpecError, match="one address in env:MISSING, found none"):
        notice.targets(["env:MISSING"])
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(GpusError, match=r"pip install 'gpus\[notify\]'"):
        notice.targets(["env:NOTIFY"])
