"""What README and the manual tell people to type is typed here, and what they claim of it is looked at."""

import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from features.table import FEATURES
from projections.policy.policy import parse_policy
from scheduling.conditions import HAD_A_NODE
from scheduling.explanation import LEVELS
from scheduling.unschedulable import fit_text
from simulator.openb import POLICY
from simulator.scenario import parse_scenario
from tests.checkout import ROOT, short, tracked
from tests.daemon.cli.builders import documents, muster
from tests.scheduling.test_pod_group_status import Member, given

DEMO = "scenario: the demo, made small\nworkload: {name: openb, scale: 0.15}\nuntil: 120s\n"
DIVERGES = "spread.yaml"

CODE = re.compile(r"(?<![\w.])(?:K(?:1?\d|20)(?:\.\d+)*|[A-G]\.\d+(?:\.\d+)*)(?![\w.]*\w)")
"""The number of a fact of Kubernetes (`K3.7`) or Volcano (`C.6`)."""
SPAN = re.compile(r"(K\d+)\.(\d+) to \1\.(\d+)")
"""Facts from one to another: `K3.3 to K3.8`."""


def cited(text: str) -> set[str]:
    """The numbers of facts in a text."""
    spans = [
        f"{chapter}.{number}"
        for chapter, first, last in SPAN.findall(text)
        for number in range(int(first), int(last) + 1)
    ]
    return {*CODE.findall(text), *spans}


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The lines of a page that call muster: fenced as sh, or indented."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fenced = [line for block in blocks(page, "sh") for line in block.splitlines()]
    indented = re.findall(r"^    (muster .*)$", text, re.MULTILINE)
    lines = [line.removeprefix(".venv/bin/") for line in (*fenced, *indented)]
    return [line for line in lines if line.startswith("muster ")]


def questions() -> list[str]:
    """The queries of the page on views."""
    return blocks("docs/views.md", "sql")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is like the checkout after `make demo`, as far as the manual looks at it."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "docs/examples", folder / "docs/examples")
    (folder / "small.yaml").write_text(DEMO, encoding="utf-8")
    muster("simulate", folder / "small.yaml", "--log", folder / "demo.db")
    return folder


@pytest.mark.parametrize("page", ["README.md", "docs/replaying.md"])
def test_every_command_of_the_page_does_what_it_says(
    page: str, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo)
    typed = [line for line in commands(page) if "verify DIR" not in line]
    found = {line: muster(*shlex.split(line, comments=True)[1:]).exit_code for line in typed}
    assert len(found) >= 5
    assert found == {line: int(DIVERGES in line) for line in typed}


def test_every_reduction_of_the_page_ends_in_a_scenario(
    demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo)
    typed = [line for line in commands("docs/reducing.md") if line.startswith("muster reduce")]
    assert len(typed) == 3
    for line in typed:
        result = muster(*shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.output)
        if "--out" not in line:
            parse_scenario(result.stdout, line)
    assert muster("simulate", "waits.yaml").exit_code == 0


@pytest.mark.parametrize("query", questions())
def test_every_question_has_an_answer(query: str, demo: Path) -> None:
    connection = sqlite3.connect(f"file:{demo / 'demo.db'}?mode=ro", uri=True)
    rows = connection.execute(query).fetchall()
    connection.close()
    assert rows


