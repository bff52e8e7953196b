"""The rehearsal market's servers: made up on 2026-11-27 in the shape of real listings, odd ones
among them. Pure; imports nothing of the package.

Prices are dollars per day for the whole server, as the market lists them, of the size seen on such
markets in 2026; they are nobody's offers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

USD_PER_COIN = {"bitcoin": 95_000.0, "CLORE-Blockchain": 0.0125, "USD-Blockchain": 1.0}
"""Made-up rates."""

ALL_COINS = ("bitcoin", "CLORE-Blockchain", "USD-Blockchain")

Server = dict[str, Any]


class _Line(NamedTuple):
    id: int
    gpu: str
    gpus: int
    gpuram: float
    country: str
    usd_per_day: float
    spot_usd_per_day: float
    reliability: float
    cuda: str = "12.8"
    down: float = 800.0
    up: float = 600.0
    ram: float = 128.0
    disk: float = 900.0
    mrl: float = 720.0
    rented: bool = False
    coins: tuple[str, ...] = ALL_COINS
    pcie_rev: int = 4
    rating: float = 4.6
    ratings: int = 12


_LINES = (
    _Line(
        71001,
        "NVIDIA GeForce RTX 4090",
        2,
        24,
        "NL",
        11.90,
        6.40,
        0.996,
        ram=192,
        down=2200,
        up=1800,
    ),
    _Line(71002, "NVIDIA GeForce RTX 4090", 2, 24, "PL", 11.20, 5.90, 0.991),
    _Line(
        71003,
        "NVIDIA GeForce RTX 4090",
        2,
        24,
        "US",
        12.60,
        0.0,
        0.998,
        cuda="13.0",
        down=5000,
        up=4200,
    ),
    _Line(71004, "NVIDIA GeForce RTX 4090", 2, 24, "DE", 9.80, 5.10, 0.871),
    _Line(71005, "NVIDIA GeForce RTX 4090", 2, 24, "KR", 10.40, 5.60, 0.989, cuda="11.8"),
    _Line(71006, "NVIDIA GeForce RTX 4090", 2, 24, "FI", 10.90, 5.80, 0.993, rented=True),
    _Line(
        71007,
        "NVIDIA GeForce RTX 4090",
        2,
        24,
        "SE",
        13.10,
        7.00,
        0.997,
        coins=("CLORE-Blockchain",),
    ),
    _Line(71010, "NVIDIA GeForce RTX 4090", 1, 24, "NL", 5.90, 3.10, 0.994, ram=64),
    _Line(71011, "NVIDIA GeForce RTX 4090", 1, 24, "CZ", 5.60, 2.90, 0.988, ram=64),
    _Line(71012, "NVIDIA GeForce RTX 4090", 4, 24, "US", 24.80, 13.60, 0.995, ram=256),
    _Line(
        71013,
        "NVIDIA GeForce RTX 4090",
        8,
        24,
        "NO",
        48.00,
        27.00,
        0.997,
        ram=512,
        down=9000,
        up=8000,
    ),
    _Line(71014, "NVIDIA GeForce RTX 4090 D", 2, 24, "HK", 9.60, 5.20, 0.984),
    _Line(71020, "NVIDIA GeForce RTX 3090", 1, 24, "UA", 2.70, 1.40, 0.982, ram=32, pcie_rev=3),
    _Line(71021, "NVIDIA GeForce RTX 3090", 2, 24, "PL", 5.20, 2.80, 0.990, ram=64),
    _Line(71022, "NVIDIA GeForce RTX 3090", 4, 24, "DE", 10.30, 5.70, 0.993),
    _Line(71023, "NVIDIA GeForce RTX 3090 Ti", 1, 24, "FR", 3.30, 1.80, 0.987, ram=64),
    _Line(71030, "NVIDIA GeForce RTX 5090", 1, 31, "NL", 11.40, 6.90, 0.996, cuda="13.0"),
    _Line(71031, "NVIDIA GeForce RTX 5090", 2, 31, "US", 22.90, 13.80, 0.995, cuda="13.0", ram=192),
    _Line(
        71032,
        "NVIDIA GeForce RTX 5090",
        8,
        31,
        "NO",
        88.00,
        54.00,
        0.998,
        cuda="13.0",
        ram=768,
        down=9000,
        up=9000,
    ),
    _Line(71040, "NVIDIA GeForce RTX 3080", 2, 9, "RU", 2.40, 1.10, 0.979, ram=32, pcie_rev=3),
    _Line(71041, "NVIDIA GeForce RTX 3080", 1, 12, "IT", 1.40, 0.70, 0.983, ram=32),
    _Line(
        71042, "GeForce GTX 1080 Ti", 1, 11, "BG", 0.80, 0.0, 0.962, cuda="12.2", ram=16, pcie_rev=3
    ),
    _Line(71050, "NVIDIA RTX A6000", 4, 48, "SE", 28.80, 15.40, 0.997, ram=256),
    _Line(71051, "NVIDIA RTX 6000 Ada Generation", 2, 48, "US", 30.40, 17.20, 0.994, ram=256),
    _Line(71052, "NVIDIA L40S", 2, 45, "US", 27.60, 16.00, 0.996, ram=256),
    _Line(71053, "NVIDIA L40S", 8, 45, "CA", 108.00, 0.0, 0.998, ram=1024, down=9500, up=9500),
    _Line(
        71060,
        "NVIDIA A100-SXM4-80GB",
        8,
        80,
        "US",
        172.00,
        98.00,
        0.999,
        ram=1900,
        down=9800,
        up=9800,
    ),
    _Line(71061, "NVIDIA A100 SXM4 80GB", 1, 80, "NL", 19.60, 11.20, 0.995, ram=120),
    _Line(71062, "NVIDIA A100 SXM4", 4, 40, "DE", 57.00, 31.00, 0.994, ram=480),
    _Line(71063, "NVIDIA A100 80GB PCIe", 2, 79, "SG", 38.00, 21.50, 0.992, ram=240),
    _Line(
        71070,
        "NVIDIA H100 80GB HBM3",
        8,
        79,
        "US",
        446.00,
        262.00,
        0.999,
        cuda="13.0",
        ram=2000,
        down=9900,
        up=9900,
    ),
    _Line(
        71071,
        "NVIDIA H100 80GB HBM3",
        8,
        79,
        "FI",
        428.00,
        0.0,
        0.998,
        ram=2000,
        down=9900,
        up=9900,
        rented=True,
    ),
    _Line(71072, "NVIDIA H100 PCIe", 1, 79, "NL", 46.80, 27.40, 0.996, ram=180),
    _Line(71073, "NVIDIA H100 NVL", 2, 93, "US", 104.00, 60.00, 0.995, ram=384),
    _Line(
        71074,
        "NVIDIA H200",
        8,
        140,
        "US",
        610.00,
        0.0,
        0.999,
        cuda="13.0",
        ram=2000,
        down=9900,
        up=9900,
    ),
)


def servers() -> list[Server]:
    """Every server as the market lists it, before anything was rented in the rehearsal."""
    return [_listed(line) for line in _LINES] + _odd()


def _listed(line: _Line) -> Server:
    short = line.gpu.removeprefix("NVIDIA").removeprefix(" ").removeprefix("GeForce ")
    # Data-centre cards come with a leading blank in the array, as recorded.
    entry = f" {short}" if "GeForce" not in line.gpu else short
    spot = (
        {coin: _coins(line.spot_usd_per_day, coin) for coin in line.coins}
        if line.spot_usd_per_day
        else {"bitcoin": 0}
    )
    return {
        "id": line.id,
        "owner": 900 + line.id % 37,
        "mrl": line.mrl,
        "rented": line.rented,
        "reliability": line.reliability,
        "allowed_coins": list(line.coins),
        "rating": {"avg": line.rating, "cnt": line.ratings},
        "cuda_version": line.cuda,
        "gpu_array": [entry] * line.gpus,
        "gigaspot": False,
        "partial_gpu_rental": False,
        "price": {
            "on_demand": {coin: _coins(line.usd_per_day, coin) for coin in line.coins},
            "spot": spot,
            "usd": {
                "on_demand_btc": line.usd_per_day if "bitcoin" in line.coins else 0,
                "on_demand_clore": line.usd_per_day if "CLORE-Blockchain" in line.coins else 0,
                "on_demand_usd": line.usd_per_day if "USD-Blockchain" in line.coins else 0,
                "spot": line.spot_usd_per_day,
            },
        },
        "specs": {
            "mb": "ROME2D32GM-2T",
            "cpu": "AMD EPYC 7543 32-Core Processor",
            "cpus": f"{16 * line.gpus}/{32 * line.gpus}",
            "ram": line.ram - 0.36,
            "disk": f" NVMe {line.disk:.1f}GB",
            "disk_speed": 2600.0,
            "gpu": f"{line.gpus}x {line.gpu}",
            "gpuram": line.gpuram,
            "net": {"cc": line.country, "down": line.down, "up": line.up},
            "pcie_rev": line.pcie_rev,
            "pcie_width": 16,
            "backend_version": 21,
            "pl": [350] * line.gpus,
            "stock_pl": 350,
            "stock_oc": "default",
        },
    }


def _coins(usd_per_day: float, coin: str) -> float:
    return round(usd_per_day / USD_PER_COIN[coin], 8)


def _odd() -> list[Server]:
    """Listings as they should not be, and are."""
    mixed = _listed(_Line(71090, "Mixed", 2, 24, "PL", 5.00, 2.00, 0.99)) | {
        "gpu_array": ["RTX 4090", "RTX 3090"]
    }
    short = _listed(_Line(71091, "NVIDIA GeForce RTX 5090", 2, 31, "US", 9.00, 5.00, 0.99)) | {
        "gpu_array": ["RTX 5090"]
    }
    part = _listed(_Line(71092, "NVIDIA GeForce RTX 4090", 2, 24, "US", 8.00, 4.00, 0.99))
    part["partial_gpu_rental"] = {"total_gpus": 2, "available_gpus": 1}
    nameless = _listed(_Line(71093, "NVIDIA GeForce RTX 4090", 2, 24, "US", 8.00, 4.00, 0.99)) | {
        "id": "12a"
    }
    unsure = _listed(_Line(71094, "NVIDIA GeForce RTX 4090", 2, 24, "US", 8.00, 4.00, 0.99)) | {
        "rented": None
    }
    return [mixed, short, part, nameless, unsure, {"id": 71095}]
