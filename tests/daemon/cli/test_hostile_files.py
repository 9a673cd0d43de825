"""Files from strangers: each ends in one line with the right exit code, soon and within bounds."""

import gzip
import os
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.daemon.cli.builders import QUOTA, error_of, logged, muster, scenario

LAUGHS = "\n".join(
    ["x0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    + [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 12)]
)
"""Ten to the twelfth values in 700 characters."""

CHAIN = "\n".join(["x0: &x0 [1]"] + [f"x{n}: &x{n} [*x{n - 1}]" for n in range(1, 3_000)])
"""Three thousand lists in each other, on lines of their own."""

HOSTILE_YAML = {
    "aliases that multiply": (LAUGHS, "more than 2,000,000 values, repeated ones counted"),
    "aliases in a chain": (CHAIN, "nested deeper than 100 levels"),
    "an alias in itself": ("a: &a {b: [*a]}", "*a contains itself"),
    "an alias of nothing": ("a: *b", "not YAML: found undefined alias"),
    "lists in lists": (f"a: {'[' * 200_000}", "nested deeper than 100 levels"),
    "lists in lists that end": (f"a: {'[' * 5_000}{']' * 5_000}", "nested deeper than 100 levels"),
    "mappings in mappings": ("a: " + "{a: " * 5_000, "nested deeper than 100 levels"),
    "blocks in blocks": (
        "\n".join(" " * n + "a:" for n in range(3_000)),
        "nested deeper than 100 levels",
    ),
    "a NUL": ("a: b\x00c", "not YAML"),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound log, which is only read."""
    return logged(tmp_path_factory.mktemp("sound"))


def readers_of(path: Path, log: Path) -> dict[str, list[str | Path]]:
    """Every command that reads YAML, by what a text begins with for it."""
    return {
        "": ["replay", log, "--policy", path],
        "scenario: hostile\n": ["simulate", path],
        "kind: Pod\n": ["fit", path, "--log", log],
        "log: x.db\n": ["run", "--config", path],
    }


@pytest.mark.parametrize(("text", "said"), HOSTILE_YAML.values(), ids=HOSTILE_YAML)
def test_hostile_yaml_is_refused_with_its_line(
    tmp_path: Path, log: Path, text: str, said: str
) -> None:
    path = tmp_path / "hostile.yaml"
    for prefix, words in readers_of(path, log).items():
        path.write_text(prefix + text)
        result = muster(*words)
        assert result.exit_code == 2, (words, result.output)
        error = error_of(result)
        assert error.startswith(str(path))
        assert said in error


def test_many_values_are_refused_by_default(tmp_path: Path) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_text(f"scenario: hostile\na: [{'1,' * 2_000_001}]")
    assert "more than 2,000,000 values" in error_of(muster("simulate", path))


def test_every_reader_keeps_the_limit_of_values(tmp_path: Path, log: Path) -> None:
    path = tmp_path / "hostile.yaml"
    for prefix, words in readers_of(path, log).items():
        path.write_text(f"{prefix}a: [{'1,' * 20_001}]")
        result = muster(*words, env={"MUSTER_LIMITS": "yaml-nodes=20000"})
        error = error_of(result)
        assert (result.exit_code, error.startswith(str(path))) == (2, True), words
        assert "more than 20,000 values" in error


def test_a_kubeconfig_is_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    for text in (LAUGHS, CHAIN, f"a: {'[' * 200_000}"):
        path.write_text(text)
        words = ("--log", tmp_path / "a.db", "--listen", "", "--kubeconfig", path)
        result = muster("run", *words)
        assert (result.exit_code, str(path) in error_of(result)) == (2, True)


NUMBERS = {
    "digits": ("9" * 5_000, "a number of 5,000 characters; at most 100 are read"),
    "a large float": ("1.0e+999", "1.0e+999 is too large a number"),
}


@pytest.mark.parametrize(("number", "said"), NUMBERS.values(), ids=NUMBERS)
def test_an_enormous_number_is_refused_with_its_line(
    tmp_path: Path, number: str, said: str
) -> None:
    for text in (
        f"policy: {{tiers: [{{plugins: [{{name: binpack, arguments: {{binpack.weight: {number}}}}}]}}]}}",
        f"cluster: [{{apiVersion: v1, kind: Node, metadata: {{name: n}}, spec: {{x: {number}}}}}]",
    ):
        path = scenario(tmp_path, text)
        result = muster("simulate", path)
        assert (result.exit_code, error_of(result)) == (2, f"{path}:2: {said}")


@pytest.mark.parametrize("number", ["9" * 5_000, "1.0e+999", ".inf", ".nan", "1.0e+300"])
def test_an_enormous_setting_is_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text(f"log: x.db\nperiod_seconds: {number}\n")
    result = muster("run", "--config", path)
    assert (result.exit_code, error_of(result).startswith(str(path))) == (2, True)


def test_a_text_is_read_within_its_limit(tmp_path: Path) -> None:
    path = scenario(tmp_path, "# " + "x" * 2_000)
    few = {"MUSTER_LIMITS": "text-bytes=1KiB"}
    said = f"{path}: it has more bytes than 1,024; MUSTER_LIMITS=text-bytes=... allows more"
    result = muster("simulate", path, env=few)
    assert (result.exit_code, error_of(result)) == (2, said)
    assert muster("simulate", path).exit_code == 0
    packed = tmp_path / "packed.yaml.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert packed.stat().st_size < 1024
    assert "it has more bytes than 1,024" in error_of(muster("simulate", packed, env=few))
    assert muster("simulate", packed).exit_code == 0


def test_a_limit_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    result = muster("simulate", QUOTA, env={"MUSTER_LIMITS": "text-bites=1"})
    assert (result.exit_code, "there is no limit 'text-bites'" in error_of(result)) == (2, True)


def garbage(path: Path) -> None:
    path.write_bytes(b"".join(sha256(bytes([n])).digest() for n in range(200)))


PLACES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "garbage": garbage,
    "an empty file": Path.touch,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a loop of links": lambda path: path.symlink_to(path),
    "a pipe": os.mkfifo,
}

READERS = {
    "simulate": (["simulate", "PATH"], "x.yaml"),
    "fit": (["fit", "PATH", "--log", "LOG"], "x.yaml"),
    "replay --policy": (["replay", "LOG", "--policy", "PATH"], "x.yaml"),
    "run --config": (["run", "--config", "PATH"], "x.yaml"),
    "run --policy": (["run", "--policy", "PATH", "--log", "LOG2", "--listen", ""], "x.yaml"),
    "run --kubeconfig": (["run", "--kubeconfig", "PATH", "--log", "LOG2", "--listen", ""], "x"),
    "run --simulate": (["run", "--simulate", "PATH", "--world", "w", "--log", "LOG2"], "x.yaml"),
    "verify": (["verify", "PATH"], "x"),
    "log verify": (["log", "verify", "PATH"], "x.db"),
    "log verify a bundle": (["log", "verify", "PATH"], "x.muster"),
    "log import": (["log", "import", "PATH", "--log", "LOG2"], "x.muster"),
    "log tail": (["log", "tail", "PATH"], "x.db"),
    "tell": (["tell", "PATH"], "x.db"),
    "state": (["state", "PATH"], "x.muster"),
    "topology": (["topology", "PATH"], "x.db"),
    "replay": (["replay", "PATH"], "x.db"),
    "why": (["why", "default/a", "--log", "PATH"], "x.db"),
    "queue list": (["queue", "list", "--log", "PATH"], "x.db"),
    "rebuild": (["rebuild", "--log", "PATH"], "x.db"),
    "migrate": (["migrate", "--log", "PATH"], "x.db"),
    "simulate --log": (["simulate", str(QUOTA), "--log", "PATH"], "x.db"),
    "export": (["log", "export", "LOG", "--file", "PATH"], "x.muster"),
    "demo": (["demo", "--log", "PATH"], "x.db"),
}


CREATED = ("migrate", "simulate --log", "export", "demo")
"""What these name may be missing."""

WAITING = ("simulate", "run --kubeconfig", "log verify", "log verify a bundle", "rebuild", "demo")
"""For each way to open a file one that might wait for a program that writes to a pipe."""

CASES = [
    (place, reader)
    for place in PLACES
    for reader in READERS
    if not (reader in CREATED and place in ("nothing", "an empty file"))
    and (place, reader) != ("an empty file", "run --config")  # Settings may be empty.
    and (place != "a pipe" or reader in WAITING)
]


@pytest.mark.parametrize(("place", "reader"), CASES)
def test_whatever_stands_where_a_file_should_be_is_one_line(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, place: str, reader: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words, name = READERS[reader]
    path = tmp_path / name
    PLACES[place](path)
    given = {"PATH": path, "LOG": log, "LOG2": tmp_path / "other.db"}
    command = [given.get(word, word) for word in words]
    result = muster(*command)
    code, stderr = result.exit_code, result.stderr
    assert code in (2, 3, 4), (code, stderr)
    assert stderr.count("\n") == 1, stderr
    assert stderr.startswith("muster: error: ")
    assert name in stderr
    assert "Traceback" not in stderr


def test_a_pipe_that_a_program_writes_to_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    # Both ends are open before the command begins: it never finds a pipe without a program that writes to it.
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(path, os.O_WRONLY)

    def write() -> None:
        os.write(writing, QUOTA.read_bytes())
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    result = muster("simulate", path)
    writer.join()
    os.close(reading)
    assert result.exit_code == 0, result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = scenario(tmp_path, "")
    path.chmod(0)
    result = muster("simulate", path)
    assert (result.exit_code, error_of(result)) == (2, f"{path}: Permission denied")


@pytest.mark.parametrize("content", ["notes", '{"current-context": "production"}', "[" * 5_000])
def test_a_kubeconfig_of_another_cluster_is_not_overwritten(tmp_path: Path, content: str) -> None:
    log, path = tmp_path / "a.db", tmp_path / "a.db.kubeconfig"
    path.write_text(content)
    result = muster("run", "--simulate", QUOTA, "--http", "127.0.0.1:0", "--log", log)
    said = f"{path} is there already, and no simulated cluster wrote it"
    assert (result.exit_code, said in result.stderr.splitlines()[-1]) == (2, True)
    assert path.read_text() == content
