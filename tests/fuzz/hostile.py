"""Values that an API server accepts and a careless reader does not survive.

Each function takes a generator of chance and returns one value. `Raw` is JSON text as it stands: a number or
a depth that `json` of this language would not write.
"""

from random import Random
from typing import Final, TypeAlias

from msgspec import Raw

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | Raw | None"
JsonObject: TypeAlias = "dict[str, Json]"

ANNOTATIONS_BYTES: Final = 256 * 1024
"""All annotations of an object together, keys and values (the API server's limit)."""

DEPTH: Final = 3_000
"""Levels of an unknown field. The API server takes 10,000."""

TEXTS: Final = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe",
    "\u2066\u2069\u200b\ufeff",
    "\U0001f4a5" * 3,
    "e\u0301\u0327",
    "\ud7ff\ue000\uffff",
    "\r\n\t",
    "'; drop table pod; --",
    "../../etc/passwd",
    "%s%n{0}{x!r}",
    "${jndi:ldap://x}",
    "<script>alert(1)</script>",
    "null",
    "NaN",
    "Infinity",
    "-0",
    "0x10",
    "1e400",
    "1e-400",
    "1e999999999",
    "+1",
    "1_000",
    "٣",
    "¹",
    "1/0",
    "/",
    "///",
    "|",
    "A|A|A",
    "default",
    "root",
    "true",
    "yes",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1" + "0" * 40,
    "1E",
    "1Ei",
    "999999999999E",
    "0.0000000000000000001",
    "1n",
    "1u",
    "1m",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "1970-01-01T00:00:00.999999999999999999999Z",
    "2026-02-30T00:00:00Z",
    "1h2m3s",
    "-1h",
    "1e9h",
    "999999999999h",
    ".h",
    "µs",
)
"""Short texts, each strange in its way."""

PATTERNS: Final = (
    "^(a+)+$",
    "(a|a)*b",
    "(?:a?){64}a{64}",
    "a{1000}{1000}",
    "(?=a)",
    r"\1",
    "[",
    "(?P<",
)

QUANTITIES: Final = (
    *(
        "0",
        "-1",
        "1m",
        "0.1",
        "1e3",
        "1E",
        "100n",
        "1.5Gi",
        ".5",
        "5.",
        "+2",
        "1e-9",
        "1e18",
        "1e19",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "8Ei",
        "1e300",
        "1e400",
    ),
    *(
        "0.000000000000000000001",
        "1e-400",
        "12345678901234567890123456789Ki",
        "99999999E",
        "-0",
        "1Mi",
    ),
)

NUMBERS: Final = (
    *(0, -1, 1, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(10**9, 10**9 + 1, 2_000_000_000, 1_000_000),
)

JSON_TEXTS: Final = (
    *(
        "{}",
        "[]",
        "null",
        "0",
        '""',
        "{",
        "[{",
        '{"a"',
        '{"a":}',
        "{'a':1}",
        '{"a":1,"a":2}',
        "[1]",
    ),
    *('{"H200":-1}', '{"H200":1e400}', '{"H200":NaN}', '{"H200":"1"}', '{"H200":1.5}', '{"":1}'),
    *('{"H200":{"H200":1}}', '{"H200":9223372036854775808}', '{"H200|4090":1}', '{"\\u0000":1}'),
    *('{"H200":true}', '{"H200":null}', '{"\\ud800":1}', "\ufeff{}"),
)
"""JSON in an annotation, and what is nearly that."""


def text(chance: Random) -> str:
    """Any text: mostly short, now and then very long."""
    at = chance.random()
    if at < 0.75:
        return chance.choice(TEXTS)
    if at < 0.85:
        return chance.choice(TEXTS) + chance.choice(TEXTS)
    if at < 0.93:
        return "".join(chr(_code_point(chance)) for _ in range(chance.randrange(1, 40)))
    if at < 0.96:
        return chance.choice(PATTERNS)
    return long_text(chance)


def long_text(chance: Random) -> str:
    """A text of up to 250,000 characters."""
    size = chance.choice((300, 1_100, 4_400, 9_000, 40_000, 100_000, 250_000))
    unit = chance.choice(
        ("1", "9", "a", "[", "{", '{"a":', "(", "1h", ",", "|", "/", "\x00", "é", "0", "-")
    )
    return unit * (size // len(unit)) + chance.choice(("", "h", "x", "Gi", "]", "$"))


def json_text(chance: Random) -> str:
    """JSON in an annotation, well made, badly made, or too deep."""
    at = chance.random()
    if at < 0.85:
        return chance.choice(JSON_TEXTS)
    size = chance.choice((900, 1_100, 5_000, 100_000))
    if at < 0.9:
        return "[" * size
    if at < 0.93:
        return "[" * size + "]" * size
    if at < 0.96:
        return '{"H200":' + "9" * size + "}"
    return "{" + ",".join(f'"card-{index}":1' for index in range(size // 10)) + "}"


def quantity(chance: Random) -> Json:
    """An amount, as text or as a number."""
    at = chance.random()
    if at < 0.85:
        return chance.choice(QUANTITIES)
    if at < 0.92:
        return number(chance)
    digits = chance.choice((19, 30, 400, 4_301, 5_000, 60_000))
    return "9" * digits + chance.choice(("", "m", "Ki", "E", "e5", "."))


def number(chance: Random) -> Json:
    """A whole number, mostly within 64 bits."""
    at = chance.random()
    if at < 0.9:
        return chance.choice(NUMBERS)
    if at < 0.95:
        return chance.choice((0.5, -0.0, 1e308, 5e-324, 1e19))
    return Raw(
        chance.choice((b"1e400", b"-1e400", b"9" * 5_000, b"-0", b"1e-400", b"9223372036854775808"))
    )


def nested(chance: Random) -> Raw:
    """A value of many levels, such as an unknown field may hold."""
    depth = chance.choice((100, 900, 1_100, DEPTH))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return Raw(opening * depth + b"1" + closing * depth)


def other_type(chance: Random) -> Json:
    """A value of a type that was not asked for."""
    few: list[Json] = [
        None,
        True,
        0,
        1.5,
        "text",
        [],
        {},
        [None],
        {"": None},
        [[]],
        [{}],
        {"a": {"b": []}},
    ]
    return few[chance.randrange(len(few))]


def _code_point(chance: Random) -> int:
    """Any character but a surrogate, which no API server sends."""
    at = chance.choice((0x20, 0x80, 0x300, 0x2000, 0xE000, 0x10000, 0x10FF00))
    return at + chance.randrange(0x60)
