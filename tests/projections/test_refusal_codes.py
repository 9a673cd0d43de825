"""Every code of a refusal stands in one table, which says whether another node would let the pods run."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections.refusals import REFUSAL_CODES, node_helps

ROOT = Path(__file__).parents[2]
CALLS = {"Unschedulable": 0, "Shortage": 0, "wait": 1}
"""What makes a refusal, and which argument is its code."""


def modules() -> list[Path]:
    """The modules that may refuse a pod group."""
    return sorted(
        one
        for name in ("projections", "scheduling", "features")
        for one in (ROOT / name).rglob("*.py")
    )


def constants() -> dict[str, str]:
    """The names that stand for texts, in all modules."""
    found: dict[str, str] = {}
    for path in [*modules(), *(ROOT / "events").rglob("*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))):
                    found[name] = text
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                    found[name] = text
                case _:
                    pass
    return found


def codes_in(tree: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """The codes of the refusals that a module makes."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in CALLS:
                given = node.args[CALLS[called] :][:1]
                yield from (text for one in given for text in texts_of(one, names))
            case (
                ast.keyword(arg="code", value=value)
                | ast.Assign(targets=[ast.Name(id="code" | "codes")], value=value)
            ):
                texts = (text for one in ast.walk(value) for text in texts_of(one, names))
                yield from (one for one in texts if one.isupper() or is_code(one))
            case ast.Return(
                value=ast.Tuple(elts=[first, _]) | ast.IfExp(body=ast.Tuple(elts=[first, _]))
            ):
                yield from (one for one in texts_of(first, names) if is_code(one))
            case _:
                pass


def texts_of(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """The texts that an expression may be."""
    match node:
        case ast.Constant(value=str(text)) if text:
            yield text
        case ast.Name(id=name) if name in names:
            yield names[name]
        case ast.IfExp(body=one, orelse=other):
            yield from texts_of(one, names)
            yield from texts_of(other, names)
        case _:
            pass


def is_code(text: str) -> bool:
    """Whether a text that is returned with another one looks like a code: `CamelCase`."""
    return text.isalpha() and text[0].isupper() and not text.isupper() and text != text.capitalize()


OTHER_CODES = {"DEADLINE", "InvalidReport"}
"""Codes of records that refuse no pod group: a release whose time is over, a ConfigMap that cannot be read."""


def test_every_code_of_a_refusal_is_in_the_table() -> None:
    names = constants()
    found = {
        code: path.name
        for path in modules()
        for code in codes_in(ast.parse(path.read_text(encoding="utf-8")), names)
    }
    unseen = {"NotSupportPolicy"}
    assert REFUSAL_CODES.keys() - found == unseen, "the search no longer sees all codes"
    unknown = {code: name for code, name in found.items() if code not in REFUSAL_CODES}
    assert unknown.keys() == OTHER_CODES, "classify new codes in projections/refusals.py"


@pytest.mark.parametrize(("stated", "answer"), [(None, False), (True, True), (False, False)])
def test_a_code_of_a_plugin_from_outside_asks_for_nodes_only_if_it_says_so(
    stated: bool | None, answer: bool
) -> None:
    assert node_helps("CodeOfAPluginFromOutside", stated) is answer
    assert node_helps("NotEnoughResources", None)
