"""The wire: requests read and answers written by botocore's own description of each service. Owns
the query and JSON protocols as a server sees them.

botocore knows how to write requests and read answers; this is the other half, for the operations
that are served. An operation, parameter or value that the description has not is refused with the
service's own kind of error; an answer that it has not is a fault of the stand-in.
"""

from __future__ import annotations

import datetime
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl
from xml.sax import saxutils

if TYPE_CHECKING:
    from collections.abc import Collection

Json = dict[str, Any]

_SIGNED = {
    "ec2": "ec2",
    "ssm": "ssm",
    "sts": "sts",
    "servicequotas": "service-quotas",
    "pricing": "pricing",
}
"""A signature's service name -> botocore's."""
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write, not even escaped (W3C, "Extensible Markup Language", 2.2)."""
_CREDENTIAL = re.compile(r"Credential=[^/]+/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")


class Refusal(Exception):
    """A call that is refused: an HTTP status, a code and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(code)


class Request(NamedTuple):
    """One call as read. `operation` is empty until it is known."""

    service: str
    region: str
    operation: str
    parameters: Json

    @property
    def method(self) -> str:
        """`ec2.RunInstances`: the name in the log and for faults."""
        return f"{self.service}.{self.operation}" if self.operation else "unknown"


@cache
def model(service: str) -> Any:
    """Botocore's description of a service, from its own files; no AWS setting of this machine is
    read for it.
    """
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    described = create_loader().load_service_model(service, "service-2")
    return ServiceModel(described, service_name=service)


def addressed(headers: Any) -> tuple[str, str]:
    """(service, region) of a call, by its signature. Raises Refusal for an unsigned one or an
    unknown service.
    """
    found = _CREDENTIAL.search(str(headers.get("Authorization") or ""))
    if found is None:
        raise Refusal(
            401, "AuthFailure", "AWS was not able to validate the provided access credentials"
        )
    service = _SIGNED.get(found[2])
    if service is None:
        raise Refusal(400, "InvalidAction", f"the rehearsal cloud has no service {found[2]}")
    return service, found[1]


def operation_of(service: str, served: Collection[str], headers: Any, payload: bytes) -> str:
    """The operation that a call names. Raises Refusal for one that is not served."""
    if _is_json(service):
        name = str(headers.get("X-Amz-Target") or "").rpartition(".")[2]
    else:
        name = dict(parse_qsl(payload.decode(errors="replace"), keep_blank_values=True)).get(
            "Action", ""
        )
    if name not in served:
        raise Refusal(
            400,
            "InvalidAction",
            f"The action {name or '(none)'} is not valid for this web service.",
        )
    return name


def parameters(service: str, operation: str, payload: bytes) -> Json:
    """The parameters, nested, by botocore's names.
    Raises Refusal for what the description has not.
    """
    shape = model(service).operation_model(operation).input_shape
    if _is_json(service):
        try:
            given = json.loads(payload or b"{}")
        except ValueError:
            raise Refusal(400, "SerializationException", "the body is no JSON") from None
        return _from_json(shape, given, "")
    fields = dict(parse_qsl(payload.decode(errors="replace"), keep_blank_values=True))
    version = fields.pop("Version", "")
    fields.pop("Action", None)
    if version != model(service).api_version:
        raise Refusal(400, "InvalidParameterValue", f"Version {version} is not known")
    tree: Json = {}
    for key, value in fields.items():
        here = tree
        *path, last = key.split(".")
        for part in path:
            here = here.setdefault(part, {})
            if not isinstance(here, dict):
                raise Refusal(400, "InvalidParameterValue", f"{key} is given twice")
        here[last] = value
    out: Json = _from_query(shape, tree, "")
    return out


def answer(request: Request, body: Json) -> tuple[bytes, str]:
    """(content, content type) of an answer. Raises ValueError for a body that the description has
    not.
    """
    shape = model(request.service).operation_model(request.operation).output_shape
    if _is_json(request.service):
        _to_json(shape, body, request.operation)
        return json.dumps(body).encode(), "application/x-amz-json-1.1"
    inner = _to_xml(shape, body, request.operation) if shape is not None else ""
    if request.service == "ec2":
        return (
            _document(
                f"{request.operation}Response",
                f"<requestId>{_request_id()}</requestId>{inner}",
                model("ec2"),
            ),
            "text/xml;charset=UTF-8",
        )
    wrapped = (
        f"<{request.operation}Result>{inner}</{request.operation}Result>"
        f"<ResponseMetadata><RequestId>{_request_id()}</RequestId></ResponseMetadata>"
    )
    return _document(f"{request.operation}Response", wrapped, model(request.service)), "text/xml"


def refused(service: str, refusal: Refusal) -> tuple[bytes, str]:
    """(content, content type) of an error."""
    code, message = printable(refusal.code), printable(refusal.message)
    if service and _is_json(service):
        return (
            json.dumps({"__type": refusal.code, "message": refusal.message}).encode(),
            "application/x-amz-json-1.1",
        )
    if service == "sts":
        text = (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code>"
            f"<Message>{message}</Message></Error></ErrorResponse>"
        )
        return text.encode(), "text/xml"
    inner = (
        f"<Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        f"<RequestID>{_request_id()}</RequestID>"
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Response>{inner}</Response>'.encode(),
        "text/xml;charset=UTF-8",
    )


