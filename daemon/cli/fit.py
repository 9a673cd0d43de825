"""`muster fit`: would manifests be placed now, and if not, what is missing."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from daemon.cli.inputs import load_scenario, read_policy
from daemon.cli.output import (
    Line,
    at_option,
    output_option,
    print_json,
    print_lines,
    print_warning,
    progress,
    verdict,
)
from daemon.limits import limits_of
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.queries import fit as fit_query
from daemon.simulation import SCHEDULER_NAMES, policy_of
from daemon.text_file import read_input
from events.amount_text import amounts_text
from events.daemon import PolicyChanged
from events.yaml_document import read_documents
from replay.log_time import LogTime
from replay.node_rows import pod_nodes_lines
from replay.why_text import waiting_lines
from simulator.fit import Fit, FittedPodGroup
from simulator.manifest import LocatedManifest, read_manifests

DOES_NOT_FIT = 1


@click.command()
@click.argument(
    "manifest",
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    nargs=-1,
    required=True,
)
@click.option(
    "--log",
    "log",
    metavar="LOG",
    envvar="MUSTER_LOG",
    help="Database URL, SQLite file, bundle or scenario file (.yaml); by default MUSTER_LOG.",
)
@click.option(
    "--scenario",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="In place of a log: the cluster of this scenario at time 0.",
)
@at_option
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Decide by this policy file instead of that of the log or scenario.",
)
@output_option
def fit(
    manifest: tuple[Path, ...],
    log: str | None,
    scenario: Path | None,
    at: LogTime | None,
    policy: Path | None,
    as_json: bool,
) -> int:
    """Report whether manifests would be placed now; if not, what is missing, level by level.

    MANIFEST is a file of Kubernetes manifests (`-` for standard input): pods, pod groups, Jobs, Volcano Jobs, Deployments ..., also
    queues or nodes that do not exist yet. They are added to the State of the log as if they had just been
    created; neither the log nor a cluster is changed. Exit code 1 means that some pod would wait.

    With --output json every node is listed: whether it fits the pod, why not, its score by plugin in thousandths
    of a point, and the devices that the pod would get.

    Examples:

    \b
        muster fit job.yaml --log demo.db
        muster fit queue.yaml job.yaml --log demo.db --policy volcano.conf
        muster fit job.yaml --log demo.db --at 10:05
        kustomize build . | muster fit - --log demo.db
        muster fit job.yaml --scenario docs/examples/quota.yaml --output json
    """
    nodes_max = limits_of().yaml_nodes
    documents = [one for path in manifest for one in read_documents(*read_input(path), nodes_max)]
    objects, left_out = read_manifests(documents)
    for one in left_out:
        print_warning(f"{one}: not read: it asks for no node")
    changed = None
    if policy is not None:
        changed = PolicyChanged(source=str(policy), policy=msgspec.Raw(read_policy(policy)))
    if scenario is not None and _is_given("log"):
        raise click.UsageError("--log and --scenario: only one of them can be asked")
    if scenario is None and log is not None and log.endswith((".yaml", ".yml")):
        scenario = Path(log)
    answer = _ask(log, scenario, at, objects, changed)
    if as_json:
        print_json(answer)
    else:
        print_lines(_lines(answer, scenario))
    return 0 if answer.fits else DOES_NOT_FIT


def _ask(
    log: str | None,
    scenario: Path | None,
    at: LogTime | None,
    objects: Sequence[LocatedManifest],
    policy: PolicyChanged | None,
) -> Fit:
    if scenario is not None:
        if at is not None:
            raise click.UsageError("--at is a moment of a log: a scenario begins at time 0")
        loaded = load_scenario(scenario).scenario
        policy = policy or policy_of(loaded)
        return fit_query.fit_scenario(loaded, objects, policy, SCHEDULER_NAMES)
    if log is None:
        raise click.UsageError("--log or --scenario is needed, or MUSTER_LOG")

    async def ask(found: ReadableLog) -> Fit:
        with progress("fit", total=found.head.position) as shown:
            return await fit_query.fit(found, objects, policy=policy, at=at, progress=shown)

    return ask_log(log, ask)


def _is_given(option: str) -> bool:
    """Return whether the command line gives an option, in place of an environment variable."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def _lines(answer: Fit, scenario: Path | None) -> list[Line]:
    when = f"at position {answer.position} ({answer.at})"
    if scenario is not None:
        when = f"on the cluster of {scenario} at time 0"
    lines: list[Line] = [verdict(answer.fits, f"it fits {when}", f"it does not fit {when}")]
    for one in answer.pod_groups:
        lines += ["", *_group(one)]
    for other in answer.not_ours:
        lines += ["", f"{other} is for another scheduler: muster does not decide on it"]
    return lines


def _group(one: FittedPodGroup) -> list[str]:
    lines = [f"pod group {one.pod_group} in queue {one.queue}: {one.phase}"]
    for place in one.placed:
        cards = f", charged {amounts_text(place.cards)}" if place.cards else ""
        devices = f", devices {', '.join(place.devices)}" if place.devices else ""
        lines.append(f"  {place.pod} -> {place.node}{cards}{devices}")
    lines += [f"  {pod} waits" for pod in one.waits]
    lines += [f"  evicted for it: {pod}" for pod in one.evicts]
    if one.waiting is not None:
        lines += waiting_lines(one.waiting)
    for answer in one.nodes:
        if any(node.fits for node in answer.nodes):
            lines += pod_nodes_lines(answer)
    return lines
