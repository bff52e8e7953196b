"""One fault of a declaration is one message that says what to write."""

import pytest

from providers.engine import validate
from providers.errors import SpecError

JOB = {"kind": "job", "gpu": "L4:1"}
SERVICE = {"kind": "service", "gpu": "L4:1"}
RUN = {"command": "python3 t.py"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"gpu": {"H100": "8"}}, 'gpu: wanted a GPU such as "H100:8", found {\'H100\': \'8\'}; write "H100:8"'),
        ({"gpu": {8: "H100"}}, 'gpu: wanted a GPU such as "H100:8", found {\'8\': \'H100\'}; write "H100:8"'),
        ({"gpu": {"H100": 8, "A100": 8}}, 'write a list: ["H100:8", "A100:8"]'),
        ({"gpu": "H100:8,A100:8"}, 'write several as a list, as in ["H100:8", "A100-80GB:8"]'),
        ({"gpu": "H100:8 or A100:8"}, "write several as a list"),
        ({"gpu": "2xH100:8"}, "found '2xH100:8'; write \"H100:8\", and nodes: 2 for that many machines"),
        ({"gpu": "H100:８"}, 'write "H100:8"'),
        ({"gpu": "H100:8 spot"}, 'write "H100:8"'),
        ({"gpu": "H100:eight"}, 'write TYPE:COUNT, as in "H100:8"'),
        ({"gpu": "H100:1.5"}, 'write TYPE:COUNT, as in "H100:8"'),
        ({"gpu": "H100:0"}, 'from 1 to 100000, found \'0\'; write TYPE:COUNT, as in "H100:8"'),
        ({"gpu": "H100:" + "9" * 5_000}, "from 1 to 100000, found '999"),
        ({"gpu": "0xH100"}, "near: H100"),
        ({"gpu": "L4", "regions": ""}, "regions: wanted a list such as [us-central1], found ''"),
        ({"gpu": "L4", "regions": [None]}, "found nothing"),
        ({"gpu": "L4", "fallback": [{"spot": "only"}]}, "found nothing"),
        ({"gpu": "L4", "env": {"A": "1"}}, "env: wanted a known property (workload.env is one)"),
        ({**JOB, "workload": {}}, "a command or a launcher, or services, found nothing"),
        ({**JOB, "workload": {**RUN, "checkpoint": {"pth": "/c", "to": "gs://bbb/x"}}}, "(near: path), found 'pth'"),
        ({**JOB, "prices": {"overrides": [{"provider": "gcp", "usd_per_hour": 1}]}}, "(near: price_usd_per_hour)"),
        (SERVICE, "as in workload: {command: python serve.py, port: 8000}"),
    ],
)  # fmt: skip
def test_one_fault_is_one_message_that_says_what_to_write(fields, told) -> None:
    """Counts in other spellings, a misspelt name of a field that must be there, empty values:
    nothing is told twice, and no number is made up.
    """
    with pytest.raises(SpecError) as caught:
        validate.cluster("x", fields)
    assert len(caught.value.problems) == 1, str(caught.value)
    assert told in str(caught.value), str(caught.value)
    assert '"H100:1"' not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        (
            {"expose": "token", "ttl": "3h", "workload": {"command": "serve", "health": "up"}},
            ["ttl", "workload.port", "workload.health", "expose"],
        ),
        (
            {
                "expose": "token",
                "workload": {
                    "services": [
                        {"name": "a", "command": "serve"},
                        {"name": "b", "launcher": "vllm"},
                    ]
                },
            },
            ["workload.services[0].port", "workload.services[1].model", "expose"],
        ),
        (
            {
                "expose": "public",
                "providers": ["gcp"],
                "workload": {"command": "serve"},
                "secrets": {"A": {"gcp": "projects/p/secrets/s"}},
            },
            ["workload.port", "expose", "options.gcp.service_account"],
        ),
    ],
)
def test_all_faults_of_a_service_come_in_one_message(fields, paths) -> None:
    """What is missing, what checks the token, and what a provider's options lack."""
    with pytest.raises(SpecError) as caught:
        validate.cluster("x", {**SERVICE, **fields})
    assert [problem.path for problem in caught.value.problems] == paths
