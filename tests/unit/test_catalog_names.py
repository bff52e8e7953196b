"""GPU names: spellings, siblings, memory."""

import itertools

import pytest

from providers.catalog import names
from providers.catalog.hardware import all_hardware
from tests.present import present


@pytest.mark.parametrize(
    "text",
    [
        "A100-8",
        "A1",
        "H10",
        "",
        "A100 80G",
        "H100X",
        "RTX 6000",
        "B20",
        "1x H100",
        "H100:8",
        "H100!",
        "GPU",
        "nvidia",
    ],
)
def test_b01_unknown_names_are_unknown(text) -> None:
    """A text that is no exact spelling of one model names nothing, however near it comes."""
    assert names.canonical(text) is None
    assert names.gpu_type(text) is None
    assert names.accepts(text) == ()


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        ("A100-8", "A100-80GB"),
        ("A1", "A10"),
        ("H10", "H100"),
        ("A100 80G", "A100-80GB"),
        ("RTX 6000", "RTX-A6000"),
        ("H100X", "H100"),
        ("4090", "RTX-4090"),
    ],
)
def test_b01_near_names_are_listed(text, suggested) -> None:
    """An unknown name comes with at most five names that it may have meant."""
    assert suggested in names.near(text)
    assert len(names.near(text)) <= 5


def test_b01_nothing_is_near_to_nothing() -> None:
    """An empty text, or one like no name, suggests nothing."""
    assert names.near("") == ()
    assert names.near("zzzzzzzz") == ()


@pytest.mark.parametrize(
    "text",
    [
        "a100_80gb",
        "A100 80GB",
        "A100-80gb",
        "a10080gb",
        "NVIDIA A100-80GB",
        "nvidia-a100-80gb",
        "NVIDIA A100-SXM4-80GB",
    ],
)
def test_b01_case_space_and_dashes_do_not_matter(text) -> None:
    """Case, blanks, dashes, underscores and the vendor's name make no other model."""
    assert names.canonical(text) == "A100-80GB"


def test_b01_every_spelling_of_every_case_is_accepted() -> None:
    """Each model is found by its own name in lower case, with blanks, with underscores and with
    none.
    """
    for model in names.models():
        for text in (
            model,
            model.lower(),
            model.replace("-", " "),
            model.replace("-", "_"),
            model.replace("-", ""),
            f" {model} ",
        ):
            assert names.canonical(text) == model


def test_b02_two_models_are_never_one() -> None:
    """The short name of a pair accepts nothing of the long one: A100 is the 40 GB card, V100 the 16
    GB one, H100 not the Mega.
    """
    for short, long in (
        ("A100", "A100-80GB"),
        ("V100", "V100-32GB"),
        ("H100", "H100-MEGA"),
        ("H100", "H100-NVL"),
        ("L40", "L40S"),
        ("RTX-4090", "RTX-4090-D"),
    ):
        assert not set(names.accepts(short)) & set(names.accepts(long))
    assert names.canonical("A100-40GB") == "A100"
    assert "40 GB" in names.meaning("A100")


def test_b02_no_two_asks_share_a_model_unless_documented() -> None:
    """A model is accepted by its own name, by a bare name with a documented meaning, and by an ask
    for its form factor.
    """
    for one, other in itertools.permutations(names.models(), 2):
        if other in names.accepts(one):
            assert names.meaning(one)
            assert (one, other) in {
                ("H100", "H100-PCIe"),
                ("A100", "A100-PCIe"),
                ("A100-80GB", "A100-80GB-PCIe"),
            }


def test_b03_siblings_are_named_never_swapped() -> None:
    """A10 and A10G are two models; each names the other as near."""
    assert names.accepts("A10") == ("A10",)
    assert names.accepts("A10G") == ("A10G",)
    assert "A10G" in names.near("A10")
    assert "A10" in names.near("A10G")


@pytest.mark.parametrize(
    ("text", "model", "memory_gib"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", 80),
        ("NVIDIA H100 PCIe", "H100-PCIe", 80),
        ("NVIDIA H100 NVL", "H100-NVL", 94),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-ADA", 48),
        ("NVIDIA RTX A6000", "RTX-A6000", 48),
        ("Quadro RTX 6000", "QUADRO-RTX-6000", 24),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000", 96),
        ("NVIDIA GeForce RTX 4090 D", "RTX-4090-D", 24),
        (" H100 80GB HBM3", "H100", 80),
        ("NVIDIA L40S", "L40S", 48),
        ("nvidia-h100-mega-80gb", "H100-MEGA", 80),
        ("nvidia-tesla-t4", "T4", 16),
        ("nvidia-h200-141gb", "H200", 141),
        ("NVIDIA GRID K520", "K520", 4),
        ("Tesla V100-SXM2-32GB", "V100-32GB", 32),
    ],
)
def test_b04_free_text_keeps_form_factor_and_generation(text, model, memory_gib) -> None:
    """What drivers, clouds and marketplaces call a card names exactly that card."""
    assert names.gpu_type(text) == model
    assert names.nominal_memory_gib(model) == memory_gib


