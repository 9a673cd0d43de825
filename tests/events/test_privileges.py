"""The table of privileges, and that the code reads no key outside of it."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import projections.fault_options as fault_options
import projections.job_option_keys as job_option_keys
from events.privileges import (
    FORMS,
    OTHER_NAMES,
    PREFIXES,
    ROWS,
    SET,
    USE,
    WRITERS,
    Privilege,
    fixed_keys,
)
from features.table import FEATURES
from projections.device_family import DeviceFamily
from projections.owners import INHERITED
from tests.checkout import ROOT, short, tracked

PACKAGES: Final = ("daemon", "engine", "events", "features", "projections", "replay", "scheduling")
KEY: Final = re.compile(r"[a-z0-9][a-z0-9.-]*\.[a-z]{2,}/[A-Za-z0-9][A-Za-z0-9_.: -]*")
API_VERSION: Final = re.compile(r".*/v\d+(alpha\d+|beta\d+)?")
CONTAINERS: Final = ("annotations", "labels", "label_of")
EXEMPT: Final = {
    "events/privileges.py": "the table itself",
    "replay/redaction.py": "keys of other programs, too: it hides what they hold",
}
GENERIC: Final = {
    "keys of a tuple that is in the table": (
        "projections/device_families.py:_stated",
        "projections/device_families.py:assignments_of",
        "projections/device_families.py:is_confirmed",
        "projections/device_families.py:node_annotations",
        "projections/device_family.py:concerns_node",
        "projections/fault_options.py:stated_options",
        "projections/group_fault_options.py:fault_options",
        "projections/owners.py:put_owner",
        "projections/pod_annotations.py:_group_name",
        "projections/pods.py:metadata_facts",
        "projections/job_option_keys.py:job_option_keys",
        "projections/volumes/facts.py:_zones",
        "features/ascend/inventory.py:_place",
        "features/ascend/ascend_chips.py:assigned",
        "features/gpu_shares/device_family.py:assigned",
        "features/ascend/virtual_npus.py:assigned",
    ),
    "labels that a selector, a term or the policy names": (
        "projections/policy/namespace_rule.py:permits",
        "projections/pod_class.py:class_key",
        "projections/pod_terms.py:_narrowed",
        "projections/pod_terms.py:pod_terms",
        "projections/pod_terms.py:selects",
        "projections/policy/pools.py:has_node",
        "projections/selector.py:matches",
        "projections/tenants.py:put",
        "scheduling/explain/nodes.py:obstacle_of",
        "scheduling/label_domains.py:_read_node",
        "scheduling/unschedulable.py:unlike_labels",
    ),
    "labels of nodes that end in `.product`, and those beside them": (
        "scheduling/device_families/whole_cards.py:_shared_name",
        "scheduling/device_families/whole_cards.py:discover",
    ),
    "nothing is decided by it": (
        "daemon/queries/usage.py:_names_of_pods",
        "daemon/queries/usage.py:name_of",
        "projections/views/now.py:_label",
    ),
    "no key of an object": (
        "daemon/settings.py:read_settings",
        "projections/snapshot.py:facts",
        "scheduling/label_domains.py:_count",
        "features/leaf_switches/placement.py:place",
    ),
}
"""What keys these are, to the functions that read keys which are no constants."""

KNOWN: Final = {row.key for row in ROWS} | OTHER_NAMES.keys() | PREFIXES.keys()
SOURCES: Final = [
    path
    for path in tracked(".py")
    if path.relative_to(ROOT).parts[0] in PACKAGES and short(path) not in EXEMPT
]


def texts(path: Path) -> Iterator[str]:
    """The string constants of a module that are no docstrings and have the form of a key."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if KEY.fullmatch(text) and not API_VERSION.fullmatch(text):
                yield text


def is_known(text: str) -> bool:
    """Whether a text is in the table."""
    return text in KNOWN


