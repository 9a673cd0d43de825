"""What a tenant's answer leaves out."""

import pytest

from daemon.queries.tenant_answer import OTHER, redacted_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("evicted for team-b/train", f"evicted for {OTHER}"),
        ("victims Pod/team-b/x-0, Pod/mine/y", f"victims {OTHER}, Pod/mine/y"),
        ("<team-b/x>, 'team-c/y.z'", f"<{OTHER}>, '{OTHER}'"),
        ("0/3 nodes: 2 Insufficient nvidia.com/gpu", "0/3 nodes: 2 Insufficient nvidia.com/gpu"),
        ("behind mine/a, 1/2", "behind mine/a, 1/2"),
        ("of 2team/job", f"of {OTHER}"),
    ],
)
def test_objects_of_other_namespaces_are_not_named(text: str, shown: str) -> None:
    assert redacted_text(text, "mine") == shown
