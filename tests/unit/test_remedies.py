"""What to do is never cut off: for every code of every provider, however much the provider itself
says, at the attempt and at the end.
"""

import json
import re

import pytest

from providers import errors as tree
from providers.adapters.aws import error_codes
from providers.adapters.aws import errors as aws
from providers.adapters.clore import errors as clore
from providers.adapters.gcp import errors as gcp
from providers.adapters.gcp.vertex import errors as vertex
from providers.adapters.modal import errors as modal
from providers.engine.launch.result import attempt_of
from providers.engine.messages import all_failed, line, refusal_lines, trimmed
from providers.engine.termination.settle import may_cost
from providers.model.ask import Ask, Choice
from providers.model.machine import Attempt, Handle
from providers.model.offer import Candidate, Offer
from providers.model.screen import log_width

LONG = "The provider explains at length; " * 200
URL = re.compile(r"https://\S+?(?=[;,)]?(?:\s|$))")
ASK = Ask((Choice("H100", 8),))


def refused(place, error):
    """What the walk shows of a refusal there."""
    return refusal_lines(line(1, (place,)), place.capacity, error)


def candidate(provider, capacity="on-demand", machine_type="p5.48xlarge"):
    return Candidate(
        1,
        0,
        Offer(provider, "us-east-1", "use1-az6", machine_type, "H100", 8, capacity, 1),
        1,
        "",
        1,
    )


def of_aws():
    for capacity in ("on-demand", "spot"):
        context = aws.Context(
            "aws us-east-1 (use1-az6) p5.48xlarge spot",
            "us-east-1",
            True,
            "t",
            (candidate("aws", capacity),),
        )
        for code, row in error_codes.CODES.items():
            yield (
                f"{code} {capacity}",
                row.todo,
                aws.from_response({"Error": {"Code": code, "Message": LONG}}, context),
            )
            yield (
                f"fleet {code} {capacity}",
                row.todo,
                aws.from_fleet([{"ErrorCode": code, "ErrorMessage": LONG}], context),
            )
    for status, row in error_codes.STATUSES.items():
        yield (
            str(status),
            row.todo,
            aws.from_response(
                {"Error": {"Message": LONG}, "ResponseMetadata": {"HTTPStatusCode": status}},
                context,
            ),
        )
    for code, row in error_codes.STATE_REASONS.items():
        yield (
            code,
            row.todo,
            aws.from_state({"Code": code, "Message": LONG}, context, context.candidates),
        )


def of_gcp(module=gcp, provider="gcp"):
    context = gcp.Context(
        "gcp europe-north1-a a3-highgpu-8g spot", "my-project", True, "t", (candidate(provider),)
    )
    for code, row in module.CODES.items():
        body = {
            "error": {
                "code": 403,
                "message": LONG,
                "errors": [{"reason": code}],
                "details": [{"reason": code}],
                "status": code,
            }
        }
        yield code, row.todo, module.from_http(403, json.dumps(body), context)
    for status, row in module.STATUSES.items():
        yield (
            str(status),
            row.todo,
            module.from_http(status, json.dumps({"error": {"message": LONG}}), context),
        )


def of_vertex():
    yield from of_gcp(vertex, "vertex")
    context = gcp.Context(
        "vertex europe-north1 a3-highgpu-8g spot", "my-project", True, "t", (candidate("vertex"),)
    )
    for code, row in vertex.ENDS.items():
        yield (
            f"end {code}",
            row.todo,
            vertex.never_ran({"error": {"code": code, "message": LONG}}, context),
        )


def of_clore():
    for row in clore.TABLE:
        error = clore.error(
            row.code,
            creating=True,
            token="t",
            server=71001,
            capacity="spot",
            reply={"min_price": LONG},
            doing="create_order",
        )
        yield row.code, row.todo, error


def of_modal():
    class Answer(Exception):
        def __init__(self, status) -> None:
            super().__init__(LONG)
            self._grpc_status = type("Status", (), {"name": status})

    for status, row in modal.TABLE.items():
        yield status, row.todo, modal.classify(Answer(status), creating=True, token="t")


CASES = [(provider, name, todo, error) for provider, cases in (
    ("aws", of_aws()), ("gcp", of_gcp()), ("vertex", of_vertex()), ("clore", of_clore()), ("modal", of_modal())
) for name, todo, error in cases]  # fmt: skip


def plain(text):
    return " ".join(text.split())


def attempt(provider, error):
    return Attempt(
        1,
        provider,
        "us-east-1",
        ("use1-az6",),
        ("p5.48xlarge",),
        "H100:8",
        "spot",
        1,
        type(error).__name__,
        error.code,
        trimmed(error),
    )


