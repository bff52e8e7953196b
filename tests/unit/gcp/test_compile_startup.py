"""Keys and the start-up script in the creating call of Compute Engine. No network."""

from typing import Any

from providers.adapters.gcp import MANIFEST, machine_metadata
from providers.model.machine import Setup
from tests.present import present
from tests.unit.gcp.compile_rig import properties

OWN = "ssh-ed25519 BBBB gpus-own-train"


def test_the_clusters_own_key_stands_beside_the_users() -> None:
    """Two lines of one metadata item, the user's first; alone where the user gives none."""
    both = properties(ssh_public_key="ssh-ed25519 AAAA me", own_public_key=OWN)["metadata"]["items"]
    assert [{"key": "ssh-keys", "value": f"gpus:ssh-ed25519 AAAA me\ngpus:{OWN}"}] == both
    assert [{"key": "ssh-keys", "value": f"gpus:{OWN}"}] == properties(own_public_key=OWN)[
        "metadata"
    ]["items"]
    assert (
        machine_metadata.own_keys(both[0]["value"]) == [OWN]
        and machine_metadata.own_keys("gpus:ssh-ed25519 AAAA me") == []
    )


def test_b32_what_a_machine_is_told_at_its_start_is_bounded_when_planning() -> None:
    """More than Google takes in a value is a problem of the section, with both sizes; what fits is
    none.
    """
    (problem,) = machine_metadata.fits(Setup(ssh_public_key="ssh-rsa " + "A" * 262_144))
    assert (
        "metadata (ssh-keys) of at most 262,144 bytes" in problem.wanted
        and problem.found == "262,157"
    )
    assert machine_metadata.fits(Setup(ssh_public_key="ssh-ed25519 AAAA me")) == []


def test_a_login_that_the_declaration_rules_out_is_known() -> None:
    """A managed network and a machine without an address outside take no ssh from here; everything
    else does.
    """
    anywhere: Any = None
    assert "Identity-Aware Proxy" in present(MANIFEST.limits.unreachable)(
        anywhere, Setup(network=(("network", "n"),))
    )
    assert "external_ip" in present(MANIFEST.limits.unreachable)(
        anywhere, Setup(options=(("external_ip", False),))
    )
    assert present(MANIFEST.limits.unreachable)(anywhere, Setup(options=(("image", "mine"),))) == ""


def test_the_ssh_key_is_metadata_and_there_is_none_without_one() -> None:
    """ssh-keys holds user and key; without a key there is no metadata and no service account."""
    assert properties(ssh_public_key="ssh-ed25519 AAAA me\n")["metadata"]["items"] == [
        {"key": "ssh-keys", "value": "gpus:ssh-ed25519 AAAA me"}
    ]
    assert not {"metadata", "serviceAccounts"} & properties().keys()