def test_the_example_of_a_scenario_ends_as_it_expects(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(blocks("docs/scenarios.md", "yaml")[0], encoding="utf-8")
    (document,) = documents(muster("simulate", path, "--output", "json"))
    assert document["expected"] is True


def test_the_cluster_of_every_product_ends_as_it_expects_and_serves_the_job_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    cluster = "docs/examples/ascend.yaml"
    (document,) = documents(muster("simulate", cluster, "--output", "json"))
    assert document["expected"] is True
    found = muster("fit", "docs/examples/ascend_job.yaml", "--scenario", cluster)
    assert found.exit_code == 0
    assert found.stdout.strip() in (ROOT / "docs/ascend.md").read_text(encoding="utf-8")


def test_the_examples_of_traces_and_workloads_can_be_read() -> None:
    _, steps, faults, of_trace = blocks("docs/scenarios.md", "yaml")
    trace = parse_scenario("scenario: a\n" + of_trace, "page").trace
    assert trace is not None
    drawn = parse_scenario("scenario: a\n" + faults, "page").faults
    assert drawn is not None
    assert drawn.seed == 7
    # A workload brings nodes of its own, so that steps may name any.
    with_nodes = f"scenario: a\nworkload: openb\n{steps}"
    assert len(parse_scenario(with_nodes, "page").steps) == 6
    assert trace.order == "saturate"
    text = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    (given,) = re.findall(r"`(workload: \{.*?\})`", text)
    workload = parse_scenario(f"scenario: a\n{given}\n", "page").workload
    assert workload is not None
    assert workload.scale_percent == 10


@pytest.mark.parametrize("name", ["openb_saturate.yaml", "openb_saturate_gpuspec33.yaml"])
def test_the_examples_look_for_traces_where_the_manual_puts_them(name: str) -> None:
    text = (ROOT / "docs/examples" / name).read_text(encoding="utf-8")
    trace = parse_scenario(text, name).trace
    assert trace is not None
    assert {Path(path).parent.as_posix() for path in (trace.nodes, trace.pods)} == {
        "${MUSTER_TRACES}/openb"
    }


def test_the_policy_of_the_page_is_that_of_the_demo_and_nothing_of_it_is_skipped() -> None:
    text, placement = blocks("docs/policy.md", "yaml")
    assert (
        parse_policy(msgspec.json.encode(yaml.safe_load(placement)), FEATURES.policy_table)[1] == ()
    )
    policy, warned = parse_policy(msgspec.json.encode(yaml.safe_load(text)), FEATURES.policy_table)
    assert warned == ()
    assert policy == parse_policy(msgspec.json.encode(POLICY), FEATURES.policy_table)[0]


def test_every_plugin_argument_and_flag_that_counts_is_on_the_page_of_policies() -> None:
    files = sorted(
        [*(ROOT / "scheduling/plugins").glob("*.py"), *(ROOT / "features").rglob("*.py")]
    )
    # The fields of a GroupOverride are those of an object.
    named_in = [one for one in files if one.name != "group_overrides.py"]
    source = "".join(one.read_text(encoding="utf-8") for one in named_in)
    page = (ROOT / "docs/policy.md").read_text(encoding="utf-8")
    named = re.findall(r'name="([a-z.A-Z]+)"', source) + re.findall(
        r"^    (\w+): .*N815", source, re.MULTILINE
    )
    assert len(named) > 15
    assert [name for name in named if name.removeprefix("predicate.") not in page] == []


@pytest.mark.parametrize("index", [0, 1], ids=["chain", "objects"])
def test_the_log_can_be_read_without_muster(index: int, demo: Path) -> None:
    program = blocks("docs/log.md", "python")[index]
    done = subprocess.run(  # noqa: S603  # our own page
        [sys.executable, "-c", program, str(demo / "demo.db")],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    if index == 0:
        assert done.stdout.strip() in muster("log", "verify", demo / "demo.db").stdout
    else:
        assert all(line.startswith('{"apiVersion":') for line in done.stdout.splitlines())


def test_the_page_on_answers_says_what_is_said() -> None:
    page = (ROOT / "docs/answers.md").read_text(encoding="utf-8")
    flat = " ".join(page.split())
    waits = Member()
    gang = given("Pending", waits, waits, waits, least=3, room=2).state.cluster.groups["default/g"]
    reason = "0/4 nodes are unavailable: 4 Insufficient cpu."
    assert fit_text(gang, "default/j-w-2", reason, could=2) in flat
    assert f"`{HAD_A_NODE}`" in flat
    rows = page.partition("| level | asks |")[2].partition("\n\n")[0].splitlines()[2:]
    said = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert said == list(LEVELS)


def test_every_fact_that_is_cited_is_explained_and_every_explained_one_is_cited() -> None:
    pages = [path for path in tracked(".md") if path.parent == ROOT / "docs/reference"]
    titles = [
        re.findall(r"^##+ (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE) for page in pages
    ]
    explained = {title for page in titles for title in page if CODE.fullmatch(title)}
    citing = [path for path in tracked(".py", ".md", ".yaml", ".sql", ".toml") if path not in pages]
    found = {short(path): cited(path.read_text(encoding="utf-8")) for path in citing}
    assert {path: codes - explained for path, codes in found.items() if codes - explained} == {}
    facts = {code for code in explained if "." in code}
    assert sorted(facts - set[str]().union(*found.values())) == []