@pytest.mark.parametrize(
    ("provider", "name", "todo", "error"),
    CASES,
    ids=[f"{provider} {name}" for provider, name, *_ in CASES],
)
def test_the_remedy_of_every_code_is_whole_at_the_attempt_and_at_the_end(
    provider, name, todo, error
) -> None:
    """The words of the table and every link are there, before the provider's own, which are what is
    shortened.
    """
    links = URL.findall(error.message)
    said = todo if todo in error.message else error.message.rpartition("; ")[2]
    shown = [str(all_failed("train", ASK, [attempt(provider, error)], []))]
    if not isinstance(error, (tree.NoCapacity, tree.OfferGone)):
        shown.append(refused(candidate(provider), error))
    shown.append(refused(candidate(provider, "reservation"), error))
    for text in shown:
        assert plain(said) in plain(text), text
        assert all(link in text for link in links), text
        assert len(text) < 1_500
        assert all(
            len(line) <= log_width() or "https://" in line for line in text.splitlines()[:-1]
        ), text
        if error.words:
            assert plain(text).index(plain(said)) < plain(text).index("The provider explains")


def test_every_row_that_somebody_must_act_on_says_how() -> None:
    """Refused credentials, missing set-up, limits and wallets: the row of each table has something
    to do.
    """
    acting = (tree.BadCredentials, tree.NotConfigured, tree.QuotaExceeded, tree.InsufficientFunds)
    for provider, name, todo, error in CASES:
        if isinstance(error, acting):
            assert todo or "; " in error.message, (provider, name)


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("aws", "VcpuLimitExceeded spot"),
        ("aws", "MaxSpotInstanceCountExceeded spot"),
        ("aws", "ExpiredToken spot"),
    ],
)
def test_a_limit_and_an_expired_token_name_the_way_out(provider, name) -> None:
    """The page of the very limit, and the sign-in with the clock, stand whole in what `up` shows."""
    error = next(error for found, called, _, error in CASES if (found, called) == (provider, name))
    text = refused(candidate(provider, "spot"), error)
    wanted = "sign in again (aws sso login, or new keys); look at this machine's clock too" if "Token" in name else (
        "ask for more in Service Quotas: https://us-east-1.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-"
    )  # fmt: skip
    assert wanted in plain(text)


@pytest.mark.parametrize(
    "code",
    [
        "AuthFailure",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "RequestTimeTooSkewed",
        "InvalidSignatureException",
        "ExpiredToken",
    ],
)
def test_refused_keys_at_ec2_name_the_clock_too(code) -> None:
    """With a wrong clock EC2 answers as it does to wrong keys (C25: aws-sdk-java#519)."""
    error = aws.from_response(
        {
            "Error": {
                "Code": code,
                "Message": "AWS was not able to validate the provided access credentials",
            }
        },
        aws.Context("aws"),
    )
    assert isinstance(error, tree.BadCredentials) and "this machine's clock" in error.message


@pytest.mark.parametrize("module", [gcp, vertex])
@pytest.mark.parametrize("status", [401])
def test_refused_tokens_at_google_name_the_clock_too(module, status) -> None:
    """A token signed by a wrong clock is refused like an expired one."""
    error = module.from_http(status, "{}", gcp.Context("gcp"))
    assert isinstance(error, tree.BadCredentials) and "this machine's clock" in error.message


@pytest.mark.parametrize(
    ("code", "message", "right"),
    [
        (
            "forbidden",
            "Required 'compute.instances.create' permission for 'projects/p/zones/z/instances/n'",
            "compute.instances.create",
        ),
        (
            "IAM_PERMISSION_DENIED",
            "Permission 'iam.serviceAccounts.actAs' denied on service account",
            "iam.serviceAccounts.actAs",
        ),
        (
            "SERVICE_ACCOUNT_ACCESS_DENIED",
            "The user does not have access to service account 'x'.",
            "iam.serviceAccounts.actAs",
        ),
        ("forbidden", "no name of any right", "iam.serviceAccounts.actAs"),
    ],
)
def test_a_missing_right_is_named_and_blocks_google_once(code, message, right) -> None:
    """Lacking a right is no stockout (C26: skypilot#1755): the right and its role are named, and
    the whole provider is left alone.
    """
    error = gcp.from_http(
        403,
        json.dumps({"error": {"message": message, "errors": [{"reason": code}]}}),
        gcp.Context("gcp", candidates=(candidate("gcp"),)),
    )
    assert (
        isinstance(error, tree.BadCredentials)
        and right in error.message
        and "roles/" in error.message
    )
    assert [tuple(scope)[:2] for scope in error.scopes] == [("gcp", "")]
    assert "clouds" not in may_cost([Handle("gcp", "x")], None)


