"""The few lines that a preview shows: the choice, its price, the worst, and what else there is."""

import pytest

import providers
from providers.catalog.table import table
from providers.engine import stack_config
from providers.model.ask import PRICE, SPOT, Ask, Capacity, Choice
from providers.model.capability import Capabilities
from providers.model.note import Costs, Stops
from providers.model.offer import AT_MOST, Offer
from providers.model.place import Block, Scope
from providers.model.workload import Task, Workload
from providers.planner import brief, refusals, render, rules
from providers.planner.plan import make
from providers.planner.summary import CurrentCost

SOLD = ["gcp", "aws", "modal"]
ON_DEMAND = frozenset({"on-demand"})
KINDS = frozenset({"machine", "job", "service"})
BOTH = {name: Capabilities(name, kinds=KINDS, capacities=ON_DEMAND) for name in ("alpha", "beta")}


def offer(provider, zone, usd):
    """A machine with eight H100 at this price in dollars per hour."""
    return Offer(
        *(provider, zone[:-2], zone, "m8", "H100", 8.0, "on-demand", round(usd * 1_000_000)),
        *("2026-07-30", "list"),
    )


OFFERS = [offer("alpha", "a-1", 20), offer("alpha", "b-1", 12.5), offer("beta", "c-1", 30)]


def plan(offers=OFFERS, **more):
    entries = more.pop("entries", (Choice("H100", 8),))
    return make(Ask(entries, **more), table(offers), BOTH)


def rows(text):
    """The first words of each line, but for continued ones."""
    return [line[:11].strip() for line in text.splitlines() if not line.startswith(" ")]


def test_the_choice_the_price_the_worst_and_the_other_providers_are_told() -> None:
    """One line each, with the number of further places."""
    text = brief.as_text(plan(rank=PRICE), 120, title="train", current=CurrentCost(0), details="x")
    assert rows(text)[1:] == [
        "buys",
        "price",
        "likely",
        "at worst",
        "if sold out",
        "elsewhere",
        "change",
        "details",
    ]
    assert "b-1" in text.splitlines()[1]
    assert "$12.50/h, $9,125/month" in text and "at worst    $30.00/h" in text
    assert ", then 1 more place" in text and "+$12.50/h; nothing runs now" in text


def test_what_has_a_ttl_is_told_by_its_run_and_not_by_the_month() -> None:
    """Hours are known, so the sum is."""
    text = brief.as_text(plan(entries=(Choice("H100", 8, ttl_s=7_200),), rank=PRICE), 120)
    assert "$12.50/h, $25.00 if it runs 2h (ttl)" in text and "month" not in text


def test_a_job_is_told_by_the_hour_and_a_service_by_the_month() -> None:
    """Nobody pays a job for a month; nothing ends a service."""
    job, service = plan(kind="job", rank=PRICE), plan(kind="service", rank=PRICE)
    for text in (brief.as_text(job, 120), render.as_text(job, 120), render.as_markdown(job)):
        assert "$12.50/h" in text or "12.50" in text
        assert "month" not in text
    assert "$12.50/h, $9,125/month" in brief.as_text(service, 120)
    assert "$/month" in render.as_text(service, 120)


def test_of_several_nodes_the_price_of_one_is_told_too() -> None:
    """The sum is for all."""
    able = {"alpha": BOTH["alpha"]._replace(max_nodes=4)}
    text = brief.as_text(make(Ask((Choice("H100", 8, nodes=2),)), table(OFFERS[1:2]), able), 120)
    assert "$25.00/h, $18,250/month; each node $12.50/h" in text


def test_a_price_with_little_cpu_says_so_beside_whole_machines() -> None:
    """A container's least CPU and memory are not compared silently with a machine's, and the
    options that make them alike are named; alike, nothing is said.
    """

    def shown(vcpus, usd=12.5):
        sold = [
            offer("alpha", "a-1", 20)._replace(vcpus=208.0, memory_gib=1872.0),
            offer("beta", "b-1", usd)._replace(vcpus=vcpus, memory_gib=1872.0 if vcpus > 1 else 1),
        ]
        able = {**BOTH, "beta": BOTH["beta"]._replace(reserves=("cpu", "memory_gib"))}
        made = make(Ask((Choice("H100", 8),), rank=PRICE), table(sold), able)
        return brief.as_text(made, 300), render.as_text(made, 300)

    remedy = "options.beta (cpu, memory_gib) sets more"
    for text in shown(0.25):
        assert f"0.25 vCPUs and 1 GiB (alpha's m8: 208 vCPUs and 1,872 GiB); {remedy}" in text
    assert "beta b-1 H100:8 on-demand $30.00/h (CPU and RAM extra)" in shown(0.25, 30)[0]
    assert not any("vCPUs" in text for text in shown(104.0))


