"""`muster why`: the chain of causes, now or then."""

import asyncio
from pathlib import Path

import click
import msgspec

from daemon.cli.output import (
    at_option,
    output_option,
    print_json,
    print_lines,
    progress,
)
from daemon.cli.watching import watch_option
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.tenant_client import SERVICE, ask_daemon
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.queries import why as why_query
from daemon.queries.tenant_answer import tenant_answer
from events.errors import ClusterError, UsageError
from replay.log_time import HEAD, LogTime
from replay.why_answer import Answer
from replay.why_text import lines_of


@click.command()
@click.argument("subject", metavar="SUBJECT")
@click.option(
    "--log",
    "log",
    metavar="LOG",
    envvar="MUSTER_LOG",
    help="Database URL, SQLite file or bundle; by default MUSTER_LOG. Without either, a running daemon is asked.",
)
@at_option
@click.option(
    "--tenant",
    "as_tenant",
    is_flag=True,
    help="Leave out what a tenant of the subject's namespace may not know.",
)
@click.option("--server", metavar="URL", help="Ask the daemon at this URL.")
@click.option(
    "--service",
    metavar="NAMESPACE/NAME:PORT",
    default=SERVICE,
    show_default=True,
    help="Ask the daemon behind this Service, through the API server.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The kubeconfig whose token is sent to the daemon.",
)
@click.option("--context", "kube_context", metavar="NAME", help="A context of the kubeconfig.")
@output_option
@watch_option
def why(
    subject: str,
    log: str | None,
    at: LogTime | None,
    as_tenant: bool,
    server: str | None,
    service: str,
    kubeconfig: Path | None,
    kube_context: str | None,
    as_json: bool,
) -> None:
    """Explain a pod, pod group, node or queue, now or at an earlier moment, with the numbers of that moment.

    SUBJECT is NAMESPACE/NAME, or Pod/NAMESPACE/NAME, PodGroup/..., Node/NAME, Queue/NAME. Deleted
    objects are explained too. With --output json every node is listed for a pod or pod group: whether it fits, why
    not, its score by plugin in thousandths of a point, and the devices.

    Without a log, a running daemon is asked about a pod or PodGroup with the token of the kubeconfig, through the API server
    or at --server. It answers who may `get` the object, and leaves out what --tenant leaves out.

    Examples:

    \b
        muster why default/openb-pod-0123 --log demo.db
        muster why Node/openb-node-0001 --log demo.db --at 20000
        muster why default/openb-pod-0123 --log demo.db --at -30s
        muster why team-a/train-0 --server https://muster.example.com
    """
    if log is None or server is not None:
        if at is not None:
            raise UsageError("--at needs a log: a daemon answers about the present")
        access = Access(kubeconfig=kubeconfig, context=kube_context)
        body = asyncio.run(ask_daemon(_namespaced(subject), access, server, service))
        _show(_decoded(body), as_json=as_json)
        return
    moment = HEAD if at is None else at

    async def ask(found: ReadableLog) -> Answer:
        with progress("why", total=moment.position or found.head.position) as shown:
            return await why_query.why(
                found,
                subject,
                moment,
                with_every_node=as_json and not as_tenant,
                progress=shown,
            )

    if as_tenant:
        _namespaced(subject)
    answer = ask_log(log, ask)
    _show(tenant_answer(answer) if as_tenant else answer, as_json=as_json)


def _namespaced(subject: str) -> str:
    """Return `Kind/namespace/name` of a pod or PodGroup; NAMESPACE/NAME is a pod."""
    parts = subject.split("/")
    if len(parts) == 2:
        parts = ["Pod", *parts]
    if len(parts) != 3 or parts[0] not in ("Pod", "PodGroup") or not all(parts):
        raise UsageError(
            f"{subject}: tenants are answered about NAMESPACE/NAME of a pod or PodGroup/NAMESPACE/NAME"
        )
    return "/".join(parts)


def _decoded(body: bytes) -> Answer:
    try:
        return msgspec.json.decode(body, type=Answer)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ClusterError(f"the answer of the daemon cannot be read: {error}") from error


def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print_lines(lines_of(answer))