def test_a_foreign_text_in_our_own_message_keeps_both_its_ends() -> None:
    """Whatever somebody put into one of our sentences, what to do at its end is there."""
    text = trimmed(tree.GpusError(f"wanted a reply, found {LONG}; run it again"))
    assert (
        text.startswith("wanted a reply") and text.endswith("run it again") and len(text) <= 2_000
    )


@pytest.mark.parametrize(
    ("provider", "name", "todo", "error"),
    CASES,
    ids=[f"{provider} {name}" for provider, name, *_ in CASES],
)
def test_a_providers_words_are_shortened_wherever_an_error_is_shown(
    provider, name, todo, error
) -> None:
    """A refusal that ends a run is shown as it is raised: with all that we say, and with no more of
    the provider's words than an attempt has.
    """
    assert error.message in str(error) and len(str(error)) <= len(error.message) + 260, str(error)
    assert "\n" not in str(error)


def test_one_attempt_is_one_try() -> None:
    """What the end counts is in good English."""
    error = CASES[0][3]
    assert ": 1 try\n" in str(all_failed("train", ASK, [attempt("aws", error)], []))
    assert ": 2 tries\n" in str(all_failed("train", ASK, [attempt("aws", error)] * 2, []))


@pytest.mark.parametrize("columns", ["80", "100"])
def test_the_code_goes_before_the_price_and_the_end(columns, monkeypatch) -> None:
    """Then the machine's type; the place, the GPU, the kind, the price and the end always stand on
    one line.
    """
    monkeypatch.setenv("COLUMNS", columns)
    offer = Offer(
        "gcp", "asia-northeast3", "", "a3-edgegpu-8g-nolssd", "H100", 8, "spot", 51_230_000
    )
    places = [
        Candidate(1, 0, offer._replace(zone=f"asia-northeast3-{zone}"), 1, "", 51_230_000)
        for zone in "ab"
    ]
    full = tree.NoCapacity(
        "none", provider="gcp", code="ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", scopes=[]
    )
    ended = attempt_of(27, places, ("NoCapacity", full.code, ""), 0, 1)
    walked = refusal_lines(line(27, places, machine=True), "spot", full)
    for shown in (walked, str(all_failed("train", ASK, [ended], []))):
        (found,) = [text for text in shown.splitlines() if text.startswith("#27 gcp")]
        plain = "#27 gcp asia-northeast3 (2 zones) H100:8 spot $51.23/h: sold out"
        assert found.replace(" a3-edgegpu-8g-nolssd", "") == plain
        assert len(found) <= log_width() and (columns == "80") == (found == plain)


def test_what_was_not_tried_is_folded() -> None:
    """However many rules refused places, and however many choices were wanted, each line stays
    within the columns, and every word is there.
    """
    refusals = [(f"rule number {number} of many", 1000 + number) for number in range(30)]
    wanted = Ask(tuple(Choice("RTX-PRO-6000", 8, path=f"gpu[{number}]") for number in range(9)))
    shown = str(all_failed("train", wanted, [], refusals, ["a hint"]))
    assert max(map(len, shown.splitlines())) <= log_width()
    said = " ".join(shown.split())
    assert (
        f"not tried: {', '.join(f'{rule} {count}' for rule, count in refusals)}" in said
        and said.count("RTX-PRO-6000:8") == 9
    )


def test_a_limit_whose_name_is_its_metric_is_named_once() -> None:
    """Google names both, and for some limits they are one word."""
    item = {
        "code": "QUOTA_EXCEEDED",
        "message": "x",
        "errorDetails": [{"quotaInfo": {"metricName": "M", "limitName": "M", "limit": 0.0}}],
    }
    error = gcp.from_operation(
        {"error": {"errors": [item]}}, gcp.Context("gcp", candidates=(candidate("gcp"),))
    )
    assert "M is 0" in error.message and "(M)" not in error.message


def test_a_line_says_the_machine_type_where_another_is_alike() -> None:
    """Two lines that look the same would be two tries at one place."""
    one, other = candidate("gcp"), candidate("gcp")
    other = other._replace(offer=other.offer._replace(machine_type="m9"))
    assert one.machine_type not in line(1, (one,))
    assert f" {one.machine_type} " in line(1, (one,), machine=True)
    assert " m9 " in line(2, (other,), machine=True)
    assert " 2 types " in line(3, (one, other), machine=True)
