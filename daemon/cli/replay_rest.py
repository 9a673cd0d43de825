"""The answer of `muster replay --all`, as text and as JSON."""

from daemon.cli.decision_table import decision_documents, decision_lines, model_lines
from daemon.cli.figures import queue_table, totals_table
from daemon.cli.output import Line, heading, verdict
from daemon.queries.replay import replay_document
from daemon.queries.replay_rest import ReplayedRest
from replay.log_time import format_time
from replay.what_if_comparison import Branch
from replay.what_if_document import run_document, seconds_of
from scheduling.decide import DECIDER

SHOWN_MAX = 20
"""The most decisions that the text shows."""

TITLES = ("recorded", "now")


def rest_lines(rest: ReplayedRest, policy: str) -> list[Line]:
    """Return the text. `policy` is the file of the other policy; empty under the recorded one."""
    branch = rest.branch
    at, end = (format_time(one, branch.start_ns) for one in (branch.at_ns, branch.end_ns))
    how = f"under {policy}" if policy else f"by version {DECIDER} of the deciding code"
    return [
        (
            verdict(rest.is_equal, "equal", "different"),
            f": {branch.place} behind position {branch.head.position}, {at} to {end}",
        ),
        f"decided again {how}",
        *_divergence_lines(rest),
        *_simulation_lines(branch, is_changed=bool(policy)),
        *_decision_lines(rest),
        heading("the account"),
        *_totals(branch, is_changed=bool(policy)),
        heading("by queue, recorded -> now"),
        *queue_table(branch.recorded, branch.changed, "queue"),
    ]


def rest_document(rest: ReplayedRest) -> dict[str, object]:
    """Return the document: that of a replay, with the rest of the log."""
    branch = rest.branch
    starts = (branch.start_ns, branch.start_ns)
    head: dict[str, object]
    if rest.replayed is not None:
        head = replay_document(rest.replayed)
    else:
        head = {"log": branch.place, "equal": rest.is_equal, "decider": DECIDER}
    return {
        **head,
        "rest": {
            "position": branch.head.position,
            "at_seconds": seconds_of(branch.at_ns - branch.start_ns),
            "end_seconds": seconds_of(branch.end_ns - branch.start_ns),
            "decisions": decision_documents(rest.differences, TITLES, starts),
            "recorded": run_document(branch.recorded),
            "model": run_document(branch.model),
            "now": run_document(branch.changed),
        },
    }


def _decision_lines(rest: ReplayedRest) -> list[Line]:
    branch = rest.branch
    if not rest.differences and not rest.is_equal:
        return ["no decision differs but in its text"]
    starts = (branch.start_ns, branch.start_ns)
    runs = (branch.recorded, branch.changed)
    return decision_lines(rest.differences, runs, TITLES, starts, SHOWN_MAX)


def _divergence_lines(rest: ReplayedRest) -> list[Line]:
    found = None if rest.replayed is None else rest.replayed.divergence
    if found is None:
        return []
    return [f"first divergence at position {found.position}: {found.what}"]


def _simulation_lines(branch: Branch, *, is_changed: bool) -> list[Line]:
    """Say what of the differences may be that of the simulation."""
    if is_changed:
        return model_lines(branch)
    return ["what answered the decisions is simulated: some times may differ for that reason"]


def _totals(branch: Branch, *, is_changed: bool) -> list[Line]:
    if not is_changed:
        return totals_table(TITLES, (branch.recorded, branch.changed))
    titles = ("recorded", "same policy", "now")
    return totals_table(titles, (branch.recorded, branch.model, branch.changed))
