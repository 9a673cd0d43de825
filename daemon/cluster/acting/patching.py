"""One status patch, repeated until it is answered: patches with a uid are safe to repeat (K13.1)."""

from daemon.cluster.acting.error_classification import refusal_of
from daemon.cluster.acting.request_budget import JSON, RequestBudget
from daemon.cluster.client.calls import Call
from events.errors import ClusterError
from events.messages import OutcomeUnknown, Rejected


async def answered(
    budget: RequestBudget, call: Call, body: bytes | None = None, content_type: str = JSON
) -> bytes | Rejected | OutcomeUnknown:
    """Return the body of the answer, or the outcome of a failed request."""
    while True:
        try:
            return await budget.request(call, body=body, content_type=content_type)
        except ClusterError as error:
            failure = error
        if (refused := refusal_of(failure)) is not None:
            return refused
        if not await budget.pause(failure):
            return OutcomeUnknown(message=str(failure))