def test_one_place_alone_has_no_worst_and_no_other() -> None:
    """Nothing to choose, nothing to read."""
    text = brief.as_text(plan(OFFERS[:1]))
    assert "at worst" not in text and "sold out" not in text


def test_an_order_that_costs_more_than_the_cheapest_says_how_much_and_what_would_not() -> None:
    """The declared order of providers is kept, and its price told."""
    dear = brief.as_text(plan(rank="preference", providers=("beta", "alpha")), 200, details="more")
    assert (
        "rank: preference costs $17.50/h more than the cheapest: rank: price takes alpha b-1"
        in dear
    )
    assert "cheaper" not in brief.as_text(plan(rank=PRICE))


def test_another_declared_choice_that_is_cheaper_is_named_with_the_rank_that_takes_it() -> None:
    """Nothing is said where the first one is the cheapest."""
    cheap = offer("alpha", "a-2", 1)._replace(gpu_type="L4", gpu_count=1.0)
    entries = (Choice("H100", 8), Choice("L4", 1))
    text = brief.as_text(plan([*OFFERS, cheap], entries=entries), 200)
    assert "cheaper     alpha a-2 L4:1 on-demand $1.00/h, with rank: price" in text
    assert "cheaper" not in brief.as_text(plan([*OFFERS, cheap], entries=entries, rank=PRICE))


def test_cheaper_places_that_are_left_alone_are_counted() -> None:
    """Dearer ones are no loss."""
    blocks = [Block(Scope("alpha", "b"), 900.0, "sold out"), Block(Scope("beta"), 900.0, "busy")]
    made = make(Ask((Choice("H100", 8),), rank=PRICE), table(OFFERS), BOTH, blocks=blocks)
    text = brief.as_text(made, 200)
    assert "left alone  1 cheaper place, from $12.50/h, refused lately: see gpus memory" in text


def test_choices_that_were_passed_over_say_by_which_rules() -> None:
    """A fallback is taken only because nothing of the first choice is acceptable."""
    entries = (Choice("H200", 8), Choice("H100", 8))
    dear = [*OFFERS, offer("alpha", "a-1", 50)._replace(gpu_type="H200")]
    text = brief.as_text(plan(dear, entries=entries, max_price_micro_usd=40_000_000), 200)
    assert "instead of  H200:8 (1 above the price cap)" in text.splitlines()


def test_every_rule_says_in_words_what_it_refuses() -> None:
    """No screen shows a rule's name where its words are shown."""
    assert tuple(refusals.WORDS) == rules.NAMES


def test_a_choice_that_is_only_dearer_was_not_passed_over() -> None:
    """Where the price decides over all choices, an earlier one has places too."""
    cheap = offer("alpha", "a-2", 1)._replace(gpu_type="L4", gpu_count=1.0)
    entries = (Choice("H100", 8), Choice("L4", 1))
    text = brief.as_text(plan([*OFFERS, cheap], entries=entries, rank=PRICE), 200)
    assert "would buy   alpha a-2 m8 L4:1" in text and "instead of" not in text


def test_what_is_kept_stands_first_and_the_place_is_what_a_loss_would_buy() -> None:
    """In the short form and in the whole one; a cheaper order is no question then."""
    running = CurrentCost(
        20_000_000,
        "alpha a-1",
        "no change: alpha a-1 stays",
        (("later", "its workload"),),
        ("keeps", "alpha a-1 stays"),
        "if lost",
    )
    made = plan(rank="preference", providers=("beta", "alpha"))
    text = brief.as_text(made, 120, title="train", current=running, details="x")
    assert rows(text)[1:] == ["keeps", "if lost", "later", "details"]
    assert "if lost     beta c-1 m8 H100:8 on-demand, at $30.00/h, $21,900/month" in text
    whole = render.as_text(made, 120, title="train", current=running)
    assert whole.index("keeps       alpha a-1 stays") < whole.index("if lost: best per provider")
    assert "change" not in whole
    assert "- keeps: alpha a-1 stays" in render.as_markdown(made, current=running)


