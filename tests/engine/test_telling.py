"""What a plan says of a service's token and of a model that wants one, at each provider."""

from typing import Any

import pytest

from providers.engine.market import planning
from providers.model.note import STOPS, urgency
from providers.model.spec import read_cluster
from providers.resources.exports import tried_by

SERVICE: dict[str, Any] = {
    "kind": "service",
    "gpu": "L4:1",
    "expose": "token",
    "workload": {"launcher": "vllm", "model": "Qwen/Qwen2.5-7B"},
}


def notes(provider, **changes):
    """The notes on the first candidate at a provider."""
    spec = read_cluster("t", {**SERVICE, "providers": [provider], **changes})
    made = planning.plan(
        spec.ask(), setup=spec.setup()._replace(options=tuple(sorted(spec.options.items())))
    )
    assert made.candidates, made.rejections[:3]
    return [text for text, rows in made.notes.items() if 1 in rows]


def served(**workload):
    return {"workload": {**SERVICE["workload"], **workload}}


@pytest.mark.parametrize("provider", ["gcp", "aws", "clore"])
@pytest.mark.parametrize(
    ("workload", "port"), [({}, 8000), ({"port": 9000}, 9000), ({"launcher": "tgi"}, 8080)]
)
def test_a_token_that_travels_in_clear_is_said_with_the_safer_way(
    provider, workload, port, tmp_path, monkeypatch
) -> None:
    """Wherever a machine answers by plain HTTP."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    gpu = {"gpu": "RTX-4090:2"} if provider == "clore" else {}
    (found,) = [text for text in notes(provider, **served(**workload), **gpu) if "clear" in text]
    assert (
        found == f"the token travels in clear (no TLS): use gpus ssh NAME -L {port}, then"
        f" http://localhost:{port}"
    )


@pytest.mark.parametrize(("provider", "changes"), [("modal", {}), ("gcp", {"expose": "private"})])
def test_nothing_is_said_where_no_token_travels_in_clear(
    provider, changes, tmp_path, monkeypatch
) -> None:
    """Modal's own door has TLS; a private service is reached through ssh alone."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    assert not [text for text in notes(provider, **changes) if "clear" in text]


@pytest.mark.parametrize(
    ("url", "login", "said"),
    [
        (
            "http://1.2.3.4:8000",
            "gpus ssh llama -s dev",
            (
                "# the token travels in clear; encrypted: gpus ssh llama -s dev -L 8000, then"
                " localhost:8000"
            ),
        ),
        ("http://1.2.3.4:8000", "", "# the token travels in clear"),
        ("https://x.modal.run", "gpus ssh llama -s dev", "/v1/models"),
    ],
)
def test_the_line_that_tries_a_service_says_it_too(url, login, said) -> None:
    """As a comment, so that the line still works as it is shown."""
    line = tried_by("gcp", [url], "echo x", login)
    assert line.endswith(said) and line.startswith(
        f"curl --oauth2-bearer $(echo x) {url}/v1/models"
    )


GATED = [
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B",
    "google/gemma-2-2b",
    "mistralai/Mistral-7B-Instruct-v0.3",
]


@pytest.mark.parametrize("provider", ["gcp", "aws", "modal"])
@pytest.mark.parametrize("model", GATED)
def test_a_gated_model_without_a_token_is_said(provider, model, tmp_path, monkeypatch) -> None:
    """With the secret to declare, by the provider whose machines would fetch it."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    todo = f"accept its terms, and write secrets: {{HF_TOKEN: {{{provider}: REFERENCE}}}}"
    assert f"no HF_TOKEN under secrets, which the gated {model} needs: {todo}" in notes(
        provider, **served(model=model)
    )


@pytest.mark.parametrize(
    ("provider", "changes"),
    [
        (
            "gcp",
            {
                "secrets": {"HF_TOKEN": {"gcp": "projects/p/secrets/hf"}},
                "options": {"gcp": {"service_account": "a@p.iam.gserviceaccount.com"}},
            },
        ),
        ("modal", {"secrets": {"HUGGING_FACE_HUB_TOKEN": {"modal": "hf"}}}),
        ("modal", {"options": {"modal": {"secrets": ["huggingface"]}}}),
        ("gcp", served(model="Qwen/Qwen2.5-7B")),
        ("gcp", served(model="meta-llama/Llama-3.1-8B", env={"HF_TOKEN": "x"})),
        ("gcp", {**served(launcher="llama.cpp", model="meta-llama/Llama-3.1-8B")}),
    ],
)
def test_nothing_is_said_where_a_token_is_declared_or_none_is_wanted(
    provider, changes, tmp_path, monkeypatch
) -> None:
    """Also where it may be in a provider's own secret, or the program fetches elsewhere."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    given = {**served(model="meta-llama/Llama-3.1-8B"), **changes}
    assert not [text for text in notes(provider, **given) if "gated" in text]


def test_a_reference_for_another_provider_does_not_count(tmp_path, monkeypatch) -> None:
    """A plan over both names the one that would start without."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    given = {**served(model="meta-llama/Llama-3.1-8B"), "secrets": {"HF_TOKEN": {"aws": "ssm:/hf"}}}
    spec = read_cluster("t", {**SERVICE, **given, "providers": ["gcp", "aws"]})
    made = planning.plan(spec.ask(), setup=spec.setup())
    assert not any(candidate.provider == "gcp" for candidate in made.candidates)


def test_a_job_on_spot_that_keeps_nothing_says_that_a_loss_costs_all(tmp_path, monkeypatch) -> None:
    """With a checkpoint, or a bucket that it writes to, nothing is said; nor on demand."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    kept = {"checkpoint": {"path": "/ckpt", "to": "gs://my-bucket/c"}}
    bucket = {"mounts": {"/data": {"source": "gs://my-bucket/c", "mode": "rw"}}}
    bought_as = {"options": {"gcp": {"service_account": "a@b.iam.gserviceaccount.com"}}}

    def said(spot, **work):
        given = {"command": "python train.py", "image": "x/train:1", **work}
        found = notes("gcp", kind="job", expose="private", spot=spot, workload=given, **bought_as)
        return [text for text in found if "checkpoint" in text]

    (text,) = said("only")
    assert text == "no workload.checkpoint: after a spot loss all starts again"
    assert urgency(text) == STOPS
    assert not said("never") and not said("only", **kept) and not said("only", **bucket)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("pytorch/pytorch", "the image pytorch/pytorch has no tag"),
        ("host:5000/team/train", "the image host:5000/team/train has no tag"),
        ("axolotlai/axolotl:main-latest", "the image axolotlai/axolotl:main-latest's tag moves"),
        ("pytorch/pytorch:2.8.0", ""),
        (f"pytorch/pytorch@sha256:{'0' * 64}", ""),
    ],
)
def test_an_image_that_changes_under_you_is_said(image, said, tmp_path, monkeypatch) -> None:
    """One without a tag, or with a tag that moves; a port is no tag."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    work = {"command": "true", "image": image}
    found = [
        text
        for text in notes("gcp", kind="job", expose="private", workload=work)
        if "under" in text
    ]
    more = ": it changes under you; write a version's tag or a digest"
    assert found == ([f"{said}{more}"] if said else [])
