"""Resource versions, compared in one place (rule K1.2). Never across resources; never as our own order."""


def is_sound(revision: str) -> bool:
    """Whether it is a positive decimal number without leading zeros, and so can be compared."""
    return revision.isascii() and revision.isdigit() and revision[0] != "0"


def is_later(revision: str, than: str) -> bool:
    """Whether a revision of one resource came after another. One that cannot be compared counts as later."""
    if not than or not is_sound(revision) or not is_sound(than):
        return revision != than
    return (len(revision), revision) > (len(than), than)
