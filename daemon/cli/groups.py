"""`muster group`: show the jobs of pools; change their priority, weight, cap, position and pool while they wait or run."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from daemon.cli.command_list import CommandGroup
from daemon.cli.output import (
    Line,
    Styled,
    at_option,
    counted,
    heading,
    log_option,
    output_option,
    print_error,
    print_json,
    print_lines,
    table,
)
from daemon.cli.watching import watch_option
from events.errors import UsageError
from replay.log_time import LogTime, format_time

if TYPE_CHECKING:
    from daemon.cli.group_operations import Done
    from daemon.queries.jobs import KnownPools
    from replay.job_list import JobRow

SOME_FAILED: Final = 1
GROUP: Final = "NAMESPACE/GROUP"


class _Target(Struct, frozen=True):
    """Where a command that changes jobs works, and how it answers."""

    kubeconfig: Path | None
    context: str | None
    log: str | None
    as_json: bool


def _changes_jobs(run: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the commands that change jobs: whose permissions count, and the log with the pools."""

    @wraps(run)
    def command(
        kubeconfig: Path | None,
        context: str | None,
        log: str | None,
        as_json: bool,
        **given: object,
    ) -> None:
        run(_Target(kubeconfig, context, log, as_json), **given)

    for add in (
        output_option,
        click.option(
            "--log",
            metavar="LOG",
            envvar="MUSTER_LOG",
            help="The log of the daemon, to refuse what has no effect in the pool of the job; by default MUSTER_LOG.",
        ),
        click.option("--context", metavar="NAME", help="A context of the kubeconfig."),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The kubeconfig; by default, in a pod, its service account, else KUBECONFIG or ~/.kube/config.",
        ),
    ):
        add(command)
    return command


@click.group(cls=CommandGroup)
def group() -> None:
    """Show the jobs of pools; change their priority, weight, cap of slots, place in the queue, and pool.

    A job is a pod group (a PodGroup, or the pods of a group that has none), or all pod groups that state the same
    `muster.sh/job`. The commands write an object of the kind GroupOverride for each pod group, through the Kubernetes API with the
    credentials of the kubeconfig: `deploy/kustomize/queue-operators` has the kind and a role. Tenants cannot write it, so what it
    sets counts before what the job states, and beyond the bounds of its queue and pool. The daemon observes the change, records
    it, and uses it in its next pass.
    """


