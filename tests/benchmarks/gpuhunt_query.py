"""The process that `gpus plan` is measured against: imports gpuhunt, reads the rows of a CSV file
into its records, answers one query as JSON.

Runs in an environment of its own that has gpuhunt and nothing of this project. The rows are read
with csv.reader straight into CatalogItem, which is leaner than gpuhunt's own reader, so that the
comparison leans its way.
"""

import csv
import json
import sys
from pathlib import Path

import gpuhunt


def main(path: str, gpu: str, count: int) -> None:
    vendors = {vendor.value: vendor for vendor in gpuhunt.AcceleratorVendor}
    with Path(path).open(newline="", encoding="utf-8") as file:
        items = [
            gpuhunt.CatalogItem(
                provider=provider,
                instance_name=name,
                location=location,
                price=float(price),
                cpu=int(cpu),
                memory=float(memory),
                gpu_count=int(gpu_count),
                gpu_name=gpu_name,
                gpu_memory=float(gpu_memory),
                spot=spot == "1",
                disk_size=None,
                gpu_vendor=vendors["nvidia"],
            )
            for provider, name, location, price, cpu, memory, gpu_count, gpu_name, gpu_memory, spot in csv.reader(
                file
            )
        ]
    wanted = gpuhunt.QueryFilter(gpu_name=[gpu], min_gpu_count=count, max_gpu_count=count)
    found = sorted(
        (item for item in items if gpuhunt.matches(item, wanted)), key=lambda item: item.price
    )
    if not found:
        raise SystemExit("gpuhunt answers nothing: the comparison would be void")
    answer = [
        (
            item.provider,
            item.instance_name,
            item.location,
            item.price,
            item.gpu_name,
            item.gpu_count,
            item.spot,
        )
        for item in found
    ]
    sys.stdout.write(json.dumps({"rows": len(items), "found": answer}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
