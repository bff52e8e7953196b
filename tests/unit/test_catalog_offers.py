"""The bundled offers and their generator."""

import csv
import datetime
import re
import shutil
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from providers.catalog import generate, names, offers, price_list
from providers.catalog.hardware import hardware
from providers.catalog.table import COLUMNS
from providers.model.money import micro_usd

SOURCES = Path(generate.__file__).parent / "sources"
DATA = Path(generate.__file__).parent / "data"
MADE = ("aws.csv", "gcp.csv", "machines.csv", "modal.csv", "sources.csv", "volumes.csv")


@pytest.fixture(scope="module")
def every():
    """All bundled offers as records."""
    table = offers.load()
    return [table.offer(row) for row in range(len(table))]


@pytest.fixture(scope="module")
def by_id(every):
    """All bundled offers by id."""
    return {offer.id: offer for offer in every}


def of(every, provider, gpu, capacity="on-demand"):
    """The offers of one provider, model and kind of capacity."""
    return [
        offer
        for offer in every
        if (offer.provider, offer.gpu_type, offer.capacity) == (provider, gpu, capacity)
    ]


def test_the_generator_makes_the_committed_files(tmp_path) -> None:
    """The committed price files are what the committed sources give."""
    generate.write_all(generate.make(SOURCES), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(MADE)
    for name in MADE:
        assert (tmp_path / name).read_text() == (DATA / name).read_text(), name


def test_a_price_that_stands_in_two_tables_is_refused(tmp_path) -> None:
    """An edit of the one that loses would change nothing, and nobody would be told."""
    folder = shutil.copytree(SOURCES, tmp_path / "sources")
    table = folder / "aws_gpu_ondemand_by_region.csv"
    row = "aws,us-east-1,p5.48xlarge,NVIDIA H100,8,192,2048 GB,1.00,,made up,2026-01-21\n"
    table.write_text(table.read_text() + row)
    with pytest.raises(ValueError, match=r"p5.48xlarge in us-east-1 stands in aws_gpu_offers.csv"):
        generate.make(folder)


def test_the_columns_are_whole(every) -> None:
    """Every column has a value for every offer, and the index leads to each offer once, by its
    model.
    """
    table = offers.load()
    assert {len(column) for column in table.columns} == {len(table)}
    assert len(table.columns) == len(COLUMNS)
    assert sorted(row for rows in table.by_gpu.values() for row in rows) == list(range(len(table)))
    for gpu, rows in table.by_gpu.items():
        assert list(rows) == sorted(rows)
        assert {table.column("gpu_type")[row] for row in rows} == {gpu}
    assert table.warnings == ()


def test_the_lots_hold_each_row_once(every) -> None:
    """A lot's rows differ only in place and price, and every row of a model is in one lot."""
    table = offers.load()
    for gpu, rows in table.by_gpu.items():
        lots = [lot for found in table.listed(gpu).lots.values() for lot in found]
        assert sorted(row for lot in lots for row in lot.rows) == list(rows)
        for lot in lots:
            assert {
                tuple(getattr(every[row], name) for name in lot._fields[:-1]) for row in lot.rows
            } == {lot[:-1]}


def test_every_offer_is_there_once(every) -> None:
    """No two offers have the same id."""
    assert [key for key, count in Counter(offer.id for offer in every).items() if count > 1] == []


def test_no_offer_names_an_unknown_gpu(every) -> None:
    """Each model on offer is a known name and has a hardware row."""
    for gpu in {offer.gpu_type for offer in every}:
        assert names.gpu_type(gpu) == gpu
        assert hardware(gpu) is not None


def test_b15_no_price_is_zero(every) -> None:
    """A price is positive or unknown."""
    assert not [
        offer.id
        for offer in every
        if offer.node_micro_usd is not None and offer.node_micro_usd <= 0
    ]


def test_spot_never_costs_more_than_on_demand(every) -> None:
    """Where both prices of a machine at a place are known, spot is at most on-demand."""
    price = {
        (
            o.provider,
            o.zone or o.region,
            o.machine_type,
            o.gpu_type,
            o.gpu_count,
            o.capacity,
        ): o.node_micro_usd
        for o in every
    }
    compared = 0
    for key, spot in price.items():
        on_demand = price.get((*key[:-1], "on-demand"))
        if key[-1] == "spot" and spot is not None and on_demand is not None:
            compared += 1
            assert spot <= on_demand, key
    assert compared > 1000


def test_every_price_has_a_date_and_a_source(every) -> None:
    """A priced offer names its source and its date; an unpriced one neither."""
    for offer in every:
        assert (
            bool(offer.price_source)
            == bool(offer.price_as_of)
            == (offer.node_micro_usd is not None)
        ), offer.id
        if offer.price_as_of:
            assert offers.first_day(offer.price_as_of).year >= 2026


def test_b17_every_row_says_what_is_in_and_what_is_not(every) -> None:
    """A priced offer lists its parts, and every offer what is left out."""
    for offer in every:
        assert offer.left_out, offer.id
        assert offer.parts or offer.node_micro_usd is None, offer.id


def test_b17_one_ask_compares_alike_across_clouds(every) -> None:
    """Eight A100 of 80 GB are on offer all-in on Google, AWS and Modal: machine, memory and bundled
    disk; GPU, CPU and memory.
    """
    gcp = of(every, "gcp", "A100-80GB")
    assert {offer.machine_type for offer in gcp} >= {"a2-ultragpu-8g"}
    assert all(
        "3000 GiB local SSD" in offer.parts and "RAM" in offer.parts
        for offer in gcp
        if offer.machine_type == "a2-ultragpu-8g"
    )
    assert any(
        offer.machine_type == "p4de.24xlarge" and offer.gpu_count == 8
        for offer in of(every, "aws", "A100-80GB")
    )
    (modal,) = [offer for offer in of(every, "modal", "A100-80GB") if offer.gpu_count == 8]
    assert "CPU" in modal.parts
    assert "memory" in modal.parts
    assert "choosing a region (50 or 75 % more)" in modal.left_out
    assert modal.node_micro_usd == micro_usd(
        (Decimal("0.000694") * 8 + Decimal("0.00003942") / 8 + Decimal("0.00000667") / 8) * 3600
    )


def test_a_price_without_the_bundled_ssd_is_no_price(by_id) -> None:
    """A sum that lacks the local SSD which comes with the machine is shown in the parts, not as the
    price; the variant without SSD has the price.
    """
    assert by_id["gcp/us-central1-b/a3-ultragpu-8g/H200:8/spot"].node_micro_usd is None
    assert (
        "42.2565 without the 12000 GiB local SSD"
        in by_id["gcp/us-central1-b/a3-ultragpu-8g/H200:8/spot"].parts
    )
    assert by_id["gcp/us-central1-b/a3-ultragpu-8g-nolssd/H200:8/spot"].node_micro_usd == 42_256_500
    assert by_id["gcp/us-central1-a/a3-highgpu-8g/H100:8/spot"].node_micro_usd == 50_609_541


def test_a_reservation_costs_what_on_demand_costs(every) -> None:
    """A reservation is listed once for each place of Google and Amazon, at the on-demand price, and
    says that it is billed whether used or not.
    """
    reserved = [offer for offer in every if offer.capacity == "reservation"]
    assert reserved
    assert {offer.provider for offer in reserved} == {"gcp", "aws"}
    price = {offer.id: offer.node_micro_usd for offer in every}
    for offer in reserved:
        assert offer.node_micro_usd == price[offer.id.replace("/reservation", "/on-demand")]
        assert offer.node_micro_usd is None or "whether used or not" in offer.parts


@pytest.mark.parametrize(
    ("machine", "refused"),
    [
        ("a4x-highgpu-4g", {"on-demand", "spot", "flex-start"}),
        ("a4-highgpu-8g", {"on-demand"}),
        ("a3-ultragpu-8g", {"on-demand"}),
        ("a3-ultragpu-8g-nolssd", {"on-demand"}),
        ("a3-highgpu-1g", {"on-demand", "reservation"}),
        ("a3-highgpu-4g", {"on-demand", "reservation"}),
        ("a3-highgpu-8g", set()),
        ("a3-megagpu-8g", set()),
        ("a2-ultragpu-8g", set()),
        ("g2-standard-4", set()),
        ("g4-standard-48", {"flex-start"}),
        ("n1-standard-8", {"flex-start"}),
    ],
)
def test_kinds_that_google_does_not_sell_say_so(every, machine, refused) -> None:
    """All four kinds of capacity are listed for a Google machine; those it does not sell carry the
    reason.
    """
    kinds = {offer.capacity: offer.restriction for offer in every if offer.machine_type == machine}
    assert set(kinds) == {"on-demand", "spot", "flex-start", "reservation"}
    assert {kind for kind, restriction in kinds.items() if restriction} == refused


def test_flex_start_has_no_price(every) -> None:
    """No source has a verified Flex-start price, so none is shown."""
    assert {offer.node_micro_usd for offer in every if offer.capacity == "flex-start"} == {None}


def test_b10_n1_hosts_carry_their_gpus_within_googles_limits(every) -> None:
    """An N1 offer names what Google calls the GPU, shows host and GPU apart, and stays within the
    vCPU and RAM limits; others attach nothing.
    """
    attached = [offer for offer in every if offer.machine_type.startswith("n1-")]
    assert {offer.gpu_type for offer in attached} == {"T4", "P4", "V100", "P100"}
    for offer in attached:
        most_vcpus, most_gib = generate.N1_LIMITS[offer.gpu_type, int(offer.gpu_count)]
        assert offer.vcpus <= most_vcpus
        assert offer.memory_gib <= most_gib
        assert offer.accelerator == f"nvidia-tesla-{offer.gpu_type.lower()}"
        if offer.node_micro_usd is not None:
            host, _, rest = offer.parts.removeprefix("host ").partition(" + ")
            gpu = rest.split(";")[0].split()[-1]
            assert abs(float(host) + float(gpu) - offer.node_micro_usd / 1e6) < 0.0002
    assert not [
        offer.id
        for offer in every
        if offer.accelerator and not offer.machine_type.startswith("n1-")
    ]


def test_b09_counts_on_offer_are_the_clouds_own(every) -> None:
    """Google sells the A100 in 1, 2, 4, 8 and 16, the P100 in 1, 2 and 4; AWS the H100 in 1 and 8;
    Modal the A10 in 1 to 4.
    """
    counts: dict[tuple[str, str], set[float]] = {}
    for offer in every:
        counts.setdefault((offer.provider, offer.gpu_type), set()).add(offer.gpu_count)
    assert counts["gcp", "A100"] == {1, 2, 4, 8, 16}
    assert counts["gcp", "P100"] == {1, 2, 4}
    assert counts["gcp", "RTX-PRO-6000"] == {0.125, 0.25, 0.5, 1, 2, 4, 8}
    assert counts["aws", "H100"] == {1, 8}
    assert counts["modal", "A10"] == {1, 2, 3, 4}
    assert counts["modal", "H100"] == set(range(1, 9))


def test_b03_no_cloud_sells_its_siblings_card(every) -> None:
    """AWS has the A10G and no A10, Modal the A10 and no A10G, Google neither."""
    sold = {(offer.provider, offer.gpu_type) for offer in every}
    assert ("aws", "A10G") in sold
    assert ("modal", "A10") in sold
    assert not sold & {("aws", "A10"), ("modal", "A10G"), ("gcp", "A10"), ("gcp", "A10G")}


def test_b02_aws_sizes_are_told_apart_by_the_type(by_id) -> None:
    """EC2 says A100 and V100 for both sizes; p4d, p4de, p3 and p3dn say which."""
    gpu = {
        offer.machine_type: (offer.gpu_type, offer.gpu_memory_gib)
        for offer in by_id.values()
        if offer.provider == "aws"
    }
    assert gpu["p4d.24xlarge"] == ("A100", 40)
    assert gpu["p4de.24xlarge"] == ("A100-80GB", 80)
    assert gpu["p3.16xlarge"] == ("V100", 16)
    assert gpu["p3dn.24xlarge"] == ("V100-32GB", 32)
    assert gpu["g5.xlarge"] == ("A10G", 24)
    assert gpu["g6e.xlarge"] == ("L40S", 48)
    assert gpu["g7e.2xlarge"] == ("RTX-PRO-6000", 96)
    assert gpu["g7.2xlarge"] == ("RTX-PRO-4500", 32)


def test_slices_of_a_gpu_are_fractions(every) -> None:
    """A part of an L4 or of an RTX PRO 6000 has a fraction as its count and the part's memory."""
    parts = {
        offer.machine_type: (offer.gpu_type, offer.gpu_count, offer.gpu_memory_gib)
        for offer in every
        if offer.gpu_count < 1
    }
    assert parts["g6f.large"] == ("L4", 0.125, 3)
    assert parts["g6f.2xlarge"] == ("L4", 0.25, 6)
    assert parts["gr6f.4xlarge"] == ("L4", 0.5, 12)
    assert parts["g4-standard-6"] == ("RTX-PRO-6000", 0.125, 12)
    assert all(offer.gpu_count == int(offer.gpu_count) for offer in every if offer.gpu_count >= 1)


def test_machines_that_are_only_in_price_lists_say_so(every) -> None:
    """EC2 families that its own list of types no longer has are listed with that restriction, and
    only on demand.
    """
    for family in ("p2", "p3", "g2", "g3"):
        found = [offer for offer in every if offer.machine_type.startswith(f"{family}.")]
        assert found
        assert all(
            "price lists" in offer.restriction and offer.capacity == "on-demand" for offer in found
        )


def test_govcloud_is_left_out(every) -> None:
    """No offer is in a region that an ordinary AWS account cannot use."""
    assert not [offer.id for offer in every if offer.region.startswith("us-gov-")]


def test_places_are_places(every) -> None:
    """A zone of Google or AWS belongs to its region; Modal places anywhere; region and zone are
    never mixed.
    """
    for offer in every:
        if offer.provider == "gcp" and offer.zone:
            assert offer.zone.startswith(offer.region + "-"), offer.id
        if offer.provider == "aws" and offer.zone:
            assert "-az" in offer.zone, offer.id
        if offer.provider == "modal":
            assert (offer.region, offer.zone) == ("any", "")


def changed(tmp_path, name, edit):
    """A copy of the sources in which one table's rows went through `edit`."""
    for path in SOURCES.glob("*.csv"):
        shutil.copy(path, tmp_path / path.name)
    rows = list(price_list.read(SOURCES, name))
    for row in rows:
        edit(row)
    with (tmp_path / f"{name}.csv").open("w", newline="") as file:
        file.write("# changed by a test\n")
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path


def test_every_table_says_where_it_comes_from() -> None:
    """The first line of a source says its origin, its date and that it is edited by hand; that of a
    bundled table says whether it may be edited.
    """
    for path in sorted(SOURCES.glob("*")):
        if path.name != "README.md":
            first = path.read_text().splitlines()[0]
            assert path.suffix == ".csv" and re.match(r"# edited by hand: .*20\d\d-", first)
            assert "generated" not in first
    for path in sorted((SOURCES.parent / "data").glob("*.csv")):
        first = path.read_text().splitlines()[0]
        if path.name in MADE:
            assert first == generate.REMARK
        else:
            assert first.startswith("# edited by hand: ")


def test_a_source_that_does_not_say_where_it_comes_from_is_refused(tmp_path) -> None:
    """Its first row would else be passed over."""
    folder = changed(tmp_path, "modal", lambda row: None)
    path = folder / "modal.csv"
    path.write_text(path.read_text().partition("\n")[2])
    with pytest.raises(ValueError, match="says where it is from"):
        generate.make(folder)


def test_the_unverified_column_is_never_a_price(tmp_path) -> None:
    """Whatever stands in the unverified column, the catalog is the same."""
    folder = changed(
        tmp_path, "gcp_gpu_offers", lambda row: row.update(unverified_ondemand_or_dws_usd_h="1.0")
    )
    assert generate.make(folder) == generate.make(SOURCES)


@pytest.mark.parametrize(
    ("name", "cells", "text"),
    [
        ("gcp_gpu_offers", {"spot_usd_h": "999"}, "above on-demand"),
        ("gcp_gpu_offers", {"ondemand_usd_h": "0", "spot_usd_h": ""}, "a price of 0"),
        ("gcp_gpu_offers", {"ondemand_usd_h": "nan"}, "no amount of dollars"),
        ("gcp_gpu_offers", {"gpu_name": "A100-8"}, "unknown GPU"),
        ("gcp_gpu_offers", {"price_source": ""}, "no date or no source"),
        ("gcp_gpu_offers", {"price_as_of": ""}, "no date or no source"),
        ("gcp_gpu_offers", {"zone": "us-central1-a", "region": "us-central1"}, "there twice"),
        ("gcp_gpu_offers", {"vcpus": "7"}, "two descriptions"),
        ("aws_gpu_offers", {"gpu_name": "T4"}, "T4 with"),
        ("modal", {"usd_per_second": "0.000000"}, "a price of"),
    ],
)
def test_the_generator_refuses_a_faulty_source(tmp_path, name, cells, text) -> None:
    """A fault in one row stops the generator with a line that names it."""
    done: list[str] = []

    def edit(row) -> None:
        wanted = {"gcp_gpu_offers": "a2-highgpu-1g", "aws_gpu_offers": "p5.48xlarge"}.get(name)
        if wanted is None and row["item"] in {"T4", "cpu-core", "memory-gib"}:
            row.update(cells)
        elif wanted is not None and row["instance_type"] == wanted and not done:
            row.update(cells)
            done.append(row)

    with pytest.raises(ValueError, match=text):
        generate.make(changed(tmp_path, name, edit))


def test_a_cell_with_a_comma_is_refused(tmp_path) -> None:
    """A table that could not be read by splitting is not written."""
    with pytest.raises(ValueError, match="comma"):
        generate.write(tmp_path / "x.csv", ["a"], [["1,2"]])


def test_dates_are_known_per_provider() -> None:
    """For each provider the oldest and the newest date of its prices is known."""
    assert offers.as_of() == {
        "gcp": ("2026-05-20", "2026-07-30"),
        "aws": ("2026", "2026-07-20"),
        "modal": ("2026-09-01", "2026-09-01"),
    }


def test_a_stale_catalog_is_a_line_per_provider() -> None:
    """Prices older than the limit are reported, one line a provider with the date and the age;
    fresh ones are not.
    """
    assert offers.stale(datetime.date(2026, 11, 27)) == ()
    assert offers.stale(datetime.date(2026, 11, 27), days=100) == (
        "aws: the newest price is of 2026-07-20, 130 days ago; live prices may differ",
        "gcp: the newest price is of 2026-07-30, 120 days ago; live prices may differ",
    )
    assert len(offers.stale(datetime.date(2028, 1, 1))) == 3


@pytest.mark.parametrize(
    ("text", "day"),
    [("2026", (2026, 1, 1)), ("2026-05", (2026, 5, 1)), ("2026-05-20", (2026, 5, 20))],
)
def test_a_date_without_day_counts_as_its_first(text, day) -> None:
    """A year or a month alone counts as its first day, the oldest it can mean."""
    assert offers.first_day(text) == datetime.date(*day)


def test_the_catalog_is_read_once() -> None:
    """Two loads give the same table."""
    assert offers.load() is offers.load()


def test_a_cold_load_is_short_and_imports_nothing_heavy() -> None:
    """A fresh process reads the whole catalog without heavy modules, in a fraction of a second even
    on a busy machine.
    """
    code = (
        "import sys, time\nfrom providers.catalog import offers, names\nstart ="
        " time.process_time(); offers.load(); took = time.process_time() - start\nheavy ="
        " {'pydantic', 'dataclasses', 'csv', 'asyncio', 'pandas', 'sqlite3', 'pathlib', 'difflib'}"
        " & set(sys.modules)\nprint(took, sorted(heavy - before))"
    )
    code = "import sys; before = set(sys.modules)\n" + code
    out = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=DATA.parents[2],
    ).stdout
    took, heavy = out.split(" ", 1)
    assert heavy.strip() == "[]"
    assert float(took) < 0.25
