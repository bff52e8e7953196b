"""Open MPI itself, started by the start-up scripts of a cluster of two: each machine a folder and a
network of its own, with an address by which the other reaches it.
"""

import os
import re
import shutil
import subprocess

import pytest

from providers.model.workload import Task, Workload, packed
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import between, script
from tests.launchers.machines import machines

TOOLS = ("mpirun", "sshd", "ip", "unshare")
MISSING = [
    tool for tool in TOOLS if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin") is None
]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make networks"),
]

WAIT_S = 180
"""No job takes that long, on a busy machine either."""
LEADER, OTHER = "198.51.100.1", "198.51.100.2"
RANK = """
echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname): $SAID, node $GPUS_NODE_RANK, $*"
[ "$OMPI_COMM_WORLD_RANK" = 3 ] || exit 0
sleep "${LASTS:-0}"
exit "${ENDS_WITH:-0}"
"""


def ip(*words) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def pair(tmp_path):
    """Two machines that the same key opens for each other, as the engine leaves them."""
    spaces = [f"gpus-mpi-{os.getpid()}-{number}" for number in (0, 1)]
    for space in spaces:
        ip("netns", "add", space)
    try:
        ip(
            "-n",
            spaces[0],
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "eth0",
            "netns",
            spaces[1],
        )
        for space, address in zip(spaces, (LEADER, OTHER), strict=True):
            ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", space, "link", "set", link, "up")
        key = tmp_path / "key"
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", key], check=True)
        with machines(tmp_path, ("", "")) as made:
            for number, each in enumerate(made):
                each.inside = ("ip", "netns", "exec", spaces[number])
                named = f'hostname machine-{number}; exec "$@"'
                each.inside += ("unshare", "--uts", "sh", "-c", named, "sh")
                each.tool("nvidia-smi", "printf '0\\n1\\n'")
                each.hand("between.sh", between(key.read_text()))
                each.hand("peers", f"{LEADER}\n{OTHER}\n")
            yield made
    finally:
        for space in spaces:
            ip("netns", "del", space)


def ranks(command="bash ran.sh", **env):
    """Two nodes with two GPUs each."""
    own = (("SAID", "it's $HOME"), *env.items())
    task = Task(launcher="mpi", command=f"{command} given", env=own)
    work = Workload((task,), files=(("~/ran.sh", packed(RANK.encode())),), resume="--resume")
    return program(work, "job", "H100", 2, 2)


def test_the_leader_starts_all_ranks_and_all_nodes_end_with_it(pair) -> None:
    """Each rank finds its own machine's variables and the declared ones; as many run on each node
    as it has GPUs. The hostfile says so.
    """
    leader, worker = pair
    text = script(ranks())
    begun = [each.begin(text) for each in (leader, worker)]
    codes = [process.wait(WAIT_S) for process in begun]
    assert codes == [0, 0], f"{leader.log}\n{worker.log}"
    assert leader.words[-1] == "succeeded 0 leader"
    assert worker.words[-1] == "succeeded 0"
    told = re.findall(r"rank (\d) of (\d) on machine-(\d): (.*), node (\d), given", leader.log)
    assert sorted(told) == [
        (str(rank), "4", str(rank // 2), "it's $HOME", str(rank // 2)) for rank in range(4)
    ]
    assert "rank" not in worker.log
    hosts = (leader.folder / "root" / "between" / "hostfile").read_text()
    assert hosts == f"{LEADER} slots=2\n{OTHER} slots=2\n"


def test_its_exit_code_is_that_of_every_node(pair) -> None:
    """3 on one rank, on the other machine, is 3."""
    text = script(ranks(ENDS_WITH="3"))
    assert [process.wait(WAIT_S) for process in [each.begin(text) for each in pair]] == [3, 3]
    assert [each.words[-1] for each in pair] == ["failed 3 leader", "failed 3"]


def test_a_worker_that_is_lost_ends_the_job_with_a_reason(pair) -> None:
    """The leader does not wait for what is gone."""
    leader, worker = pair
    text = script(ranks(LASTS="600"))
    begun = [each.begin(text) for each in (leader, worker)]
    leader.until("running")
    while "rank 3" not in leader.log:
        assert begun[0].poll() is None, leader.log
    worker.power_off()
    assert begun[0].wait(WAIT_S) != 0
    assert re.match(r"failed \d+ leader node-1 is lost", leader.words[-1])
