"""Checked inputs and their canonical form."""

import pytest

from providers.errors import SpecError
from providers.plugin import inputs
from providers.plugin.properties import UNKNOWN, Properties
from providers.plugin.schema import SPEC_INPUTS

GOOD = {
    "world": "rehearsal",
    "owner": "0123456789ab",
    "cluster": "train",
    "settings": {},
    "gpu": "H100:8",
}


def check(secret=(), unknown=(), **more):
    values = {key: value for key, value in {**GOOD, **more}.items() if value is not None}
    return inputs.check(Properties(values, frozenset(secret), frozenset(unknown)))


def paths(checked):
    return [problem.path for problem in checked.problems]


def test_every_field_of_the_spec_is_an_input() -> None:
    """The schema and the spec have the same fields."""
    from providers.model.spec import Cluster

    assert set(SPEC_INPUTS) | {"name"} == set(Cluster.model_fields)


def test_defaults_and_spellings_make_no_difference() -> None:
    """What a default says is left out, and a GPU has one spelling, so that an edit that means the
    same is none.
    """
    said = check(
        gpu="nvidia h100:8",
        nodes=1,
        kind="machine",
        network="default",
        wait="15m",
        fallback=["a100_80gb:8", {"gpu": "h200!:8"}],
    )
    assert said.values == {**GOOD, "fallback": ["A100-80GB:8", {"gpu": "H200!:8"}]}
    assert said.problems == ()


def test_all_problems_at_once_with_their_paths() -> None:
    """Types, unknown keys, unknown names, the plugin's own inputs: all in one answer."""
    found = check(world="dream", owner=None, gpu="H1000:8", nodez=2, nodes=0, max_price_per_hour=-1)
    assert {"world", "owner", "gpu", "nodez", "nodes", "max_price_per_hour"} <= set(paths(found))


def test_names_and_counts_are_checked_by_the_planner() -> None:
    """A count that nobody sells and an unknown region are told with what there is."""
    found = check(gpu="H100:9", regions=["us-centrl1"], providers=["gcp"])
    assert paths(found) == ["regions[0]", "gpu"]
    assert "us-central1" in found.problems[0].todo


def test_options_are_checked_by_their_adapter() -> None:
    """A provider's own section is its adapter's to check; a section of nobody is named."""
    found = check(options={"gcp": {"imag": "x"}, "nope": {}})
    assert [path.rpartition(".")[0] or path for path in paths(found)] == ["options.gcp", "options"]
    assert paths(found)[1] == "options.nope"


def test_a_bad_name_is_told_as_the_cluster_input() -> None:
    """The spec's name is the input `cluster`."""
    assert paths(check(cluster="Not A Name")) == ["cluster"]


def test_secrets_are_not_repeated() -> None:
    """A problem with a secret property does not show its value."""
    found = check(secret={"ssh_key"}, ssh_key="hunter2")
    assert paths(found) == ["ssh_key"]
    assert "hunter2" not in str(found.problems)


@pytest.mark.parametrize(
    "unknown", ["gpu", "owner", "regions", "labels", "network_links", "ssh_key", "cluster"]
)
def test_b44_unknown_inputs_are_let_through(unknown) -> None:
    """What is not known yet is no problem, stays unknown, and the rest is still checked."""
    fine = check(unknown={unknown}, **{unknown: UNKNOWN})
    assert fine.problems == ()
    assert fine.values[unknown] is UNKNOWN
    assert (fine.spec is None) == (unknown == "gpu")
    assert paths(check(unknown={unknown}, **{unknown: UNKNOWN}, nodes=-1)) == ["nodes"]


def test_settings_are_texts_by_provider() -> None:
    """Anything else is told with its path."""
    assert paths(check(settings={"gcp": {"project": 3}})) == ["settings.gcp.project"]
    assert paths(check(settings=["x"])) == ["settings"]


def test_what_is_wanted() -> None:
    """The engine gets the ask, the setup and a fingerprint that policy does not change."""
    key = "ssh-ed25519 AAAA me"
    values = check(
        ssh_key=f"{key}\n",
        ttl="20h",
        labels={"b": "2", "a": "1"},
        options={"gcp": {"image": "busybox"}},
        ports=[80],
    ).values
    wanted = inputs.cluster_spec_of({**values, "network_links": {"network": "n"}})
    assert (wanted.owner, wanted.cluster, wanted.ask.entries[0].gpu) == (
        "0123456789ab",
        "train",
        "H100",
    )
    assert wanted.setup.ssh_public_key == key
    assert wanted.setup.ttl_s == 72_000
    assert wanted.setup.labels == (("a", "1"), ("b", "2"))
    assert wanted.setup.options == (("gcp", {"image": "busybox"}),)
    assert wanted.setup.network == (("network", "n"),)
    assert wanted.setup.ports == (80,)
    again = inputs.cluster_spec_of(
        {**values, "rank": "price", "labels": {}, "wait": "1m", "fallback": ["H200:8"]}
    )
    assert again.fingerprint == wanted.fingerprint


def test_what_cannot_be_read_is_a_spec_error() -> None:
    """No bare pydantic error leaves."""
    with pytest.raises(SpecError):
        inputs.spec_of({**GOOD, "nodes": "two"})


def test_wrong_places_are_told_with_everything_else() -> None:
    """A region that nobody has is named although another field is broken too."""
    found = check(nodes="two", regions=["us-centrall1"], providers=["gpc"])
    assert set(paths(found)) == {"nodes", "regions[0]", "providers[0]"}


def test_a_ttl_that_every_allowed_provider_refuses_is_told_at_check() -> None:
    """The longest lives are named; where one provider has no limit there is no problem."""
    found = check(gpu="L4:1", ttl="30h", providers=["modal"])
    assert paths(found) == ["ttl"]
    assert (found.problems[0].wanted, found.problems[0].found) == (
        "a life of 1d6h",
        "at most: modal 1d",
    )
    assert paths(check(gpu="L4:1", ttl="30h", providers=["modal", "gcp"])) == []
