"""`muster incident`: what broke, what it hit, what was done about it, and what it cost."""

import click

from daemon.cli.output import (
    Line,
    counted,
    heading,
    log_argument,
    moment_option,
    output_option,
    print_json,
    print_lines,
    progress,
    table,
)
from daemon.cli.watching import watch_option
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.queries.incident import FoundIncidents
from daemon.queries.incident import incidents as incidents_query
from events.errors import UsageError
from replay.incident_answer import IncidentReport, JobRestart
from replay.incident_selection import Selection, parse_fault, parse_pod_group
from replay.incident_text import (
    FAULT_HEAD,
    HIT_HEAD,
    LIST_HEAD,
    MOVE_HEAD,
    PODS_MAX,
    fault_rows,
    hit_rows,
    list_row,
    move_rows,
    restart_lines,
    summary_lines,
    timeline_lines,
)
from replay.log_time import LogTime

NOT_FOUND = 1


@click.command()
@log_argument
@moment_option("--at", "Incidents at a moment.")
@click.option("--node", metavar="NODE", help="Incidents with faults of a node.")
@click.option(
    "--fault",
    metavar="FAULT",
    help="The incident of a fault: NODE/DEVICE@POSITION or NODE@POSITION; without the position, of all such faults.",
)
@click.option(
    "--pod-group", metavar="GROUP", help="Incidents that hit a pod group: NAMESPACE/NAME."
)
@output_option
@watch_option
def incident(
    log: str,
    at: LogTime | None,
    node: str | None,
    fault: str | None,
    pod_group: str | None,
    as_json: bool,
) -> int:
    """List the incidents of a log, or show one as a timeline: faults, jobs hit, decisions, moves and cost.

    An incident is a set of faults of one cause, with the restarts of jobs for them. Without an option all are
    listed; at most one option may be given. The exit code is 1 if there is no such incident.

    Examples:

    \b
        muster incident demo.db
        muster incident demo.db --fault n2@50
        muster incident demo.db --at 100s --output json
    """
    selection = _selection(at, node, fault, pod_group)

    async def ask(opened: ReadableLog) -> tuple[str, FoundIncidents]:
        with progress("incident", total=opened.head.position) as shown:
            return opened.place, await incidents_query(opened, selection, shown)

    place, found = ask_log(log, ask)
    if as_json:
        print_json(_document(place, found, selection))
    elif not found.incidents:
        print_lines(
            [f"{place}: no incident {_asked(selection, at)}up to position {found.position:,}"]
        )
    elif selection.is_everything:
        print_lines(_listed(place, found))
    else:
        for index, one in enumerate(found.incidents):
            print_lines([*([""] if index else []), *_shown(one)])
    return 0 if found.incidents else NOT_FOUND


def _selection(
    at: LogTime | None, node: str | None, fault: str | None, pod_group: str | None
) -> Selection:
    """Return what is asked for. Raises UsageError for more than one option, or one that cannot be read."""
    given = {"--at": at, "--node": node, "--fault": fault, "--pod-group": pod_group}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} exclude each other: give one of them")
    if at is not None:
        return Selection(moment=at)
    if node is not None:
        return Selection(node=node.strip().removeprefix("Node/"))
    if fault is not None:
        return parse_fault(fault)
    return Selection() if pod_group is None else parse_pod_group(pod_group)


def _asked(selection: Selection, at: LogTime | None) -> str:
    if at is not None:
        return f"at {at.text} "
    return "" if selection.is_everything else f"of {selection.text} "


def _document(place: str, found: FoundIncidents, selection: Selection) -> dict[str, object]:
    """Return the document of `--output json`: summaries if all incidents are asked for, else everything."""
    reports = found.incidents
    return {
        "log": place,
        "position": found.position,
        "incidents": [one.summary for one in reports] if selection.is_everything else list(reports),
        "left_out": found.left_out,
    }


def _listed(place: str, found: FoundIncidents) -> list[Line]:
    rows = [list_row(one.summary) for one in found.incidents]
    count = counted(len(rows), "incident")
    lines: list[Line] = [
        f"{place} up to position {found.position:,}: {count}",
        *table(LIST_HEAD, rows),
    ]
    if found.left_out:
        lines.append(f"  ... and {counted(found.left_out, 'incident')} before (--at shows them)")
    return lines


def _shown(report: IncidentReport) -> list[Line]:
    lines: list[Line] = [
        heading(f"incident {report.summary.name}: {report.summary.text}"),
        *summary_lines(report),
    ]
    if report.faults:
        lines += ["", *table(FAULT_HEAD, fault_rows(report))]
    if report.pods:
        lines += ["", *table(HIT_HEAD, hit_rows(report)), *_more(len(report.pods))]
    for one in report.restarts:
        lines += ["", *_restart(one)]
    lines += [
        "",
        heading("timeline (to each command add --log LOG, or set MUSTER_LOG):"),
        *timeline_lines(report),
    ]
    return lines


def _restart(one: JobRestart) -> list[Line]:
    return [
        heading(f"restart of {one.pod_group} at {one.at} (position {one.position}):"),
        *restart_lines(one),
        *table(MOVE_HEAD, move_rows(one)),
        *_more(len(one.moves)),
    ]


def _more(count: int) -> list[Line]:
    return [f"  ... and {count - PODS_MAX:,} more (JSON has all)"] if count > PODS_MAX else []
