"""The arguments of the ad hoc commands: run, get, cp, ssh, ssh-config, logs, wait, doctor, accept,
top, ps, release.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from providers.cli import stackfile
from providers.cli.options import add_block, add_disk, add_spec, add_world

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


def run_adhoc(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Runs one ad hoc command; `command` are the words after `--`."""
    from providers.cli import accept, acquire, ps, ssh_config, top
    from providers.cli import adhoc as commands

    gc.enable()  # these may take hours
    if options.command == "run" and options.stack:
        options.declared = stackfile.read(options.stack)
    with_words = {"run": acquire.run, "get": acquire.get, "ssh": commands.ssh}
    if options.command in with_words:
        return with_words[options.command](options, command)
    does = {
        "accept": accept.accept,
        "cp": commands.cp,
        "logs": commands.logs,
        "ps": ps.ps,
        "ssh-config": ssh_config.ssh_config,
        "top": top.top,
        "release": commands.release,
        "wait": commands.wait,
    }
    does["doctor"] = commands.doctor
    return does[options.command](options)


def add_adhoc(commands: Any) -> None:
    """`run` and `get`: see `providers.cli.acquire`; the others: see `providers.cli.adhoc`."""

    def command(name: str, text: str, usage: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", usage=f"gpus {usage}"
        )
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="P:KEY=VALUE",
            help="a provider's setting, as in gcp:project=my-project",
        )
        add_world(parser)
        parser.set_defaults(run=run_adhoc, command=name)
        return parser

    run = command(
        "run",
        "acquire GPUs, run a command there, release them",
        "run GPU [options] -- COMMAND ... | gpus run -s STACK [CLUSTER] --on GPU [options]",
    )
    _add_purchase(run)
    run.add_argument(
        "-s",
        "--stack",
        metavar="STACK",
        help="run the workload that this stack declares (of CLUSTER, where it has several)",
    )
    run.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="GPU",
        help="with -s: on this GPU instead of the declared ones; may be repeated",
    )
    run.add_argument(
        "--keep",
        action="store_true",
        help="leave it running afterwards, until `gpus release` or its ttl",
    )
    get = command(
        "get",
        "wait for capacity, then run a command there or keep the GPUs",
        "get GPU --max-price USD [--within 12h] [options] [-- COMMAND ...]",
    )
    _add_purchase(get)
    add_block(get)
    get.add_argument("--within", default="24h", help="give up after this long (default 24h)")
    get.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="WHERE",
        help="tell how it ended: env:NAME or file:PATH, where an Apprise address is, or a webhook's"
        " URL; may be repeated",
    )

    copy = command(
        "cp",
        "copy a file or folder to or from a machine",
        "cp HERE NAME:THERE | gpus cp NAME:THERE HERE [-s STACK]",
    )
    copy.add_argument("source", help="a path here, or NAME:PATH on a machine")
    copy.add_argument("target", help="where to: the other of the two")
    _taken(copy)
    login = command(
        "ssh",
        "log in to a machine, or run a command there",
        "ssh NAME [-s STACK] [-L PORT] [-- COMMAND ...]",
    )
    login.add_argument("name", help="a cluster")
    login.add_argument(
        "-L",
        dest="forward",
        action="append",
        default=[],
        metavar="[LOCAL:]PORT",
        help="forward this port of it to here; may be repeated",
    )
    hosts = command(
        "ssh-config",
        "OpenSSH configuration entries for what runs",
        "ssh-config [NAME ... | -s STACK] | gpus ssh-config --write",
    )
    hosts.add_argument("names", nargs="*", metavar="NAME", help="a cluster (default: all)")
    hosts.add_argument(
        "--write",
        action="store_true",
        help="put all of them into a file that ~/.ssh/config includes, instead of printing them",
    )
    logs = command(
        "logs",
        "a workload's output, else the machine's log",
        "logs NAME [-s STACK] [--lines N]",
    )
    logs.add_argument("name", help="a cluster")
    logs.add_argument(
        "--lines",
        type=int,
        default=200,
        metavar="N",
        help="how many of the last lines (default 200; 0 for all)",
    )
    wait = command(
        "wait",
        "wait until a job ends, and exit with its code",
        "wait [NAME] [-s STACK] [--timeout 2h]",
    )
    wait.add_argument("name", nargs="?", help="a job (default: the only one there is)")
    wait.add_argument("--timeout", help="give up after this long (default: never)")
    wait.add_argument("--json", action="store_true", help="how it ended, as one JSON object")
    doctor, tested, shown = _add_looks(command)
    for parser in (copy, login, logs, doctor):
        parser.add_argument(
            "--node", type=int, default=0, help="which machine of a cluster (default 0)"
        )
    listed = command(
        "ps",
        "what runs, ad hoc and by stacks: where, for whom, at what price",
        "ps [-s STACK] [--all]",
    )
    listed.add_argument("--all", action="store_true", help="also what has ended, and what it cost")
    listed.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    for parser in (copy, login, hosts, logs, wait, doctor, tested, shown, listed):
        parser.add_argument(
            "-s",
            "--stack",
            metavar="STACK",
            help="clusters of this stack, instead of ad hoc ones",
        )
    command(
        "release", "release what has this name, and confirm that it is gone", "release NAME ..."
    ).add_argument("names", nargs="+", metavar="NAME")


