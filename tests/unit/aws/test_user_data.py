"""Keys, the end of the run and the start-up script in EC2's user data."""

import base64
import random
import subprocess

from providers.adapters.aws import compile as native
from providers.adapters.aws import first_boot
from providers.model.machine import Setup
from providers.rehearsal.script import unpacked
from tests.unit.aws.compile_rig import AROUND, order


def script(call):
    """(user data, the program that is packed in it)."""
    return call.body["UserData"], unpacked(call.body["UserData"])


def test_the_key_and_the_end_of_the_run_are_in_the_user_data() -> None:
    """The script makes the user with the key and what sets the end of the run; the machine's own
    shutdown terminates it. It is sound shell.
    """
    call = native.creating_call(
        order(ttl_s=72_000, ssh_public_key="ssh-ed25519 AAAA it's me", ssh_user="gpus"), AROUND
    )
    text, program = script(call)
    assert {"gpus_ttl_s=72000", "gpus_start=0"} <= set(
        text.splitlines()
    ) and "AAAA it'\"'\"'s me" in program
    assert call.body["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert "no run limit" in call.notes[0] and "20h" in call.notes[0]
    for each in (text, program):
        subprocess.run(["bash", "-n"], input=each, text=True, check=True)


def test_the_clusters_own_key_stands_beside_the_users() -> None:
    """Both keys go into authorized_keys, each on a line of its own; the script leaves what it ended
    with.
    """
    own = "ssh-ed25519 BBBB gpus-own-train"
    _, text = script(
        native.creating_call(
            order(ssh_public_key="ssh-ed25519 AAAA me", own_public_key=own), AROUND
        )
    )
    assert f"keys=('ssh-ed25519 AAAA me' '{own}')\n" in text and "/var/lib/gpus/start-up" in text
    _, alone = script(native.creating_call(order(own_public_key=own), AROUND))
    assert f"keys=('{own}')\n" in alone


def test_b32_user_data_is_bounded_when_planning() -> None:
    """More user data than EC2 takes is a problem, with both sizes; an ordinary key is none."""
    (problem,) = first_boot.fits(
        Setup(
            ssh_public_key="ssh-rsa "
            + base64.b64encode(random.Random(1).randbytes(16_384)).decode()
        )
    )
    assert problem.wanted == "user data of at most 16,384 bytes"
    assert (
        first_boot.fits(
            Setup(
                ssh_public_key="ssh-rsa "
                + base64.b64encode(random.Random(1).randbytes(3_000)).decode(),
                ttl_s=3_600,
            )
        )
        == []
    )


def test_nothing_to_say_is_no_user_data() -> None:
    """Without a key and a limit there is no script, and no shutdown behaviour is set."""
    data = native.creating_call(order(), AROUND).body
    assert "UserData" not in data and "InstanceInitiatedShutdownBehavior" not in data
