"""True replies of the stand-ins, changed in one place before they go out: JSON, XML and protobuf.
Owns Mutator and where each server is tapped.

What is put in is never a plausible word of the protocol: a cloud that lies well cannot be told from
one that speaks the truth.
"""

import copy
import json
import random
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.hostile.words import nest

KINDS = (
    "missing",
    "null",
    "text",
    "number",
    "truth",
    "huge",
    "nested",
    "unicode",
    "list",
    "mapping",
    "empty",
    "html",
    "cut",
    "hollow",
)
ODD = (
    "\u202eevil\x00",
    "İﬀ𝐇\ud7ff",
    "a\r\nHost: evil",
    "$(touch CANARY)",
    "",
    "-1",
    "nan",
    "../..",
    "9" * 400,
    "٣",
    "1e5000",
    "1e99999",
    "-1e99999",
    "16/1e400",
    "22:1e99999",
    "\x1b[2J\x9b31m",
)
NUMBERS = (-1, 0, 2**63, 2**70, -(2**40), 10**4_000, 0.1, 1e300, float("inf"), float("nan"))
HTML = "<!doctype html><html><body>Sign in to the hotel's network</body></html>"


Place = tuple[str | int, ...]
Tell = Callable[[Any], None]


def value(kind: str, draw: random.Random, old: Any) -> Any:
    """What stands in the place of a JSON value."""
    nested = nest(draw.choice((40, 300)))
    table = {
        "null": None,
        "text": draw.choice(ODD),
        "number": draw.choice(NUMBERS),
        "truth": draw.random() < 0.5,
        "huge": "x" * 200_000,
        "nested": nested,
        "unicode": draw.choice(ODD[:4]),
        "list": [old, old],
        "mapping": {"x": old},
        "empty": {} if isinstance(old, dict) else [] if isinstance(old, list) else "",
    }
    return table[kind]


def places(tree: Any, path: Place = ()) -> Iterator[Place]:
    """Every place of a JSON tree."""
    yield path
    if isinstance(tree, dict):
        for key in tree:
            yield from places(tree[key], (*path, key))
    elif isinstance(tree, list):
        for index in range(len(tree)):
            yield from places(tree[index], (*path, index))