def _add_purchase(run: argparse.ArgumentParser) -> None:
    """What `run` and `get` are told of the machine, and of what is done there."""
    add_spec(run)
    run.add_argument("--name", help="its name for the other commands (default: a generated one)")
    run.add_argument("--ttl", help="the cloud itself ends it after this long (default 4h)")
    run.add_argument(
        "--wait", help="how long one place may keep you waiting until it is ready (default 15m)"
    )
    run.add_argument(
        "--hedge",
        type=int,
        choices=(1, 2),
        help="2: where the first provider does not answer at once, ask another one too",
    )
    run.add_argument(
        "--accept",
        choices=("quick", "full"),
        help="measure its GPUs first; what is not as sold is released, and the next place tried",
    )
    add_disk(run)
    run.add_argument(
        "--ssh-key", metavar="FILE", help="your own private key (default: a generated one)"
    )
    run.add_argument(
        "--put",
        action="append",
        default=[],
        metavar="HERE[:THERE]",
        help="copy this there first; may be repeated",
    )
    run.add_argument(
        "--workdir",
        metavar="FOLDER",
        help="send this folder there first, without what .gitignore names, and run in it",
    )
    run.add_argument(
        "--get",
        action="append",
        default=[],
        metavar="THERE[:HERE]",
        help="copy this back afterwards; may be repeated",
    )
    _taken(run)
    run.add_argument("--yes", action="store_true", help="buy in the live world without asking")


def _add_looks(
    command: Callable[[str, str, str], argparse.ArgumentParser],
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser, argparse.ArgumentParser]:
    """`doctor`, `accept` and `top`: what looks at the GPUs of machines."""
    doctor = command(
        "doctor", "what is wrong with a GPU machine, and what to do", "doctor [NAME [-s STACK]]"
    )
    doctor.add_argument(
        "name", nargs="?", help="one of your machines (default: the one you are on)"
    )
    tested = command(
        "accept",
        "measure a machine's GPUs: whether they are what was sold",
        "accept [NAME [-s STACK]] [--full] [--json]",
    )
    tested.add_argument(
        "name", nargs="?", help="a cluster, each of its machines (default: the machine you are on)"
    )
    tested.add_argument("--full", action="store_true", help="also a minute of full load")
    tested.add_argument("--json", action="store_true", help="JSON instead of a table")
    tested.add_argument("--node", type=int, help="only this machine of a cluster")
    tested.add_argument("--gpu", metavar="GPU", help="without NAME: what this machine should be")
    doctor.add_argument("--json", action="store_true", help="JSON instead of lines")
    shown = command(
        "top",
        "what the GPUs of all machines do, live",
        "top [NAME ... | -s STACK] [--interval 5s] [--once] [--json] [--serve PORT]",
    )
    shown.add_argument("names", nargs="*", metavar="NAME", help="a cluster (default: all that run)")
    shown.add_argument("--interval", default="5s", help="how often to look (default 5s)")
    shown.add_argument("--once", action="store_true", help="one look, then end")
    shown.add_argument("--json", action="store_true", help="one look, as a JSON list")
    shown.add_argument(
        "--serve",
        metavar="[ADDRESS:]PORT",
        help="also answer Prometheus at /metrics there (address: 127.0.0.1)",
    )
    return doctor, tested, shown


def _taken(parser: argparse.ArgumentParser) -> None:
    """Limits on what is copied back from a machine, which may be a stranger's."""
    parser.add_argument(
        "--max-size", metavar="SIZE", help="copy back at most this much (default 10GiB)"
    )
    parser.add_argument(
        "--max-files", metavar="N", help="and at most this many files and folders (default 100000)"
    )
