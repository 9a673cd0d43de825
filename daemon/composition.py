"""The composition of a daemon's core: the one place where a Engine is put together for `muster run`.

Whoever decides on a log goes through here: the leader, the standby that takes over, simulations, and the
benchmarks, which therefore measure what runs.
"""

from collections.abc import Callable

from daemon.auditing import Audits
from engine.engine import Engine
from events.record import Head
from projections.internal_error import OnError, ignore
from projections.state import State
from projections.views.project import Views


def core_of(
    state: State,
    head: Head,
    *,
    views: Views | None,
    secret: tuple[str, ...] = (),
    on_error: OnError = ignore,
) -> Engine:
    """The core around a State that was folded up to a head. Annotations named in `secret` never enter the log."""
    return Engine(state, head, views=views, secret=secret, on_error=on_error)


def audits_of(step: Engine, elapsed_ns: Callable[[], int]) -> Audits:
    """The audits that run beside it, of which the loop holds a turn after each batch."""
    return Audits(step.audit, elapsed_ns)