def test_spot_that_is_cheaper_is_told_where_it_is_not_asked_for() -> None:
    """A real offer only: what is dearer, or cannot be ordered, is none."""
    able = {**BOTH, "alpha": BOTH["alpha"]._replace(capacities=frozenset({"on-demand", "spot"}))}

    def spot(provider, usd):
        sold = [*OFFERS, offer(provider, "z-9", usd)._replace(capacity="spot")]
        text = brief.as_text(make(Ask((Choice("H100", 8),), rank=PRICE), table(sold), able))
        return [line for line in text.splitlines() if line.startswith("spot ")]

    assert spot("alpha", 4) == ["spot        would be $4.00/h at alpha z-9, with spot: prefer"]
    assert not spot("alpha", 13)
    assert not spot("beta", 4)


def test_who_sells_the_gpu_only_by_other_counts_is_named() -> None:
    """It would be missing without a word."""
    sold = [*OFFERS, offer("alpha", "a-2", 3)._replace(gpu_count=1.0)]
    text = brief.as_text(plan(sold, entries=(Choice("H100", 1),)))
    assert "not at      beta (sells H100 only by 8)" in text
    assert "only by" not in brief.as_text(plan(sold))


def test_what_runs_is_told_in_one_short_row() -> None:
    """The command or the model, the port and the image, of which the first is cut."""
    task = Task(launcher="vllm", model="openai/gpt-oss-120b", port=8000)
    work = Workload((task,), image=f"vllm/vllm-openai:v0.11.0@sha256:{'0' * 64}")
    text = brief.as_text(plan(workload=work), 80)
    assert "runs        vllm: openai/gpt-oss-120b, port 8000, in vllm-openai:v0.11.0" in text
    long = Task(command=f"python train.py {'--flag ' * 30}", port=1)
    text = brief.as_text(plan(workload=Workload((long, task))), 80)
    (line,) = [line for line in text.splitlines() if line.startswith("runs ")]
    assert "python train.py" in line and line.endswith("…, port 1, and 1 more program")


def test_what_there_is_no_room_for_is_counted() -> None:
    """Twelve lines, whatever there is to note; the choice, its price and the change stay."""
    noted = [f"note {number}: {'words ' * 12}" for number in range(6)]
    ask = Ask((Choice("H100", 8),), rank=PRICE)
    made = make(ask, table(OFFERS), BOTH, noted=lambda _: noted)
    text = brief.as_text(made, 80, title="train", current=CurrentCost(0), details="x")
    assert len(text.splitlines()) <= 12
    assert rows(text)[1:6] == ["buys", "price", "likely", "at worst", "if sold out"]
    assert "change" in rows(text)
    assert text.endswith("x (5 more notes)")


def test_what_will_not_work_is_always_said_before_what_costs_and_the_rest() -> None:
    """Within twelve lines of 80 columns: whole where there is room, else the beginning of each."""

    def shown(*stops):
        notes = ["rest " * 30, Costs("egress is billed"), *map(Stops, stops)]
        ask = Ask((Choice("H100", 8),), rank=PRICE)
        made = make(ask, table(OFFERS), BOTH, noted=lambda _: notes)
        return brief.as_text(made, 80, title="t", current=CurrentCost(0), details="x").splitlines()

    lines = shown("no TLS")
    assert lines.index("watch out   no TLS") < lines.index("note        egress is billed")
    assert not [line for line in lines if "rest" in line]
    one = shown("no checkpoint: " + "why " * 20, "no token")
    assert len(one) <= 12 and not [line for line in one if line.endswith("…")]
    many = [f"{number}: {'why ' * 40}" for number in range(4)]
    lines = shown(*many)
    assert len(lines) <= 12 and max(map(len, lines)) <= 80
    assert [line for line in lines if line.startswith("watch out")] == [
        f"watch out   {text[:66]}…" for text in many
    ]


def test_what_comes_next_is_not_the_best_of_another_provider() -> None:
    """The second place of the order, with its price and how many follow; then each other provider,
    but the one that comes next anyway.
    """
    sold = [*OFFERS, offer("beta", "d-1", 40)]
    lines = brief.as_text(plan(sold, rank=PRICE), 120).splitlines()
    assert "if sold out alpha a-1 H100:8 on-demand $20.00/h, then 2 more places" in lines
    assert "elsewhere   beta c-1 H100:8 on-demand $30.00/h" in lines
    two = brief.as_text(plan(OFFERS[1:], rank=PRICE), 120, details="x")
    assert "if sold out beta c-1 H100:8 on-demand $30.00/h\n" in two and "elsewhere" not in two


