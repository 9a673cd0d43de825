"""Makes the pages that are made from the code; with `--check`, only says which are stale.

Texts come from docstrings, including the strings below fields and constants, so a page can be no
better than they are.
"""

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click

from events.record import Fact
from events.standing.kinds import STANDING
from events.union import EVENTS
from projections.views import catalogue

HERE = Path(__file__).parent
ASKING = """\
These queries stand in [questions.sql](examples/questions.sql), written for the log of `make demo`, and run on
both databases. Open the log of a running daemon with `sqlite3 -readonly`. Window functions need SQLite 3.25.

Where a pod accepts several cards, what it asks for stands under all of them (`P100|V100M16`) until it has a
node; then it is charged the card it got. Of pods that name no card (`unnamedCardPolicy: infer`) it stands
under the resource (`nvidia.com/gpu`) meanwhile. Such rows are no quotas: only what is allocated counts
against a card's, and the capability of a row with several names is the sum of theirs."""
PROBES = """\
Over HTTP, at the address that `listen` in the [settings](settings.md) names, are answered:

| path | |
| --- | --- |
| `/livez`, `/healthz` | 200 while everything that has to move does, else 503. JSON: `live`, and in `still` what stands still, with seconds |
| `/readyz` | 200 where there is no reason against it, else 503. JSON: `ready`, `role` (`starting`, `leader`, `standby`, `shadow`), and `reasons` |
| `/metrics` | the metrics below, as text for Prometheus |

These ask for no token, as kubelets and Prometheus bring none. Everything else is answered on a loopback address only,
or to a request with the token of `token_file`. Where `probes_listen` names another address, the probes alone are
answered there, too. Connections and requests are [bounded](limits.md#the-http-server-of-the-daemon)."""
MADE = "<!-- Made by `make docs` from the code; do not edit. -->"


def main() -> str | None:
    """Writes every page, or checks them all and returns what to say of those that are stale."""
    pages = {
        "events.md": events_page(),
        "views.md": views_page(),
        "settings.md": settings_page(),
        "metrics.md": metrics_page(),
    }
    if importlib.util.find_spec("daemon.cli.app") is not None:
        pages["commands.md"] = commands_page()
        pages["../daemon/cli/completion_table.json"] = completion_table()
    if "--check" in sys.argv[1:]:
        stale = [f"docs/{name}" for name, text in pages.items() if _read(HERE / name) != text]
        return f"stale, run `make docs`: {', '.join(stale)}" if stale else None
    for name, text in pages.items():
        (HERE / name).write_text(text, encoding="utf-8")
    return None


def completion_table() -> str:
    """The table that shell completion answers from."""
    from daemon.cli.app import cli
    from daemon.cli.completion_table import table_text

    return table_text(cli)


def events_page() -> str:
    """Every kind of record, in the order of the union, a section a module."""
    lines = ["# Events", "", MADE, "", _prose(importlib.import_module("events.record")), ""]
    module = ""
    for event in (*EVENTS, *STANDING):
        section = event.__module__
        if section.startswith("events.decisions."):
            section = "events.decision"
        if section != module:
            module = section
            lines += [f"## {module}", "", _prose(importlib.import_module(module)), ""]
        lines += [f"### `{event.kind}`", "", _prose(event), ""]
        fields = [row for base in _bases(event) for row in _fields(base)]
        if fields:
            lines += ["| field | type | default | |", "| --- | --- | --- | --- |", *fields, ""]
    return "\n".join(lines).rstrip() + "\n"


def views_page() -> str:
    """Every view with its columns and its key."""
    rows = _prose(importlib.import_module("projections.views.rows"))
    lines = ["# Views", "", MADE, "", rows, "", _prose(catalogue), ""]
    described = dict(_described(catalogue, catalogue.__name__))
    for view in catalogue.VIEWS:
        history = f", and `{view.name}_history`" if view.history else ""
        lines += [f"## `{view.name}`{history}", "", described[view.name.upper()], ""]
        lines += ["| column | type | |", "| --- | --- | --- |"]
        for index, (name, kind) in enumerate(view.columns):
            lines += [f"| `{name}` | {kind} | {'key' if index < view.keys else ''} |"]
        lines += [""]
    lines += [*_questions((HERE / "examples" / "questions.sql").read_text(encoding="utf-8"))]
    return "\n".join(lines).rstrip() + "\n"


