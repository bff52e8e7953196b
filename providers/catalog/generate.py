"""Makes the bundled price files from the committed sources: `python -m providers.catalog.generate
[SOURCE_DIR [TARGET_DIR]]`.

Owns what a source's row means and what is refused. Imports the model, the names and the hardware
table; never read at run time. The sources, their dates and their licences are listed in
`sources/README.md`; what each provider's rows become stands at its function. Refuses to write
(ValueError) if a price is zero, a spot price lies above on-demand, a GPU is unknown, an offer is
there twice or a price has no date and source.
"""

from __future__ import annotations

import csv
import gzip
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.catalog import hardware, names
from providers.catalog.offers import NOT_LISTED
from providers.model.money import micro_usd, usd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parent
NOTHING_REFUSED = ("", "", "", "")

Row = dict[str, str]


class MachineType(NamedTuple):
    """What is bought.

    `capacities` has one text for each kind in the order on-demand, spot, flex-start, reservation:
    empty where it is sold, why not where the cloud refuses it, NOT_LISTED where no offer is made of
    it. `key` names it within its provider.
    """

    provider: str
    key: str
    machine_type: str
    gpu_type: str
    gpu_count: float
    gpu_memory_gib: float
    vcpus: float
    memory_gib: float
    local_ssd_gib: int
    accelerator: str
    parts: str
    left_out: str
    capacities: tuple[str, str, str, str]


class Price(NamedTuple):
    """One price, or why there is none. `parts` is for this price alone; empty means the machine's
    own parts.
    """

    micro: int | None = None
    source: str = ""
    parts: str = ""


class Place(NamedTuple):
    """A machine at a place, with what it costs."""

    provider: str
    machine: str
    region: str
    zone: str
    on_demand: Price
    spot: Price


class Source(NamedTuple):
    """Where prices come from, and as of when."""

    id: str
    as_of: str
    text: str


class Made(NamedTuple):
    """All that is written. `skipped` counts source rows that were left out, by reason."""

    sources: dict[str, Source]
    machines: dict[tuple[str, str], MachineType]
    places: list[Place]
    skipped: dict[str, int]

    def price(
        self, dollars: str | Decimal | None, source: str, as_of: str, parts: str = ""
    ) -> Price:
        """A price with its source; no price for None or an empty cell. Raises ValueError for one
        without date or source.
        """
        if dollars is None or dollars == "":
            return Price(parts=parts)
        if not source or not as_of:
            raise ValueError(f"a price of {dollars} has no date or no source")
        return Price(micro_usd(dollars), self.source(source, as_of), parts)

    def source(self, text: str, as_of: str) -> str:
        """The id of a source, made on first use."""
        if as_of.startswith("undated"):
            # Sorted first among its year: the oldest it can be is what counts against it.
            text, as_of = f"{text} (commit without a date; lists machines of 2026)", "2026"
        for known in self.sources.values():
            if (known.text, known.as_of) == (text, as_of):
                return known.id
        made = Source(f"s{len(self.sources) + 1}", as_of, text)
        self.sources[made.id] = made
        return made.id

    def add(self, machine: MachineType, place: Place) -> None:
        """One place of a machine. Raises ValueError if the machine was described otherwise before."""
        known = self.machines.setdefault((machine.provider, machine.key), machine)
        if known != machine:
            raise ValueError(
                f"two descriptions of {machine.provider} {machine.key}: {known} and {machine}"
            )
        self.places.append(place)

    def skip(self, reason: str) -> None:
        """Counts a source row that is left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def read(folder: Path, name: str) -> Iterator[Row]:
    """The rows of a source table, gzipped or plain."""
    packed = folder / f"{name}.csv.gz"
    with (
        gzip.open(packed, "rt", encoding="utf-8")
        if packed.exists()
        else (folder / f"{name}.csv").open(encoding="utf-8")
    ) as file:
        yield from csv.DictReader(file)


def gpu_of(text: str) -> str:
    """The model that a source's text names. Raises ValueError for an unknown one."""
    name = names.gpu_type(text)
    if name is None:
        raise ValueError(f"unknown GPU {text!r}")
    return name


def memory_of(gpu: str, count: float) -> float:
    """Memory of one GPU in GiB; of the slice, for a part of a GPU."""
    nominal = names.nominal_memory_gib(gpu) or 0.0
    return nominal if count >= 1 else nominal * count


# --- Google Cloud
# ---------------------------------------------------------------------------------------------------------------------------------

