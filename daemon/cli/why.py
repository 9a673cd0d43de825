"""`muster why`: the chain of causes, now or then."""

import click

from daemon.cli.output import (
    at_option,
    log_option,
    output_option,
    print_json,
    print_lines,
    progress,
)
from daemon.cli.watching import watch_option
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.queries import why as why_query
from replay.log_time import HEAD, LogTime
from replay.why_answer import Answer
from replay.why_text import lines_of


@click.command()
@click.argument("subject", metavar="SUBJECT")
@log_option
@at_option
@output_option
@watch_option
def why(subject: str, log: str, at: LogTime | None, as_json: bool) -> None:
    """Explain a pod, pod group, node or queue, now or at an earlier moment, with the numbers of that moment.

    SUBJECT is NAMESPACE/NAME, or Pod/NAMESPACE/NAME, PodGroup/..., Node/NAME, Queue/NAME. Deleted
    objects are explained too. With --output json every node is listed for a pod or pod group: whether it fits, why
    not, its score by plugin in thousandths of a point, and the devices.

    Examples:

    \b
        muster why default/openb-pod-0123 --log demo.db
        muster why Node/openb-node-0001 --log demo.db --at 20000
        muster why default/openb-pod-0123 --log demo.db --at -30s
    """
    moment = HEAD if at is None else at

    async def ask(found: ReadableLog) -> Answer:
        with progress("why", total=moment.position or found.head.position) as shown:
            return await why_query.why(
                found, subject, moment, with_every_node=as_json, progress=shown
            )

    answer = ask_log(log, ask)
    if as_json:
        print_json(answer)
    else:
        print_lines(lines_of(answer))
