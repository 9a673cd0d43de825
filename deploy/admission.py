"""The page of privileges, made from the table in `events/privileges.py`."""

from collections.abc import Iterator

from events.privileges import FIELD, OBJECT, SECTIONS, SET, Privilege

INTRO = """\
What a tenant, a controller or an operator can write that changes a decision, what it can do to others, and what bounds it. The
table is in `events/privileges.py`; a test fails if the code reads a key that is not in it.

The scheduler sees what an object states, not who wrote it. Two bounds therefore stand beside each other: what the policy of
muster allows to be stated, whatever the API server accepts (*bounded by*), and the right that admission asks of the writer."""


def page(made: str) -> str:
    """Return the page of privileges."""
    lines = ["# Privileges", "", f"<!-- {made} -->", "", INTRO, ""]
    for section in SECTIONS:
        lines += [f"## {section.title}", ""]
        lines += ["| key | on | written by | effect | to others | bounded by | right |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [*map(_line, section.rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _line(row: Privilege) -> str:
    key = row.key if row.form == OBJECT or " " in row.key else f"`{row.key}`"
    cells = (
        key if row.form in (OBJECT, FIELD) else f"{key} ({row.form})",
        ", ".join(row.kinds),
        ", ".join(row.writers),
        row.effect,
        row.others,
        row.bound,
        _right(row),
    )
    return f"| {' | '.join(cells)} |"


def _right(row: Privilege) -> str:
    if not row.verb:
        return ""
    return "; ".join(_needed(row))


def _needed(row: Privilege) -> Iterator[str]:
    what = f"`{row.key}`" if row.verb == SET else f"`{row.resource}`"
    yield f"`{row.verb}` {what}"
    values = ", ".join(f"`{one}`" for one in row.harmless if one)
    if values:
        yield f"none for {values}"
