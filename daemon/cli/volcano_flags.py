"""The options of Volcano's scheduler, as `muster run` understands them (volcano E.1).

A Deployment of Volcano's scheduler keeps its arguments. What has a meaning here becomes a setting; what
muster does anyway is silent; what means nothing here is named in a warning; what would let muster place pods
otherwise than was asked for, and cannot be done, is an error. muster's own options come first.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import structlog
from msgspec import Struct, structs

from daemon.settings import Settings
from events.duration import SECOND, nanoseconds
from events.errors import UsageError

METRICS_ADDRESS: Final = ":8080"
HEALTHZ_ADDRESS: Final = ":11251"
"""The default address of Volcano's scheduler."""

VOLCANO: Final = "volcano"
"""The default schedulerName of Volcano's scheduler."""

REDIRECTION: Final = "2>&1"
"""An argument in Volcano's own manifests, where no shell reads it."""

DETAILED: Final = 4
"""The least verbosity at which Volcano's scheduler logs pod by pod."""

_WHERE: Final = "volcano"
"""The key of the given flags in click's context."""

Take = Callable[[Settings, str], Settings]

logger: Final = structlog.get_logger("muster")


class Flag(Struct, frozen=True):
    """An option of Volcano's scheduler. `take` converts its value to settings, `only` are its allowed values."""

    name: str
    becomes: str
    """What muster does instead, in a few words."""
    take: Take | None = None
    only: tuple[str, ...] = ()
    is_idle: bool = False
    """Whether it has no effect, which is reported."""
    is_switch: bool = False
    """Whether it may be given without a value, for `true`."""


def truth(name: str, text: str) -> bool:
    """Parse a boolean as Go does."""
    for value, words in ((True, "1 t T TRUE true True"), (False, "0 f F FALSE false False")):
        if text in words.split():
            return value
    raise UsageError(f"{name}: {text!r} is neither true nor false")


