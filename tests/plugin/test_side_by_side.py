"""Several configurations of one stack file, through the real Pulumi engine."""

import re


def test_the_clusters_of_a_stack_are_bought_and_run_side_by_side(project) -> None:
    """One `up` of three configurations of one workload asks for all of them before the first is
    there.
    """
    made = project("serve-l4")
    work = "workload: {command: python3 train.py}"
    made.file.write_text(
        "config:\n  gpus:world: rehearsal\n  gpus:clusters:\n"
        f"    small: {{kind: job, gpu: 'L4:1', providers: [gcp], {work}}}\n"
        f"    other: {{kind: job, gpu: 'T4:1', providers: [gcp], {work}}}\n"
        f"    third: {{kind: job, gpu: 'L4:1', providers: [aws], {work}}}\n"
    )
    for provider in ("gcp", "aws"):
        made.rehearse("latency", provider, "create", "8")
    said = made.up()
    asked = [said.index(match) for match in re.findall(r".*: asking", said)]
    acquired = [said.index(match) for match in re.findall(r".*: acquired.*", said)]
    assert len(asked) == 3 and max(asked) < min(acquired)
    assert len(made.machines()) == 3
    made.destroy()
    assert not [
        machine
        for machine in made.machines()
        if machine["status"] not in ("TERMINATED", "terminated", "gone")
    ]
