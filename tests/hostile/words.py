"""What attackers and accidents put into a field: shell, YAML and header injection, odd Unicode,
huge and hollow values.
"""

from typing import Any

from hypothesis import strategies as st

SHELL = (
    "$(touch CANARY)",
    "`touch CANARY`",
    "; touch CANARY;",
    "x && touch CANARY",
    "x\ntouch CANARY\n",
    "x' ; touch CANARY ; '",
    'x" ; touch CANARY ; "',
    "${IFS}touch${IFS}CANARY",
    "| touch CANARY",
    "<(touch CANARY)",
    "x\\' ; touch CANARY #",
    "--privileged -v /:/host x; touch CANARY",
    "'\"'\"'; touch CANARY; '",
    "EOF\ntouch CANARY\nEOF",
    "%0atouch CANARY",
)
YAML = (
    "!!python/object/apply:os.system ['touch CANARY']",
    "&a [*a]",
    "{{7*7}}",
    "- - -",
    "key: value",
    "a: {b: c}\n---\nx: y",
    "<<: *x",
    "| \n x",
)
HEADERS = (
    "x\r\nHost: evil",
    "x\r\n\r\n<html>",
    "x\nAuthorization: Bearer y",
    "x\r\nContent-Length: 0\r\n\r\nPOST / HTTP/1.1",
)
ODD = (
    "",
    " ",
    "\t",
    "\x00",
    "a\x00b",
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "\x9b2J",
    "a\rb",
    "a\x08b",
    "\u2066evil\u2069",
    "\u2028line",
    "\u202egnp.exe",
    "\ufeffgpu",
    "ﬀ",
    "İ",
    "\ud7ff",
    "𝐇𝟏𝟎𝟎",
    "h\u0301",
    "🦄" * 9,
    "٣",
    "½",
    "-",
    "--",
    ".",
    "..",
    "../../etc/passwd",
    "/",
    "\\",
    "a" * 5_000,
    "null",
    "nan",
    "inf",
    "-0",
    "1e999",
    "1e5000",
    "1e99999",
    "-1e99999",
    "1e-99999",
    "0e99999",
    "9" * 5_000,
    "16/1e400",
    "22:1e99999",
    "1e99999h",
    "H100:1e99999",
    "sNaN",
    "0x10",
    "1_000",
    "H100:8:8",
    "H100:٣",
    "H100:0",
    "H100:-1",
    "H100:99999999999999999999",
    "H100!!:8",
    ":8",
    "!:8",
    "reservation(x; touch CANARY)",
    "reservation()",
    "%s%n%d",
    "{0}{name}",
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
)
TEXTS = st.one_of(st.sampled_from((*SHELL, *YAML, *HEADERS, *ODD)), st.text(max_size=40))
NUMBERS = st.one_of(
    st.integers(-3, 70_000),
    st.integers(),
    st.floats(),
    st.sampled_from(
        [
            0,
            -1,
            1,
            2**31,
            2**63,
            2**64,
            10**30,
            0.1,
            1e-300,
            1e300,
            float("inf"),
            float("nan"),
            True,
            False,
        ]
    ),
)


def nest(depth: int, inner: Any = None) -> Any:
    """A list in a list, so many times."""
    for _ in range(depth):
        inner = [inner]
    return inner


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.sampled_from([60, 300]).map(nest)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
