"""The composition of the core: the one place that builds the Engine of `muster run`.

The leader, the standby that takes over, simulations and the benchmarks all build it here, so benchmarks measure what
runs.
"""

from collections.abc import Callable

from daemon.auditing import Audits
from engine.engine import Engine
from events.record import Head
from projections.internal_error import OnError, ignore
from projections.state import State
from projections.views.project import Views


def build_engine(
    state: State,
    head: Head,
    *,
    views: Views | None,
    secret: tuple[str, ...] = (),
    on_error: OnError = ignore,
) -> Engine:
    """The core around a State that was folded up to a head. Annotations named in `secret` never enter the log."""
    return Engine(state, head, views=views, secret=secret, on_error=on_error)


def audits_of(engine: Engine, elapsed_ns: Callable[[], int]) -> Audits:
    """The audits that run beside it, of which the loop holds a turn after each batch."""
    return Audits(engine.audit, elapsed_ns)
