"""What muster may ask of an API server is what it asks, and nothing else."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from daemon.cluster.client import calls
from daemon.cluster.client.calls import CALLS, Call
from daemon.cluster.client.rbac import (
    NAME,
    WHY,
    cluster_rules,
    namespace_rules,
    own_rules,
    table,
    target,
)
from tests.checkout import ROOT, short, tracked

TABLE = "daemon/cluster/client/calls.py"
DAEMON = [path for path in tracked(".py") if short(path).startswith("daemon/")]
TREES = {short(path): ast.parse(path.read_text(encoding="utf-8")) for path in DAEMON}


def names() -> dict[str, Call]:
    """The constants of the table that are one call."""
    return {name: value for name, value in vars(calls).items() if isinstance(value, Call)}


def used(name: str) -> bool:
    """Whether some other module of the daemon does something with a constant, beyond importing it."""
    nodes = (node for place, tree in TREES.items() if place != TABLE for node in ast.walk(tree))
    return any(isinstance(node, ast.Name) and node.id == name for node in nodes)


def called(name: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls of a function or a method of this name, and where they are."""
    for place, tree in TREES.items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=found) | ast.Attribute(attr=found)):
                    if found == name:
                        yield place, node
                case _:
                    pass


def knows_calls(place: str) -> bool:
    """Whether a module's `Call` is that of the table: the simulated cluster has one of its own."""
    found = [node for node in ast.walk(TREES[place]) if isinstance(node, ast.ImportFrom)]
    tables = [node for node in found if node.module == "daemon.cluster.client.calls"]
    return any(alias.name == "Call" for node in tables for alias in node.names)


def test_what_is_made_from_the_code_is_fresh() -> None:
    result = subprocess.run(
        [sys.executable, "deploy/generate.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", [*names(), "LIST", "WATCH"])
def test_every_call_of_the_table_is_made_somewhere(name: str) -> None:
    """Rule K15.3: minimal; a verb that nothing uses has no place in a role."""
    assert used(name)


def test_every_call_that_has_a_name_is_in_the_table() -> None:
    """Rule K15.3: what is missing there is forbidden on a cluster, and found out too late."""
    tables = (calls.LIST, calls.WATCH, calls.PATCH_CONFIG_MAP, calls.CREATE_CONFIG_MAP)
    every = [*names().values(), *(one for table in tables for one in table.values())]
    assert [call.what for call in every if call not in CALLS] == []
    assert len(set(CALLS)) == len(CALLS) == len(every)


def test_a_call_is_made_up_nowhere_but_in_the_table() -> None:
    assert {place for place, _ in called("Call") if place == TABLE or knows_calls(place)} == {TABLE}


def test_only_the_client_speaks_http_to_the_outside() -> None:
    """The wrapper is the only place that calls the client."""
    sessions = {place for place, _ in called("ClientSession")}
    assert sessions
    assert {place.rpartition("/")[0] for place in sessions} == {"daemon/cluster/client"}


def test_what_is_asked_without_a_call_is_open_to_everyone() -> None:
    """`Client.get` takes a path; of these, `system:discovery` allows what is asked of it."""
    asked = [
        (place, ast.unparse(node.args[0]))
        for place, node in called("get")
        if node.args and not place.startswith("daemon/serving/")
    ]
    paths = [(place, path) for place, path in asked if re.match(r"f?['\"]/", path)]
    assert [one for one in paths if not re.match(r"f?['\"]/(version|apis?)\b", one[1])] == []


def test_no_rule_has_a_wildcard_or_names_secrets() -> None:
    """Rule K15.3: no Secrets and no wildcards."""
    words = [
        word
        for rules in (cluster_rules(), own_rules(), *namespace_rules().values())
        for rule in rules
        for word in (rule.group, *rule.resources, *rule.verbs, *rule.names)
    ]
    assert [word for word in words if "*" in word or "secret" in word] == []


def test_the_rules_say_every_call_once_and_nothing_more() -> None:
    """Rule K15.3, both ways: what the rules allow is exactly what the calls ask."""
    allowed = [
        (scope, rule.group, resource, verb)
        for scope, rules in (
            ("cluster", cluster_rules()),
            ("own", own_rules()),
            *namespace_rules().items(),
        )
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
    ]
    asked = {(call.scope, call.resource.group, target(call), call.verb) for call in CALLS}
    assert sorted(allowed) == sorted(asked)


def test_only_our_own_lease_may_be_read_and_written() -> None:
    """Rule K15.3: leases in our namespace: create, and get/update for our name."""
    named = {rule.verbs: rule.names for rule in own_rules()}
    assert named == {("create",): (), ("get", "update"): (NAME,)}


def test_a_pod_is_neither_created_nor_replaced() -> None:
    """K15.3: muster patches the status of pods, and their annotations if a device plugin reads them before the binding.
    It deletes pods only after faults, where the job or the policy wants it."""
    verbs = {call.verb for call in CALLS if target(call) == "pods"}
    assert verbs == {"list", "watch", "get", "patch", "delete"}


def test_every_resource_has_its_reason_and_every_reason_its_resource() -> None:
    assert {row[1] for row in table()} == set(WHY)
