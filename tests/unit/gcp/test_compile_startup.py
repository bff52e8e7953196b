"""Keys and the start-up script in the creating call of Compute Engine. No network."""

import shlex
import subprocess
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
    (problem,) = machine_metadata.fits({}, Setup(ssh_public_key="ssh-rsa " + "A" * 262_144))
    assert (
        "metadata (ssh-keys) of at most 262,144 bytes" in problem.wanted
        and problem.found == "262,157"
    )
    assert (
        machine_metadata.fits({"container": "job:1"}, Setup(ssh_public_key="ssh-ed25519 AAAA me"))
        == []
    )


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
    assert (
        present(MANIFEST.limits.unreachable)(anywhere, Setup(options=(("container", "job:1"),)))
        == ""
    )


def test_the_ssh_key_is_metadata_and_there_is_none_without_one() -> None:
    """ssh-keys holds user and key; without a key there is no metadata and no service account."""
    assert properties(ssh_public_key="ssh-ed25519 AAAA me\n")["metadata"]["items"] == [
        {"key": "ssh-keys", "value": "gpus:ssh-ed25519 AAAA me"}
    ]
    assert not {"metadata", "serviceAccounts"} & properties().keys()


def test_the_container_s_script_is_a_valid_shell_script_with_the_image_quoted() -> None:
    """Bash parses the script, and the image stands in it quoted."""
    script = machine_metadata.start_up_script("nvcr.io/nvidia/pytorch:25.09-py3")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert f"image={shlex.quote('nvcr.io/nvidia/pytorch:25.09-py3')}" in script
    assert "{{json .Runtimes}}" in script and "{{.Config.Image}}" in script
    assert "image='a b; rm -rf /'" in machine_metadata.start_up_script("a b; rm -rf /")


class Box:
    """A machine whose tools are small scripts over files: what the start-up script finds and does
    at a boot.
    """

    DOCKER = """#!/bin/bash
echo "$1" >> {home}/calls
case $1 in
  info) echo nvidia ;;
  inspect) cat {home}/image 2>/dev/null ;;
  run) echo "${{@: -1}}" > {home}/image ;;
  rm) rm -f {home}/image ;;
  wait) code=$(head -1 {home}/codes); [ -n "$code" ] || exit 1; sed -i 1d {home}/codes; echo "$code" ;;
esac
"""

    def __init__(self, home) -> None:
        self.home, self.tools = home, home / "tools"
        self.tools.mkdir()
        tools = {
            "docker": self.DOCKER.format(home=home),
            "systemctl": f"#!/bin/bash\ncat {home}/system\n",
            "systemd-run": '#!/bin/bash\nwhile [ "$1" != bash ]; do shift; done\nexec "$@"\n',
            **dict.fromkeys(("nvidia-ctk", "nvidia-smi", "sleep"), "#!/bin/bash\n"),
        }
        for name, text in tools.items():
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)

    def boot(self, image, *codes, system="running"):
        """Which docker calls a boot makes; `codes` are how the container ends while the machine is
        up, or as it goes down.
        """
        (self.home / "codes").write_text("".join(f"{code}\n" for code in codes))
        (self.home / "system").write_text(system)
        (self.home / "calls").write_text("")
        script = machine_metadata.start_up_script(image).replace(
            "/var/lib/gpus", str(self.home / "state")
        )
        env = {"PATH": f"{self.tools}:/usr/bin:/bin"}
        done = subprocess.run(
            ["bash", "-c", script], check=False, env=env, capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, done.stderr
        return [
            call
            for call in (self.home / "calls").read_text().split()
            if call in {"run", "start", "rm"}
        ]


def test_b32_a_finished_container_is_not_run_again_at_the_next_boot(tmp_path) -> None:
    """Ended with 0: the next boot leaves it alone. Failed, or gone down with the machine: it is
    started. Another image: run anew.
    """
    box = Box(tmp_path)
    assert box.boot("job:1") == ["rm", "run"]
    assert box.boot("job:1", 0, system="stopping") == ["start"]
    assert box.boot("job:1", 1, 137) == ["start"]
    assert box.boot("job:1", 1, 0) == ["start"]
    assert [] == box.boot("job:1") == box.boot("job:1")
    assert box.boot("job:2") == ["rm", "run"]
    assert box.boot("job:2") == ["start"]
    assert "--restart on-failure" in machine_metadata.start_up_script("job:1")
