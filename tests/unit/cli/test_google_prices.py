"""`gpus prices refresh gcp`: machines are priced by the parts of Google's list, read with a key."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from providers.catalog import refreshed
from providers.catalog.offers import load
from tests.unit.cli.rig import run

Row = dict[str, Any]
KEY = "AIzaSy-opensesame_opensesame"
REGIONS = sorted({offer.region for offer in refreshed.on_demand(load(), "gcp")})
RATES = {
    "N1 Predefined Instance Core": "0.031611", "N1 Predefined Instance Ram": "0.004237",
    "A2 Instance Core": "0.031611", "A2 Instance Ram": "0.004237",
    "G2 Instance Core": "0.024988", "G2 Instance Ram": "0.002927",
    "A3 Instance Core": "0.0293", "A3 Instance Ram": "0.0026",
    "Nvidia L4 GPU": "0.560040", "Nvidia Tesla A100 GPU": "2.933908",
    "Nvidia Tesla A100 80GB GPU": "3.92808", "Nvidia H100 80GB GPU": "9.796550569",
    "Nvidia Tesla T4 GPU": "0.35", "Nvidia Tesla P4 GPU": "0.6", "Nvidia Tesla P100 GPU": "1.46",
    "Nvidia Tesla V100 GPU": "2.48",
}  # fmt: skip
"""Google's own prices in us-central1 of 2026; those of A3's cores and memory are of no source."""
DECOYS = (
    ("Spot Preemptible A2 Instance Core running in Americas", "Preemptible"),
    ("A2 Instance Core running in Americas", "Preemptible"),
    ("Commitment v1: A2 Cpu in Americas for 1 Year", "Commit1Yr"),
    ("Reserved A2 Instance Core running in Americas", "OnDemand"),
    ("A2 Instance Core attached to DWS running in Americas", "OnDemand"),
    ("Nvidia L4 GPU Virtual Workstation running in Americas", "OnDemand"),
    ("SSD backed Local Storage attached to Spot Preemptible VMs in Iowa", "OnDemand"),
    ("Network Vpn Internet Egress from Americas to Africa", "OnDemand"),
)


def sku(description: str, usd: str, unit: str = "h", usage: str = "OnDemand", **more: Any) -> Row:
    """A SKU as the Cloud Billing Catalog has it."""
    whole, _, part = usd.partition(".")
    price = {"currencyCode": "USD", "units": whole, "nanos": int(part.ljust(9, "0")), **more}
    priced = {"usageUnit": unit, "tieredRates": [{"startUsageAmount": 0, "unitPrice": price}]}
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": REGIONS,
        "pricingInfo": [{"pricingExpression": priced, "effectiveTime": "2026-11-20T00:00:00Z"}],
    }


def skus() -> list[Row]:
    return [
        *(sku(f"{name} running in Americas", usd) for name, usd in RATES.items()),
        sku("SSD backed Local Storage", "0.08", "GiBy.mo"),
        *(sku(name, "9.0", usage=usage) for name, usage in DECOYS),
    ]


class Server:
    """Answers with pages of one SKU list; `status` and `to` (a redirection) in their stead."""

    def __init__(self) -> None:
        self.rows, self.status, self.to = skus(), 200, ""
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers["X-Goog-Api-Key"]))
                half = len(outer.rows) // 2
                later = "pageToken=next" in self.path
                page: Row = {"skus": outer.rows[half:] if later else outer.rows[:half]}
                body = json.dumps(page if later else {**page, "nextPageToken": "next"}).encode()
                self.send_response(302 if outer.to else outer.status)
                if outer.to:
                    self.send_header("Location", outer.to)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def google(monkeypatch):
    monkeypatch.setenv("GPUS_GOOGLE_API_KEY", KEY)
    made = Server()
    yield made
    made.close()


def refresh(capsys, address: str, *more: str) -> tuple[int, str, str]:
    code, out, err = run(capsys, "prices", "refresh", "gcp", "--source", address, *more)
    assert "opensesame" not in out + err
    return code, out, err


def test_the_parts_of_googles_list_make_the_prices_of_machines(capsys, google) -> None:
    """With Google's own figures of one region they are the bundled prices to a micro-dollar: of
    A2 with and without a local SSD, and of N1 with a T4. The key goes in a header only, and is in
    no file.
    """
    before = {
        (each.machine_type, each.gpu_type, each.gpu_count): each.node_micro_usd
        for each in refreshed.on_demand(load(), "gcp")
        if each.region == "us-central1"
    }
    code, out, err = refresh(capsys, google.address, "--accept")
    assert (code, err) == (0, "") and "gcp: " in out
    found = refreshed.read("gcp")
    for key in (
        ("a2-highgpu-1g", "A100", 1.0),
        ("a2-highgpu-8g", "A100", 8.0),
        ("a2-ultragpu-1g", "A100-80GB", 1.0),
        ("n1-standard-4", "T4", 1.0),
    ):
        priced = found[refreshed.Key(*key, "us-central1")]
        assert priced.micro_usd == pytest.approx(before[key], abs=1), key
    small = found[refreshed.Key("g2-standard-4", "L4", 1.0, "us-central1")]
    assert small.micro_usd == pytest.approx(before["g2-standard-4", "L4", 1.0], rel=1e-4)
    assert small.parts == "4 vCPU x 0.024988 + 16 GiB x 0.002927 + 1 L4 x 0.560040"
    assert not any(key.machine_type.startswith(("g4-", "a3-mega")) for key in found)
    assert len(google.asked) == 2 and all(
        "opensesame" not in path and sent == KEY for path, sent in google.asked
    )
    assert "opensesame" not in refreshed.path_of("gcp").read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda g: setattr(g, "status", 403), "it answered 403 to the key in GPUS_GOOGLE_API_KEY"),
        (lambda g: setattr(g, "status", 503), "it answered 503"),
        (lambda g: g.rows.append(sku("A2 Instance Core running in Iowa", "0.05")), " costs 0.031611"),
        (lambda g: g.rows.insert(0, sku("A2 Instance Ram running in X", "1.0", currencyCode="EUR")), "wanted dollars"),
        (lambda g: g.rows.insert(0, sku("A2 Instance Ram running in X", "0.0")), "above zero"),
        (lambda g: g.rows.insert(0, sku("A2 Instance Ram running in X", "1.0", "GiBy.d")), "one price an hour"),
        (lambda g: g.rows.clear(), "found 0: half a list"),
    ],
)  # fmt: skip
def test_a_list_of_googles_that_cannot_be_trusted_changes_nothing(
    capsys, google, change, said
) -> None:
    """Whatever is wrong with it, the prices stay."""
    change(google)
    code, out, err = refresh(capsys, google.address, "--accept")
    assert (code, out) == (1, "") and said in err and "stay as they were" in err
    assert not refreshed.path_of("gcp").exists()


def test_the_key_goes_nowhere_else(capsys, google, monkeypatch) -> None:
    """Not along a redirection, not over plain http, and what is no key is not repeated."""
    other = Server()
    google.to = f"{other.address}/v1/services/6F81-5844-456A/skus"
    refresh(capsys, google.address)
    assert other.asked and not any(sent for _, sent in other.asked)
    other.close()
    assert "wanted an address by https" in refresh(capsys, "http://mirror.invalid")[2]
    monkeypatch.setenv("GPUS_GOOGLE_API_KEY", "opensesame\r\nX: y")
    assert "GPUS_GOOGLE_API_KEY: wanted an API key" in refresh(capsys, google.address)[2]
