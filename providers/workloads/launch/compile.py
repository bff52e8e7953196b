"""A workload and a placement, compiled into what is started there. Pure.

Owns how flags follow the placement that was won: split, listening address, environment, pinned
GPUs. The lines are `recipes`' business; what they stand in is `start_script`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.catalog import names
from providers.errors import Problem, SpecError
from providers.model.workload import LED, Process, Program, is_path
from providers.workloads.launch import images, proxy
from providers.workloads.launch.flag_checks import changed, mistakes
from providers.workloads.launch.recipes import RECIPES, TOKEN, Where, listens, recipe
from providers.workloads.sizing import fit as fits
from providers.workloads.sizing import parallelism
from providers.workloads.sizing.architecture import known

if TYPE_CHECKING:
    from providers.model.workload import Override, Task, Workload

ANYWHERE, HERE = (
    "0.0.0.0",  # noqa: S104
    "127.0.0.1",
)
SERVERS = tuple(name for name, each in RECIPES.items() if each.port)


def program(
    workload: Workload,
    kind: str,
    gpu_type: str,
    gpu_count: int,
    nodes: int = 1,
    *,
    override: Override | None = None,
    expose: str = "private",
    listen: str = "",
    proxy_port: int = 0,
) -> Program:
    """What is started on so many of this GPU. `listen` is the address where a provider demands one;
    at `proxy_port` a proxy stands before it on each machine. Raises SpecError where a recipe can't
    do it.
    """
    problems = check(workload, nodes, expose)
    if proxy_port:
        problems += proxy.problems(workload)
    if problems:
        raise SpecError(problems)
    # The proxies on the other machines have to reach it.
    host = listen or (HERE if expose == "private" and not proxy_port else ANYWHERE)
    processes = tuple(
        _process(
            workload, fits.overridden(task, override), gpu_type, gpu_count, nodes, host, expose
        )
        for task in workload.tasks
    )
    first = recipe(workload.tasks[0])
    image = workload.image or (first.image if first is not None else "")
    own = images.known(image)
    if own is not None and own.folder:
        processes = tuple(
            each._replace(line=f'PATH="$PATH:{own.folder}"; {each.line}') for each in processes
        )
    return Program(
        kind=kind,
        processes=processes,
        image=image,
        setup=workload.setup,
        files=workload.files,
        checkpoint=workload.checkpoint,
        resume=workload.resume,
        on_done=workload.on_done,
        nodes=nodes,
        rendezvous=nodes > 1,
        led=nodes > 1 and workload.tasks[0].launcher in LED,
        token_env=TOKEN if expose == "token" else "",
        models=_models(workload),
        mounts=workload.mounts,
        registry=workload.registry,
        workdir=workload.workdir,
        volumes=workload.volumes,
        proxy_port=proxy_port,
    )


def _models(workload: Workload) -> tuple[str, ...]:
    """The models that are paths on the machine, but those among the checkpoints or in a mounted
    bucket or volume, which containers see anyway.
    """
    folders = [mount.path for mount in workload.mounts] + [each.path for each in workload.volumes]
    seen = tuple(f"{path.rstrip('/')}/" for path in folders)
    if workload.checkpoint is not None:
        seen += (f"{workload.checkpoint.path.rstrip('/')}/",)
    paths = (task.model.rstrip("/") for task in workload.tasks if is_path(task.model))
    return tuple(dict.fromkeys(path for path in paths if not f"{path}/".startswith(seen)))


def check(workload: Workload, nodes: int, expose: str) -> list[Problem]:
    """What a launcher can't do of what is asked, each with its path."""
    found = _apart(workload)
    for index, task in enumerate(workload.tasks):
        at = "workload." if len(workload.tasks) == 1 else f"workload.services[{index}]."
        made = recipe(task, f"{at}launcher")
        if made is None:
            if expose == "token" and TOKEN not in task.command:
                todo = (
                    f"as in --api-key ${TOKEN}; launchers that check one by themselves:"
                    f" {_checking()}"
                )
                found.append(
                    Problem(
                        "expose",
                        f"a command that checks the token: it finds it in ${TOKEN}",
                        repr(task.command)[:80],
                        todo,
                    )
                )
            continue
        found.extend(mistakes(task, at))
        if nodes > 1 and not made.nodes:
            able = ", ".join(name for name, each in RECIPES.items() if each.nodes)
            found.append(
                Problem(
                    "nodes",
                    f"1 for {task.launcher}, which runs on one machine",
                    str(nodes),
                    f"over several machines run {able}",
                )
            )
        if nodes > 1 and task.launcher in LED and len(workload.tasks) > 1:
            found.append(
                Problem(
                    "workload.services",
                    f"one program where {task.launcher} runs over several nodes",
                    str(len(workload.tasks)),
                    "declare a cluster for each",
                )
            )
        if expose == "token" and made.port and not made.token:
            found.append(
                Problem(
                    "expose",
                    f"private for {task.launcher}, which checks no token",
                    "token",
                    f"those that do: {_checking()}",
                )
            )
    return found


