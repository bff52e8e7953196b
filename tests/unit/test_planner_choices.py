"""Which of the acceptable places a plan takes: strangers' hosts, doubtful prices, impossible
choices, and what is said of each.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from providers import errors
from providers.adapters import registry
from providers.catalog import names
from providers.catalog.offers import load
from providers.catalog.table import table
from providers.engine.market.offers import whole
from providers.model.ask import Ask, Capacity, Choice, PriceOverride, gpu_text
from providers.model.capability import Capabilities
from providers.model.offer import Offer
from providers.model.placement import Placement, Price
from providers.model.workload import Task, Workload
from providers.planner import check, rank, render, rules, suggest
from providers.planner.doubt import Doubts
from providers.planner.plan import make
from tests.present import present

KINDS = frozenset({"on-demand", "spot"})
ABLE = {
    "gcp": Capabilities("gcp", capacities=KINDS, max_nodes=8),
    "aws": Capabilities("aws", capacities=KINDS, max_nodes=8, max_ttl_s=86_400),
    "bazaar": Capabilities("bazaar", capacities=KINDS, live_offers=True, marketplace=True),
}
SPOT_FIRST = (Capacity("spot"), Capacity("on-demand"))


def offer(
    provider="gcp",
    usd=88.49,
    *,
    zone="z-1",
    machine="m",
    gpu="H100",
    count=8,
    capacity="on-demand",
    **more,
):
    return Offer(
        provider,
        zone.rpartition("-")[0],
        zone,
        machine,
        gpu,
        float(count),
        capacity,
        round(usd * 1e6),
        "2026-11-28",
        "list",
        **more,
    )


def ask(*entries, **more):
    return Ask(
        tuple(
            entry if isinstance(entry, Choice) else Choice(*entry)
            for entry in entries or [("H100", 8)]
        ),
        **more,
    )


STRANGER = offer("bazaar", 9.5, machine="host-7")


def test_a_strangers_host_is_bought_only_where_it_is_named_or_asked_for() -> None:
    """Without `providers` a marketplace is refused by its own rule; its name, or `marketplaces`,
    allows it; a list without it does not.
    """
    offers = table([offer(), STRANGER])
    plan = make(ask(), offers, ABLE)
    assert [found.provider for found in plan.candidates] == ["gcp"] and plan.rejected_by_rule == {
        "marketplace": 1
    }
    choices: tuple[dict[str, Any], ...] = (
        {"providers": ("bazaar",)},
        {"providers": ("gcp", "bazaar")},
        {"marketplaces": True},
    )
    for more in choices:
        assert present(make(ask(**more), offers, ABLE).best).provider == "bazaar"
    assert make(ask(providers=("gcp",), marketplaces=True), offers, ABLE).rejected_by_rule == {
        "provider": 1
    }


def test_the_plan_tells_what_a_strangers_host_would_have_saved() -> None:
    """One line with price and consent where it is cheaper for the same choice; none where it is
    dearer, dearer choices aside, or not for sale.
    """
    plan = make(ask(), table([offer(), STRANGER]), ABLE, unavailable={"bazaar": "no key"})
    text = " ".join(render.as_text(plan).split())
    assert (
        "cheaper a marketplace host would cost $9.50/h, bazaar z-1 host-7 H100:8 on-demand: write"
        " marketplaces: true, or add bazaar to providers" in text
    )
    assert render.as_json(plan)["summary"]["remarks"][
        "cheaper"
    ] in text and "cheaper: a marketplace" in render.as_markdown(plan)
    dear = make(ask(), table([offer(), offer("bazaar", 99.0)]), ABLE)
    rented = make(ask(), table([offer(), STRANGER._replace(restriction="rented")]), ABLE)
    other = make(
        ask(("H100", 8), ("A100", 8, "fallback[0]")),
        table([offer(), STRANGER._replace(gpu_type="A100")]),
        ABLE,
    )
    assert all("cheaper" not in render.as_text(made) for made in (dear, rented, other))


def test_without_strangers_nothing_else_says_that_they_have_it() -> None:
    """Where only strangers have it now, the way to them is a hint, and missing keys of theirs are
    none. What hands over a folder has to say both lines.
    """
    plan = make(ask(), table([STRANGER]), ABLE, unavailable={"bazaar": "no key"})
    assert plan.best is None
    assert suggest.hints(plan) == [
        "a stranger's host has it for $9.50/h, bazaar z-1 host-7 H100:8 on-demand: write"
        " marketplaces: true, or add bazaar to providers"
    ]
    (problem,) = check.problems(ask(), table([STRANGER]), ABLE)
    line = "strangers' hosts have it: write marketplaces: true, or add bazaar to providers"
    assert problem.todo == line
    able = {**ABLE, "bazaar": ABLE["bazaar"]._replace(entrusted_by="trust")}
    sent = ask()._replace(workload=Workload((Task(),), workdir="0" * 16))
    trust = ", and options: {bazaar: {trust: true}}, which hands workdir to the host's owner"
    (problem,) = check.problems(sent, table([STRANGER]), able)
    assert problem.todo == line + trust
    told = make(sent, table([STRANGER]), able, unavailable={"bazaar": "no key"})
    assert any(hint.endswith(trust) for hint in suggest.hints(told))


def test_what_runs_at_a_stranger_is_not_given_up_because_the_rule_changed() -> None:
    """A placement bought under older rules still satisfies a declaration that names no providers;
    one that names others replaces it.
    """
    runs = Placement("bazaar", "z", "", "", "H100", 8, 1, "on-demand")
    assert check.satisfied(ask(), runs) == 0
    assert check.satisfied(ask(providers=("gcp",)), runs) is None


def place(entry=0, usd=10.0, gpu="H100"):
    micro_usd = None if usd is None else round(usd * 1e6)
    where = Placement(gpu_type=gpu, gpu_count=8, nodes=1)
    return SimpleNamespace(entry=entry, placement=where, price=Price(micro_usd))


def test_a_cheaper_place_of_the_same_choice_is_never_preferred_to_what_runs() -> None:
    """By choice an earlier choice is preferred at any price, and nothing within one; by price the
    cheaper; by performance the better figure.
    """
    for ranked in ("price_by_choice", "preference"):
        assert rank.prefers(ask(rank=ranked), place(1), place(0, usd=99.0))
        assert not rank.prefers(ask(rank=ranked), place(0), place(0, usd=1.0))
        assert not rank.prefers(ask(rank=ranked), place(0), place(1, usd=1.0)), "a cheaper fallback"
    assert rank.prefers(ask(rank="price"), place(0), place(1, usd=9.0)) and not rank.prefers(
        ask(rank="price"), place(0), place(0, usd=None)
    )
    speed = ask(rank="performance_per_dollar")
    assert not rank.prefers(speed, place(0), place(0, usd=9.0, gpu="T4")) and rank.prefers(
        speed, place(0, gpu="T4"), place(0, usd=12.0)
    )


def doubted(offers, **more):
    return make(ask(("H100", 8, "gpu", False, None, 1, SPOT_FIRST), **more), table(offers), ABLE)


@pytest.mark.parametrize(
    ("capacity", "usd", "said"),
    [
        (
            "spot",
            120.0,
            "spot at $120.00/h is more than the $88.49/h on demand for the same machine",
        ),
        ("spot", 0.5, "spot at $0.5000/h is 0.6% of the $88.49/h on demand for the same machine"),
        ("spot", 26.0, ""),
        ("spot", 88.49, ""),
        (
            "on-demand",
            2.0,
            (
                "$0.2500/h a GPU is 2.3% of what gcp asks for others of this GPU, $11.06/h (the"
                " median)"
            ),
        ),
        ("on-demand", 40.0, ""),
    ],
)
def test_a_price_that_can_hardly_be_true_is_not_bought_unless_accepted(capacity, usd, said) -> None:
    """Spot above the same machine's on-demand price or a small part of it, and what is far below
    the seller's own list, is refused with figures.
    """
    level = [offer(zone=f"z-{index}") for index in range(6)]
    odd = offer(zone="z-1" if capacity == "spot" else "y-1", usd=usd, capacity=capacity)
    plan = doubted([*level, odd])
    assert ({"price-doubt": 1} if said else {}) == plan.rejected_by_rule
    if said:
        assert said in plan.rejections[0].found and "accept_suspect_prices: true" in " ".join(
            render.as_text(plan).split()
        )
        accepted = doubted([*level, odd], accept_suspect_prices=True)
        assert (
            odd.id in {found.offer.id for found in accepted.candidates}
            and f"suspect price, accepted: {said}" in accepted.notes
        )


def test_a_stranger_far_below_everybody_is_doubted_and_an_own_price_never_is() -> None:
    """A lone host has no list of its own to compare with: everybody else's on-demand price is; a
    negotiated rate is the user's own word.
    """
    level = [offer(zone=f"z-{index}") for index in range(6)]
    plan = doubted([*level, offer("bazaar", 0.4)], marketplaces=True)
    assert "other providers ask for this GPU on demand" in plan.rejections[0].found
    assert doubted([*level, offer("bazaar", 4.0)], marketplaces=True).best.provider == "bazaar", (
        "a thirtieth is what old cards cost there"
    )
    assert (
        doubted([*level], price_overrides=(PriceOverride(10_000, "gcp"),)).best.price_usd_per_hour
        == 0.01
    )


def test_the_bundled_prices_raise_no_false_alarm() -> None:
    """Of all offers of the bundled catalog none is doubted: the lowest spot price is 9.3 % of its
    on-demand price, which Google's 91 % off allows.
    """
    offers = load()
    doubts = Doubts(offers)
    assert [
        (offers.offer(row).id, why) for row in range(len(offers)) if (why := doubts.why(row))
    ] == []


def test_one_impossible_choice_is_named_and_the_others_are_planned() -> None:
    """C31: several cards, so that whatever is there is taken: those that nobody sells so are a
    line; only if all are impossible it is refused.
    """
    offers, able = load(), registry.capabilities()

    def judged(*entries, **more):
        wanted = ask(*entries, **more)
        sold = whole(offers, wanted, registry.manifests())
        return (
            check.problems(wanted, sold, able),
            [problem.path for problem in check.alternatives(wanted, sold, able)],
            make(wanted, sold, able),
        )

    problems, told, plan = judged(("H100", 1, "gpu[0]"), ("H200", 1, "gpu[1]"), providers=("aws",))
    assert (problems, told) == ([], ["gpu[1]"]) and plan.best
    assert (
        "left out the second choice of gpu: H200:1 in one machine: counts on offer: aws 8"
        in " ".join(render.as_text(plan).split())
    )
    problems, told, plan = judged(
        ("L4", 8, "gpu[0]"), ("A10", 8, "gpu[1]"), ("A100", 4, "gpu[2]"), providers=("gcp",)
    )
    assert (problems, told) == ([], ["gpu[1]"]) and plan.best
    problems, told, _ = judged(
        ("L4", 1, "gpu"),
        ("MI300X", 8, "fallback[0]"),
        ("L4", 1, "fallback[1]", False, None, 99_999),
    )
    assert (problems, told) == ([], ["fallback[0]", "fallback[1].nodes"])
    problems, told, _ = judged(("MI300X", 8, "gpu"), ("H100", 5, "fallback[0]"), providers=("aws",))
    assert ([problem.path for problem in problems], told) == (["gpu", "fallback[0]"], [])
    problems, told, _ = judged(("H100", 8, "gpu"), ("H10", 8, "fallback[0]"))
    assert (
        [problem.path for problem in problems],
        told,
    ) == (["fallback[0]"], []), "a name that nobody knows is a mistake, not a choice"


@pytest.mark.parametrize(
    "gpu", ["MI300X", "MI250", "TPU-V5E", "TPU-V4", "GAUDI2", "WSE-2", "IPU-MK2", "A30"]
)
def test_hardware_that_nobody_sells_is_said_to_be_that(gpu) -> None:
    """Known hardware that is not for sale: nobody here sells it; what is suggested instead is a
    GPU, as large and not much slower, or nothing.
    """
    wanted = ask((gpu, 8))
    (problem,) = check.problems(wanted, load(), registry.capabilities())
    assert problem.found == "nobody here sells it"
    for near in check.near_hardware(wanted.entries[0], wanted, load()):
        assert names.is_gpu(gpu) and names.is_gpu(near) and near != "P100"
        share = present(names.nominal_memory_gib(near)) / present(names.nominal_memory_gib(gpu))
        assert 0.75 <= share <= 1.25


def test_a_market_that_moves_says_of_whom_nobody_has_it_now() -> None:
    """Where listings move by the hour, absence is no mistake: the plan is empty, and says who has
    none now; refusals of other GPUs are no reason.
    """
    plan = make(ask(("MI300X", 8), providers=("bazaar",)), table([STRANGER]), ABLE)
    assert plan.rejected_by_rule == {} and suggest.hints(plan) == [
        "gpu: MI300X: nobody of bazaar sells it now"
    ]
    assert render.as_text(plan).count("nobody of bazaar") == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("8xH100", "H100:8"),
        ("H100x8", "H100:8"),
        ("H100*8", "H100:8"),
        ("H100-8", "H100:8"),
        ("8 x H100", "H100:8"),
        ("H100 8", "H100:8"),
        ("x8 H100", "H100:8"),
        ("8H100", "H100:8"),
        ("4 L4", "L4:4"),
        ("2×a100-80gb", "A100-80GB:2"),
        ("RTX 4090 x 2", "RTX-4090:2"),
        ("12xRTX-3060-TI", "RTX-3060-TI:12"),
        ("A100-80", "A100-80GB"),
        ("a100-40", "A100"),
        ("4090", "RTX-4090"),
        ("3090 Ti", "RTX-3090-TI"),
        ("RTX 4090 24GB", "RTX-4090"),
        ("6000-ada", "RTX-6000-ADA"),
        ("RTX 6000", ""),
        ("RTX 409", ""),
        ("8xH10", ""),
    ],
)
def test_a_count_in_another_form_is_told_how_it_is_written(typed, meant) -> None:
    """One message says what to write; what may be a part of a name is not taken for a count."""
    problem = check.unknown_gpu("gpu", typed)
    assert (f'write "{meant}"' in problem.todo) == bool(meant) and (
        "write" in problem.todo
    ) == bool(meant)


def test_known_names_are_never_taken_for_a_count() -> None:
    """No spelling of a known model reads as another one and a count."""
    assert all(names.canonical(name) == name for name in names.models())


@pytest.mark.parametrize(
    ("typed", "todo"),
    [
        ("L4:0.5", 'write TYPE:COUNT, as in "H100:8"'),
        ("8:H100", 'write "H100:8"'),
        ("H100:", 'write TYPE:COUNT, as in "H100:8"'),
    ],
)
def test_a_count_that_is_none_is_told_what_to_write(typed, todo) -> None:
    """Half a GPU and the like: what to write keeps the type."""
    with pytest.raises(errors.SpecError) as caught:
        gpu_text(typed)
    (problem,) = caught.value.problems
    assert todo == problem.todo


def test_every_rule_that_suggests_something_names_a_field_that_exists() -> None:
    """`marketplaces` and `accept_suspect_prices` are fields of a cluster, of the command line and
    of Python's own call.
    """
    from providers import provision
    from providers.cli.main import main
    from providers.model.spec import Cluster

    assert {
        "marketplaces",
        "accept_suspect_prices",
    } <= Cluster.model_fields.keys() & present(provision.__kwdefaults__).keys()
    assert {"marketplace", "price-doubt"} <= set(rules.NAMES)
    assert main(["plan", "L4:1", "--marketplaces", "--accept-suspect-prices"]) == 0
