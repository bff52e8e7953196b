"""`gpus report` writes one page, which a real browser shows at any width, in light and dark."""

import re
import sys

import pytest

from providers.cli.report_facts import Chosen, Facts, Kind, RegionPrice, Tried
from providers.cli.report_page import page
from tests import chromium
from tests.unit.cli.rig import run

SECRET = "made-up-key-0123456789"
EMPTY = Facts("", "rehearsal", 1.8e9, (), (), ("H100",), (), (), ())


def test_what_is_not_there_is_said() -> None:
    """No offers, none of a GPU, no spending, no attempt: a line each, and no empty chart."""
    text = page(EMPTY)
    assert "<svg" not in text and "a rehearsal: nothing was paid" in text
    for said in (
        "No offer with a known price is for sale here.",
        "No offer of it with a known price is for sale here.",
        "knows of no spending",
        "knows of no attempt",
    ):
        assert said in text


def test_without_the_library_one_message_names_the_remedy(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    code, out, err = run(capsys, "report", "-o", "r.html")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "vl-convert, which draws the charts, found none; pip install 'gpus[report]'" in err
    assert not (tmp_path / "r.html").exists()


@pytest.mark.long
def test_a_name_is_text_in_tables_and_in_charts() -> None:
    name = "<script>alert(1)</script>&"
    text = page(
        EMPTY._replace(
            stack=name,
            warnings=(name,),
            kinds=[Kind(name, "H100:1", "spot", name, 1, 2_000_000, 800.0, best=True)],
            chosen=[Chosen(name, "H100", name, 2_000_000, 800.0)],
            regions=[RegionPrice("H100", name, name, "spot", 2_000_000)],
            tried=[Tried(name, 1, name, name, "failed", 0.0, 1.0, name)],
        )
    )
    assert text.count("<svg") == 6 and "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;") > 10


@pytest.mark.long
@chromium.needed
def test_a_browser_shows_the_page_at_any_width(capsys, tmp_path) -> None:
    """Without the network, and without an error on its console: the charts are drawn, every one
    has a table, and no page is wider than its window. No setting is on it.
    """
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    (tmp_path / "Pulumi.a.yaml").write_text(
        f"config:\n  gpus:world: rehearsal\n  aws:secret_key: {SECRET}\n"
        "  gpus:clusters:\n    one: {gpu: 'L4:1', spot: never}\n    two: {gpu: 'T4:2'}\n"
    )
    for wanted in (("--name", "b", "L4:1"), ("--name", "c", "H100:8", "--spot", "prefer")):
        run(capsys, "rehearse", "stock", "gcp", "europe-west2-b", "a3-highgpu-8g", "spot", "0")
        assert run(capsys, "run", *wanted, "--provider", "gcp", "--keep")[0] == 0
        run(capsys, "rehearse", "advance", "20h")
    charts = {}
    with chromium.page(tmp_path / "profile") as shown:
        for name, more in (("stack", ("-s", "a")), ("all", ("--gpu", "L4"))):
            code, out, err = run(capsys, "report", "-o", f"{name}.html", *more)
            assert (code, err) == (0, "") and "open it in a browser" in out
            text = (tmp_path / f"{name}.html").read_text()
            assert SECRET not in text and len(text) < 700_000 and "could not be" not in text
            assert set(re.findall(r'(?:href|src)="(?!#)([^"]*)"', text)) == {"data:,"}
            for width, dark in ((1280, False), (400, False), (400, True)):
                shown.open((tmp_path / f"{name}.html").as_uri(), width, dark=dark)
                seen = "[...document.querySelectorAll('svg')].filter(x => x.getBoundingClientRect().width)"
                charts[name] = shown.value(f"{seen}.length")
                assert shown.value(f"{seen}.every(x => x.querySelector('path[aria-label]'))")
                assert shown.value(f"Math.max(...{seen}.map(x => x.clientWidth))") <= width
                assert shown.value("document.documentElement.scrollWidth") <= width
                back = shown.value("getComputedStyle(document.body).backgroundColor")
                assert (back == "rgb(255, 255, 255)") is not dark
        assert shown.errors == []
        tables = shown.value("document.querySelectorAll('table').length")
    # The market and two GPUs; the market, a GPU, days and two ups.
    assert charts == {"stack": 3, "all": 5} and tables >= 5
    assert "europe-west2-b" in text and "ZONE_RESOURCE_POOL_EXHAUSTED" in text