def _set_command(change: str, metavar: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that sets a value of a job, which may begin with a minus."""

    def command(run: Callable[..., None]) -> click.Command:
        settings = {"ignore_unknown_options": True}
        changes = click.argument("value", metavar=metavar)(_changes_jobs(run))
        named = click.argument("name", metavar=GROUP)(changes)
        return click.command(f"set-{change}", context_settings=settings)(named)

    return command


@_set_command("priority", "N")
def set_priority(target: _Target, name: str, value: str) -> None:
    """Set the priority of a job, 1 to 99. Its place in the queue is that of its submission time again.

    Whether a larger or a smaller number is more important is a setting of the pool. Running work is not restarted by
    the change itself.

    Examples:

    \b
        muster group set-priority ml/train 80
        muster queue set-priority ml/train 80
    """
    _change(target, name, "priority", value)


@_set_command("weight", "X")
def set_weight(target: _Target, name: str, value: str) -> None:
    """Set the weight of a job in a pool with fair share, a decimal number above 0.

    Examples:

    \b
        muster group set-weight ml/train 2.5
        muster queue set-weight ml/train 2.5
    """
    _change(target, name, "weight", value)


@_set_command("max-slots", "N|none")
def set_max_slots(target: _Target, name: str, value: str) -> None:
    """Set the most slots that a job may have at once; with `none` it has no cap, whatever it states.

    Examples:

    \b
        muster group set-max-slots ml/train 16
        muster queue set-max-slots ml/train none
    """
    _change(target, name, "max-slots", value)


@click.command()
@click.argument("name", metavar=GROUP)
@click.option("--ahead-of", metavar="OTHER", help="Put it right ahead of this group.")
@click.option("--behind", "--behind-of", metavar="OTHER", help="Put it right behind this group.")
@click.option("--pool", metavar="POOL", help="Put it into this pool.")
@_changes_jobs
def move(
    target: _Target, name: str, ahead_of: str | None, behind: str | None, pool: str | None
) -> None:
    """Move a job right ahead of or behind another one in the queue, or into another pool.

    A job that is moved ahead of or behind one of another priority takes that priority, too, where it is known: by --log, or if
    both jobs state one. To find its new neighbours, the PodGroups of all namespaces are listed, or the pods if a group has no
    PodGroup. In another pool, its place is that of its submission time.

    Examples:

    \b
        muster group move ml/train --ahead-of ml/eval
        muster queue move ml/train --behind ml/eval
        muster group move ml/train --pool h100
    """
    wanted = {"ahead-of": ahead_of, "behind": behind, "pool": pool}
    given = [(change, value) for change, value in wanted.items() if value is not None]
    if len(given) != 1:
        raise UsageError("give one of --ahead-of, --behind and --pool")
    [(change, value)] = given
    _change(target, name, change, value)


@click.command()
@click.argument("items", metavar="NAMESPACE/GROUP.KEY=VALUE...", nargs=-1, required=True)
@_changes_jobs
def update(target: _Target, items: tuple[str, ...]) -> None:
    """Change several jobs, one after the other. What fails does not undo or stop the rest; then the exit code is 1.

    KEY is priority, weight, max-slots, pool, ahead-of or behind. If one of the items cannot be read, nothing is changed.

    Examples:

    \b
        muster group update ml/train.priority=80 ml/eval.weight=0.5
        muster queue update ml/train.ahead-of=ml/eval
    """
    # Imported here because `muster queue list` needs no client of an API server.
    from daemon.cli.group_operations import Done, parse_items, run_all
    from daemon.cluster.client.credentials import Access

    wanted = parse_items(items)
    access = Access(kubeconfig=target.kubeconfig, context=target.context)
    results = run_all(access, wanted, _known_pools(target))
    for one in results:
        if target.as_json:
            print_json(one)
        elif isinstance(one, Done):
            print_lines([_line(one)])
        else:
            print_error(f"{one.group}: {one.change}: {one.error}")
    if not all(isinstance(one, Done) for one in results):
        raise click.exceptions.Exit(SOME_FAILED)


@click.command()
@click.argument("name", metavar=GROUP, required=False)
@click.option(
    "--void",
    is_flag=True,
    help="Delete what is set for pod groups that are gone, at most 1,000 objects.",
)
@_changes_jobs
def reset(target: _Target, name: str | None, void: bool) -> None:
    """Remove what operators have set for a job: what it states counts again, within the bounds of its queue and pool.

    Examples:

    \b
        muster group reset ml/train
        muster group reset --void
    """
    from daemon.cli.group_operations import reset_job, reset_void
    from daemon.cluster.client.credentials import Access

    if (name is None) != void:
        raise UsageError("give a job, or --void")
    access = Access(kubeconfig=target.kubeconfig, context=target.context)
    if name is not None:
        done = reset_job(access, name)
        if target.as_json:
            print_json(done)
        else:
            print_lines([_line(done)])
        return
    gone = reset_void(access)
    if target.as_json:
        for one in gone:
            print_json(one)
    else:
        print_lines([f"deleted {counted(len(gone), 'object')} of pod groups that are gone"])


OPERATIONS: Final = (set_priority, set_weight, set_max_slots, move, update)
"""The commands that change jobs, which `muster queue` has as well."""

for _operation in OPERATIONS:
    group.add_command(_operation)
group.add_command(reset)


@group.command("overrides")
@_changes_jobs
def list_overrides(target: _Target) -> None:
    """List what operators have set for jobs, and what of it is void because the pod group is gone.

    Example:

    \b
        muster group overrides
    """
    from daemon.cli.group_operations import override_rows
    from daemon.cluster.client.credentials import Access

    rows = override_rows(Access(kubeconfig=target.kubeconfig, context=target.context))
    if target.as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        print_lines(["operators have set nothing"])
        return
    cells = [
        (
            row.group or row.name,
            ", ".join(f"{key} {value}" for key, value in row.values.items()) or "-",
            row.void or "in force",
        )
        for row in rows
    ]
    print_lines(table(("group", "set", "state"), cells))


@group.command("list")
@log_option
@click.option("--pool", default="", metavar="POOL", help="Only the jobs of this pool.")
@at_option
@output_option
@watch_option
def list_jobs(log: str, pool: str, at: LogTime | None, as_json: bool) -> None:
    """List the jobs of pools in the order in which they are served: state, slots, and why they wait.

    The pools are those that are decided by `priority`, `fair_share` or `round_robin`.

    Examples:

    \b
        muster group list --log muster.db
        muster group list --log muster.db --pool h100 --output json
    """
    from daemon.log.opening import ask_log
    from daemon.queries.jobs import all_jobs

    answers, _ = ask_log(log, lambda found: all_jobs(found, pool, at))
    if not answers and not as_json:
        print_lines(["the policy names no pool of jobs: `muster queue list` shows the queues"])
    for answer in answers:
        if as_json:
            print_json(answer)
            continue
        order = answer.priority_direction.replace("_", " ")
        head = f"pool {answer.pool}: {answer.decider}"
        head += f" ({order})" if answer.decider == "priority" else ""
        sizes = f"{counted(answer.nodes, 'node')}, {counted(len(answer.jobs), 'job')}"
        print_lines([heading(f"{head}, {sizes}")])
        print_lines(table(_JOB_COLUMNS, [_job_cells(one) for one in answer.jobs]))


@group.command("show")
@click.argument("name", metavar="NAMESPACE/JOB")
@log_option
@at_option
@output_option
@watch_option
def show_job(name: str, log: str, at: LogTime | None, as_json: bool) -> None:
    """Show one job of a pool, by its name or by that of one of its pod groups or pods.

    Example:

    \b
        muster group show ml/train --log muster.db
    """
    from daemon.log.opening import ask_log
    from daemon.queries.jobs import one_job

    job, position = ask_log(log, lambda found: one_job(found, name, at))
    if as_json:
        print_json(job)
        return
    place = "" if job.position is None else f", number {job.position} of its pool"
    lines: list[Line] = [
        (
            Styled(job.display_name, is_bold=True),
            f" in pool {job.pool} at position {position}: {job.state}",
        ),
        f"  pool       {job.pool} ({job.sources['pool']})",
        f"  slots      {job.slots_acquired} of {job.slots_needed}{place}",
        f"  tasks      {job.tasks_running} with nodes, {job.tasks_queued} queued",
        f"  submitted  {format_time(job.submitted_ns, job.submitted_ns)} ({job.sources['submissionTime']})",
        *(
            [f"  position   ({job.sources['position']})"]
            if job.position is not None and job.sources["position"] != "default"
            else []
        ),
        *(
            [f"  priority   {job.priority} ({job.priority_source})"]
            if job.priority is not None
            else []
        ),
        *(
            [f"  weight     {job.weight} ({job.sources['weight']})"]
            if job.weight is not None
            else []
        ),
        *(
            [f"  max slots  {job.max_slots} ({job.sources['maxSlots']})"]
            if job.max_slots is not None
            else []
        ),
        *([] if job.is_preemptible else ["  it is not preemptible"]),
        *([f"  waits      {job.code}: {job.message}"] if job.code else []),
        *(f"  note       {one}" for one in job.problems),
    ]
    print_lines(lines)


_JOB_COLUMNS: Final = ("#", "job", "priority", "weight", "slots", "state", "waits for")


def _job_cells(job: "JobRow") -> tuple[str, ...]:
    return (
        "N/A" if job.position is None else str(job.position),
        job.display_name,
        "-" if job.priority is None else str(job.priority),
        "-" if job.weight is None else job.weight,
        f"{job.slots_acquired}/{job.slots_needed}",
        job.state,
        job.code or "-",
    )


def _change(target: _Target, name: str, change: str, value: str) -> None:
    """Change one job, and print what was done."""
    # Imported here because `muster queue list` needs no client of an API server.
    from daemon.cli.group_operations import operation, run_one
    from daemon.cluster.client.credentials import Access

    wanted = operation(name, change, value)
    access = Access(kubeconfig=target.kubeconfig, context=target.context)
    done = run_one(access, wanted, _known_pools(target))
    if target.as_json:
        print_json(done)
    else:
        print_lines([_line(done)])


def _known_pools(target: _Target) -> "KnownPools | None":
    """Return the pools of the log, if there is one."""
    from daemon.log.opening import ask_log
    from daemon.queries.jobs import known_pools

    return ask_log(target.log, known_pools) if target.log else None


def _line(done: "Done") -> Line:
    """Return what was done as one line, with the number of objects if these were several."""
    suffix = f" ({len(done.objects)} pod groups)" if len(done.objects) > 1 else ""
    return (Styled(done.group, is_bold=True), f": {done.message}{suffix}")
