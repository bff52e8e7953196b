"""`gpus prices refresh` takes a provider's own list whole or not at all; plans then use it."""

import csv
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from providers.catalog import refreshed
from providers.catalog.offers import load, stale
from tests.unit.cli.rig import run

REGION = "af-south-1"
BUNDLED = {
    "g4dn.xlarge": "0.698", "g4dn.2xlarge": "0.998", "g4dn.4xlarge": "1.597",
    "g4dn.8xlarge": "2.887", "g4dn.12xlarge": "5.19", "g4dn.16xlarge": "5.774",
    "g4dn.metal": "10.381",
}  # fmt: skip
FILE = f"/offers/v1.0/aws/AmazonEC2/current/{REGION}/index.csv"
ABOUT = (
    '"FormatVersion","v1.0"\n"Disclaimer","This pricing list is for informational purposes only."\n'
    '"Publication Date","2026-11-20T18:02:14Z"\n"Version","20261120180214"\n"OfferCode","AmazonEC2"\n'
)
PLAIN = {
    "SKU": "2223B6PCG6QAUYY6", "OfferTermCode": "JRTCKXETXF", "TermType": "OnDemand",
    "PriceDescription": "$ per On Demand Linux Instance Hour", "EffectiveDate": "2026-11-01",
    "StartingRange": "0", "EndingRange": "Inf", "Unit": "Hrs", "PricePerUnit": "",
    "Currency": "USD", "Product Family": "Compute Instance", "serviceCode": "AmazonEC2",
    "Location": "Africa (Cape Town)", "Instance Type": "", "vCPU": "4", "Tenancy": "Shared",
    "Operating System": "Linux", "License Model": "No License required", "GPU": "1",
    "CapacityStatus": "Used", "operation": "RunInstances", "Pre Installed S/W": "NA",
    "Region Code": REGION, "MarketOption": "OnDemand",
}  # fmt: skip
"""Columns of Amazon's file that matter or mislead, of the some ninety that it has."""
OTHERS = (
    {"Operating System": "Windows", "PricePerUnit": "9"},
    {"Tenancy": "Dedicated", "PricePerUnit": "9"},
    {"CapacityStatus": "UnusedCapacityReservation", "PricePerUnit": "9"},
    {"CapacityStatus": "AllocatedCapacityReservation", "PricePerUnit": "0.0000000000"},
    {"TermType": "Reserved", "PricePerUnit": "0.1"},
    {"Pre Installed S/W": "SQL Web", "PricePerUnit": "9"},
    {"MarketOption": "CapacityBlock", "PricePerUnit": "9"},
    {"Instance Type": "m5.large", "GPU": "", "PricePerUnit": "0.1"},
    {"Instance Type": "g9.xlarge", "PricePerUnit": "2"},
)
MODAL = {
    "T4": "0.000164", "L4": "0.000222", "A10": "0.000306", "L40S": "0.000542",
    "A100, 40 GB": "0.000583", "A100, 80 GB": "0.000694", "RTX PRO 6000": "0.000842",
    "H100": "0.001097", "H200": "0.001261", "B200": "0.001736", "B300": "0.001972",
}  # fmt: skip


def offer_file(prices: dict[str, str], *more: dict[str, str], **all_rows: str) -> bytes:
    """A region's offer file: these prices, and rows that are no plain machine's."""
    text = io.StringIO()
    out = csv.DictWriter(text, PLAIN, quoting=csv.QUOTE_ALL, lineterminator="\n")
    out.writeheader()
    rows = [{"Instance Type": kind, "PricePerUnit": price} for kind, price in prices.items()]
    for row in (*rows, *({"Instance Type": "g4dn.xlarge", **each} for each in (*OTHERS, *more))):
        out.writerow({**PLAIN, **row, **all_rows})
    return (ABOUT + text.getvalue()).encode()


def price_page(prices: dict[str, str], sign: str = "$") -> bytes:
    rows = "".join(
        f"<div><p>Nvidia {name}</p><p>{sign}{price} <span>/ sec</span></p></div>"
        for name, price in prices.items()
    )
    return (
        f"<html><script>var x = 'Nvidia H100 $9 / sec'</script><h2>GPU Tasks</h2>{rows}<h2>CPU</h2>"
        f"<p>Physical core</p><p>{sign}0.0000131 / core / sec</p></html>"
    ).encode()


