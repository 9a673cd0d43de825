"""`muster state`: the rows of the views at a position."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, muster

CARDS = ROOT / "tests" / "scenarios" / "cards" / "every_card_of_a_node_is_listed.yaml"

EXPECTED = [
    ("h200", "NVIDIA-H200", 7),
    ("h200", "NVIDIA-H200/mig-1g.18gb-mixed", 3),
    ("h200", "NVIDIA-H200/mig-3g.71gb-mixed", 1),
    ("h800", "NVIDIA-H800", 6),
    ("h800", "NVIDIA-H800/mps-80g*1/2", 2),
    ("r4090", "NVIDIA-GeForce-RTX-4090", 8),
]


def test_every_card_of_a_node_is_listed(tmp_path: Path) -> None:
    log = tmp_path / "a.db"
    assert muster("simulate", CARDS, "--log", log).exit_code == 0
    (document,) = documents(muster("state", log, "--output", "json"))
    rows = document["nodes"]
    assert isinstance(rows, list)
    assert [(row["node"], row["card"], row["total"]) for row in rows] == EXPECTED
    assert [(row["healthy"], row["allocated"], row["free"]) for row in rows] == [
        (total, 0, total) for _, _, total in EXPECTED
    ]
    assert {row["cpu_free_milli"] for row in rows} == {1000}


def test_every_card_of_a_node_is_in_the_text_and_in_the_view(tmp_path: Path) -> None:
    log = tmp_path / "a.db"
    assert muster("simulate", CARDS, "--log", log).exit_code == 0
    text = muster("state", log).stdout
    assert "nodes: 3 (6 rows)\n" in text
    lines = [line.split() for line in text.splitlines()]
    for node, card, total in EXPECTED:
        assert any(line[:1] == [node] and card in line and str(total) in line for line in lines)
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute("select node, card, total from node_card order by node, card")
        assert rows.fetchall() == EXPECTED


def test_a_node_without_cards_has_a_row(tmp_path: Path) -> None:
    log = tmp_path / "a.db"
    assert muster("simulate", ROOT / "docs/examples/quota.yaml", "--log", log).exit_code == 0
    (document,) = documents(muster("state", log, "--output", "json"))
    rows = document["nodes"]
    assert isinstance(rows, list)
    assert rows


DEVICES = ROOT / "tests" / "scenarios" / "devices"
PAIRS = DEVICES / "a_pair_on_a_910_server_takes_a_ring_of_two_then_of_four_then_of_three.yaml"


def test_devices_are_listed_with_their_rings_and_pods(tmp_path: Path) -> None:
    log = tmp_path / "a.db"
    assert muster("simulate", PAIRS, "--log", log).exit_code == 0
    (document,) = documents(muster("state", log, "--output", "json"))
    rows = document["devices"]
    assert isinstance(rows, list)
    found = {(one["node"], one["device"]): (one["device_groups"], one["pod"]) for one in rows}
    assert len(found) == 24
    assert found["b", "Ascend910-2"] == ("ring 0", "default/p3")
    assert found["c", "Ascend910-5"] == ("ring 1", "default/p4")
    faults = {one["device"]: one["fault"] for one in rows if one["node"] == "c"}
    assert faults["Ascend910-3"] == "not reported as available"
    assert faults["Ascend910-5"] == faults["Ascend910-6"] == ""
    assert "devices: 24\n" in muster("state", log).stdout
    assert (
        "  Ascend910-2 (Ascend910, ring 0): default/p3\n"
        in muster("why", "Node/b", "--log", log).stdout
    )