_SEEN = "(Google: GPU machine types; 2026-04-14)"
_G4_FLEX = "sources disagree whether G4 is sold as Flex-start; not relied upon"
_GCP_LEFT_OUT = "boot disk; further disks; egress"


def gcp_capacities(machine_type: str) -> tuple[str, str, str, str]:
    """Which kinds of capacity Google sells of an accelerator-optimised machine type, and why not
    the others (ordering table of 2026-04-14).
    """
    family = machine_type.split("-")[0]
    if family == "a4x":
        refused = f"A4X is sold by reservation only {_SEEN}"
        return (refused, refused, refused, "")
    if family == "a4" or machine_type.startswith("a3-ultragpu"):
        return (f"not sold on demand: Spot or Flex-start or a reservation {_SEEN}", "", "", "")
    if machine_type in {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"}:
        refused = f"sold as Spot or Flex-start only {_SEEN}"
        return (refused, "", "", refused)
    if family == "g4":
        return ("", "", _G4_FLEX, "")
    return NOTHING_REFUSED


def gcp(made: Made, folder: Path) -> None:
    """Accelerator-optimised machines: on-demand and Spot as the source has them, whole machine with
    its bundled local SSD.

    The column `unverified_ondemand_or_dws_usd_h` is never read: it may be the price of another
    product. Where a source adds up host and GPU of a machine that comes with local SSD, and leaves
    the SSD out, no source gives that region's SSD rate: the sum is shown in the parts, and there is
    no price. Flex-start has no verified price in any source. A slice of a GPU (G4) has a fraction
    as its count.
    """
    for row in read(folder, "gcp_gpu_offers"):
        gpu, count, ssd = (
            gpu_of(row["gpu_name"]),
            float(row["gpu_count"]),
            int(row["bundled_local_ssd_gib"] or 0),
        )
        what = f"{count:g} x {gpu}"
        parts = f"vCPU + RAM + {what}" + (f" + {ssd} GiB local SSD" if ssd else "")
        machine = MachineType(
            "gcp",
            row["instance_type"],
            row["instance_type"],
            gpu,
            count,
            memory_of(gpu, count),
            float(row["vcpus"]),
            float(row["memory_gb"]),
            ssd,
            "",
            parts,
            _GCP_LEFT_OUT,
            gcp_capacities(row["instance_type"]),
        )
        prices = [
            made.price(row[f"{kind}_usd_h"], row["price_source"], row["price_as_of"])
            for kind in ("ondemand", "spot")
        ]
        if ssd and "without local SSD" in row["notes"]:
            prices = [
                (
                    Price(
                        parts=(
                            f"no full price: {usd(p.micro):.4f} without the {ssd} GiB local SSD"
                            " that comes with it"
                        )
                    )
                    if p.micro
                    else p
                )
                for p in prices
            ]
        made.add(machine, Place("gcp", machine.key, row["region"], row["zone"], *prices))


N1_LIMITS = {
    # (GPU, count): most vCPUs, most GiB of RAM. Google: GPU machine types, 2026-04-14.
    ("T4", 1): (48, 312),
    ("T4", 2): (48, 312),
    ("T4", 4): (96, 624),
    ("P4", 1): (24, 156),
    ("P4", 2): (48, 312),
    ("P4", 4): (96, 624),
    ("V100", 1): (12, 78),
    ("V100", 2): (24, 156),
    ("V100", 4): (48, 312),
    ("V100", 8): (96, 624),
    ("P100", 1): (16, 104),
    ("P100", 2): (32, 208),
    ("P100", 4): (96, 624),
}

N1_SMALLER = {"us-east1-c": (64, 208), "europe-west1-d": (64, 208), "europe-west1-b": (64, 208)}
"""Zones where four P100 are held to less. Same source."""

N1_HOSTS = ("n1-standard-{4}", "n1-standard-{8}", "n1-highmem-{8}")
"""Hosts for each GPU: 4 vCPUs and 15 GiB feed one inference card, 8 vCPUs and 30 GiB a training
one, 52 GiB is more than its own memory three times over. More sizes would be more rows for the same
cards; a size in between is a custom machine type, which no source prices.
"""

N1_FLEX = (
    "Flex-start is sold for accelerator-optimised machines only (Google: About Flex-start VMs)"
)


def n1_hosts(gpu: str, count: int, zone: str) -> Iterator[str]:
    """The host types offered for so many GPUs of a model: per GPU 4 or 8 vCPUs, as far as Google's
    limits allow.
    """
    most_vcpus, most_gib = N1_LIMITS[gpu, count]
    if (gpu, count) == ("P100", 4) and zone in N1_SMALLER:
        most_vcpus, most_gib = N1_SMALLER[zone]
    for pattern in N1_HOSTS:
        family, _, size = pattern.partition("{")
        vcpus = int(size.rstrip("}")) * count
        if vcpus <= most_vcpus and vcpus * (6.5 if "highmem" in family else 3.75) <= most_gib:
            yield f"{family}{vcpus}"


def n1(made: Made, folder: Path) -> None:
    """N1 hosts with attached GPUs: host and GPU added, of the same zone, capacity kind and source;
    both shown. No price if one is missing.
    """
    hosts = {(row["zone"], row["instance_type"]): row for row in read(folder, "gcp_n1_hosts")}
    for row in read(folder, "gcp_n1_attachable_gpus"):
        gpu, count, zone = gpu_of(row["gpu_name"]), int(row["gpu_count"]), row["zone"]
        for host_type in n1_hosts(gpu, count, zone):
            host = hosts.get((zone, host_type))
            if host is None:
                made.skip("N1 host without a price in the zone")
                continue
            if host["source"] != row["source"] or host["as_of"] != row["as_of"]:
                raise ValueError(f"{zone} {host_type}: host and GPU are of different sources")
            machine = MachineType(
                "gcp",
                f"{host_type}+{gpu}:{count}",
                host_type,
                gpu,
                count,
                memory_of(gpu, count),
                float(host["vcpus"]),
                float(host["memory_gb"]),
                0,
                row["gcp_accelerator_type"],
                "",
                _GCP_LEFT_OUT,
                ("", "", N1_FLEX, ""),
            )
            prices = []
            for kind in ("ondemand", "spot"):
                host_usd, gpu_usd = host[f"host_only_{kind}_usd_h"], row[f"gpu_only_{kind}_usd_h"]
                both = Decimal(host_usd) + Decimal(gpu_usd) if host_usd and gpu_usd else None
                parts = (
                    f"host {Decimal(host_usd or 0):.4f} + {count} x {gpu}"
                    f" {Decimal(gpu_usd or 0):.4f}"
                    if both is not None
                    else ""
                )
                prices.append(made.price(both, row["source"], row["as_of"], parts))
            made.add(machine, Place("gcp", machine.key, row["region"], zone, *prices))


# --- AWS
# ------------------------------------------------------------------------------------------------------------------------------------------

_AWS_LEFT_OUT = "EBS volumes; egress; public IPv4"
_AWS_ARM = ("g5g", "p6e")
_AWS_GONE = "only in price lists: EC2's own list of types and zones of 2026-10 has it nowhere"
_L4_DRIVER_GIB = 22.35
"""What EC2 reports for a whole L4; a slice's report divided by it is the fraction."""


def aws_gpu(instance_type: str, text: str, memory_gb: float) -> str:
    """The model of an EC2 type. EC2 says `A100` and `V100` for both sizes: the type decides. A
    price list has `L40` for g6f: EC2's L4 wins.
    """
    family = instance_type.split(".")[0]
    if family in {"g6f", "gr6f"}:
        return "L4"
    if family == "p4de" or (gpu_of(text) == "A100" and memory_gb >= 80):
        return "A100-80GB"
    if family == "p3dn" or (gpu_of(text) == "V100" and memory_gb >= 32):
        return "V100-32GB"
    return gpu_of(text)


def aws_parts(instance_type: str, count: float, gpu: str) -> str:
    """What the price of an EC2 type holds."""
    host = "vCPU (Arm)" if instance_type.split(".")[0] in _AWS_ARM else "vCPU"
    return f"{host} + RAM + {count:g} x {gpu} + instance store if the type has one"


def aws(made: Made, folder: Path) -> None:
    """EC2 types by zone id, then what only the price lists know, by region.

    On-demand: the us-east-1 list of 2026-07-20 wins over the catalog with zone ids, that over the
    price page of 2026-01-21; where they overlap they agree to 0.001 dollars. Spot is known for few
    places; elsewhere there is no price. A spot price rounded to a hair above on-demand, noted as
    equal to it, is equal to it.
    """
    described: dict[str, MachineType] = {}
    listed: set[tuple[str, str]] = set()
    for row in read(folder, "aws_gpu_offers"):
        kind = row["instance_type"]
        reported = float(row["gpu_memory_gb"])
        gpu = aws_gpu(kind, row["gpu_name"], reported)
        count = float(row["gpu_count"])
        if count == 0:
            count = round(reported / _L4_DRIVER_GIB * 8) / 8
        elif not names.nominal_memory_matches(gpu, reported * 1024):
            raise ValueError(f"{kind}: {gpu} with {reported} GiB")
        machine = described[kind] = MachineType(
            "aws",
            kind,
            kind,
            gpu,
            count,
            memory_of(gpu, count),
            float(row["vcpus"]),
            float(row["memory_gb"]),
            0,
            "",
            aws_parts(kind, count, gpu),
            _AWS_LEFT_OUT,
            ("", "", NOT_LISTED, ""),
        )
        on_demand = made.price(row["ondemand_usd_h"], row["ondemand_source"], row["ondemand_as_of"])
        spot = made.price(row["spot_usd_h"], row["spot_source"], row["spot_as_of"])
        if "spot equals on-demand" in row["notes"] and on_demand.micro is not None:
            spot = spot._replace(micro=on_demand.micro)
        listed.add((row["region"], kind))
        made.add(machine, Place("aws", kind, row["region"], row["zone"], on_demand, spot))
    aws_by_region(made, folder, described, listed)


def aws_by_region(
    made: Made, folder: Path, described: dict[str, MachineType], listed: set[tuple[str, str]]
) -> None:
    """Types and regions that only the price lists have. The list of 2026-07-20 names no GPU: its
    rows take the type's description from the other.
    """
    rows = [
        row
        for row in read(folder, "aws_gpu_ondemand_by_region")
        if (row["region"], row["instance_type"]) not in listed
    ]
    for row in rows:
        kind = row["instance_type"]
        if row["gpu_name"] and kind not in described:
            gpu = aws_gpu(kind, row["gpu_name"], 0)
            count = float(row["gpu_count"])
            described[kind] = MachineType(
                "aws",
                kind,
                kind,
                gpu,
                count,
                memory_of(gpu, count),
                float(row["vcpus"]),
                float(row["memory"].split()[0]),
                0,
                "",
                aws_parts(kind, count, gpu),
                _AWS_LEFT_OUT,
                (_AWS_GONE, NOT_LISTED, NOT_LISTED, NOT_LISTED),
            )
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        place = (row["region"], row["instance_type"])
        if row["region"].startswith("us-gov-"):
            made.skip("AWS GovCloud: a partition of its own that an ordinary account cannot use")
        elif row["instance_type"] not in described:
            made.skip("AWS type without a description")
        elif place not in newest or row["as_of"] > newest[place]["as_of"]:
            newest[place] = row
    for (region, kind), row in newest.items():
        price = made.price(row["ondemand_usd_h"], row["source"], row["as_of"])
        made.add(described[kind], Place("aws", kind, region, "", price, Price()))


# --- Modal
# ----------------------------------------------------------------------------------------------------------------------------------------

MODAL_CORES, MODAL_GIB = Decimal("0.125"), Decimal("0.125")
"""What a sandbox reserves if nothing is asked (modal.com/pricing: least 0.125 core; docs: 128 MiB).
Use above it is billed on top.
"""

_MODAL_LEFT_OUT = (
    "CPU and memory used above that; a chosen region (x1.5 or x1.75); volumes; can be preempted"
)


def modal(made: Made, folder: Path) -> None:
    """Modal sandboxes anywhere: the GPUs' price per second times the count, plus the least CPU and
    memory that is billed, at the sandbox rates.
    """
    rates = {row["item"]: row for row in read(folder, "modal")}
    cores = rates.pop("cpu-core")
    memory = rates.pop("memory-gib")
    cpu_usd = Decimal(cores["usd_per_second"]) * 3600 * MODAL_CORES
    memory_usd = Decimal(memory["usd_per_second"]) * 3600 * MODAL_GIB
    for name, row in rates.items():
        gpu = gpu_of(name)
        for count in range(1, int(row["max_count"]) + 1):
            gpu_usd = Decimal(row["usd_per_second"]) * 3600 * count
            parts = (
                f"{count} x {gpu} {gpu_usd:.4f} + CPU {cpu_usd:.4f} ({MODAL_CORES} core) + memory"
                f" {memory_usd:.4f} ({MODAL_GIB} GiB)"
            )
            machine = MachineType(
                "modal",
                f"{gpu}:{count}",
                f"container-{count}",
                gpu,
                count,
                memory_of(gpu, count),
                float(MODAL_CORES) * 2,
                float(MODAL_GIB),
                0,
                "",
                parts + (f"; {row['note']}" if row["note"] and count > 1 else ""),
                _MODAL_LEFT_OUT,
                ("", NOT_LISTED, NOT_LISTED, NOT_LISTED),
            )
            price = made.price(gpu_usd + cpu_usd + memory_usd, row["source"], row["as_of"])
            made.add(machine, Place("modal", machine.key, "any", "", price, Price()))


# --- together
# -------------------------------------------------------------------------------------------------------------------------------------


def check(made: Made) -> None:
    """The invariants of the catalog. Raises ValueError naming every offence."""
    wrong: list[str] = []
    seen: set[tuple[str, str, str]] = set()
    for machine in made.machines.values():
        if machine.gpu_type not in names.models() or hardware.hardware(machine.gpu_type) is None:
            wrong.append(f"{machine.provider} {machine.key}: unknown GPU {machine.gpu_type}")
        if machine.gpu_count <= 0:
            wrong.append(f"{machine.provider} {machine.key}: {machine.gpu_count} GPUs")
    for place in made.places:
        where = f"{place.provider} {place.zone or place.region} {place.machine}"
        key = (place.provider, place.zone or place.region, place.machine)
        if key in seen:
            wrong.append(f"{where}: there twice")
        seen.add(key)
        for price in (place.on_demand, place.spot):
            if price.micro is not None and price.micro <= 0:
                wrong.append(f"{where}: a price of {price.micro}")
            if (price.micro is None) != (price.source == ""):
                wrong.append(f"{where}: a price without a source or a source without a price")
        if (
            place.spot.micro is not None
            and place.on_demand.micro is not None
            and place.spot.micro > place.on_demand.micro
        ):
            wrong.append(
                f"{where}: spot {place.spot.micro} above on-demand {place.on_demand.micro}"
            )
    if wrong:
        raise ValueError("\n".join(wrong))


def make(folder: Path) -> Made:
    """Everything the sources give, checked. Reads the source folder."""
    made = Made({}, {}, [], {})
    gcp(made, folder)
    n1(made, folder)
    aws(made, folder)
    modal(made, folder)
    check(made)
    return made


def write(path: Path, heading: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table with neither commas nor quotes in a cell, so that it can be read by splitting. Raises
    ValueError for a cell that has one.
    """
    out = [",".join(heading)]
    for row in rows:
        cells = [
            f"{cell:g}" if isinstance(cell, float) else "" if cell is None else str(cell)
            for cell in row
        ]
        if any("," in cell or '"' in cell or "\n" in cell for cell in cells):
            raise ValueError(f"{path.name}: a comma, quote or line end in {cells}")
        out.append(",".join(cells))
    path.write_text("\n".join(out) + "\n", encoding="utf-8")


def write_all(made: Made, target: Path) -> None:
    """Writes the price files, `machines.csv` and `sources.csv`. Machines are kept together; places
    are in the order of their names.
    """
    write(target / "sources.csv", Source._fields, made.sources.values())
    order = {
        key: number
        for number, key in enumerate(
            sorted(made.machines, key=lambda key: (key[0], made.machines[key].gpu_type, key[1]))
        )
    }
    flat = [
        (*machine[:-1], *machine.capacities)
        for _, machine in sorted(made.machines.items(), key=lambda item: order[item[0]])
    ]
    write(
        target / "machines.csv",
        (*MachineType._fields[:-1], "on_demand", "spot", "flex_start", "reservation"),
        flat,
    )
    heading = ["machine", "region", "zone"]
    heading += [
        f"{kind}_{field}"
        for kind in ("on_demand", "spot")
        for field in ("micro_usd", "source", "parts")
    ]
    for provider in sorted({provider for provider, _ in made.machines}):
        places = [place for place in made.places if place.provider == provider]
        places.sort(key=lambda place: (order[provider, place.machine], place.region, place.zone))
        write(
            target / f"{provider}.csv",
            heading,
            (
                (place.machine, place.region, place.zone, *place.on_demand, *place.spot)
                for place in places
            ),
        )


def main(arguments: list[str]) -> int:
    """Reads SOURCE_DIR (default: the committed sources), writes TARGET_DIR (default: the bundled
    data).
    """
    source = Path(arguments[0]) if arguments else HERE / "sources"
    target = Path(arguments[1]) if len(arguments) > 1 else HERE / "data"
    made = make(source)
    write_all(made, target)
    for provider in sorted({provider for provider, _ in made.machines}):
        print(
            f"{provider}: {sum(place.provider == provider for place in made.places)} places of"
            " machines"
        )
    for reason, count in made.skipped.items():
        print(f"left out {count}: {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
