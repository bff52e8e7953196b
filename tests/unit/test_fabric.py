"""What joins several machines, as their start-up script hands it to what runs: run for real, with a
played Docker and folders in the place of a machine's own.
"""

import pytest

from providers.workloads.launch.start_script import script
from tests.launchers.machines import job

LINE = 'echo "path=$LD_LIBRARY_PATH net=$NCCL_NET"'


@pytest.fixture
def joined(machine):
    """The machine with RDMA devices, a host's plugins and a Docker that says what it is told."""
    machine.tool("nvidia-smi", "exit 0")
    machine.tool(
        "docker",
        f'printf "%s\\n" "$*" >>{machine.folder}/calls; case "$*" in info*) echo nvidia ;; esac',
    )
    for name in ("sys/efa_0", "dev", "verbs"):
        (machine.folder / name).mkdir(parents=True)
    (machine.folder / "root").mkdir()
    (machine.folder / "root" / "peers").write_text("127.0.0.1\n127.0.0.1\n")
    return machine


def run(machine, made):
    text = script(made)
    for path, name in (
        ("/sys/class/infiniband", "sys"),
        ("/dev/infiniband", "dev"),
        ("/opt/amazon", "amazon"),
        ("/usr/local/gib", "gib"),
    ):
        text = text.replace(path, str(machine.folder / name))
    return machine.run(text, GPUS_NODE_RANK="0")


def calls(machine):
    path = machine.folder / "calls"
    return [line for line in path.read_text().splitlines() if " --init " in line]


def efa(machine):
    """AWS's image: the plugin and libfabric, each in a folder of its own."""
    for name in ("ofi-nccl/lib/libnccl-net.so", "efa/lib/libfabric.so.1"):
        path = machine.folder / "amazon" / name
        path.parent.mkdir(parents=True)
        path.write_text("a library")


def gib(machine):
    for name, text in (
        ("lib64/libnccl-net.so", "a library"),
        ("scripts/set_nccl_env.sh", 'NCCL_IB=x; export NCCL_NET="gIB" OTHER=no\n'),
    ):
        path = machine.folder / "gib" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)


def test_a_container_of_several_nodes_gets_devices_memlock_and_the_plugin(joined) -> None:
    """By the folder that containers see anyway; an image with its own plugin keeps that."""
    efa(joined)
    assert run(joined, job("true", image="some/image:1", nodes=2, rendezvous=True)) == 0
    (told,) = calls(joined)
    assert f"--device {joined.folder}/dev --ulimit memlock=-1" in told
    assert "--network host --ipc host" in told
    carried = joined.folder / "root" / "fabric"
    assert {"libnccl-net.so", "libfabric.so.1"} <= {path.name for path in carried.iterdir()}
    text = (joined.folder / "calls").read_text()
    assert f"-c ls -d {joined.folder}/amazon/*ofi-nccl" in text
    assert f'export LD_LIBRARY_PATH="{carried}${{LD_LIBRARY_PATH:+' in text


def test_one_node_and_a_machine_without_a_fabric_get_nothing_of_it(joined, tmp_path) -> None:
    efa(joined)
    assert run(joined, job("true", image="some/image:1")) == 0
    (joined.folder / "sys" / "efa_0").rmdir()
    (joined.folder / "dev").rmdir()
    assert run(joined, job("true", image="some/image:2", nodes=2, rendezvous=True)) == 0
    assert len(calls(joined)) == 2
    assert not any("memlock" in line or "LD_LIBRARY" in line for line in calls(joined))


def test_a_process_finds_google_s_plugin_with_its_variables_alone(joined) -> None:
    """What else the plugin's script sets stays there; the user's own variables win."""
    gib(joined)
    assert run(joined, job(LINE, nodes=2, rendezvous=True)) == 0
    assert f"path={joined.folder}/gib/lib64 net=gIB" in joined.log
    made = job(LINE, nodes=2, rendezvous=True)
    own = made.processes[0]._replace(env=(("NCCL_NET", "IB"), ("LD_LIBRARY_PATH", "/own")))
    assert run(joined, made._replace(processes=(own,))) == 0
    assert "path=/own net=IB" in joined.log