def test_a_service_that_ends_when_idle_costs_its_month_only_if_always_busy() -> None:
    """A machine, and containers that always run, cost it anyway."""
    busy = OFFERS[0]._replace(parts=f"{AT_MOST}3 containers, each 1 x H100")
    for parts, said in ((busy.parts, True), ("3 containers", False)):
        made = plan([busy._replace(parts=parts)], kind="service")
        assert ("$20.00/h, $14,600/month if always busy" in brief.as_text(made, 120)) is said
        assert "14,600" in render.as_text(made, 120)


def test_spot_says_that_it_may_be_taken_back_and_how_often_where_that_is_known() -> None:
    """Only where spot is chosen."""
    able = {"alpha": BOTH["alpha"]._replace(capacities=frozenset({"spot"}))}
    ask = Ask((Choice("H100", 8, capacity=(Capacity(SPOT),)),))
    text = brief.as_text(make(ask, table([OFFERS[0]._replace(capacity=SPOT)]), able), 80)
    assert "spot        may be taken back at any time" in text.splitlines()
    assert "taken back" not in brief.as_text(plan())


def test_a_gpu_of_two_sizes_says_which_is_bought() -> None:
    """A name that has its size, or only one, needs no word."""

    def bought(gpu_type):
        made = plan([OFFERS[0]._replace(gpu_type=gpu_type)], entries=(Choice(gpu_type, 8),))
        return brief.as_text(made).splitlines()[1]

    assert bought("A100").endswith(" A100:8 on-demand, 40 GB per GPU")
    assert bought("A100-80GB").endswith("on-demand") and bought("H100").endswith("on-demand")


def test_a_choice_that_nobody_allowed_sells_is_said_with_the_line_to_write() -> None:
    """By its place in the list, in words, however little room there is."""
    able = {**BOTH, "bazaar": BOTH["alpha"]._replace(provider="bazaar", marketplace=True)}
    sold = [*OFFERS, offer("bazaar", "z-1", 1)._replace(gpu_type="RTX-4090")]
    sold.append(offer("beta", "b-9", 9)._replace(gpu_type="L40S"))
    entries = (Choice("H100", 8), Choice("RTX-4090", 8, "fallback[0]"))

    def said(*entries, **more):
        made = make(Ask(entries, **more), table(sold), able, noted=lambda _: ["note " * 60] * 9)
        text = brief.as_text(made, 80)
        return " ".join(text[text.index("left out") :].split())

    assert said(*entries).startswith(
        "left out the first fallback: RTX-4090 anywhere: not offered; strangers' hosts have it:"
        " write marketplaces: true, or add bazaar to providers"
    )
    assert "write providers: [alpha, bazaar]" in said(*entries, providers=("alpha",))
    other = said(entries[0], Choice("L40S", 8, "gpu[1]"), providers=("alpha",))
    assert "the second choice of gpu: L40S at alpha: not offered" in other
    assert "L40S is sold at beta: write providers: [alpha, beta]" in other


def test_nothing_acceptable_shows_the_whole_plan() -> None:
    """Then what was refused decides."""
    made = plan(max_price_micro_usd=1)
    assert brief.as_text(made) == render.as_text(made)


@pytest.mark.parametrize("first", SOLD)
@pytest.mark.parametrize("gpu", ["H100:8", "L4:1", "A100-80GB:4"])
def test_it_fits_twelve_lines_of_eighty_columns(gpu, first, tmp_path, monkeypatch) -> None:
    """For one cluster, with what is on offer in the catalog, whichever provider comes first."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    sold = sorted(SOLD, key=lambda name: name != first)
    for spot in (None, "prefer"):
        text = brief.as_text(
            providers.plan(gpu, fallback=["H200:8"], providers=sold, rank="preference", spot=spot),
            80,
            title="train",
            current=CurrentCost(0),
            details="gpus plan -s training --cluster train --explain, or gpus:detail: full",
        )
        assert len(text.splitlines()) <= 12 and max(map(len, text.splitlines())) <= 80, text


@pytest.mark.parametrize("value", ["all", "", 1, True])
def test_detail_is_short_or_full(value) -> None:
    """Anything else is told with what it may be."""
    (problem,) = stack_config.keys({"gpus:detail": value})
    assert str(problem).startswith("gpus:detail: wanted short or full, found")
    assert [stack_config.keys({"gpus:detail": each}) for each in ("short", "full")] == [[], []]
