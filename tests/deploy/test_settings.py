"""The settings and policies that are shipped as examples."""

from pathlib import Path

import msgspec
import pytest

from daemon.cluster.client.rbac import NAME
from daemon.settings import read_settings
from events.policy_document import read_policy_document
from features.table import FEATURES
from projections.policy.policy import parse_policy
from tests.checkout import ROOT, short

SETTINGS = sorted((ROOT / "deploy").rglob("muster.yaml"))


@pytest.mark.parametrize("path", SETTINGS, ids=short)
def test_every_settings_file_that_is_shipped_can_be_read(path: Path) -> None:
    settings = read_settings(path)
    assert settings.policy is not None
    assert (path.parent / settings.policy).is_file()


@pytest.mark.parametrize("path", SETTINGS, ids=short)
def test_every_policy_that_is_shipped_holds_nothing_unknown(path: Path) -> None:
    policy = path.with_name("policy.yaml")
    content = msgspec.json.encode(
        read_policy_document(policy.read_text(encoding="utf-8"), str(policy))
    )
    assert parse_policy(content, FEATURES.policy_table)[1] == ()


def test_the_lease_of_the_settings_is_the_one_that_the_role_allows() -> None:
    """Rule K15.3: get and update for our name only."""
    assert {read_settings(path).lease_name for path in SETTINGS} == {NAME}