def reads(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """The functions that read a key of annotations or labels, and the keys."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[key, *_]):
                        pass
                    case ast.Subscript(value=value, slice=key, ctx=ast.Load()):
                        pass
                    case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[value]):
                        pass
                    case _:
                        continue
                if is_container(value):
                    yield function.name, key


def is_container(value: ast.expr) -> bool:
    """Whether an expression is annotations or labels."""
    match value:
        case ast.BoolOp(values=[first, *_]):
            return is_container(first)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.endswith(CONTAINERS)
        case _:
            return False


def resolved(path: Path, key: ast.expr) -> str | None:
    """The text of a key that is a constant; None for another."""
    module = importlib.import_module(short(path).removesuffix(".py").replace("/", "."))
    match key:
        case ast.Constant(value=str(text)):
            return text or None
        case ast.Name(id=name):
            found = getattr(module, name, None)
        case ast.Attribute(value=ast.Name(id=within), attr=name):
            found = getattr(getattr(module, within, None), name, None)
        case _:
            return None
    return found if isinstance(found, str) else None


def test_no_text_with_the_form_of_a_key_is_outside_the_table() -> None:
    found = [f"{short(path)}: {text}" for path in SOURCES for text in texts(path)]
    assert [one for one in found if not is_known(one.partition(": ")[2])] == []


def test_no_key_is_read_that_is_not_in_the_table() -> None:
    unknown, generic = [], set()
    for path in SOURCES:
        for function, key in reads(path):
            text = resolved(path, key)
            if text is None:
                generic.add(f"{short(path)}:{function}")
            elif not is_known(text):
                unknown.append(f"{short(path)}:{function} reads {text}")
    assert unknown == []
    assert sorted(generic) == sorted(one for named in GENERIC.values() for one in named)


def listed() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Tuples of keys that generic readers read."""
    yield "pool options", (*job_option_keys.OWN, *job_option_keys.DETERMINED)
    yield "fault options", (*fault_options.LABELS, *fault_options.ANNOTATIONS)
    yield "annotations of owners", INHERITED
    yield (
        "plugins",
        tuple(label for one in FEATURES.policy_table.plugins.values() for label in one.pod_labels),
    )
    for family in FEATURES.of(DeviceFamily):
        name = family.name
        stated = (*family.pod_options, *family.group_options, *family.pod_assignments)
        confirmed = tuple(one for one in (family.confirmation, family.unconfirming_label) if one)
        yield f"device family {name}", (*stated, *family.node_annotations, *confirmed)


@pytest.mark.parametrize(
    ("name", "keys"), [*listed()], ids=lambda one: one if isinstance(one, str) else ""
)
def test_no_list_of_keys_has_one_outside_the_table(name: str, keys: tuple[str, ...]) -> None:
    assert [key for key in keys if not is_known(key)] == [], name


def test_what_a_pod_requests_of_devices_is_fixed_when_it_is_bound() -> None:
    options = {key for family in FEATURES.of(DeviceFamily) for key in family.pod_options}
    # The minimum of its group and the strategy after a fault are no requests.
    assert options - set(fixed_keys()) == {"huawei.com/schedule_minAvailable", "subHealthyStrategy"}


def test_what_says_which_devices_a_pod_has_needs_the_right_to_set_it() -> None:
    given = {key for family in FEATURES.of(DeviceFamily) for key in family.pod_assignments}
    privileged = {row.key for row in ROWS if row.verb == SET}
    # The rank concerns the pods of one job.
    assert given - privileged == {"hccl/rankIndex"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_every_row_says_who_writes_it_and_what_bounds_what_it_can_do(row: Privilege) -> None:
    assert row.form in FORMS
    assert row.kinds
    assert row.writers
    assert set(row.writers) <= set(WRITERS)
    assert row.effect
    assert row.bound or not row.others
    assert row.verb in ("", SET, USE)
    assert (row.verb == USE) == bool(row.resource)
    assert row.others or row.verb != USE


def test_no_key_is_in_the_table_twice() -> None:
    keys = [row.key for row in ROWS]
    assert sorted({key for key in keys if keys.count(key) > 1}) == []


def test_a_key_that_is_read_and_not_in_the_table_is_found(tmp_path: Path) -> None:
    module = tmp_path / "reading.py"
    module.write_text(
        'NEW = "muster.sh/new"\ndef read(annotations, labels):\n'
        '    return annotations.get(NEW) or labels["plain"] or "plain" in (annotations or {})\n'
    )
    assert [*texts(module)] == ["muster.sh/new"]
    assert not is_known("muster.sh/new")
    assert [ast.unparse(key) for _, key in reads(module)] == ["NEW", "'plain'", "'plain'"]
