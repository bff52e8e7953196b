"""What things cost in the stand-in: the Price List and the spot price history, as far as the
scenario sets prices. Owns both answers.

A type or place without a price of the scenario's is in neither answer, as at Amazon where nothing
is sold. Imports the stand-in's own parts only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from providers.rehearsal.clouds.aws import places
from providers.rehearsal.clouds.aws.state import PROVIDER, SCHEMA
from providers.rehearsal.clouds.aws.wire import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from providers.rehearsal.clouds.aws.call import Call
    from providers.rehearsal.clouds.aws.wire import Json
    from providers.rehearsal.store import Store

LIST_REGIONS = frozenset({"us-east-1", "eu-central-1", "ap-south-1"})
"""Where the Price List answers (its API reference)."""
PAGE = 100


def set_price(store: Store, kind: str, machine_type: str, place: str, usd: str) -> None:
    """What an hour costs from now on. `kind` is on-demand, with a region as the place, or spot,
    with a zone id.
    """
    store.tables(SCHEMA)
    with store.transaction() as db:
        db.execute(
            "INSERT OR REPLACE INTO aws_price VALUES (?,?,?,?,?)",
            (kind, machine_type, place, usd, store.now()),
        )


def history(call: Call) -> Json:
    """The region's spot prices that hold, page by page. The past before the last change is not
    kept.
    """
    kinds, products = (
        call.given.get("InstanceTypes") or (),
        call.given.get("ProductDescriptions") or ("Linux/UNIX",),
    )
    rows = call.rows.db.execute(
        "SELECT machine_type, place, usd, since FROM aws_price WHERE kind = 'spot' ORDER BY"
        " machine_type, place"
    ).fetchall()
    found = [
        {
            "AvailabilityZone": places.name_of(zone),
            "AvailabilityZoneId": zone,
            "InstanceType": machine_type,
            "ProductDescription": "Linux/UNIX",
            "SpotPrice": usd,
            "Timestamp": since,
        }
        for machine_type, zone, usd, since in rows
        if zone in places.zones(call.region)
        and (not kinds or machine_type in kinds)
        and "Linux/UNIX" in products
    ]
    start, size = int(call.given.get("NextToken") or 0), int(call.given.get("MaxResults") or 1_000)
    more = str(start + size) if start + size < len(found) else ""
    return {"SpotPriceHistory": found[start : start + size], "NextToken": more}


def products(call: Call) -> Json:
    """The products that match every filter, as texts of JSON, page by page."""
    if call.region not in LIST_REGIONS:
        raise Refusal(400, "InvalidAction", f"{PROVIDER} has no Price List in {call.region}")
    if call.given["ServiceCode"] != "AmazonEC2":
        raise Refusal(400, "InvalidParameterException", "the rehearsal cloud sells machines only")
    rows = call.rows.db.execute(
        "SELECT machine_type, place, usd FROM aws_price WHERE kind = 'on-demand' ORDER BY"
        " machine_type, place"
    ).fetchall()
    found = [
        product
        for row in rows
        if _matches(product := product_json(*row), call.given.get("Filters", ()))
    ]
    start, size = int(call.given.get("NextToken") or 0), int(call.given.get("MaxResults") or PAGE)
    page: Json = {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(item) for item in found[start : start + size]],
    }
    return {**page, "NextToken": str(start + size)} if start + size < len(found) else page


def _matches(product: Json, filters: Iterable[Json]) -> bool:
    about = product["product"]["attributes"]
    if any(item.get("Type") != "TERM_MATCH" for item in filters):
        raise Refusal(400, "InvalidParameterException", "the rehearsal cloud knows TERM_MATCH only")
    return all(about.get(item["Field"]) == item["Value"] for item in filters)


def product_json(machine_type: str, region: str, usd: str) -> Json:
    """One product in the Price List's own shape (botocore's example of GetProducts; attributes of a
    compute instance).
    """
    sku = places.made_up("sku", machine_type, region).removeprefix("sku-").upper()
    term, rate = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    part = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "rateCode": rate,
        "appliesTo": [],
        "pricePerUnit": {"USD": usd},
    }
    return {
        "product": {
            "productFamily": "Compute Instance",
            "sku": sku,
            "attributes": {
                "servicecode": "AmazonEC2",
                "instanceType": machine_type,
                "regionCode": region,
                "locationType": "AWS Region",
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "capacitystatus": "Used",
                "preInstalledSw": "NA",
                "marketoption": "OnDemand",
                "operation": "RunInstances",
            },
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                term: {
                    "offerTermCode": "JRTCKXETXF",
                    "sku": sku,
                    "termAttributes": {},
                    "priceDimensions": {rate: part},
                }
            }
        },
        "version": "20261127000000",
    }