def seconds(name: str, text: str) -> float:
    """Parse a positive duration such as `3s`."""
    try:
        span = nanoseconds(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    if not span:
        raise UsageError(f"{name}: it must be more than nothing")
    return span / SECOND


def _timed(key: str, flag: str) -> Take:
    def take(settings: Settings, text: str) -> Settings:
        return structs.replace(settings, **{key: seconds(flag, text)})

    return take


def _lease_seconds(settings: Settings, text: str) -> Settings:
    span = seconds("--leader-elect-lease-duration", text)
    return structs.replace(settings, lease_seconds=math.ceil(span))


def _elect(settings: Settings, text: str) -> Settings:
    return structs.replace(settings, leader_elect=truth("--leader-elect", text))


def _lease_name(settings: Settings, text: str) -> Settings:
    return structs.replace(settings, lease_name=text)


def _policy(settings: Settings, text: str) -> Settings:
    return structs.replace(settings, policy=str(Path(text).absolute())) if text else settings


def _verbosity(settings: Settings, text: str) -> Settings:
    number = text.removeprefix("=")
    if not number.isdecimal():
        raise UsageError(f"-v: {number!r} is not a whole number")
    level = "debug" if int(number) >= DETAILED else settings.log_level
    return structs.replace(settings, log_level=level)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    return f"{host or '0.0.0.0'}:{port}"  # noqa: S104  # as asked


def _listen_where(settings: Settings, text: str) -> Settings:
    return structs.replace(settings, listen=_address(text))


def _listen_if(settings: Settings, text: str) -> Settings:
    if truth("--enable-metrics", text) and settings.listen == Settings().listen:
        return _listen_where(settings, METRICS_ADDRESS)
    return settings


def _probe_if(settings: Settings, text: str) -> Settings:
    if truth("--enable-healthz", text) and not settings.probes_listen:
        return structs.replace(settings, probes_listen=_address(HEALTHZ_ADDRESS))
    return settings


def _probe_where(settings: Settings, text: str) -> Settings:
    """The address of probes has no effect when they are switched off."""
    if not settings.probes_listen:
        return settings
    return structs.replace(settings, probes_listen=_address(text))


def _idle(name: str, becomes: str, *, is_switch: bool = False) -> Flag:
    return Flag(name, becomes, is_idle=True, is_switch=is_switch)


FLAGS: Final = (
    Flag("--scheduler-conf", "the policy file, as `--policy`", _policy),
    Flag("--schedule-period", "`period_seconds`", _timed("period_seconds", "--schedule-period")),
    Flag("--leader-elect", "`leader_elect`", _elect, is_switch=True),
    Flag("--leader-elect-lease-duration", "`lease_seconds`, rounded up", _lease_seconds),
    Flag(
        "--leader-elect-renew-deadline",
        "`give_up_seconds`",
        _timed("give_up_seconds", "--leader-elect-renew-deadline"),
    ),
    Flag(
        "--leader-elect-retry-period",
        "`renew_seconds`",
        _timed("renew_seconds", "--leader-elect-retry-period"),
    ),
    Flag("--leader-elect-resource-name", "`lease_name`", _lease_name),
    Flag("--leader-elect-resource-lock", "a Lease, always", only=("leases",)),
    _idle("--leader-elect-resource-namespace", "the Lease is in muster's own namespace"),
    _idle("--lock-object-namespace", "the Lease is in muster's own namespace"),
    Flag("--listen-address", "`listen`; without a host, all of them", _listen_where),
    Flag(
        "--enable-metrics",
        "`listen: 0.0.0.0:8080`, unless another is said",
        _listen_if,
        is_switch=True,
    ),
    Flag(
        "--enable-healthz",
        "`probes_listen: 0.0.0.0:11251`, where `/healthz` is answered as `/livez` is",
        _probe_if,
        is_switch=True,
    ),
    Flag("--healthz-address", "`probes_listen`, where `--enable-healthz` is said", _probe_where),
    Flag("-v", f"`log_level: debug` from {DETAILED} on", _verbosity),
    Flag("--logtostderr", "what muster does anyway", is_switch=True),
    Flag("--priority-class", "what muster does anyway", only=("true",), is_switch=True),
    Flag(
        "--disable-default-scheduler-config",
        "what muster does anyway: a file that is named and cannot be read is an error",
        is_switch=True,
    ),
    Flag("--default-queue", "the name is fixed", only=("default",)),
    Flag("--scheduler-sharding-mode", "all nodes are muster's to place on", only=("none",)),
    Flag(
        "--node-selector",
        "all nodes are muster's to place on: taint those that are not",
        only=("",),
    ),
    _idle(
        "--kube-api-qps",
        "`requests_at_once` bounds what is under way; waiting adapts to the server",
    ),
    _idle("--kube-api-burst", "as `--kube-api-qps`"),
    _idle("--node-worker-threads", "nothing works in threads"),
    _idle("--resource-sync-timeout", "nothing is decided before every list is taken in"),
    _idle("--resync-period", "a watch that breaks goes on where it ended"),
    _idle("--minimum-feasible-nodes", "every node is considered"),
    _idle("--minimum-percentage-nodes-to-find", "every node is considered"),
    _idle("--percentage-nodes-to-find", "every node is considered"),
    _idle("--cache-dumper", "`muster state` shows State at any moment", is_switch=True),
    _idle("--cache-dump-dir", "as `--cache-dumper`"),
    _idle("--plugins-dir", "a plugin that muster does not know is skipped, with a warning"),
    _idle("--ignored-provisioners", "storage is not considered"),
    _idle("--csi-storage", "storage is not considered", is_switch=True),
    _idle("--enable-pprof", "there is no such thing", is_switch=True),
    _idle("--feature-gates", "there are none"),
    _idle("--master", "the server is that of the kubeconfig, or of the pod"),
)
"""All accepted flags, besides `--scheduler-name` and `--kubeconfig`, which are also muster's own."""


def understands_volcano(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command accept Volcano's flags; `over` converts them to settings."""
    for flag in FLAGS:
        names = (flag.name, "--v") if flag.name == "-v" else (flag.name,)
        switch: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if flag.is_switch else {}
        option = click.option(
            *names, callback=_keep(flag.name), expose_value=False, hidden=True, **switch
        )
        command = option(command)
    return command


def without_redirection(arguments: Iterable[str]) -> list[str]:
    """Return the arguments without shell redirections."""
    return [one for one in arguments if one != REDIRECTION]


def given(context: click.Context) -> Mapping[str, str]:
    """Return the given flags, by name."""
    kept: Mapping[str, str] = context.meta.get(_WHERE, {})
    return kept


def over(settings: Settings, flags: Mapping[str, str]) -> Settings:
    """Return the settings with the flags applied. Raises UsageError for unsupported values."""
    for flag in FLAGS:
        text = flags.get(flag.name)
        if text is None:
            continue
        if flag.only and text not in flag.only:
            raise UsageError(f"{flag.name}={text} cannot be done: {flag.becomes}")
        if flag.take is not None:
            settings = flag.take(settings, text)
    return settings


def warn(flags: Mapping[str, str], settings: Settings) -> None:
    """Warn of flags without effect, and log the schedulerNames, whose default differs."""
    if flags and VOLCANO not in settings.scheduler_names:
        logger.warning(
            "pods of Volcano's scheduler are not ours",
            ours=list(settings.scheduler_names),
            instead=f"--scheduler-name={VOLCANO}",
        )
    for flag in FLAGS:
        if flag.is_idle and flag.name in flags:
            logger.warning(
                "an option of Volcano's means nothing here", option=flag.name, instead=flag.becomes
            )


def _keep(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.meta.setdefault(_WHERE, {})[name] = value

    return keep