def overriding(workload: Workload, override: Override | None, path: str) -> list[Problem]:
    """What a launcher can't do of what the choice at this path changes."""
    if override is None:
        return []
    return [
        problem
        for task in workload.tasks
        if task.launcher
        for problem in changed(task, override, f"{path}.")
    ]


def _apart(workload: Workload) -> list[Problem]:
    """Services run in one image: launchers whose own ones are different need one that holds all
    their programs.
    """
    wanted = dict.fromkeys(
        made.image for task in workload.tasks if (made := recipe(task)) is not None and made.image
    )
    if workload.image or len(wanted) < 2:
        return []
    return [
        Problem(
            "workload.image",
            "one image that holds the programs of all services",
            ", ".join(wanted),
            "name one, or declare a cluster for each",
        )
    ]


def _checking() -> str:
    return ", ".join(name for name, each in RECIPES.items() if each.token)


def untimed(workload: Workload) -> list[Problem]:
    """Why nobody could say how long its training takes, of what is declared for that."""
    training = workload.training
    if training is None or not training.hours_on or names.canonical(training.hours_on) is not None:
        return []
    near = names.near(training.hours_on)
    path = f"workload.train.hours.{training.hours_on}"
    return [
        Problem(
            path,
            "a known GPU",
            repr(training.hours_on),
            f"near: {', '.join(near)}" if near else "see `gpus hardware`",
        )
    ]


def _process(
    workload: Workload,
    task: Task,
    gpu_type: str,
    gpu_count: int,
    nodes: int,
    host: str,
    expose: str,
) -> Process:
    own = len(task.gpus) or gpu_count
    env = dict(task.env)
    if task.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, task.gpus))
    made = recipe(task)
    if made is None:
        line = f"set -e\n{task.command}" if "\n" in task.command else task.command
        return Process(task.name, line, tuple(sorted(env.items())), task.port, task.health)
    if made.port:
        model = known(task.model)
        # A server left to itself takes all the context that its model knows, which the plan did not
        # count on. How a checkpoint is quantised, it reads there; a flag could only say the method
        # by another name than that.
        told = (
            ""
            if model is not None and model.quantization is not None and task.launcher in fits.MAKES
            else task.dtype
        )
        task = task._replace(context=fits.context(task, model), dtype=told)
    tensor, pipeline, replicas = split(workload, task, gpu_type, own, nodes)
    where = Where(own, nodes, host, tensor, pipeline, replicas, token=expose == "token")
    port = listens(task.launcher, task.port)
    return Process(
        task.name,
        made.line(task, where),
        tuple(sorted(env.items())),
        port,
        task.health or made.health,
    )


def split(
    workload: Workload, task: Task, gpu_type: str, gpu_count: int, nodes: int
) -> tuple[int, int, int]:
    """(tensor, pipeline, replicas) of a served model: as the sizing found it; for a model that it
    does not know, one group over all GPUs.
    """
    if task.launcher not in {"vllm", "sglang", "tgi"}:
        return 1, 1, 1
    found = fits.fit(workload._replace(tasks=(task,)), None, gpu_type, gpu_count, nodes).verdict
    if found is not None and found.layout is not None:
        return found.layout.tensor, found.layout.pipeline, found.layout.replicas
    model = known(task.model)
    if model is not None:
        only = parallelism.TENSOR if task.launcher == "tgi" else ""
        best = parallelism.layouts(
            model, gpu_type, gpu_count, nodes, dtype=fits.served(model, task.dtype), split=only
        )[0]
        return best.tensor, best.pipeline, best.replicas
    return gpu_count, nodes, 1
