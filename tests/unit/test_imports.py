"""What must not be imported on the way to a plan, and what the package offers.

Who may import whom stands in `pyproject.toml` (import-linter); `make lint` checks it.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import grimp
import pytest

import providers

ROOT = Path(providers.__file__).parent
HEAVY = (
    "pydantic",
    "asyncio",
    "dataclasses",
    "grpc",
    "pulumi",
    "boto3",
    "botocore",
    "googleapiclient",
    "google",
    "httplib2",
    "httpx",
    "sqlite3",
    "yaml",
    "inspect",
    "difflib",
    "requests",
    "shtab",
)


CORE = (
    *("engine", "planner", "plugin", "adhoc", "watch", "cli", "remote", "workloads", "model"),
    *("api.py", "resources"),
)
CLOUD = re.compile(r"gcp|gcloud|google|modal|clore|\baws|\bec2\b|vertex", re.IGNORECASE)
EXAMPLE = re.compile(r"(as in|such as) `?\{?gcp: ?(project|\{project)")
NAMED = {
    "model/workload.py": "the names of the keys of S3 and Cloud Storage, whoever sells the machine",
    "adhoc/ended.py": "the programs that copy from a gs:// and an s3:// bucket",
    "model/images.py": "the names of drivers that an image is built for",
    "model/secret.py": "how the keys of many services look, and an example",
    "workloads/launch/gated_models.py": "names of models",
    "model/mistaken.py": "what newcomers call a cloud, and its name here",
    "model/wording.py": "examples of what to write for a field",
}
"""The modules whose texts may name a cloud -> why."""


def texts(path):
    """(line, text) of every string of a file that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = [getattr(node, "body", None) for node in ast.walk(tree)]
    docs = {
        id(each.value)
        for body in bodies
        if isinstance(body, list)
        for each in body
        if isinstance(each, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_the_core_names_no_cloud() -> None:
    """What a cloud is stands in its adapter's folder and in the catalog's data: no text in the code
    of the other packages names one, but for what `NAMED` gives a reason for.
    """
    named: dict[str, list[int]] = {}
    for part in CORE:
        for path in sorted((ROOT / part).rglob("*.py")) or [ROOT / part]:
            if "pulumi_gcp" not in path.parts:
                found = [line for line, text in texts(path) if CLOUD.search(EXAMPLE.sub("", text))]
                named |= {str(path.relative_to(ROOT)): found} if found else {}
    assert named.keys() == NAMED.keys(), {
        name: lines for name, lines in named.items() if name not in NAMED
    }


def test_in_what_may_name_a_cloud_no_condition_does() -> None:
    """Where a text may name a cloud, no comparison does: nothing is decided by a cloud's name."""
    for name in NAMED:
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                words = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                assert not any(isinstance(word, str) and CLOUD.search(word) for word in words), (
                    f"{name}:{node.lineno}"
                )


SEAM = {
    "account",
    "log",
    "not_configured",
    "offers_for",
    "remarks",
    "repriced",
    "usable",
    "volumes",
}


def test_a_method_of_an_adapter_is_reached_by_its_name() -> None:
    """What a type checker cannot see is not used at the seam: no `getattr` or `hasattr` for a
    method or field that only some adapters have.
    """
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
                "getattr",
                "hasattr",
            }:
                words = {each.value for each in node.args if isinstance(each, ast.Constant)}
                assert not SEAM & words, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_a_package_defines_nothing_by_the_name_of_its_module():
    """`from package import name` gives one thing, whatever was imported before it."""
    for path in sorted(ROOT.rglob("__init__.py")):
        inside = {each.stem for each in path.parent.iterdir() if each.suffix == ".py"}
        inside |= {each.parent.name for each in path.parent.glob("*/__init__.py")}
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        body = ast.parse(path.read_text(encoding="utf-8")).body
        both = {node.name for node in body if isinstance(node, kinds)} & inside
        assert not both, f"{path.relative_to(ROOT)}: {both}"


def loaded(code):
    """The top-level modules that a fresh interpreter has after running this."""
    script = (
        f"import sys\n{code}\nprint('\\n' + ' '.join(sorted({{name.split('.')[0] for name in"
        " sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    return set(done.stdout.splitlines()[-1].split())


def brought(code):
    """What running this adds to what the interpreter loads by itself (an environment's own start-up
    files are not ours).
    """
    return loaded(code) - loaded("")


def test_importing_the_package_imports_nothing_heavy() -> None:
    """`import providers` loads no cloud SDK, pydantic, asyncio, dataclasses or grpc."""
    assert brought("import providers").isdisjoint(HEAVY)


def test_the_way_to_a_plan_imports_nothing_heavy(tmp_path, monkeypatch) -> None:
    """`gpus plan H100:8 --json` loads none of them either."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    run = (
        "import io, contextlib\nfrom providers.cli import main\nwith"
        " contextlib.redirect_stdout(io.StringIO()):\n    assert main.main(['plan', 'H100:8',"
        " '--json']) == 0"
    )
    assert brought(run).isdisjoint(HEAVY)


def test_every_public_name_is_there() -> None:
    """Each name of `__all__` can be imported, comes from exactly one home, and an unknown one is an
    AttributeError.
    """
    homes = [name for names in providers.HOMES.values() for name in names]
    assert sorted(homes) == sorted(providers.__all__) == dir(providers)
    for name in providers.__all__:
        assert getattr(providers, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = providers.no_such_name


def test_type_checkers_see_the_same_names() -> None:
    """What is imported for type checkers alone is what is served at run time, from the same homes."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    assert {
        node.module: tuple(alias.name for alias in node.names)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
    } == providers.HOMES


def test_public_plan_takes_a_cluster_a_gpu_or_a_string() -> None:
    """The same ask as a Cluster, a Gpu and a string gives the same walk; what a Cluster says is not
    said again by keyword.
    """
    cluster = providers.Cluster(
        name="ft", gpu=providers.Gpu("H100", count=8, fallback=["A100-80GB:8"])
    )
    walks = [
        [(candidate.offer.id, candidate.micro_usd) for candidate in made.candidates]
        for made in (
            providers.plan(cluster),
            providers.plan(providers.Gpu("H100:8", fallback=["A100-80GB:8"])),
            providers.plan("H100:8", fallback=["A100-80GB:8"]),
        )
    ]
    assert walks[0] == walks[1] == walks[2] != []
    with pytest.raises(providers.SpecError, match="rank"):
        providers.plan(cluster, rank="price")
    with pytest.raises(providers.SpecError, match="near"):
        providers.plan("H10:8")


def test_public_offers_and_hardware_answer() -> None:
    """`offers` is sorted by price; `hardware` answers in the order asked."""
    prices = [
        offer.price_usd_per_hour
        for offer in providers.offers("H100:8", spot=True)
        if offer.price_usd_per_hour
    ]
    assert prices == sorted(prices) != []
    assert [item.name for item in providers.hardware("B200", "h100")] == ["B200", "H100"]


def test_a_rehearsal_of_google_puts_off_what_it_never_uses() -> None:
    """Connecting imports neither httplib2's grammar nor the signing of accounts; whoever asks for
    them has them.
    """
    code = (
        "import sys; from providers.engine.runtime.world import open_world;"
        " open_world('rehearsal').adapter('gcp').find('nobody')\nassert not {'pyparsing', 'cryptography'} & set(sys.modules),"
        " 'imported'\nimport httplib2; from google.oauth2 import service_account; from"
        " google.oauth2.service_account import Credentials\nassert service_account.Credentials is"
        " Credentials and httplib2.auth._parse_www_authenticate({}) == {}\n"
    )
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            env={**os.environ, "GPUS_HOME": home},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr


def test_no_file_imports_one_that_leads_back_to_it() -> None:
    """Neither at its top, nor for types alone, nor inside a function."""
    graph = grimp.build_graph("providers", cache_dir=None)
    circles = [
        f"{module} -> {other}"
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
        if graph.chain_exists(other, module)
    ]
    assert circles == []
