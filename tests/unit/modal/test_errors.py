"""Modal's failures as classes of the one error tree."""

from typing import Any

import grpclib
import modal.exception
import pytest
from grpclib import GRPCError, Status
from modal._grpc_client import grpc_error_to_modal_exception
from modal_proto import api_pb2

from providers import errors as tree
from providers.adapters.modal import errors
from providers.adapters.modal.sign_in import Credentials, credentials


def raised(status, details=None):
    return grpc_error_to_modal_exception(GRPCError(status, "words that nobody matches", details))


def test_every_status_of_the_protocol_has_its_row() -> None:
    """The table names each gRPC status but OK, and no other."""
    assert {status.name for status in Status if status is not Status.OK} == set(errors.TABLE)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_a_clients_exception_is_classified_by_its_status(status) -> None:
    """The class follows the status alone, for reading and for the creating call, and carries the
    code.
    """
    row = errors.TABLE[status.name]
    reading: Any
    creating: Any
    reading, creating = (
        errors.classify(raised(status)),
        errors.classify(raised(status), creating=True, token="t1"),
    )
    assert (row.reading, row.creating) == (type(reading), type(creating))
    assert status.name == reading.code == creating.code
    if isinstance(creating, tree.OutcomeUnknown):
        assert creating.token == "t1"


def test_exhausted_is_patience_with_a_policy_and_a_quota_without() -> None:
    """RESOURCE_EXHAUSTED with the server's retry policy is a rate limit with its seconds; alone it
    is the account's limit.
    """
    patient = errors.classify(
        raised(Status.RESOURCE_EXHAUSTED, [api_pb2.RPCRetryPolicy(retry_after_secs=7)]),
        creating=True,
    )
    assert isinstance(patient, tree.RateLimited) and patient.retry_after_s == 7
    assert isinstance(
        errors.classify(raised(Status.RESOURCE_EXHAUSTED), creating=True), tree.QuotaExceeded
    )


LOCAL = {
    # Raised by the client about functions, queues, images in use and the like: none of our calls
    # can meet them, or they mean what they say.
    "Error", "TimeoutError", "SandboxTimeoutError", "SnapshotCreationError", "ExecTimeoutError", "SandboxTerminatedError", "FunctionTimeoutError",
    "MountUploadTimeoutError", "VolumeUploadTimeoutError", "LogsFetchError", "InteractiveTimeoutError", "OutputExpiredError", "ExecutionError",
    "DeserializationError", "WorkspaceManagementError", "ClientClosed",
    "ImageBuildError",  # told apart where images are built
}  # fmt: skip


def test_every_exception_of_the_client_is_known() -> None:
    """A new exception class in the client fails here until the table knows it."""
    found = {
        name: item
        for name, item in vars(modal.exception).items()
        if isinstance(item, type) and issubclass(item, modal.exception.Error)
    }
    unknown = []
    for name, kind in found.items():
        if name in LOCAL or name.startswith(("_", "Sandbox", "Filesystem")):
            continue
        try:
            error = kind("text")
        except TypeError:
            error = kind.__new__(kind)
        if isinstance(errors.classify(error, creating=True, token="t"), tree.Unclassified):
            unknown.append(name)
    assert unknown == []


@pytest.mark.parametrize(
    "error",
    [
        OSError("x"),
        TimeoutError(),
        grpclib.exceptions.StreamTerminatedError("x"),
        modal.exception.ConnectionError("x"),
    ],
)
def test_no_answer_is_transient_for_a_reader_and_unknown_for_a_buyer(error) -> None:
    """Without an answer a read may be repeated, and a creating call must be settled first."""
    assert type(errors.classify(error)) is tree.Transient
    assert type(errors.classify(error, creating=True, token="t")) is tree.OutcomeUnknown


def test_what_no_table_knows_is_said_loudly() -> None:
    """A creating call that fails in an unknown way is Unclassified, with the name of what came."""
    error = errors.classify(ZeroDivisionError("x"), creating=True, token="t")
    assert isinstance(error, tree.Unclassified) and error.code == "ZeroDivisionError"


def test_every_end_of_a_sandbox_has_a_status() -> None:
    """Each way in which the protocol lets a sandbox end means one status of a machine."""
    names = {
        name.removeprefix("GENERIC_STATUS_")
        for name in api_pb2.GenericResult.GenericStatus.DESCRIPTOR.values_by_name
    } - {"UNSPECIFIED"}
    assert names == set(errors.RESULTS)


def test_credentials_come_from_the_environment_or_the_profile(monkeypatch, tmp_path) -> None:
    """Both variables win; else the active profile of the file; else NotConfigured names both ways."""
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(tmp_path / "m.toml"))
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "MODAL_PROFILE", "MODAL_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(tree.NotConfigured, match="modal token new"):
        credentials()
    (tmp_path / "m.toml").write_text(
        '[a]\ntoken_id = "ak-1"\ntoken_secret = "as-1"\n[b]\ntoken_id = "ak-2"\ntoken_secret ='
        ' "as-2"\nactive = true\nenvironment = "dev"\n'
    )
    assert (
        credentials().token_id,
        credentials().token_secret,
        credentials().environment,
    ) == ("ak-2", "as-2", "dev")
    monkeypatch.setenv("MODAL_PROFILE", "a")
    assert credentials().token_id == "ak-1"
    (tmp_path / "m.toml").write_text("not toml")
    with pytest.raises(tree.NotConfigured, match="can't be read"):
        credentials()
    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-3")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-3")
    assert Credentials("ak-3", "as-3", "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET") == credentials()


def test_a_missing_client_or_token_is_not_configured(monkeypatch, tmp_path) -> None:
    """Without the client library, or live without a token, connecting says what to do; a live world
    never becomes a rehearsal.
    """
    from providers.adapters.modal import MANIFEST

    monkeypatch.setenv("MODAL_CONFIG_PATH", str(tmp_path / "none.toml"))
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(tree.NotConfigured, match="MODAL_TOKEN_ID"):
        MANIFEST.connect("live", {})
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(tree.NotConfigured, match="pip install"):
        MANIFEST.connect("rehearsal", {})


def test_the_live_adapter_connects_nothing_until_its_first_call(monkeypatch) -> None:
    """With a token the live adapter is made without a connection; it is of the live world and names
    the token's source.
    """
    from providers.adapters.modal import MANIFEST

    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-3")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-3")
    made: Any = MANIFEST.connect("live", {"environment": "dev", "app": "mine"})
    assert (
        made.world,
        made.client.environment,
        made.client.app_name,
        made.client.sdk_client,
    ) == ("live", "dev", "mine", None)
