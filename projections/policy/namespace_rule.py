"""Which namespaces may use a queue or a pool: all, those of a list of names, those that a label selector selects.

Where both are stated, and where the policy and the Queue object both state something, all of it must hold. A namespace that
has not been observed has no labels: no selector selects it.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from events.errors import PolicyError
from events.limits import quoted
from projections.policy.policy_values import JsonObject, items_at, object_at, text_at
from projections.policy.requirement import Requirement

NAMES: Final = "muster.sh/namespaces"
"""Annotation of a Queue: names of namespaces, separated by commas."""
SELECTOR: Final = "muster.sh/namespace-selector"
"""Annotation of a Queue: a label selector as `kubectl get --selector` takes it."""
KEYS: Final = ("namespaces", "namespaceSelector")
"""Keys of the policy, of an entry of `queues` and of `pools`."""

NAMES_MAX: Final = 10_000
"""Namespaces that one rule names at most."""
REQUIREMENTS_MAX: Final = 100
"""Requirements of one selector at most."""
TEXT_CHARS_MAX: Final = 64 * 1024

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SPLIT: Final = re.compile(r",(?![^()]*\))")
_SET: Final = re.compile(r"([^\s!=(),]+)\s+(in|notin)\s*\(([^()]*)\)")
_PAIR: Final = re.compile(r"([^\s!=(),]+)\s*(==|=|!=)\s*([^\s!=(),]*)")
_BARE: Final = re.compile(r"(!?)\s*([^\s!=(),]+)")


class NamespaceRule(Struct, frozen=True):
    """The namespaces that may use a queue or a pool, as one place states them."""

    names: tuple[str, ...] | None = None
    """None: no names are stated."""
    requirements: tuple[Requirement, ...] | None = None
    """None: no selector is stated."""

    @property
    def is_open(self) -> bool:
        """Return whether all namespaces are permitted."""
        return self.names is None and self.requirements is None

    def permits(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        """Return whether a namespace is permitted; `labels` is None if it has not been observed."""
        if self.names is not None and namespace not in self.names:
            return False
        if self.requirements is None:
            return True
        return labels is not None and all(
            one.matches(labels.get(one.key)) for one in self.requirements
        )

    @property
    def text(self) -> str:
        """Return the rule in a few words."""
        said: list[str] = []
        if self.names is not None:
            shown = ", ".join(self.names[:8]) or "none"
            rest = len(self.names) - 8
            said.append(f"named {shown}" + (f" and {rest} more" if rest > 0 else ""))
        if self.requirements is not None:
            shown = ",".join(requirement_text(one) for one in self.requirements)
            said.append(f"with labels {quoted(shown)}" if shown else "that have been observed")
        return " and ".join(said) or "all"


ALL_NAMESPACES: Final = NamespaceRule()
"""All namespaces are permitted."""
NO_NAMESPACE: Final = NamespaceRule(names=())
"""No namespace is permitted: what should say which are cannot be read."""


def read_namespace_rule(given: JsonObject, path: str) -> NamespaceRule:
    """Return the rule of an entry of the policy. Raise PolicyError, which names the path: a rule that is misread in part could
    permit too much."""
    names: tuple[str, ...] | None = None
    requirements: tuple[Requirement, ...] | None = None
    if "namespaces" in given:
        at = f"{path}.namespaces"
        listed = items_at(given["namespaces"], at)
        names = tuple([text_at(one, f"{at}[{index}]") for index, one in enumerate(listed)])
        if problem := _names_problem(names):
            raise PolicyError(f"{at}: {problem}")
    if "namespaceSelector" in given:
        at = f"{path}.namespaceSelector"
        requirements = _requirements_at(object_at(given["namespaceSelector"], at), at)
    return NamespaceRule(names, requirements)


def stated_rule(annotations: Mapping[str, str]) -> tuple[NamespaceRule, str]:
    """Return the rule that annotations of a Queue state, and what is wrong with them; what cannot be read permits no
    namespace."""
    if NAMES not in annotations and SELECTOR not in annotations:
        return ALL_NAMESPACES, ""
    names: tuple[str, ...] | None = None
    requirements: tuple[Requirement, ...] | None = None
    if NAMES in annotations:
        parts = annotations[NAMES][:TEXT_CHARS_MAX].split(",")
        names = tuple([one.strip() for one in parts if one.strip()])
        if problem := _names_problem(names):
            return NO_NAMESPACE, f"{NAMES}: {problem}; no namespace may use the queue"
    if SELECTOR in annotations:
        found = selector_requirements(annotations[SELECTOR])
        if isinstance(found, str):
            return NO_NAMESPACE, f"{SELECTOR}: {found}; no namespace may use the queue"
        requirements = found
    return NamespaceRule(names, requirements), ""


def selector_requirements(text: str) -> tuple[Requirement, ...] | str:
    """Return the requirements of a selector such as `team=ml,tier in (a,b),!trial`, or what is wrong with it."""
    if len(text) > TEXT_CHARS_MAX:
        return f"is longer than {TEXT_CHARS_MAX} characters"
    parts = [one.strip() for one in _SPLIT.split(text)] if text.strip() else []
    if len(parts) > REQUIREMENTS_MAX:
        return f"has more than {REQUIREMENTS_MAX} requirements"
    found: list[Requirement] = []
    for part in parts:
        one = _requirement(part)
        if one is None:
            return f"{quoted(part)} is no requirement of a label selector"
        found.append(one)
    return tuple(found)


def _requirement(part: str) -> Requirement | None:
    if match := _SET.fullmatch(part):
        values = tuple([value.strip() for value in match[3].split(",")])
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _PAIR.fullmatch(part):
        return Requirement(match[1], "NotIn" if match[2] == "!=" else "In", (match[3],))
    if match := _BARE.fullmatch(part):
        return Requirement(match[2], "DoesNotExist" if match[1] else "Exists")
    return None


def _names_problem(names: tuple[str, ...]) -> str:
    if not names:
        return "names no namespace"
    if len(names) > NAMES_MAX:
        return f"names more than {NAMES_MAX} namespaces"
    for name in names:
        if not _NAME.fullmatch(name):
            return f"{quoted(name)} is no name of a namespace"
    return ""


def _requirements_at(given: JsonObject, path: str) -> tuple[Requirement, ...]:
    for key in given:
        if key not in ("matchLabels", "matchExpressions"):
            raise PolicyError(f"{path}.{key}: expected matchLabels or matchExpressions")
    found: list[Requirement] = []
    pairs = object_at(given.get("matchLabels", {}), f"{path}.matchLabels")
    for key, value in sorted(pairs.items()):
        found.append(Requirement(key, "In", (text_at(value, f"{path}.matchLabels.{key}"),)))
    at = f"{path}.matchExpressions"
    for index, entry in enumerate(items_at(given.get("matchExpressions"), at)):
        one, where = object_at(entry, f"{at}[{index}]"), f"{at}[{index}]"
        for name in one:
            if name not in ("key", "operator", "values"):
                raise PolicyError(f"{where}.{name}: expected key, operator or values")
        operator = text_at(one.get("operator"), f"{where}.operator")
        if operator not in _OPERATORS:
            raise PolicyError(
                f"{where}.operator: {quoted(operator)} is not one of {', '.join(_OPERATORS)}"
            )
        listed = items_at(one.get("values"), f"{where}.values")
        values = tuple([text_at(value, f"{where}.values[{n}]") for n, value in enumerate(listed)])
        if bool(values) != (operator in ("In", "NotIn")):
            needs = "at least one value" if operator in ("In", "NotIn") else "no values"
            raise PolicyError(f"{where}.values: operator {operator} takes {needs}")
        found.append(Requirement(text_at(one.get("key"), f"{where}.key"), operator, values))
    if len(found) > REQUIREMENTS_MAX:
        raise PolicyError(f"{path}: more than {REQUIREMENTS_MAX} requirements")
    return tuple(found)


def requirement_text(one: Requirement) -> str:
    """Return a requirement as selectors are written."""
    if one.operator in ("Exists", "DoesNotExist"):
        return one.key if one.operator == "Exists" else f"!{one.key}"
    values = ",".join(one.values)
    return f"{one.key} {'in' if one.operator == 'In' else 'notin'} ({values})"
