"""`muster topology`: leaf switches, SuperPoDs and HyperNodes with their nodes."""

from pathlib import Path

from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, muster

SCENARIOS = ROOT / "tests" / "scenarios"
SHARED = SCENARIOS / "network" / "a_second_foundation_job_shares_a_switch_within_the_limit.yaml"
SUPER_PODS = SCENARIOS / "network" / "two_close_super_pods_are_taken_before_a_larger_one.yaml"
TIERS = SCENARIOS / "topology" / "a_gang_goes_to_the_lowest_tier_that_holds_it_whole.yaml"


def logged(scenario: Path, folder: Path) -> Path:
    log = folder / "a.db"
    assert muster("simulate", scenario, "--log", log).exit_code == 0
    return log


def test_leaf_switches_have_positions_nodes_and_jobs(tmp_path: Path) -> None:
    log = logged(SHARED, tmp_path)
    lines = muster("topology", log).stdout.splitlines()
    assert lines[2] == "leaf switches: 3"
    at = lines.index("  sb  shared: 4 nodes, 0/32 Ascend910 free, default/first, default/second")
    assert [line.split() for line in lines[at + 1 : at + 6]] == [
        ["node", "free", "jobs"],
        ["0", "sb-1", "0/8", "Ascend910", "default/first"],
        ["1", "sb-2", "0/8", "Ascend910", "default/first"],
        ["2", "sb-3", "0/8", "Ascend910", "default/second"],
        ["3", "sb-4", "0/8", "Ascend910", "default/second"],
    ]
    (document,) = documents(muster("topology", log, "-o", "json"))
    switches = document["switches"]
    assert isinstance(switches, list)
    assert switches[1] == {
        "switch": "sb",
        "state": "shared",
        "healthy": True,
        "servers": 4,
        "crossing": ["default/first", "default/second"],
        "nodes": [
            {
                "position": at,
                "node": f"sb-{at + 1}",
                "cards": [{"card": "Ascend910", "total": 8, "free": 0}],
                "jobs": [f"default/{'first' if at < 2 else 'second'}"],
            }
            for at in range(4)
        ],
    }


def test_an_earlier_position_shows_what_a_switch_was(tmp_path: Path) -> None:
    log = logged(SHARED, tmp_path)
    text = muster("topology", log, "--at", "60", "--brief").stdout
    assert "  sb  shared: 4 nodes, 16/32 Ascend910 free, default/first\n" in text
    assert "sb-1" not in text


def test_super_pods_are_listed_with_free_chips(tmp_path: Path) -> None:
    text = muster("topology", logged(SUPER_PODS, tmp_path), "--brief").stdout
    assert text.splitlines()[2:] == [
        "SuperPoDs: 3",
        "  SuperPoD 0: 6 nodes, 32/96 Ascend910 free, default/j",
        "  SuperPoD 1: 7 nodes, 48/112 Ascend910 free, default/j",
        "  SuperPoD 2: 10 nodes, 160/160 Ascend910 free",
    ]


def test_hyper_nodes_say_what_they_are_in(tmp_path: Path) -> None:
    log = logged(TIERS, tmp_path)
    (document,) = documents(muster("topology", log, "-o", "json"))
    found = document["hyper_nodes"]
    assert isinstance(found, list)
    tiers = [one["tier"] for one in found]
    assert tiers == sorted(tiers)
    above = {one["hyper_node"]: one["in"] for one in found}
    assert any(above.values())
    text = muster("topology", log).stdout
    for name, parents in above.items():
        assert any(
            line.startswith(f"  {name}  tier ") and all(one in line for one in parents)
            for line in text.splitlines()
        )


def test_nodes_in_no_part_of_the_network_are_named(tmp_path: Path) -> None:
    log = logged(ROOT / "docs/examples/quota.yaml", tmp_path)
    assert " in none of them: " in muster("topology", log).stdout


def test_why_shows_how_the_nodes_of_a_job_were_chosen(tmp_path: Path) -> None:
    text = muster("why", "default/second-5", "--log", logged(SHARED, tmp_path)).stdout
    steps = [
        "how the nodes of the whole job were chosen:",
        "  foundation job of 6 pods, 4 servers a switch",
        "  sa: 0 free, exclusive by default/first",
        "  sb: 2 free, shared by default/first",
        "  sc: 4 free, idle",
        "  idle switches and 2 shared ones have 6 free",
        "  takes 4 of 4 under sc, exclusive",
        "  takes 2 of 2 under sb, shared",
    ]
    assert "\n".join(steps) in text
    assert "another node ranks first" not in text


def test_why_shows_which_super_pods_gave_blocks(tmp_path: Path) -> None:
    text = muster("why", "default/j-5", "--log", logged(SUPER_PODS, tmp_path)).stdout
    steps = [
        "  2 logical SuperPoDs of 4 nodes, 2 nodes reserved in each SuperPoD, order matrix",
        "  free nodes by SuperPoD: 0: 6, 1: 7, 2: 10",
        "  logical SuperPoD 0: 4 of 6 free nodes of SuperPoD 0 (matrix, 1 blocks and 0 nodes)",
        "  logical SuperPoD 1: 4 of 7 free nodes of SuperPoD 1 (matrix, 1 blocks and 1 nodes)",
    ]
    assert "\n".join(steps) in text