def test_b04_h100_accepts_both_forms_and_sxm_only_one() -> None:
    """Bare H100 accepts the SXM and the PCIe card; H100-SXM and H100! only the SXM card; none of
    them the 94 GB card.
    """
    assert names.accepts("H100") == ("H100", "H100-PCIe")
    assert names.accepts(present(names.canonical("H100 SXM"))) == ("H100",)
    assert names.accepts("H100", exact=True) == ("H100",)
    assert names.accepts(present(names.canonical("h100 nvl"))) == ("H100-NVL",)
    assert "SXM or PCIe" in names.meaning("H100")


@pytest.mark.parametrize(
    ("model", "reported_mib", "fits"),
    [
        ("H100", 81559, True),
        ("H100", 81920, True),
        ("H100", 79 * 1024, True),
        ("A100-80GB", 79 * 1024, True),
        ("A100-80GB", 40536, False),
        ("A100", 40536, True),
        ("A10G", 23696375808 / 2**20, True),
        ("A10G", 23034, True),
        ("T4", 15360, True),
        ("H100", 94 * 1024, False),
        ("RTX-3080", 12288, False),
        ("RTX-3080-12GB", 10240, False),
        ("B200", 183359, True),
        ("B300", 268.59 * 1024, True),
        ("no such card", 1024, False),
    ],
)
def test_b08_reported_memory_is_checked_against_the_nominal_size(model, reported_mib, fits) -> None:
    """A report within ten per cent under and three over the model's nominal size is that model's;
    another size is not.
    """
    assert names.nominal_memory_matches(model, reported_mib) is fits


def test_b08_asks_by_memory_go_by_the_nominal_size() -> None:
    """At least 24 GB includes the A10G, whose report is 22 GiB; at least 80 GB leaves out the 48 GB
    cards; nothing but GPUs is listed.
    """
    assert "A10G" in names.by_memory(24)
    assert {"H100", "A100-80GB"} <= set(names.by_memory(80))
    assert not {"L40S", "A100"} & set(names.by_memory(80))
    assert "TPU-V5P" not in names.by_memory(1)
    assert names.by_memory(1e6) == ()
    sizes = [present(names.nominal_memory_gib(name)) for name in names.by_memory(1)]
    assert sizes == sorted(sizes)


def test_b08_a_shared_driver_name_is_settled_by_memory() -> None:
    """Where a driver calls two sizes the same, the report says which; one that fits neither names
    nothing.
    """
    assert names.gpu_type("NVIDIA GeForce RTX 3080", 10240) == "RTX-3080"
    assert names.gpu_type("NVIDIA GeForce RTX 3080", 12288) == "RTX-3080-12GB"
    assert names.gpu_type("A100 SXM4", 81920) == "A100-80GB"
    assert names.gpu_type("A100 SXM4", 40960) == "A100"
    assert names.gpu_type("H100 80GB HBM3", 79 * 1024) == "H100"
    assert names.gpu_type("H100", 40960) is None
    assert names.gpu_type("NVIDIA GeForce RTX 3080", 20480) is None


def test_no_two_models_of_one_name_overlap_in_memory() -> None:
    """No report fits two of the sizes that share a driver's name."""
    for sizes in names.BY_MEMORY.values():
        for one, other in itertools.permutations(sizes, 2):
            for share in (1 - names.MEMORY_UNDER, 1, 1 + names.MEMORY_OVER):
                assert not names.nominal_memory_matches(
                    other, present(names.nominal_memory_gib(one)) * 1024 * share
                )


def test_suggestions_and_meanings_name_known_models() -> None:
    """Whatever is suggested, explained or accepted exists."""
    known = set(names.models()) | set(names.ASKS)
    for table in (names.SIBLINGS, names.SHARED, names.BY_MEMORY, names.ACCEPTS):
        for suggested in table.values():
            assert set(suggested) <= known
    assert set(names.MEANINGS) <= known
    assert set(names.SIBLINGS) <= known
    for text in names.SHARED:
        assert names.canonical(text) is None


def test_the_hardware_table_has_the_same_models_and_sizes() -> None:
    """Names and hardware list the same models with the same nominal memory."""
    assert {model: names.nominal_memory_gib(model) for model in names.models()} == {
        found.name: found.memory_gib for found in all_hardware()
    }