def in_json(tree: Any, kind: str, draw: random.Random, told: Tell = lambda place: None) -> Any:
    """The tree with one place changed."""
    tree = copy.deepcopy(tree)
    where = list(places(tree))
    # The upper places matter most: half of the time one of the first few.
    path = draw.choice(where[: max(2, len(where) // 8)] if draw.random() < 0.5 else where)
    told(path)
    if not path:
        return {} if kind == "missing" else value(kind, draw, tree)
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    if kind == "missing":
        del holder[path[-1]]
    else:
        holder[path[-1]] = value(kind, draw, holder[path[-1]])
    return tree


def in_xml(
    content: bytes, kind: str, draw: random.Random, told: Tell = lambda place: None
) -> bytes:
    """The document with one element changed."""
    root = ET.fromstring(content)
    parents = [(parent, child) for parent in root.iter() for child in parent]
    if not parents:
        return b""
    parent, child = draw.choice(
        parents[: max(2, len(parents) // 8)] if draw.random() < 0.5 else parents
    )
    told(f"{parent.tag.rpartition('}')[2]}.{child.tag.rpartition('}')[2]}")
    if kind == "missing":
        parent.remove(child)
    elif kind in {"null", "empty"}:
        for each in list(child):
            child.remove(each)
        child.text = None
    elif kind == "list":
        parent.append(copy.deepcopy(child))
    elif kind in {"nested", "mapping"}:
        inner = copy.deepcopy(child)
        for each in list(child):
            child.remove(each)
        for _ in range(30 if kind == "nested" else 1):
            wrap = ET.Element("x")
            wrap.append(inner)
            inner = wrap
        child.append(inner)
    else:
        for each in list(child):
            child.remove(each)
        text = str(value(kind, draw, child.text))
        child.text = "".join(each for each in text if each == "\n" or each >= " ")
    return ET.tostring(root)


def in_message(
    message: Any, kind: str, draw: random.Random, tell: Tell = lambda place: None
) -> Any:
    """The protobuf message with one field changed, of its own type."""
    changed = type(message)()
    changed.CopyFrom(message)
    spots = []

    def walk(part: Any) -> None:
        for field, content in part.ListFields():
            spots.append((part, field))
            if field.type == field.TYPE_MESSAGE and not (
                field.message_type and field.message_type.GetOptions().map_entry
            ):
                for inner in content if field.is_repeated else [content]:
                    walk(inner)

    walk(changed)
    if kind == "hollow" or not spots:
        return type(message)()
    part, field = draw.choice(spots)
    tell(field.full_name)
    if kind in {"missing", "null", "empty"} or field.type == field.TYPE_MESSAGE:
        if field.type == field.TYPE_MESSAGE and field.is_repeated and kind == "list":
            content = getattr(part, field.name)
            if not (field.message_type and field.message_type.GetOptions().map_entry) and len(
                content
            ):
                content.append(content[0])
                return changed
        part.ClearField(field.name)
        return changed
    told: Any
    if field.type == field.TYPE_STRING:
        told = "x" * 100_000 if kind == "huge" else draw.choice(ODD)
    elif field.type == field.TYPE_BOOL:
        told = draw.random() < 0.5
    elif field.type == field.TYPE_ENUM:
        told = draw.choice((0, 999_999))
    elif field.type in {field.TYPE_DOUBLE, field.TYPE_FLOAT}:
        told = draw.choice((-1.0, 1e300, float("inf"), float("nan")))
    elif field.type == field.TYPE_BYTES:
        told = b"\xff\x00" * 5
    else:
        told = (
            draw.choice((0, 2**31 - 1))
            if field.type in {field.TYPE_UINT32, field.TYPE_UINT64}
            else draw.choice((-1, 0, 2**31 - 1))
        )
    if field.is_repeated:
        part.ClearField(field.name)
        getattr(part, field.name).extend([told, told])
    else:
        setattr(part, field.name, told)
    return changed


class Mutator:
    """Changes the reply of the given number, counted from `arm()` on. `log` names every reply since
    then; `fired` is what was changed.
    """

    def __init__(self) -> None:
        self.at, self.kind, self.draw = -1, "", random.Random(0)
        self.log: list[str] = []
        self.armed, self.fired = False, ""

    def arm(self, at: int, kind: str, seed: int) -> None:
        self.at, self.kind, self.draw = at, kind, random.Random(seed)
        self.log, self.armed, self.fired = [], True, ""

    def rest(self) -> None:
        self.armed = False

    def due(self, name: str) -> bool:
        """Whether this reply is the one."""
        if not self.armed:
            return False
        self.log.append(name)
        if len(self.log) - 1 != self.at:
            return False
        self.fired = f"{name} {self.kind}"
        return True

    def tell(self, place: object) -> None:
        """Notes what is changed."""
        self.fired += f" at {place}"

    def text(self, content: bytes, is_xml: bool) -> bytes:
        """The body to send instead of this one."""
        if self.kind == "html":
            return HTML.encode()
        if self.kind == "cut":
            return content[: len(content) // 2]
        if self.kind == "hollow":
            return b"" if self.draw.random() < 0.5 else b"{}"
        if is_xml:
            return in_xml(content, self.kind, self.draw, self.tell)
        return json.dumps(in_json(json.loads(content), self.kind, self.draw, self.tell)).encode()


def tap_http(mutator: Mutator, monkeypatch: pytest.MonkeyPatch, named: Callable[..., str]) -> None:
    """Changes replies as they leave a rehearsal's HTTP server; `named(verb, target, headers,
    payload)` is what a request is called in the log.
    """
    from providers.rehearsal.http import Loopback

    real = Loopback.__init__

    def begin(
        server: Any, name: str, store: Any, answer: Callable[..., Any], base: str = ""
    ) -> None:
        def tapped(*request: Any) -> Any:
            reply = answer(*request)
            if reply.content is None or not mutator.due(named(*request)):
                return reply
            return reply._replace(content=mutator.text(reply.content, "xml" in reply.kind))

        real(server, name, store, tapped, base)

    monkeypatch.setattr(Loopback, "__init__", begin)


def tap_gcp(mutator: Mutator, monkeypatch: pytest.MonkeyPatch) -> None:
    tap_http(
        mutator,
        monkeypatch,
        lambda verb, target, *_: f"{verb} {target.split('?')[0].rsplit('/', 1)[-1]}",
    )


def tap_aws(mutator: Mutator, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(_verb: Any, _target: Any, headers: Mapping[str, str], payload: bytes) -> str:
        words = payload.decode(errors="replace").split("&")
        action = next((word[7:] for word in words if word.startswith("Action=")), "")
        return action or headers.get("X-Amz-Target", "?")

    tap_http(mutator, monkeypatch, named)


def tap_clore(mutator: Mutator, monkeypatch: pytest.MonkeyPatch) -> None:
    from providers.adapters.clore import gate
    from providers.rehearsal.clouds.clore import server

    # The pace has tests of its own; here it would only be waited for.
    monkeypatch.setattr(gate.Gate, "turn", lambda *_, **__: None)
    monkeypatch.setattr(server, "TOLERANCE", 0.0)
    tap_http(mutator, monkeypatch, lambda _verb, target, *_: target.split("?")[0])


def tap_modal(mutator: Mutator, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpclib import GRPCError, Status

    from providers.rehearsal.clouds.modal import service

    real = service.serve_call

    class Stream:
        def __init__(self, stream: Any, method: str) -> None:
            self.stream, self.method = stream, method

        def __getattr__(self, name: str) -> Any:
            return getattr(self.stream, name)

        async def send_message(self, reply: Any, **more: Any) -> None:
            if mutator.due(self.method):
                if mutator.kind == "html":
                    raise GRPCError(Status.UNKNOWN, HTML)
                if mutator.kind == "cut":
                    await self.stream.cancel()
                    return
                reply = in_message(reply, mutator.kind, mutator.draw, mutator.tell)
            await self.stream.send_message(reply, **more)

    async def serve(store: Any, method: str, known: Any, stream: Any) -> None:
        await real(store, method, known, Stream(stream, method))

    monkeypatch.setattr(service, "serve_call", serve)


TAPS = {"gcp": tap_gcp, "vertex": tap_gcp, "aws": tap_aws, "clore": tap_clore, "modal": tap_modal}
"""By adapter; what serves Compute Engine serves Vertex AI, too."""
