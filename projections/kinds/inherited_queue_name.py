"""The annotation by which namespaces and owners of pods name a queue."""

from events.limits import object_name_problem
from projections.config_errors import Pairs
from projections.pod_annotations import QUEUE_NAME


def with_valid_queue_name(annotations: dict[str, str]) -> tuple[dict[str, str], Pairs]:
    """Remove the queue name from the annotations if it is not a valid name; return the error, too."""
    problem = object_name_problem(annotations.get(QUEUE_NAME, ""))
    if not problem:
        return annotations, ()
    kept = {key: text for key, text in annotations.items() if key != QUEUE_NAME}
    text = f"{QUEUE_NAME}: {problem}; it counts as absent"
    return kept, (("InvalidQueueName", text),)
