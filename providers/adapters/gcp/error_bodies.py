"""What an operation's errors and a refused call's body say: codes, details, the quota that is used
up. Owns their shape; judges nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Quota(NamedTuple):
    """`quotaInfo` of an error. `region` is empty for a limit that counts everywhere; None when the
    error does not say.
    """

    metric: str
    limit_name: str
    limit: str
    region: str | None


def _details(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    for detail in entry.get("errorDetails") or ():
        if isinstance(detail, dict) and isinstance(detail.get(key), dict):
            found: Mapping[str, Any] = detail[key]
            return found
    return {}


def info_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """`errorInfo` of one error; empty without it."""
    return _details(entry, "errorInfo")


def metadatas_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """`errorInfo.metadatas` of one error, as texts."""
    return {str(key): str(value) for key, value in (info_of(entry).get("metadatas") or {}).items()}


def quota_of(entry: Mapping[str, Any]) -> Quota | None:
    """`quotaInfo` of one error; None without it."""
    info = _details(entry, "quotaInfo")
    if not info:
        return None
    metric = str(info.get("metricName") or "")
    region = str((info.get("dimensions") or {}).get("region") or "")
    limit = info.get("limit")
    shown = "" if limit is None else f"{limit:g}" if isinstance(limit, (int, float)) else str(limit)
    return Quota(metric, str(info.get("limitName") or ""), shown, region)


def body_of(content: bytes | str) -> tuple[list[str], str, Quota | None]:
    """(codes, most telling first; message; quota) of an HTTP error's body."""
    try:
        parsed = json.loads(content)
    except (ValueError, UnicodeDecodeError):
        return [], "an answer that is no JSON", None
    error = parsed.get("error") if isinstance(parsed, dict) else None
    if not isinstance(error, dict):
        return [str(error)] if isinstance(error, str) else [], "", None
    codes: list[str] = []
    quota: Quota | None = None
    for detail in error.get("details") or ():
        if isinstance(detail, dict):
            codes.append(str(detail.get("reason") or ""))
            entry = (
                detail
                if "quotaInfo" in detail
                else {"quotaInfo": detail}
                if "metricName" in detail
                else {}
            )
            quota = quota or (quota_of({"errorDetails": [entry]}) if entry else None)
    codes.extend(
        str(item.get("reason") or "")
        for item in error.get("errors") or ()
        if isinstance(item, dict)
    )
    return [code for code in codes if code], str(error.get("message") or ""), quota