def timestamp(moment: float) -> str:
    """`2026-11-27T10:00:00.000Z`."""
    return datetime.datetime.fromtimestamp(moment, tz=datetime.UTC).strftime(
        "%Y-%m-%dT%H:%M:%S.000Z"
    )


def _is_json(service: str) -> bool:
    return bool(model(service).metadata["protocol"] == "json")


def _request_id() -> str:
    import uuid

    return str(uuid.uuid4())


def _document(name: str, inner: str, service_model: Any) -> bytes:
    namespace = service_model.metadata.get("xmlNamespace", "")
    declared = '<?xml version="1.0" encoding="UTF-8"?>'
    return f'{declared}\n<{name} xmlns="{namespace}">{inner}</{name}>'.encode()


# Reading


def _query_name(shape: Any, name: str) -> str:
    """The name on the wire of a member: botocore's own rule (EC2Serializer)."""
    if "queryName" in shape.serialization:
        return str(shape.serialization["queryName"])
    given = str(shape.serialization.get("name") or name)
    return given[0].upper() + given[1:]


def _from_query(shape: Any, tree: Any, path: str) -> Any:
    if shape is None:
        if tree:
            raise Refusal(
                400, "UnknownParameter", f"The parameter {next(iter(tree))} is not recognized"
            )
        return {}
    if shape.type_name == "structure":
        if not isinstance(tree, dict):
            raise Refusal(
                400, "InvalidParameterValue", f"Value ({tree}) for parameter {path} is invalid."
            )
        names = {_query_name(member, name): name for name, member in shape.members.items()}
        out: Json = {}
        for key, value in tree.items():
            if key not in names:
                raise Refusal(
                    400,
                    "UnknownParameter",
                    f"The parameter {f'{path}.{key}' if path else key} is not recognized",
                )
            out[names[key]] = _from_query(
                shape.members[names[key]], value, f"{path}.{key}" if path else key
            )
        for name in shape.required_members:
            if name not in out:
                raise Refusal(
                    400,
                    "MissingParameter",
                    f"The request must contain the parameter {f'{path}.{name}' if path else name}",
                )
        return out
    if shape.type_name == "list":
        if not isinstance(tree, dict) or not all(key.isdigit() for key in tree):
            raise Refusal(400, "InvalidParameterValue", f"Value for parameter {path} is no list.")
        return [
            _from_query(shape.member, tree[key], f"{path}.{key}") for key in sorted(tree, key=int)
        ]
    if isinstance(tree, dict):
        raise Refusal(400, "InvalidParameterValue", f"Value for parameter {path} has parts.")
    return _scalar(shape, tree, path)


def _scalar(shape: Any, text: str, path: str) -> Any:
    def wrong() -> Refusal:
        return Refusal(
            400, "InvalidParameterValue", f"Value ({text}) for parameter {path} is invalid."
        )

    kind = shape.type_name
    if kind == "boolean":
        if text not in ("true", "false"):
            raise wrong()
        return text == "true"
    if kind in ("integer", "long"):
        if not text.lstrip("-").isdigit():
            raise wrong()
        return int(text)
    if kind in ("double", "float"):
        try:
            return float(text)
        except ValueError:
            raise wrong() from None
    # Enumerations are checked, except of instance types: EC2 knows more of them than a client does.
    if kind == "string" and shape.enum and shape.name != "InstanceType" and text not in shape.enum:
        raise wrong()
    return text


def _from_json(shape: Any, given: Any, path: str) -> Json:
    if not isinstance(given, dict):
        raise Refusal(400, "SerializationException", "the body is no object")
    for key in given:
        if key not in shape.members:
            raise Refusal(400, "SerializationException", f"{path}{key} is not recognized")
    for name in shape.required_members:
        if name not in given:
            raise Refusal(400, "ValidationException", f"{name} is missing")
    return dict(given)


# Writing


def _to_xml(shape: Any, value: Any, path: str) -> str:
    kind = shape.type_name
    if kind == "structure":
        if not isinstance(value, dict):
            raise ValueError(f"{path}: wanted a structure, made {value!r}")
        unknown = set(value) - set(shape.members)
        if unknown:
            raise ValueError(f"{path}: the description has no {', '.join(sorted(unknown))}")
        parts = []
        for name, member in shape.members.items():
            if value.get(name) is None:
                continue
            tag = str(member.serialization.get("name", name))
            parts.append(f"<{tag}>{_to_xml(member, value[name], f'{path}.{name}')}</{tag}>")
        return "".join(parts)
    if kind == "list":
        tag = str(
            shape.member.serialization.get(
                "name", "item" if shape.serialization.get("name") else "member"
            )
        )
        return "".join(
            f"<{tag}>{_to_xml(shape.member, item, f'{path}[]')}</{tag}>" for item in value
        )
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "timestamp":
        return timestamp(float(value))
    if kind in ("integer", "long") and not isinstance(value, int):
        raise ValueError(f"{path}: wanted a whole number, made {value!r}")
    return printable(str(value))


def printable(text: str) -> str:
    """The text as XML has it; what it cannot write, as ESC, stands as U+FFFD."""
    return saxutils.escape(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _to_json(shape: Any, value: Any, path: str) -> None:
    if shape.type_name == "structure":
        for key, item in value.items():
            if key not in shape.members:
                raise ValueError(f"{path}: the description has no {key}")
            _to_json(shape.members[key], item, f"{path}.{key}")
