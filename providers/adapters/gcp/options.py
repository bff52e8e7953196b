"""A spec's `options.gcp`, typed. Owns its keys and their checks; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.gcp import fabric as fabrics
from providers.adapters.sections import unknown
from providers.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

IMAGE_PROJECT = "deeplearning-platform-release"
IMAGE_FAMILY = "common-cu129-ubuntu-2204-nvidia-580"
"""Driver 580 and CUDA 12.9 on Ubuntu 22.04: Google's Deep Learning VM page, "choose an image",
2026-04-10.
"""

ARM_IMAGE = (
    "projects/ubuntu-os-accelerator-images/global/images/family"
    "/ubuntu-accelerator-2404-arm64-with-nvidia-580"
)
"""The default for Arm machines: driver 580 on Ubuntu 24.04. cluster-toolkit's choice for A4X,
2026-06-25.
"""

DISK_TYPES = ("pd-balanced", "pd-ssd", "pd-standard", "hyperdisk-balanced")

LOCAL_SSDS = (0, 1, 2, 4, 8, 16, 32)

_RESOURCE = re.compile(r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")
_PROJECT = re.compile(r"^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$")
_NUMBER_MIN = 6
_IMAGE = re.compile(
    r"^(projects/[a-z0-9.:-]+/global/images/(family/)?)?[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"
)
ACCOUNT = re.compile(r"^[a-z0-9][a-z0-9._-]*@[a-z0-9.-]+\.[a-z]+$")
CONTAINER = re.compile(
    r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$"
)


class Options(NamedTuple):
    """What a user may say about Google's machines.

    `image` is one image (a name, with `image_project`, or `projects/P/global/images/I`) and wins
    over `image_family`. `local_ssd_count` adds 375 GiB NVMe disks where the machine type takes them
    and brings none. `boot_disk_type` applies where the family has it; others keep their own
    default. `network` and `subnetwork` name existing ones;
    the subnetwork has the same name everywhere. `fabric` names, per zone, the existing networks of
    machines with several interfaces; see `fabric`.
    """

    image: str = ""
    image_family: str = ""
    image_project: str = ""
    local_ssd_count: int = 0
    boot_disk_type: str = ""
    service_account: str = ""
    external_ip: bool = True
    network: str = ""
    subnetwork: str = ""
    tags: tuple[str, ...] = ()
    fabric: fabrics.Fabrics = ()

    def source_image(self, *, arm: bool = False) -> str:
        """The boot image as the API takes it. An image that the user named stands for every
        machine; the default follows the processor.
        """
        if arm and not (self.image or self.image_family):
            return ARM_IMAGE
        if self.image.startswith("projects/"):
            return self.image
        project = self.image_project or IMAGE_PROJECT
        if self.image:
            return f"projects/{project}/global/images/{self.image}"
        return f"projects/{project}/global/images/family/{self.image_family or IMAGE_FAMILY}"


_TEXTS: dict[str, tuple[re.Pattern[str], str]] = {
    "image": (_IMAGE, "an image's name, or projects/PROJECT/global/images/NAME"),
    "image_family": (_RESOURCE, f'an image family such as "{IMAGE_FAMILY}"'),
    "image_project": (_PROJECT, f'a project id such as "{IMAGE_PROJECT}"'),
    "service_account": (ACCOUNT, "a service account's e-mail address"),
    "network": (_RESOURCE, "the name of an existing VPC network"),
    "subnetwork": (_RESOURCE, "the name of an existing subnetwork"),
}


def is_project(text: str) -> bool:
    """Whether it can be the id of a project, or its number."""
    return bool(_PROJECT.match(text)) or (
        text.isascii() and text.isdigit() and len(text) >= _NUMBER_MIN
    )


def problems(section: Mapping[str, object]) -> list[Problem]:
    """Everything that is wrong, each with its path relative to the section."""
    return _read(section)[1]


def read(section: Mapping[str, object]) -> Options:
    """The options of a section that was checked; what is wrong in it is left at its default."""
    return _read(section)[0]


def _read(section: Mapping[str, object]) -> tuple[Options, list[Problem]]:
    found: list[Problem] = []
    values: dict[str, object] = {}
    for key, value in section.items():
        if key == "fabric":
            values[key], problems_there = fabrics.read(value)
            found.extend(problems_there)
            continue
        problem = _problem(key, value)
        if problem is None:
            values[key] = _value(value)
        else:
            found.append(problem)
    options = Options(**values)  # type: ignore[arg-type]
    if options.image and options.image_family:
        found.append(
            Problem(
                "image_family",
                "an image or a family",
                "both",
                "drop one: image is exactly one, image_family the newest of its kind",
            )
        )
    if options.image.startswith("projects/") and options.image_project:
        found.append(
            Problem(
                "image_project",
                "nothing: image names its project",
                repr(options.image_project),
                "drop it",
            )
        )
    if options.image_project and not (options.image or options.image_family):
        found.append(
            Problem(
                "image_project",
                "an image or image_family in it",
                "neither",
                "name one, or drop image_project",
            )
        )
    return options, found


def _value(value: object) -> object:
    if isinstance(value, float):
        return int(value)
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _problem(key: str, value: object) -> Problem | None:
    shown = repr(value)[:80]
    if key in _TEXTS:
        pattern, wanted = _TEXTS[key]
        return (
            None if isinstance(value, str) and pattern.match(value) else Problem(key, wanted, shown)
        )
    if key == "local_ssd_count":
        whole = (
            not isinstance(value, bool) and isinstance(value, (int, float)) and value == int(value)
        )
        return (
            None
            if whole and value in LOCAL_SSDS
            else Problem(key, "0, 1, 2, 4, 8, 16 or 32 local SSDs of 375 GiB", shown)
        )
    if key == "boot_disk_type":
        return (
            None if value in DISK_TYPES else Problem(key, "one of " + ", ".join(DISK_TYPES), shown)
        )
    if key == "external_ip":
        return None if isinstance(value, bool) else Problem(key, "true or false", shown)
    if key == "tags":
        listed = isinstance(value, (list, tuple)) and all(
            isinstance(item, str) and _RESOURCE.match(item) for item in value
        )
        return (
            None
            if listed
            else Problem(
                key,
                "a list of network tags: lowercase letters, digits and -, starting with a letter",
                shown,
            )
        )
    return unknown(key, Options._fields)
