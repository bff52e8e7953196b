"""What a plan says of a service's token and of a model that wants one, at each provider."""

from typing import Any

import pytest

from providers.engine.market import planning
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
        found
        == f"the token travels in clear: http://ADDRESS:{port} has no TLS; encrypted instead: gpus"
        f" ssh NAME -L {port}, then http://localhost:{port}"
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
    todo = (
        f"accept its terms there, and declare the secret HF_TOKEN with a reference for {provider}"
    )
    assert f"{model} is gated at Hugging Face, and no token is declared: {todo}" in notes(
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
