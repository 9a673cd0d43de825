"""A refusal by quota: the resource or card that is short, and the numbers."""

from msgspec import Struct

from events import amount_text as amounts
from events.requeue import quota_events


class Shortage(Struct, frozen=True):
    """A refusal by quota: code, the resource or card that is short, and the numbers."""

    code: str
    limit: str
    message: str
    alternatives: tuple[str, ...] = ()
    """Other cards, of which any would do."""
    requeue_on: tuple[str, ...] = ()
    """The events that could change the answer (`events/requeue.py`), without those of `alternatives`."""
    node_helps: bool | None = None
    """Whether another node would let the pods run now; None: as the code says (`projections/refusals.py`)."""


def shortage(queue: str, name: str, amount: int, total: int, most: int) -> Shortage:
    """Return the refusal for a resource that is short, with the message of the card-quota design."""
    codes = {"cpu": "InsufficientCPUQuota", "memory": "InsufficientMemoryQuota"}
    shown = {"cpu": "CPU", "memory": "memory"}.get(name, f"<{name}>")
    requested, would_be, capability = (amount_text(name, one) for one in (amount, total, most))
    return Shortage(
        code=codes.get(name, "InsufficientScalarQuota"),
        limit=name,
        message=(
            f"Queue <{queue}> has insufficient {shown} quota: requested <{requested}>, "
            f"total would be <{would_be}>, but capability is <{capability}>"
        ),
        requeue_on=quota_events((name,)),
    )


def amount_text(name: str, amount: int) -> str:
    """Format an amount: cpu in milli-cores, memory in Mi, shares of cards as fractions, others in thousandths."""
    if name.endswith(amounts.SHARES):
        return amounts.amount_text(name, amount)
    if name == "memory":
        return f"{amount / (1 << 20):.10g} Mi"
    return str(amount if name == "cpu" else amount * 1000)
