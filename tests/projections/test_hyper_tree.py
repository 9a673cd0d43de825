"""The tree of HyperNodes follows every change, and says what of it cannot be used."""

from hypothesis import given, settings
from hypothesis import strategies as st

from projections.hyper_nodes import HyperNodeFacts, HyperNodeObject, hyper_node_facts
from projections.hyper_tree import CIRCULAR, TIERS, TWO_PARENTS, HyperTree, circular
from projections.objects import read

NODES = {"n1": {"rack": "a"}, "n2": {"rack": "b"}, "n3": {"rack": "a"}}


def _facts(members: str, tier: int = 1) -> HyperNodeFacts:
    obj = read(
        HyperNodeObject,
        f'{{"metadata":{{"name":"h"}},"spec":{{"tier":{tier},"members":[{members}]}}}}'.encode(),
    )
    assert not isinstance(obj, str)
    return hyper_node_facts(obj)


def _tree(*facts: HyperNodeFacts) -> HyperTree:
    tree = HyperTree()
    for one in facts:
        tree.put(one, NODES.items())
    return tree


def _of(name: str, tier: int, *children: str, nodes: tuple[str, ...] = ()) -> HyperNodeFacts:
    return HyperNodeFacts(name=name, tier=tier, children=children, nodes=nodes)


def test_members_are_found_by_name_pattern_and_label() -> None:
    by_name = '{"type":"Node","selector":{"exactMatch":{"name":"n9"}}}'
    by_pattern = '{"type":"Node","selector":{"regexMatch":{"pattern":"2$"}}}'
    by_label = '{"type":"Node","selector":{"labelMatch":{"matchLabels":{"rack":"a"}}}}'
    everybody = '{"type":"Node","selector":{"labelMatch":{}}}'
    assert list(_tree(_facts(by_name)).below("h")) == ["n9"]
    assert list(_tree(_facts(by_pattern)).below("h")) == ["n2"]
    assert sorted(_tree(_facts(by_label)).below("h")) == ["n1", "n3"]
    assert sorted(_tree(_facts(f"{by_pattern},{by_label}")).below("h")) == ["n1", "n2", "n3"]
    assert sorted(_tree(_facts(everybody)).below("h")) == ["n1", "n2", "n3"]


def test_members_that_cannot_be_used_are_named_and_left_out() -> None:
    members = (
        '{"type":"Node","selector":{"regexMatch":{"pattern":"n("}}},'
        '{"type":"HyperNode","selector":{"regexMatch":{"pattern":"n"}}},'
        '{"type":"Rack","selector":{"exactMatch":{"name":"n"}}},'
        '{"type":"Node","selector":{}},'
        '{"type":"Node","selector":{"exactMatch":{"name":""}}},'
        '{"type":"Node","selector":{"regexMatch":{"pattern":""}}},'
        '{"type":"Node","selector":{"labelMatch":{"matchLabels":7}}},'
        '{"type":"Node","selector":{"exactMatch":{"name":"n1"}}}'
    )
    facts = _facts(members)
    assert facts.nodes == ("n1",)
    assert {code for code, _ in facts.faults} == {"InvalidHyperNodeMember"}
    assert [text.partition(":")[0] for _, text in facts.faults] == [
        f"spec.members[{index}]" for index in range(7)
    ]
    assert facts.faults[1][1] == (
        "spec.members[1]: a HyperNode is found by its exact name only; it is left out"
    )


def test_a_node_that_changes_its_labels_changes_its_domain() -> None:
    tree = _tree(_facts('{"type":"Node","selector":{"labelMatch":{"matchLabels":{"rack":"a"}}}}'))
    version = tree.version
    tree.update_node("n1", {"rack": "a"})
    assert tree.version == version
    tree.update_node("n1", {"rack": "b"})
    tree.update_node("n2", {"rack": "a"})
    tree.update_node("n3", None)
    assert list(tree.below("h")) == ["n2"]
    assert tree.above("n1") == []
    assert tree.above("n2") == ["h"]


def test_a_node_knows_its_domains_from_the_closest_up() -> None:
    tree = _tree(_of("z", 1, nodes=("n1",)), _of("a", 3, "m"), _of("m", 2, "z"))
    assert tree.above("n1") == ["z", "m", "a"]
    assert not tree.problem


def test_a_hypernode_cycle_is_reported_for_each_member_until_it_is_broken() -> None:
    tree = _tree(_of("a", 1, "b"), _of("b", 2, "c"), _of("c", 3, "a"), _of("d", 4, "e"))
    assert [code for code, _ in tree.faults_of("b")][:1] == [CIRCULAR]
    assert tree.faults_of("d") == ()
    assert tree.problem.startswith("HyperNode a is a member of itself, by way of others")
    tree.put(_of("c", 3), ())
    assert not tree.problem
    tree.put(_of("d", 4, "d"), ())
    assert tree.problem.startswith("HyperNode d is a member of itself: ")
    tree.drop("d")
    assert not tree.problem


def test_a_hypernode_with_two_parents_is_reported() -> None:
    tree = _tree(_of("a", 2, "x"), _of("b", 2, "x"))
    assert not tree.problem, "an absent node has no two parents"
    tree.put(_of("x", 1), ())
    assert [code for code, _ in tree.faults_of("x")] == [TWO_PARENTS]
    assert tree.problem.startswith("HyperNode x is a member of a and of b")
    tree.drop("b")
    assert not tree.problem
    assert tree.faults_of("x") == ()


def test_a_parent_of_no_higher_tier_is_reported_and_used() -> None:
    tree = _tree(_of("a", 1, "b"), _of("b", 1))
    assert tree.faults_of("b") == ((TIERS, "tier 1 is not below tier 1 of a, whose member it is"),)
    assert not tree.problem


def test_of_tiers_of_one_name_the_lowest_counts() -> None:
    tree = HyperTree()
    tree.put(HyperNodeFacts(name="a", tier=3, tier_name="rack"), ())
    tree.put(HyperNodeFacts(name="b", tier=2, tier_name="rack"), ())
    assert tree.tier_named("rack") == 2
    assert tree.tier_named("row") is None


NAMES = st.sampled_from("abcd")
CHANGES = st.lists(
    st.tuples(NAMES, st.none() | st.lists(NAMES, max_size=3, unique=True)), max_size=12
)


@settings(deadline=None)
@given(CHANGES)
def test_after_any_changes_the_tree_equals_a_rebuilt_one(
    changes: list[tuple[str, list[str] | None]],
) -> None:
    tree = HyperTree()
    for name, children in changes:
        if children is None:
            tree.drop(name)
        else:
            tree.put(_of(name, 1, *children, nodes=(f"n{name}",)), ())
    rebuilt = HyperTree()
    for facts in tree.facts.values():
        rebuilt.put(facts, ())
    assert (tree.parents, tree.nodes, tree.of_node) == (
        rebuilt.parents,
        rebuilt.nodes,
        rebuilt.of_node,
    )
    assert tree.multi_parent == rebuilt.multi_parent
    assert tree.circular == rebuilt.circular == circular(tree.facts)
    for name in tree.facts:
        assert _reaches(tree, name) <= (name in tree.circular)


def _reaches(tree: HyperTree, start: str) -> bool:
    """Whether a HyperNode is below itself."""
    seen: set[str] = set()
    waiting = list(tree.facts[start].children)
    while waiting:
        name = waiting.pop()
        if name == start:
            return True
        if name not in seen and name in tree.facts:
            seen.add(name)
            waiting += tree.facts[name].children
    return False