@pytest.fixture
def source():
    """A server of files: each with its bytes and the length that it claims."""
    files: dict[str, tuple[bytes, int]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, length = files.get(self.path, (b"", -1))
            self.send_response(404 if length < 0 else 200)
            self.send_header("Content-Length", str(max(length, 0)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def serve(path: str, body: bytes, length: int | None = None) -> str:
        files[path] = (body, len(body) if length is None else length)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    server.shutdown()
    server.server_close()


def refresh(capsys, address: str, *more: str) -> tuple[int, str, str]:
    return run(capsys, "prices", "refresh", "aws", "--region", REGION, "--source", address, *more)


def offers(capsys) -> dict[tuple[str, str], dict[str, object]]:
    found = json.loads(run(capsys, "offers", "T4", "--region", REGION, "--json")[1])
    return {(each["machine_type"], each["capacity"]): each for each in found}


def test_what_the_source_says_now_is_what_plans_use(capsys, tmp_path, source) -> None:
    """What moved is shown; the price, its date and its row are the source's, of a reservation too.
    What the source no longer has stays. Without the file the bundled prices are back.
    """
    new = {**BUNDLED, "g4dn.xlarge": "0.7678"}
    del new["g4dn.metal"]
    address = source(FILE, offer_file(new))
    code, out, err = refresh(capsys, address)
    assert (code, err) == (0, "")
    assert f"aws {REGION}: 6 prices, 5 as before, 1 changed" in out and "+10.0%" in out
    assert "1 are no longer in the source" in out and "does not know: g9.xlarge" in out
    for kind in ("on-demand", "reservation"):
        offer = offers(capsys)["g4dn.xlarge", kind]
        assert (offer["price_usd_per_hour"], offer["price_as_of"]) == (0.7678, "2026-11-20")
    assert offers(capsys)["g4dn.metal", "on-demand"]["price_as_of"] == "2026-01-21"
    zone = offers(capsys)["g4dn.xlarge", "on-demand"]["zone"]
    shown = run(capsys, "explain", f"aws/{zone}/g4dn.xlarge/T4:1/on-demand")[1]
    assert "767800,2026-11-20" in shown.replace("\n", "").replace(" ", "")
    (aws, *_) = json.loads(run(capsys, "prices", "--json")[1])
    assert (aws["newest"], aws["refreshed"]) == ("2026-11-20", "2026-11-20")
    again = json.loads(refresh(capsys, address, "--json")[1])
    assert again[0]["moved"] == [] and again[0]["kept"]
    refreshed.path_of("aws").unlink()
    assert offers(capsys)["g4dn.xlarge", "on-demand"]["price_usd_per_hour"] == 0.698


ROW = {"Instance Type": "g4dn.xlarge", "PricePerUnit": "0.698"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "claims", "said"),
    [
        (offer_file(BUNDLED)[:-40], len(offer_file(BUNDLED)), "cut off after"),
        (offer_file(BUNDLED)[:-40], None, "cells a line"),
        (b"", None, "found no heading"),
        (ABOUT.encode(), None, "found no heading"),
        (b"<html>Service Unavailable</html>", None, "found no heading"),
        (offer_file(BUNDLED).replace(b"2026-11-20T", b"soon"), None, "no a publication date"),
        (offer_file(BUNDLED).replace(b'"Tenancy"', b'"Tenure"'), None, "found no Tenancy"),
        (offer_file(BUNDLED, Currency="CNY"), None, "wanted dollars, found 'CNY'"),
        (offer_file(BUNDLED, {**ROW, "PricePerUnit": "0.7"}), None, "costs 0.698 and 0.7"),
        (offer_file({**BUNDLED, "g4dn.metal": "0.0000000000"}), None, "above zero, found '0.0"),
        (offer_file({**BUNDLED, "g4dn.metal": "-1"}), None, "above zero, found '-1'"),
        (offer_file({**BUNDLED, "g4dn.metal": "1e9999999"}), None, "above zero, found '1e9"),
        (offer_file(BUNDLED, **{"Region Code": "us-east-1"}), None, "is of 'us-east-1'"),
        (offer_file(dict(list(BUNDLED.items())[:3])), None, "half a list is not taken"),
        (offer_file(BUNDLED) + b"\xff\xfe\n", None, "no answer that can be read"),
        (b"", -1, "it answered 404"),
    ],
)
def test_a_source_that_cannot_be_trusted_changes_nothing(
    capsys, source, body, claims, said
) -> None:
    """The last good prices stay, to the byte."""
    good = {kind: str(round(float(price) * 1.1, 4)) for kind, price in BUNDLED.items()}
    assert refresh(capsys, source(FILE, offer_file(good)))[0] == 0
    kept = refreshed.path_of("aws").read_bytes()
    code, out, err = refresh(capsys, source(FILE, body, claims))
    assert (code, out) == (1, "") and said in err and "the prices stay as they were" in err
    assert refreshed.path_of("aws").read_bytes() == kept
    assert [each.name for each in refreshed.path_of("aws").parent.iterdir()] == ["aws.json"]


def test_the_same_price_twice_is_one(capsys, source) -> None:
    assert refresh(capsys, source(FILE, offer_file(BUNDLED, ROW)))[0] == 0


def test_a_price_that_moves_far_has_to_be_accepted(capsys, source) -> None:
    """It is shown, and nothing of its list is kept before that."""
    address = source(FILE, offer_file({**BUNDLED, "g4dn.xlarge": "0.2", "g4dn.metal": "10.4"}))
    code, out, err = refresh(capsys, address)
    assert code == 1 and "-71.3% !" in out and "add --accept" in err
    assert not refreshed.path_of("aws").exists()
    assert refresh(capsys, address, "--accept")[0] == 0
    assert offers(capsys)["g4dn.xlarge", "on-demand"]["price_usd_per_hour"] == 0.2


def test_the_price_page_of_modal_changes_the_part_of_the_gpu(capsys, source) -> None:
    """Processor and memory stay in the price, and its parts say both."""
    address = source("/pricing", price_page({**MODAL, "H100": "0.001"})) + "/pricing"
    code, out, err = run(capsys, "prices", "refresh", "modal", "--source", address)
    assert (code, err) == (0, "") and "84 prices, 76 as before, 8 changed" in out
    found = json.loads(run(capsys, "offers", "H100:2", "--provider", "modal", "--json")[1])[0]
    assert found["price_usd_per_hour"] == pytest.approx(7.2 + 0.0177 + 0.0030, abs=2e-4)
    assert "2 x H100 7.2000 + CPU 0.0177" in found["parts"]
    for page, said in (
        (price_page(MODAL, "€"), "wanted dollars"),
        (price_page({"H100": "0.001097"}), "half a list"),
        (b"<html>Loading</html>", "half a list"),
    ):
        source("/pricing", page)
        code, out, err = run(capsys, "prices", "refresh", "modal", "--source", address)
        assert (code, out) == (1, "") and said in err


def test_a_spot_price_above_the_new_price_is_not_known() -> None:
    """It is of another time: nothing is bought at it."""
    key = refreshed.Key("p4d.24xlarge", "A100", 8.0, "ap-south-1")
    refreshed.write("aws", {key: refreshed.Priced(20_000_000, "2026-11-20", "x")})
    table = load()
    found = [
        each
        for each in map(table.offer, range(len(table)))
        if (each.machine_type, each.region) == ("p4d.24xlarge", "ap-south-1")
    ]
    assert {each.node_micro_usd for each in found if each.capacity == "on-demand"} == {20_000_000}
    assert {each.node_micro_usd for each in found if each.capacity == "spot"} == {None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"prices": [[1]]}',
        '{"prices": [["a","T4",1,"b",0,"2027-01-01","",""]]}',
        '{"prices": [["a","T4",1,"b",9,"soon","",""]]}',
    ],
)
def test_a_broken_file_is_a_warning_and_the_bundled_prices(capsys, text) -> None:
    path = refreshed.path_of("aws")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    code, out, err = run(capsys, "offers", "T4", "--region", REGION)
    assert code == 0 and "0.6980" in out and f"{path}: wanted refreshed prices" in err


