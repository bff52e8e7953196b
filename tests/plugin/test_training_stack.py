"""The training stack as docs/how-to/workloads.md has it, from `up` to what it saved, by the real
engine on a rehearsal cloud.
"""


def test_up_wait_cp_of_a_run_over_two_machines(project) -> None:
    """Two machines train, the end is waited for, what was saved is where its refusal says; the next
    `up` releases them, and all of it still answers.
    """
    made = project("train-ddp-2x8")
    made.up()
    assert made.cluster()["outputs"]["nodes"] == 2 and len(made.machines()) == 2
    assert made.gpus("ssh", "train", "--", "wc -l < $GPUS_ROOT/peers").split()[0] == "2"
    made.rehearse("advance", "3m")
    # Done is well: a refresh calls it neither unhealthy nor anything but ended, and only the next
    # `up` releases what is left.
    said = made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    assert "unhealthy" not in said and "released by the next `up`" in said
    done = made.cluster()["outputs"]
    assert (done["status"], done["detail"]) == ("ended", "exit code 0") and len(
        made.machines()
    ) == 2
    assert "replace" not in made.preview()
    for record in (True, False):
        made.gpus("wait")
        assert (
            "a rehearsal's job is played, so it saved nothing; live, this copies"
            " gs://my-bucket/train to ./out"
            in " ".join(made.gpus("cp", "train:out", "./out", code=2).split())
        )
        assert "succeeded 0" in made.gpus("logs", "train")
        if record:
            assert "released" in made.up()
            assert [each for each in made.machines() if each["status"] == "RUNNING"] == []
    made.destroy()
    assert made.machines() == []