def _questions(script: str) -> Iterator[str]:
    """A file of SQL as a section: what stands in comments is the text, each query a block."""
    yield from ("## Asking", "", ASKING, "")
    for question in script.strip().split("\n\n"):
        lines = question.splitlines()
        text = [line.removeprefix("-- ") for line in lines if line.startswith("--")]
        query = [line for line in lines if not line.startswith("--")]
        yield from (*text, "", "```sql", *query, "```", "")


def settings_page() -> str:
    """Every key of the settings file."""
    settings = importlib.import_module("daemon.settings")
    lines = ["# Settings", "", MADE, "", _prose(settings), "", _prose(settings.Settings), ""]
    lines += [
        "The file is YAML or JSON; an unknown key or a value of a wrong type ends with exit code 2.",
        "",
    ]
    lines += [
        "| key | type | default | |",
        "| --- | --- | --- | --- |",
        *_fields(settings.Settings),
    ]
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """Probes with the reasons they give, and every metric."""
    health, table = (
        importlib.import_module(name) for name in ("daemon.health", "daemon.metrics.table")
    )
    lines = ["# Health and metrics", "", MADE, "", PROBES, "", "## Reasons not to be ready", ""]
    lines += [_prose(health), "", "| reason | |", "| --- | --- |"]
    lines += [f"| `{key}` | {_cell(text)} |" for key, text in health.REASONS.items()]
    lines += ["", health.REASONS_TELL, "", "## Metrics", "", _prose(table), ""]
    for title, metrics in table.SECTIONS.items():
        lines += [f"### {title}", "", "| metric | type | | labels |", "| --- | --- | --- | --- |"]
        for one in metrics:
            labels = "; ".join(f"`{label}`: {_cell(text)}" for label, text in one.labels.items())
            text = _cell(one.help)
            if one.buckets:
                text += f" Buckets: {', '.join(f'{bound:g}' for bound in one.buckets)}."
            lines += [f"| `{one.name}` | {one.kind} | {text} | {labels} |"]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def commands_page() -> str:
    """Every command with its arguments and options."""
    app = importlib.import_module("daemon.cli.app")
    lines = ["# Commands", "", MADE, ""]
    for path, command in _commands("muster", app.cli):
        context = click.Context(command, info_name=path)
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [
            f"## `{path}`",
            "",
            f"    {path} {usage}",
            "",
            _prose(command.callback or command),
            "",
        ]
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        for option in (option for option in options if not option.hidden):
            names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
            lines += [f"- {names}: {_cell(option.help or '')}"]
        lines += [""] if options else []
    return "\n".join(lines).rstrip() + "\n"


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not command.hidden:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in sorted(command.list_commands(context)):
            child = command.get_command(context, name)
            assert child is not None
            yield from _commands(f"{path} {name}", child)


def _bases(event: type[Fact]) -> list[type]:
    return [base for base in reversed(event.__mro__) if issubclass(base, Fact) and base is not Fact]


def _fields(base: type) -> Iterator[str]:
    """A table row for each field that this very class adds."""
    described = dict(_described(sys.modules[base.__module__], base.__name__))
    for node in _body(sys.modules[base.__module__], base.__name__):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind = ast.unparse(node.annotation)
            if not kind.startswith("ClassVar"):
                name, text = node.target.id, _cell(described.get(node.target.id, ""))
                yield f"| `{name}` | `{_cell(kind)}` | {_default(node.value)} | {text} |"


def _default(value: ast.expr | None) -> str:
    match value:
        case None:
            return ""
        case ast.Call(keywords=[ast.keyword(arg="default_factory", value=ast.Name(id=factory))]):
            return f"empty {factory}"
        case _:
            return f"`{_cell(ast.unparse(value))}`"


def _described(module: ModuleType, name: str) -> Iterator[tuple[str, str]]:
    """Names with the string that stands right below their assignment."""
    name_before = ""
    for node in _body(module, name):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if name_before:
                yield name_before, inspect.cleandoc(text)
            case _:
                pass
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=target))
                | ast.Assign(targets=[ast.Name(id=target)])
            ):
                name_before = target
            case _:
                name_before = ""


def _body(module: ModuleType, name: str) -> list[ast.stmt]:
    """The statements of a class of the module, or of the module itself under its own name."""
    tree = ast.parse(inspect.getsource(module))
    if name == module.__name__:
        return tree.body
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return next(node.body for node in classes if node.name == name)


def _prose(thing: object) -> str:
    # Commands mark with \b what click is not to rewrap.
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "").replace("\b\n", "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