def test_what_has_no_list_says_why(capsys) -> None:
    """A provider that is named fails; one that is not is a line."""
    code, out, err = run(capsys, "prices", "refresh", "gcp")
    assert (code, out) == (1, "") and "set GPUS_GOOGLE_API_KEY to one, and say gpus prices" in err
    code, out, err = run(capsys, "prices", "refresh", "aws")
    assert (code, out) == (1, "") and "gpus prices refresh aws --region us-east-1" in err
    for words, said in (
        (["azure"], "provider: wanted one of aws, modal"),
        (["aws", "--region", "mars-1"], "--region: wanted one of af-south-1, "),
        (
            ["modal", "--region", REGION],
            "--region: wanted a provider with a list for each: aws, found modal",
        ),
        (["--source", "http://127.0.0.1:1"], "--source: wanted the one provider"),
    ):
        code, out, err = run(capsys, "prices", "refresh", *words)
        assert (code, out) == (2, "") and said in err


def test_refreshed_prices_are_not_old(capsys) -> None:
    import datetime

    key = refreshed.Key("g4dn.xlarge", "T4", 1.0, REGION)
    today = datetime.date(2027, 3, 1)
    assert any(line.startswith("aws:") for line in stale(today))
    refreshed.write("aws", {key: refreshed.Priced(700_000, "2027-02-01", "x")})
    assert not any(line.startswith("aws:") for line in stale(today))
