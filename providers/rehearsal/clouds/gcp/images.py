"""The public images that the stand-in knows. Owns their families; imports nothing of the package
but the wire's shapes.

Families and names: Google's Deep Learning VM and OS image pages as read in 2026.
"""

from __future__ import annotations

import re

from providers.rehearsal.clouds.gcp.wire import ROOT, Json, Refusal, invalid, missing, timestamp

_MADE = 1_777_593_600.0
FAMILIES = {
    ("deeplearning-platform-release", "common-cu129-ubuntu-2404-nvidia-580"): 50,
    ("deeplearning-platform-release", "common-cu129-ubuntu-2204-nvidia-580"): 50,
    ("deeplearning-platform-release", "common-cu128-ubuntu-2204-nvidia-570"): 50,
    ("deeplearning-platform-release", "pytorch-2-9-cu129-ubuntu-2404-nvidia-580"): 50,
    ("deeplearning-platform-release", "pytorch-2-9-cu129-ubuntu-2204-nvidia-580"): 50,
    ("deeplearning-platform-release", "pytorch-2-7-cu128-ubuntu-2204-nvidia-570"): 50,
    ("ubuntu-os-accelerator-images", "ubuntu-accelerator-2404-amd64-with-nvidia-580"): 20,
    ("ubuntu-os-accelerator-images", "ubuntu-accelerator-2204-amd64-with-nvidia-570"): 20,
    ("ubuntu-os-accelerator-images", "ubuntu-accelerator-2404-arm64-with-nvidia-580"): 20,
    ("ubuntu-os-cloud", "ubuntu-2404-lts-amd64"): 10,
    ("ubuntu-os-cloud", "ubuntu-2204-lts"): 10,
    ("debian-cloud", "debian-12"): 10,
    ("cos-cloud", "cos-105-lts"): 10,
}
"""(project, family) -> the image's size in GB, which no boot disk may be below."""


def resource(project: str, family: str) -> Json:
    """The family's newest image. Raises 404."""
    size = FAMILIES.get((project, family))
    if size is None:
        raise missing(f"projects/{project}/global/images/family/{family}")
    return {
        "kind": "compute#image",
        "id": str(5_000_000_000_000_000_000 + sorted(FAMILIES).index((project, family))),
        "name": f"{family}-v20260501",
        "family": family,
        "status": "READY",
        "sourceType": "RAW",
        "architecture": "ARM64" if "arm64" in family else "X86_64",
        "diskSizeGb": str(size),
        "archiveSizeBytes": str(size * 2**28),
        "creationTimestamp": timestamp(_MADE),
        "guestOsFeatures": [{"type": "GVNIC"}, {"type": "UEFI_COMPATIBLE"}],
        "selfLink": f"{ROOT}/projects/{project}/global/images/{family}-v20260501",
    }


def by_name(project: str, name: str) -> Json:
    """An image by its name. Raises 404."""
    found = next((item for item in listed(project) if item["name"] == name), None)
    if found is None:
        raise missing(f"projects/{project}/global/images/{name}")
    return found


def listed(project: str) -> list[Json]:
    """The images of a project."""
    return [resource(where, family) for where, family in sorted(FAMILIES) if where == project]


def check(project: str, link: str | None, size_gb: int, field: str, *, arm: bool = False) -> Json:
    """The image that a boot disk names.

    Raises 400 for a malformed link, a disk below the image's size or an image of the other
    processor, 404 for an unknown image.
    """
    hit = re.search(
        r"(?:projects/(?P<project>[^/]+)/)?global/images/(?P<family>family/)?(?P<name>[^/]+)$",
        link or "",
    )
    if hit is None:
        raise invalid(f"{field}.initializeParams.sourceImage", link or "", "The URL is malformed.")
    where = hit["project"] or project
    found = resource(where, hit["name"]) if hit["family"] else by_name(where, hit["name"])
    if size_gb and size_gb < int(found["diskSizeGb"]):
        raise invalid(
            f"{field}.initializeParams.diskSizeGb",
            size_gb,
            f"Requested disk size cannot be smaller than the image size ({found['diskSizeGb']} GB)",
        )
    wanted = "ARM64" if arm else "X86_64"
    if found["architecture"] != wanted:
        raise Refusal(
            400,
            "badRequest",
            f"The image's architecture {found['architecture']} does not match the machine type's,"
            f" {wanted}.",
        )
    return found
