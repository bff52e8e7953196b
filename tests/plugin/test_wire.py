"""Property values to the wire and back."""

from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from providers.plugin import properties

PLAIN = st.recursive(
    st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.text(max_size=8).filter(lambda text: text != properties.UNKNOWN_TEXT),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abcd", min_size=1, max_size=4), PLAIN, max_size=4))
def test_values_come_back_as_they_were(values) -> None:
    """What is encoded is decoded to equal plain values, whole numbers as ints."""
    assert properties.decode(properties.encode(values)).values == values


def test_secrets_are_named_and_kept_secret() -> None:
    """A secret anywhere inside makes its top-level property secret, and encoding with that name
    wraps it again.
    """
    struct = properties.encode({"ssh_key": "k", "nodes": 2}, {"ssh_key"})
    seen = properties.decode(struct)
    assert seen.values == {"ssh_key": "k", "nodes": 2}
    assert seen.secret == {"ssh_key"}
    assert properties.encode(seen.values, seen.secret) == struct


def test_nested_secrets_are_found() -> None:
    """A secret deep in a list is seen too."""
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "x"}
    struct = Struct()
    struct.update({"options": {"gcp": [secret]}})
    assert properties.decode(struct) == properties.Properties(
        {"options": {"gcp": ["x"]}}, frozenset({"options"}), frozenset()
    )


def test_b44_unknowns_are_named() -> None:
    """The engine's sentinel becomes UNKNOWN, its property is named, and it goes back as the
    sentinel.
    """
    struct = properties.encode(
        {"gpu": properties.UNKNOWN, "labels": {"a": properties.UNKNOWN}, "nodes": 1}
    )
    seen = properties.decode(struct)
    assert seen.unknown == {"gpu", "labels"}
    assert seen.values["gpu"] is properties.UNKNOWN
    assert seen.known() == {"nodes": 1}
    assert properties.encode(seen.values) == struct


def test_output_values_are_unwrapped() -> None:
    """An output value without a value is unknown; a secret one is secret."""
    signature = {"4dabf18193072939515e22adb298388d": "d0e6a833031e9bbcd3f4e8bde6ca49a4"}
    struct = Struct()
    struct.update({"a": signature, "b": {**signature, "value": 3, "secret": True}, "c": None})
    assert properties.decode(struct) == properties.Properties(
        {"a": properties.UNKNOWN, "b": 3}, frozenset({"b"}), frozenset({"a"})
    )
