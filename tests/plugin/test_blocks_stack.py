"""A Capacity Block through the real engine: previewed, paid once, waited for, used, and told at the
end.
"""

import json


def test_a_block_is_paid_once_waited_for_and_used(project) -> None:
    """The preview shows its window and whole price; `up` says until when it waits; at its beginning
    the next `up` launches into it; destroy says that it stays paid.
    """
    made = project()
    text = made.file.read_text()
    head = text[: text.index("    train:")]
    made.file.write_text(
        f"{head}    train:\n      gpu: H100:8\n      providers: [aws]\n      regions: [us-east-1]\n"
        "      capacity: [block]\n      block: {lasts: 1d, max_price: 800}\n      ttl: 2d\n"
    )
    shown = " ".join(made.preview().split())
    assert "a block of 1d from" in shown and "$755.04, paid when it is bought" in shown
    assert "before a ttl of 2d" in shown
    said = " ".join(made.up(fails=True).split())
    assert "waits for its block until" in said and "run `up` again then" in said
    assert made.machines() == [] and made.cluster()["outputs"]["status"] == "queued"
    spent = json.loads(made.gpus("spend", "--json"))
    assert "755.04" in json.dumps(spent)
    (month,) = {each["month"] for each in spent if each["world"] == "rehearsal"}
    again = " ".join(made.up(fails=True).split())
    assert "waits for its block until" in again
    made.rehearse("advance", "26h")
    assert ": acquired" in made.up()
    outputs = made.cluster()["outputs"]
    assert (outputs["status"], outputs["capacity"]) == ("running", "block")
    assert outputs["ends_at"].endswith("11:00:00Z")
    calls = made.seen()
    assert len(made.machines()) == 1, calls
    assert "it is paid for and cannot be cancelled" in " ".join(made.destroy().split())
    assert made.machines() == []
    # The block may begin, and end, in the month after the one in which it was paid.
    assert "755.04" in made.gpus("spend", "--month", month)
