"""`muster log keygen`, `sign`, `signatures`, and what `verify` finds by them: a past that was rewritten as a whole."""

import json
import shutil
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.daemon.cli.builders import documents, error_of, logged, muster
from tests.daemon.log.rewriting import rewrite

SIGNED, REWRITTEN = 25, 10
"""The head of the log at its signature, and the position from which it is rewritten."""


class Signed:
    """A log whose head is signed, and who signed it."""

    def __init__(self, folder: Path) -> None:
        self.log = logged(folder)
        self.key, self.public = folder / "sign.pem", folder / "sign.pem.pub"
        self.copy = folder / "signatures"
        assert muster("log", "keygen", "--key", self.key).exit_code == 0
        assert muster("log", "sign", self.log, "--key", self.key).exit_code == 0
        self.copy.write_text(muster("log", "signatures", self.log, "-o", "json").stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return Signed(tmp_path_factory.mktemp("signed"))


@pytest.fixture
def signed(made: Signed, tmp_path: Path) -> Signed:
    """A copy that a test may change."""
    found = Signed.__new__(Signed)
    for name in ("log", "key", "public", "copy"):
        path = tmp_path / getattr(made, name).name
        shutil.copy(getattr(made, name), path)
        setattr(found, name, path)
    return found


def test_a_signed_log_is_sound_and_says_up_to_where(signed: Signed) -> None:
    text = muster("log", "verify", signed.log, "--public-key", signed.public).stdout.splitlines()
    assert text[0].endswith("sound: 25 records, 6 batches, 7 objects")
    assert text[2].startswith("agrees with 1 anchor, the last at position 25, signed at 20")
    assert "not checked" in muster("log", "verify", signed.log).stdout
    assert stat.S_IMODE(signed.key.stat().st_mode) == 0o600
    assert "PRIVATE" not in signed.public.read_text()


def test_a_rewritten_past_is_sound_in_itself_and_found_by_a_signature(signed: Signed) -> None:
    rewrite(signed.log, REWRITTEN, forgets_signatures=True)
    assert muster("log", "verify", signed.log).exit_code == 0
    checked = muster("log", "verify", signed.log, "--public-key", signed.public)
    assert checked.exit_code == 4
    assert error_of(checked).startswith("no signature of the log is by key ")
    words = ("log", "verify", signed.log, "--public-key", signed.public)
    with_copy = muster(*words, "--signatures", signed.copy)
    assert with_copy.exit_code == 4
    assert error_of(with_copy).startswith(
        f"position {SIGNED}: the past was rewritten: the digest here is "
    )


def test_a_saved_head_shows_from_where_the_past_may_be_another(signed: Signed) -> None:
    heads = [
        f"{one['position']}:{one['digest']}"
        for one in documents(muster("log", "tail", signed.log, "-n", "25", "-o", "json"))
    ]
    early, late = heads[REWRITTEN - 2], heads[-1]
    assert muster("log", "verify", signed.log, "--expect", early, "--expect", late).exit_code == 0
    rewrite(signed.log, REWRITTEN, forgets_signatures=True)
    found = muster("log", "verify", signed.log, "--expect", late, "--expect", early)
    assert found.exit_code == 4
    line = error_of(found)
    assert line.startswith("position 25: the past was rewritten")
    assert line.endswith(f"up to position {REWRITTEN - 1} it is as it was")
    one = muster("log", "verify", signed.log, "--expect", early)
    assert one.exit_code == 0
    assert "not covered: 16 records behind it" in one.stdout


def test_a_log_that_was_cut_off_or_rewritten_under_its_signature_is_found(signed: Signed) -> None:
    cut = f"26:{'a' * 64}"
    line = error_of(muster("log", "verify", signed.log, "--expect", cut))
    assert line.startswith("position 26: missing: the log ends at 25, but --expect states")
    rewrite(signed.log, REWRITTEN)
    assert "the past was rewritten" in error_of(muster("log", "verify", signed.log))
    assert "the past was rewritten" in error_of(
        muster("log", "sign", signed.log, "--key", signed.key)
    )


def test_a_signature_that_somebody_else_made_counts_for_nothing(signed: Signed) -> None:
    digest = rewrite(signed.log, REWRITTEN, forgets_signatures=True)
    other = signed.key.with_name("other.pem")
    assert muster("log", "keygen", "--key", other).exit_code == 0
    assert muster("log", "sign", signed.log, "--key", other).exit_code == 0
    checked = muster("log", "verify", signed.log, "--public-key", signed.public)
    assert error_of(checked).startswith("no signature of the log is by key ")
    forged = {**json.loads(signed.copy.read_text()), "digest": digest}
    signed.copy.write_bytes(msgspec.json.encode(forged))
    words = ("log", "verify", signed.log, "--public-key", signed.public)
    line = error_of(muster(*words, "--signatures", signed.copy))
    assert line.startswith("position 25: its signature was not made by key ")


def test_a_bundle_is_signed_in_a_file_and_keeps_the_digests_of_its_log(signed: Signed) -> None:
    bundle, file = signed.log.with_name("part.muster"), signed.log.with_name("bundle.signatures")
    assert muster("log", "export", signed.log, "--file", bundle, "--from", "10").exit_code == 0
    refused = muster("log", "sign", bundle, "--key", signed.key)
    assert error_of(refused).endswith("is read only; --file FILE takes the signature")
    assert muster("log", "sign", bundle, "--key", signed.key, "--file", file).exit_code == 0
    words = ("log", "verify", bundle, "--public-key", signed.public)
    both = muster(*words, "--signatures", signed.copy, "--signatures", file)
    assert both.exit_code == 0, both.output
    assert "agrees with 2 anchors" in both.stdout
    early = muster(*words, "--signatures", file, "--expect", f"1:{'b' * 64}").stdout
    assert "not compared: 1 anchor before its first record" in early


def test_a_key_of_openssl_signs(signed: Signed) -> None:
    key, public = signed.key.with_name("o.pem"), signed.key.with_name("o.pub")
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl")
    make = [program, "genpkey", "-algorithm", "ed25519", "-out", str(key)]
    subprocess.run(make, check=True, capture_output=True)  # noqa: S603  # a program of the system
    show = [program, "pkey", "-in", str(key), "-pubout", "-out", str(public)]
    subprocess.run(show, check=True, capture_output=True)  # noqa: S603
    assert muster("log", "sign", signed.log, "--key", key).exit_code == 0
    assert muster("log", "verify", signed.log, "--public-key", public).exit_code == 0


def test_bad_keys_and_heads_are_one_line(signed: Signed) -> None:
    folder, log = signed.log.parent, signed.log
    (folder / "text").write_text("no key\n")
    (folder / "bad").write_text('{"position":1}\n')
    for words, said in {
        ("sign", log, "--key", folder / "none"): "none: no such file",
        ("sign", log, "--key", folder): "is a directory",
        ("sign", log, "--key", folder / "text"): "text: not a private key in PEM form",
        ("sign", log, "--key", signed.public): "not a private key in PEM form",
        ("keygen", "--key", signed.key): "exists; a key is never replaced",
        ("keygen", "--key", folder / "no" / "key"): "key: No such file or directory",
        ("verify", log, "--public-key", signed.key): "it is a private key, give the public one",
        ("verify", log, "--expect", "5:abc"): "--expect: '5:abc' is not POSITION:DIGEST",
        ("verify", log, "--signatures", signed.copy): "--signatures needs --public-key",
        (
            *("verify", log, "--public-key", signed.public),
            *("--signatures", folder / "bad"),
        ): "bad, line 1: not a signature: ",
    }.items():
        result = muster("log", *words)
        assert result.exit_code == 2, (words, result.output)
        assert said in error_of(result), words
