"""What reaches a terminal: tables, and whatever a cluster holds, escaped and bounded."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click import unstyle
from click.testing import Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from daemon.cli.output import Line, Styled, print_json, print_lines, table
from replay.printable import CELL_CHARS_MAX, LINE_CHARS_MAX, printable
from tests.checkout import ROOT
from tests.daemon.cli.builders import muster, scenario

EVIL = (
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;mailto:evil\x1b\\ \x00\b\r\n\t\x7f\x85\x9b31m\u202e\u2066\u200f"
    "\u2028\ufeff\U000e0041 [red]markup[/red] 'quoted' \"twice\" \\ {i} %s ${HOME} é 中"
)
"""What a terminal obeys, and what some layer in between might expand."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
"""Whatever a log can hold: it is UTF-8, so no lone surrogates."""

DANGEROUS = st.sampled_from([EVIL, *EVIL])

EXAMPLES = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def text_of(line: Line) -> str:
    parts = line if isinstance(line, tuple) else (line,)
    return "".join(part.text if isinstance(part, Styled) else part for part in parts)


def test_numbers_are_aligned_right_with_and_without_units() -> None:
    rows = [
        ("a", 2494, "98.3 %", "4.5 min", "none", "500m", None),
        ("bcd", 7, "-", "1 s", "~12,000Gi", "32", "1.0"),
    ]
    shown = table(("of", "n", "share", "wait", "limit", "cpu", "mean"), rows)
    assert list(map(text_of, shown)) == [
        "  of       n   share     wait      limit   cpu  mean",
        "  a    2,494  98.3 %  4.5 min       none  500m     -",
        "  bcd      7       -      1 s  ~12,000Gi    32   1.0",
    ]


@pytest.mark.parametrize("name", ["n1", "4x", "10.0.0.1", "1-2", "H200", "default/7"])
def test_a_column_with_a_name_in_it_is_text(name: str) -> None:
    header, *lines = map(text_of, table(("the names", "b"), [("7", "x"), (name, "x")]))
    assert header == "  the names  b"
    assert lines[0] == "  7          x"


def test_a_table_without_rows_is_its_headers() -> None:
    assert list(map(text_of, table(("a", "b"), []))) == ["  a  b"]


def test_columns_are_aligned_if_a_cell_is_escaped_or_too_long() -> None:
    rows = [("\x1b[31m", "x"), ("y" * 10_000, "x"), ("z", "x")]
    lines = [text_of(line) for line in table(("a", "b"), rows)]
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= CELL_CHARS_MAX + len("    x")


def is_safe(text: str) -> bool:
    """Whether a terminal shows all of it and obeys none of it."""
    return all(one.isprintable() or one == "\n" for one in text)


@given(TEXTS | DANGEROUS | st.text())
def test_escaping_twice_changes_nothing(text: str) -> None:
    escaped = printable(text)
    assert escaped.isprintable()
    assert printable(escaped) == escaped
    escaped.encode()
    if text.isprintable() and len(text) <= LINE_CHARS_MAX:
        assert escaped == text


@given(st.text(min_size=1), st.integers(1, 4))
def test_a_long_text_keeps_its_beginning_and_end(text: str, times: int) -> None:
    long = "first " + text * (LINE_CHARS_MAX * times) + " last"
    shown = printable(long)
    assert len(shown) <= LINE_CHARS_MAX
    assert shown.startswith("first ")
    assert shown.endswith(" last")
    assert f"[... {len(long):,} characters in all ...]" in shown


@given(part=TEXTS | DANGEROUS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_line_is_one_line_whatever_it_quotes(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_lines([f"quoted {part}", ("two ", Styled(part, "red", is_bold=True), part)])
    out = capsys.readouterr().out
    assert out.count("\n") == 2
    assert is_safe(out)


def test_a_colour_of_ours_is_added_to_escaped_text(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.setattr("click.echo", lambda text, err: printed.append(text))
    print_lines([(Styled("\x1b[32mgood", "red"), "\x1b[0m")])
    assert printed == ["\x1b[31m\\x1b[32mgood\x1b[0m\\x1b[0m"]
    assert unstyle(printed[0]) == "\\x1b[32mgood\\x1b[0m"


@given(part=TEXTS | DANGEROUS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_is_safe_on_a_terminal_and_says_exactly_what_there_is(
    part: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    print_json({part: [part]})
    out = capfdbinary.readouterr().out.decode()
    assert is_safe(out)
    assert out.count("\n") == 1
    assert json.loads(out) == {part: [part]}


def hostile_scenario(folder: Path, text: str) -> Path:
    """A scenario in which whatever an object may hold freely is this text."""
    names = {"annotations": {"note": text, "volcano.sh/sla-waiting-time": text}}
    card_quota = {"volcano.sh/card.quota": text}
    container = {"name": "c", "image": text, "resources": {"requests": {"cpu": "2"}}}
    pod = {"containers": [container]}
    condition = {"type": text, "status": "True", "reason": text, "message": text}
    document = {
        "scenario": text or "nothing",
        "policy": {
            "actions": "enqueue, allocate, preempt",
            "tiers": [
                {"plugins": [{"name": "gang"}, {"name": f"x{text}"}, {"name": "predicates"}]}
            ],
            f"key {text}": 1,
        },
        "until": "5s",
        "cluster": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "n1", "labels": {"l": text}},
                "spec": {"taints": [{"key": text, "value": text, "effect": "NoSchedule"}]},
                "status": {"allocatable": {"cpu": "4", "pods": 9}, "conditions": [condition]},
            },
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n2{text}", **names},
                "status": {"allocatable": {"cpu": "1", "pods": 9}},
            },
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": "q", "annotations": card_quota},
                "spec": {"parent": text},
            },
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": f"q{text}"},
            },
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "g", **names},
                "spec": {"minMember": 2, "queue": f"none{text}"},
                "status": {"phase": text, "conditions": [condition]},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "a",
                    "annotations": {"scheduling.k8s.io/group-name": "g"},
                },
                "spec": pod,
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"b{text}", "labels": {"app": text}},
                "spec": {**pod, "nodeSelector": {text or "l": text}, "nodeName": None},
                "status": {"message": text, "conditions": [condition]},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "c"},
                "spec": {**pod, "priorityClassName": text},
            },
        ],
        "expect": {"pods": {f"default/{text}": {"phase": text}}},
    }
    path = folder / "hostile.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


