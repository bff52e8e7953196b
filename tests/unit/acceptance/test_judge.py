"""What acceptance says of a machine, by recorded answers of NVML and edits of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.acceptance.judge import judge
from tests.unit.acceptance.recorded import ANSWER, XML, answer, checked, several, told_by

SLOW = {"bf16": {"tflops": 430.0}}
KEEPS = {"dtype": "bf16", "sustained_tflops": 662.6, "wrong_results": 0}
CAPPED = XML.replace(
    "<current_power_limit>700.00 W</current_power_limit>",
    "<current_power_limit>450.00 W</current_power_limit>",
)
NEIGHBOUR = """<processes>
   <process_info>
    <pid>4711</pid><type>C</type><process_name>python3</process_name>
    <used_memory>61440 MiB</used_memory>
   </process_info>
  </processes>"""


def test_a_sound_h200_passes_with_nothing_unknown() -> None:
    verdict = judge(ANSWER, "H200", 1)
    assert (verdict.word, verdict.reasons, verdict.unknown) == ("pass", (), ())
    assert "824.8 TFLOP/s" in {check.found for check in verdict.checks}


@pytest.mark.parametrize(
    ("before", "after", "word", "reason"),
    [
        ("<current_power_limit>700.", "<current_power_limit>450.", "degraded", "450 W of 700 W"),
        ("<default_power_limit>700.", "<default_power_limit>600.", "pass", ""),
        (">16x</current_link_width>", ">8x</current_link_width>", "degraded", "8 of 16 PCIe lanes"),
        (">5</max_link_gen>", ">3</max_link_gen>", "degraded", "PCIe generation 3 of 5"),
        ("<gpu_util>0 %", "<gpu_util>97 %", "degraded", "in use by somebody else: 97 % busy"),
        ("<used>0 MiB", "<used>61440 MiB", "degraded", "61440 MiB in use"),
        ("<processes>\n  </processes>", NEIGHBOUR, "degraded", "1 other process"),
        ("<total>143771 MiB", "<total>81559 MiB", "not what was sold", "79.6 GiB of memory"),
        ("NVIDIA H200<", "NVIDIA H100 NVL<", "not what was sold", "H100 NVL where H200 was sold"),
        ("<current_mig>Disabled", "<current_mig>Enabled", "not what was sold", "MIG"),
        ("<dram_uncorrectable>0", "<dram_uncorrectable>3", "degraded", "3 uncorrected errors"),
        ("failure>No<", "failure>Yes<", "degraded", "a row remap failed"),
        (
            "hw_thermal_slowdown>Not Active",
            "hw_thermal_slowdown>Active",
            "degraded",
            "slowed down by heat",
        ),
        ("NVIDIA H200<", "NVIDIA NEW ONE<", "pass", ""),
    ],
)
def test_what_the_driver_reports_is_judged_with_its_reason(before, after, word, reason) -> None:
    """A power cap, fewer or slower lanes, a neighbour, less memory, another card, faults."""
    assert before in XML
    found, reasons = checked(told_by(XML.replace(before, after)))
    assert found == word and reason in reasons


def test_a_card_that_is_far_too_slow_is_another_one_than_it_says() -> None:
    word, reasons = checked(told_by(XML, matmul=SLOW))
    assert word == "not what was sold" and "430.0 TFLOP/s in bf16, where H200 reaches" in reasons


def test_a_slow_card_with_a_power_cap_is_degraded() -> None:
    """The cap explains the speed: the card may well be what it says."""
    assert checked(told_by(CAPPED, matmul=SLOW))[0] == "degraded"


def test_a_somewhat_slow_card_is_degraded() -> None:
    assert checked(told_by(XML, matmul={"bf16": {"tflops": 540.0}}))[0] == "degraded"


def test_a_3090_that_calls_itself_a_4090_is_not_what_was_sold() -> None:
    """Name and memory agree; the speed is that of the other card's sheet."""
    card = {"name": "NVIDIA GeForce RTX 4090", "memory_mib": 24564}
    found = answer(gpus=[{"index": 0, **card}], measured=[])
    found["measured"] = [{"index": 0, "matmul": {"bf16": {"tflops": 71.0}}, "memory_tb_s": 0.86}]
    word, reasons = checked(found, "RTX-4090", 1)
    assert word == "not what was sold" and "71.0 TFLOP/s" in reasons
    found["measured"][0]["matmul"]["bf16"]["tflops"] = 150.0
    assert checked(found, "RTX-4090", 1)[0] == "pass"


def test_a_small_card_may_leave_its_top_clock() -> None:
    """An L4 has 72 W: half of its sheet is what it keeps up."""
    found = answer(gpus=[{"index": 0, "name": "NVIDIA L4", "memory_mib": 23034}])
    found["measured"] = [{"index": 0, "matmul": {"bf16": {"tflops": 58.0}}, "memory_tb_s": 0.25}]
    assert checked(found, "L4", 1)[0] == "pass"


