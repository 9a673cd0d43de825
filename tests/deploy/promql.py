"""A parser for PromQL, as far as alerts and dashboard use it: it finds what is no query at all.

    expression = operand { operator [modifiers] operand }
    operand    = number | [-] operand | ( expression ) | aggregation | function | selector, then [range] or [range:step]

What it knows of functions and operators is in the tables below; what is in none of them is an error.
"""

import re
from typing import Final

DURATION: Final = re.compile(r"(\d+(ms|[smhdwy]))+|\$__rate_interval")
NUMBER: Final = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?")
NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
BLANK: Final = re.compile(r"\s*")

OPERATORS: Final = (
    *("==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "^"),
    *("and", "or", "unless"),
)
AGGREGATIONS: Final = ("sum", "max", "min", "avg", "count", "group", "topk", "bottomk")
SETS: Final = ("and", "or", "unless")

FUNCTIONS: Final = {
    "rate": ("range",),
    "increase": ("range",),
    "max_over_time": ("range",),
    "min_over_time": ("range",),
    "absent": ("instant",),
    "histogram_quantile": ("number", "instant"),
}
"""Function to what it takes."""


class NoQueryError(Exception):
    """The text is no query: it says where, and what was expected there."""


def kind_of(text: str) -> str:
    """What a query gives: `instant`, `range` or `number`. Raises NoQueryError."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def whole(self) -> str:
        kind = self.expression()
        if self.at < len(self.text):
            raise self.error("the end")
        return kind

    def error(self, expected: str) -> NoQueryError:
        return NoQueryError(f"{self.text[: self.at]} <-- {expected} --> {self.text[self.at :]}")

    def take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        after = BLANK.match(self.text, found.end())
        assert after is not None
        self.at = after.end()
        return found[0]

    def has(self, word: str) -> bool:
        end = r"\b" if word[-1].isalnum() else ""
        return self.take(re.compile(re.escape(word) + end)) is not None

    def need(self, word: str) -> None:
        if not self.has(word):
            raise self.error(word)

    def expression(self) -> str:
        kind = self.operand()
        while operator := next((one for one in OPERATORS if self.has(one)), None):
            is_bool = self.has("bool")
            if self.has("on") or self.has("ignoring"):
                self.labels()
                if self.has("group_left") or self.has("group_right"):
                    self.labels()
            right = self.operand()
            if "range" in (kind, right):
                raise self.error(f"no range beside {operator}")
            if operator in SETS and (is_bool or "number" in (kind, right)):
                raise self.error(f"two vectors beside {operator}")
            kind = "instant" if "instant" in (kind, right) else "number"
        return kind

    def operand(self) -> str:
        if self.has("-"):
            return self.operand()
        if self.has("("):
            kind = self.expression()
            self.need(")")
        elif self.take(NUMBER):
            return "number"
        else:
            kind = self.named()
        if self.has("["):
            return self.range(kind)
        return kind

    def range(self, kind: str) -> str:
        if kind != "instant" or not self.take(DURATION):
            raise self.error("a range of a vector")
        if self.has(":"):
            self.take(DURATION)
        self.need("]")
        return "range"

    def named(self) -> str:
        if self.has("{"):
            self.matchers()
            return "instant"
        name = self.take(NAME)
        if name is None:
            raise self.error("an operand")
        if name in AGGREGATIONS:
            return self.aggregation(name)
        if name in FUNCTIONS:
            return self.function(name)
        if name in (*OPERATORS, "by", "without", "on", "ignoring", "bool"):
            raise self.error(f"a metric, not {name}")
        if self.text[self.at : self.at + 1] == "(":
            raise self.error(f"a function that is known, not {name}")
        if self.has("{"):
            self.matchers()
        return "instant"

    def aggregation(self, name: str) -> str:
        is_grouped = self.grouping()
        self.need("(")
        if name in ("topk", "bottomk"):
            if self.expression() != "number":
                raise self.error("a number")
            self.need(",")
        if self.expression() != "instant":
            raise self.error("a vector")
        self.need(")")
        if not is_grouped:
            self.grouping()
        return "instant"

    def grouping(self) -> bool:
        if self.has("by") or self.has("without"):
            self.labels()
            return True
        return False

    def function(self, name: str) -> str:
        self.need("(")
        for index, wanted in enumerate(FUNCTIONS[name]):
            if index:
                self.need(",")
            if self.expression() != wanted:
                raise self.error(f"before this, a {wanted} for {name}")
        self.need(")")
        return "instant"

    def labels(self) -> None:
        self.need("(")
        while self.take(NAME):
            if not self.has(","):
                break
        self.need(")")

    def matchers(self) -> None:
        while self.take(NAME):
            if not any(self.has(one) for one in ("=~", "!~", "!=", "=")):
                raise self.error("a comparison of a label")
            if not self.take(STRING):
                raise self.error("a text")
            if not self.has(","):
                break
        self.need("}")
