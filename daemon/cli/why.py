"""`muster why`: the chain of causes, now or then."""

import asyncio
from pathlib import Path
from typing import Final

import click

from daemon.cli.output import (
    at_option,
    output_option,
    print_json,
    print_lines,
    progress,
    table_texts,
)
from daemon.cli.watching import watch_option
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.queries import why as why_query
from daemon.settings import read_token
from events.errors import UsageError
from replay.log_time import HEAD, LogTime
from replay.tenant_answer import TenantAnswer, tenant_answer, tenant_lines
from replay.why_answer import Answer
from replay.why_subject import candidates
from replay.why_text import lines_of

SERVICE: Final = "muster-system/https:muster-tenants:tenants"
"""The Service that is asked: its namespace, scheme, name and port (`deploy/kustomize/components/tenants`)."""

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("subject", metavar="SUBJECT")
@click.option(
    "--log",
    "log",
    metavar="LOG",
    envvar="MUSTER_LOG",
    help="Database URL, SQLite file or bundle; by default MUSTER_LOG. Without one, the running daemon is asked.",
)
@at_option
@click.option(
    "--for-tenant",
    is_flag=True,
    help="Leave out what the tenants of the namespace may not read. Pods and pod groups only.",
)
@click.option(
    "--server",
    metavar="URL",
    envvar="MUSTER_SERVER",
    help="Ask the daemon at this URL; by default MUSTER_SERVER, else the service proxy.",
)
@click.option(
    "--service",
    metavar="NS/NAME",
    default=SERVICE,
    show_default=True,
    help="Service of the daemon for the API server's service proxy.",
)
@click.option(
    "--certificate-authority", type=_FILE, help="CA of --server; by default those of the system."
)
@click.option("--token-file", type=_FILE, help="Bearer token; by default that of the kubeconfig.")
@click.option("--kubeconfig", type=_FILE, help="By default KUBECONFIG, else ~/.kube/config.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@output_option
@watch_option
def why(
    subject: str,
    log: str | None,
    at: LogTime | None,
    for_tenant: bool,
    server: str | None,
    service: str,
    certificate_authority: Path | None,
    token_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    as_json: bool,
) -> None:
    """Explain a pod, pod group, node or queue, now or at an earlier moment, with the numbers of that moment.

    SUBJECT is NAMESPACE/NAME, or Pod/NAMESPACE/NAME, PodGroup/..., Node/NAME, Queue/NAME; the name of an owner of pods (default/JOB,
    Deployment/NAMESPACE/NAME) is that of its pod group. Deleted
    objects are explained too. With --output json every node is listed for a pod or pod group: whether it fits, why
    not, its score by plugin in thousandths of a point, and the devices.

    Without --log and MUSTER_LOG the running daemon is asked about a pod or pod group that you may `get`, with the bearer token of the
    kubeconfig; its answer leaves out objects of other namespaces.

    Examples:

    \b
        muster why default/openb-pod-0123 --log demo.db
        muster why Node/openb-node-0001 --log demo.db --at 20000
        muster why default/openb-pod-0123 --log demo.db --at -30s
        kubectl muster why team-a/train-0
    """
    if log is None:
        if at is not None:
            raise UsageError("--at needs --log: the daemon is asked about now")
        # Imported here because a log needs no client of an API server.
        from daemon.cluster.client.credentials import Access
        from daemon.cluster.client.tenant import TenantAccess, ask_daemon

        reach = TenantAccess(
            server=server,
            service=service,
            authority=certificate_authority,
            token=None if token_file is None else read_token(token_file),
            access=Access(kubeconfig=kubeconfig, context=context),
        )
        _print_tenant(asyncio.run(ask_daemon(reach, _owned(subject))), as_json=as_json)
        return
    moment = HEAD if at is None else at
    if for_tenant:
        _owned(subject)

    async def ask(found: ReadableLog) -> Answer:
        with progress("why", total=moment.position or found.head.position) as shown:
            every = as_json and not for_tenant
            return await why_query.why(
                found, subject, moment, with_every_node=every, progress=shown
            )

    answer = ask_log(log, ask)
    if for_tenant:
        _owned(answer.subject)
        _print_tenant(tenant_answer(answer), as_json=as_json)
    elif as_json:
        print_json(answer)
    else:
        print_lines(lines_of(answer, table_texts))


def _owned(subject: str) -> list[tuple[str, str]]:
    """Return what a name may mean among pods and pod groups. Raises UsageError for a node or queue."""
    found = [one for one in candidates(subject) if one[0] in ("Pod", "PodGroup")]
    if not found:
        raise UsageError(
            f"{subject}: without --log the running daemon is asked, and it tells tenants about pods and pod groups only"
        )
    return found


def _print_tenant(answer: TenantAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print_lines(tenant_lines(answer))