COMMANDS: dict[str, Callable[[str, str], list[str]]] = {
    "tell": lambda log, text: ["tell", log],
    "log tail": lambda log, text: ["log", "tail", log, "-n", "1000"],
    "log verify": lambda log, text: ["log", "verify", log],
    "state": lambda log, text: ["state", log],
    "replay": lambda log, text: ["replay", log],
    "replay under another policy": lambda log, text: [
        *("replay", log, "--policy", str(ROOT / "docs" / "examples" / "spread.yaml"))
    ],
    "queue list": lambda log, text: ["queue", "list", "--log", log],
    "queue show": lambda log, text: ["queue", "show", f"q{text}", "--log", log],
    "queue show another": lambda log, text: ["queue", "show", text, "--log", log],
    "why a pod": lambda log, text: ["why", f"default/b{text}", "--log", log],
    "why a group": lambda log, text: ["why", "PodGroup/default/g", "--log", log],
    "why a node": lambda log, text: ["why", f"Node/n2{text}", "--log", log],
    "why a queue": lambda log, text: ["why", f"Queue/q{text}", "--log", log],
    "rebuild": lambda log, text: ["rebuild", "--log", log],
    "a command that is not there": lambda log, text: [f"x{text}"],
    "an option that is not there": lambda log, text: ["tell", log, f"--x{text}"],
    "a log that is not there": lambda log, text: ["tell", f"none{text.replace(chr(0), '')}.db"],
}


def said(result: Result) -> str:
    """All that a command printed; it must not have ended in a bug."""
    assert result.exit_code in (0, 1, 2), result.output
    return result.stdout + result.stderr


@settings(EXAMPLES, max_examples=2)  # Each example runs all commands.
@example(EVIL)
@given(text=TEXTS.filter(bool))
def test_no_command_prints_control_sequences(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    path, log = hostile_scenario(folder, text), str(folder / "a.db")
    simulated = muster("simulate", path, "--log", log)
    assert simulated.exit_code == 1, simulated.output  # What it expects is not there.
    outputs = {"simulate": said(simulated)}
    for name, words in COMMANDS.items():
        outputs[name] = said(muster(*words(log, text)))
        outputs[f"{name}, as JSON"] = said(muster(*words(log, text), "--output", "json"))
    outputs["fit"] = said(muster("fit", next_manifests(path), "--log", log))
    outputs["verify"] = said(muster("verify", folder))
    assert {name: out for name, out in outputs.items() if not is_safe(out)} == {}


def next_manifests(hostile: Path) -> Path:
    """The objects of a scenario as manifests that could come next."""
    path = hostile.with_name("manifests.yaml")
    objects = yaml.safe_load(hostile.read_text())["cluster"][-3:]
    for one in objects:
        one["metadata"]["name"] += "-next"
    path.write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": objects}))
    return path


LARGE = """
policy: {{actions: "enqueue, allocate", tiers: [{{plugins: [{{name: predicates}}, {{name: {text}}}]}}]}}
until: 2s
cluster:
  - apiVersion: v1
    kind: Node
    metadata: {{name: n1}}
    spec: {{taints: [{{key: {text}, effect: NoSchedule}}]}}
    status: {{allocatable: {{cpu: 4, pods: 9}}, conditions: [{{type: Ready, message: {text}}}]}}
  - apiVersion: v1
    kind: Pod
    metadata: {{name: a, annotations: {{note: {text}}}}}
    spec: {{nodeSelector: {{l: {text}}}, containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}
"""


def test_a_text_of_a_megabyte_leaves_every_answer_readable(tmp_path: Path) -> None:
    path, log = scenario(tmp_path, LARGE.format(text="x" * 1_000_000)), tmp_path / "a.db"
    assert muster("simulate", path, "--log", log).exit_code == 0
    questions: tuple[tuple[str | Path, ...], ...] = (
        ("tell", log),
        ("log", "tail", log, "-n", "99"),
        ("why", "default/a", "--log", log),
    )
    for words in questions:
        result = muster(*words)
        assert result.exit_code == 0, result.output
        assert max(map(len, result.stdout.splitlines())) <= LINE_CHARS_MAX
        assert " characters in all ...] " in result.stdout