@pytest.mark.parametrize(
    ("measured", "word", "reason"),
    [
        ({"memory_tb_s": 2.4}, "degraded", "2.40 TB/s in memory copy, of 4.80"),
        ({"to_device_gb_s": 13.1}, "degraded", "13.1 GB/s in host to device"),
        ({"memory_wrong_gib": 60}, "not what was sold", "60 GiB of memory do not hold"),
    ],
)
def test_what_was_measured_is_judged_with_its_reason(measured, word, reason) -> None:
    found, reasons = checked(told_by(XML, **measured))
    assert found == word and reason in reasons


def test_fewer_gpus_than_sold_are_not_what_was_sold() -> None:
    word, reasons = checked(several(7), count=8)
    assert word == "not what was sold" and "7 GPUs where 8 were sold" in reasons


def test_eight_gpus_on_nvlink_pass() -> None:
    assert checked(several(8), count=8) == ("pass", "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"all_reduce": [{"bytes": 1 << 30, "bus_gb_s": 2.9}]}, "all-reduce at 2.9 GB/s"),
        (
            {"links": {"matrix": [["X", "SYS"], ["SYS", "X"]], "nvlink_gb_s": []}},
            "NVLink between 0 of 1 pairs",
        ),
        (
            {"links": {"matrix": [["X", "NV18"], ["NV18", "X"]], "nvlink_gb_s": [478.1, 451.5]}},
            "GPU 1: NVLinks that work add up to 452 GB/s of 478",
        ),
        ({"errors": {"all-reduce": "did not finish within 90 s"}}, "all-reduce: did not finish"),
        ({"xids": [{"pci": "0000:04:00", "xid": 79}]}, "Xid 79"),
        ({"measured": ANSWER["measured"]}, "GPU 1: took no work"),
        ({"soak": [KEEPS, {**KEEPS, "sustained_tflops": 300}]}, "GPU 1: keeps up 300.0 of 824.8"),
        ({"soak": [{**KEEPS, "wrong_results": 2}]}, "2 results of the same product differed"),
    ],
)
def test_a_poor_link_and_a_fault_of_two_gpus_are_degraded(changes, reason) -> None:
    word, reasons = checked(several(2, **changes), count=2)
    assert word == "degraded" and reason in reasons


def test_a_card_that_slows_down_to_its_power_limit_passes_the_soak() -> None:
    """An H200 keeps 80 % of its burst."""
    verdict = judge(answer(soak=[KEEPS]), "H200", 1)
    assert verdict.word == "pass" and "662.6 of 824.8 TFLOP/s in bf16" in str(verdict.checks)


def test_a_programs_own_xid_is_no_fault_of_the_card() -> None:
    """Xid 31 and 43 are a program's."""
    assert checked(answer(xids=[{"pci": "0", "xid": 31}, {"pci": "0", "xid": 43}]))[0] == "pass"


def test_what_was_not_measured_is_unknown_and_said() -> None:
    """Without PyTorch there are no matrix products: neither good nor bad."""
    found = answer(torch=None, xids=None, measured=[{"index": 0, "matmul": {}}])
    verdict = judge(found, "H200", 1)
    assert verdict.word == "pass"
    told = " ".join(verdict.unknown)
    assert "no PyTorch" in told and "memory copy: not measured" in told and "kernel's log" in told


def test_a_driver_that_lists_no_gpu_is_not_what_was_sold() -> None:
    assert checked({"gpus": [], "errors": {}})[0] == "not what was sold"


def test_a_driver_that_does_not_answer_is_degraded_with_what_it_said() -> None:
    """How many cards there are is not known then."""
    found = {"errors": {"driver": "OSError: nvidia-smi ended with 9: no devices"}}
    word, reasons = checked(found)
    assert word == "degraded" and "nvidia-smi ended with 9" in reasons


def test_cards_of_another_maker_are_unknown() -> None:
    verdict = judge({"errors": {"driver": "no nvidia-smi"}}, "MI300X", 8)
    assert verdict.word == "pass" and verdict.unknown == ("GPUs: cards of AMD are not measured",)


def test_without_an_order_the_cards_own_name_says_what_to_expect() -> None:
    verdict = judge(ANSWER)
    assert verdict.word == "pass"
    assert any("sheet 989" in check.expected for check in verdict.checks)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["index", "name", "tflops", "loaded"]), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([*ANSWER, "soak", "peers", "all_reduce"]), JUNK))
def test_whatever_a_stranger_answers_there_is_a_verdict(changes) -> None:
    """Fields of any kind and size, in place of the recorded ones."""
    assert judge(several(2, **changes), "H200", 2).word in {
        "pass",
        "degraded",
        "not what was sold",
    }


def test_an_absurd_figure_is_unknown() -> None:
    found = told_by(XML, memory_tb_s=float("inf"), to_device_gb_s="1e99999")
    told = " ".join(judge(found, "H200", 1).unknown)
    assert "memory copy: not measured" in told and "host to device: not measured" in told
