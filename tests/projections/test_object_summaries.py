"""What `tell` says of objects that say how close nodes and pods are."""

from features.table import KINDS


def summary(kind: str, content: str) -> str:
    """The summary of an object, as `tell` joins it."""
    return ", ".join(part for part in KINDS[kind].summarize(content.encode()) if part)


def test_a_hypernode_summary_has_tier_and_members() -> None:
    names = [f'{{"type":"Node","selector":{{"exactMatch":{{"name":"n{at}"}}}}}}' for at in range(6)]
    pattern = '{"type":"Node","selector":{"regexMatch":{"pattern":"^x"}}}'
    broken = '{"type":"Node","selector":{}}'
    members = ",".join([*names, pattern, broken])
    content = (
        f'{{"metadata":{{"name":"r"}},"spec":{{"tier":2,"tierName":"row","members":[{members}]}}}}'
    )
    assert summary("HyperNode", content) == (
        "tier 2 (row), of n0, n1, n2, n3, and 2 more, of nodes like ^x, "
        "spec.members[7]: it names no member; it is left out"
    )


def test_a_hypernode_that_cannot_be_read_says_why() -> None:
    assert summary("HyperNode", '{"metadata":{"name":"r"},"spec":7}').startswith("Expected")


def test_a_pod_group_summary_has_its_network_topology() -> None:
    spec = (
        '{"minMember":4,"networkTopology":{"mode":"hard","highestTierAllowed":2},'
        '"subGroupPolicy":[{"name":"stage","subGroupSize":2}]}'
    )
    content = f'{{"metadata":{{"name":"g"}},"spec":{spec}}}'
    assert summary("PodGroup", content) == (
        "needs 4 pods, pods within a HyperNode of tier 2 or below, sub-groups stage of 2 pods"
    )
