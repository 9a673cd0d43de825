"""Whether the server still has the history that was handed over (rules K1.2, K20).

Revisions go back when etcd is restored from an older snapshot. A server that has not yet come to our revision
again keeps a watch from there open, and silent; one that has passed it goes on as if nothing had been. So before
each watch, and while one is silent, the server is asked how far it is, and whether the objects that changed last
were at our revision as we saw them: what a restored server has lost is what was written last.
"""

from typing import Final

from daemon.cluster.client.errors import ExpiredError, ServerError
from daemon.cluster.watching.client_protocol import (
    ApiClient,
    ExpiredHistoryError,
    RevisionWentBackError,
    WatchedKind,
)
from daemon.cluster.watching.listing import current_revision, read_object_at
from daemon.cluster.watching.rate_limit import RateLimit
from daemon.cluster.watching.watch_event import Metadata
from events.messages import ObjectRevision, ResumePoint
from events.revision import is_older

TOO_LARGE: Final = "ResourceVersionTooLarge"
"""The cause of a 504 for a revision that the server has yet to come to."""


async def check(
    server: ApiClient, watched: WatchedKind, rate_limit: RateLimit, progress: ResumePoint
) -> None:
    """Return where nothing speaks against the server's history being ours.

    WentBackError where it is another one; ExpiredHistoryError where the server has forgotten what would tell.
    It takes one request, and one or two more for each known object.
    """
    current = await current_revision(server, watched, rate_limit)
    if is_older(current, progress.resource_version):
        raise RevisionWentBackError(
            f"the server is at revision {current}, and {progress.resource_version} was seen"
        )
    for known in progress.newest:
        await _check_object(server, watched, rate_limit, known, progress.resource_version)


def is_too_large(error: Exception) -> bool:
    """Whether the server says that it has not come to a revision."""
    return isinstance(error, ServerError) and error.has_cause(TOO_LARGE)


async def _check_object(
    server: ApiClient,
    watched: WatchedKind,
    rate_limit: RateLimit,
    known: ObjectRevision,
    revision: str,
) -> None:
    """One object as it was at our revision; as it is now, where the server has forgotten that."""
    is_exact = True
    try:
        found = await read_object_at(server, watched, rate_limit, known, revision)
    except ExpiredError:
        is_exact = False
        found = await read_object_at(server, watched, rate_limit, known)
    except ServerError as error:
        if is_too_large(error):
            raise RevisionWentBackError(
                f"the server has not come to revision {revision}"
            ) from error
        raise
    what = f"{watched.name}/{known.namespace}/{known.name}"
    is_there = found is not None and found.uid == known.uid
    if known.is_gone:
        if is_there:
            raise RevisionWentBackError(f"{what}, which was deleted, is there again")
    elif found is not None and is_there:
        _check_version(what, known, found)
    elif is_exact:
        raise RevisionWentBackError(f"{what} was not there at revision {revision}, and was seen")
    else:
        raise ExpiredHistoryError(f"{what} is gone, and revision {revision} is no longer kept")


def _check_version(what: str, known: ObjectRevision, found: Metadata) -> None:
    if is_older(found.resourceVersion, known.resource_version):
        raise RevisionWentBackError(
            f"{what} is at revision {found.resourceVersion}, and {known.resource_version} was seen"
        )
