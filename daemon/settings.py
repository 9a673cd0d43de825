"""Settings of the process: one file, and a few environment variables.

How muster decides is policy, which is recorded in the log; no setting changes a decision.
"""

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from daemon.address import parse_address
from daemon.environment import ENVIRONMENT
from daemon.limits import limits_of
from daemon.text_file import read_text
from events.errors import SettingsError, UsageError
from events.yaml_document import read_data

SECONDS_MAX: Final = 1_000_000_000.0
"""Seconds of a setting: some 31 years. Whole nanoseconds are made of them."""


RETAIN_DAYS_MAX: Final = 36_500.0
POD_LABELS_MAX: Final = 32
"""Every row of the view `pod` has room for so many labels."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the daemon, as `run --config FILE` reads them."""

    log: str | None = None
    """URL or path of the log; `--log` and MUSTER_LOG take precedence."""
    policy: str | None = None
    """The policy file, relative to the folder of this file, or `plain` for the built-in policy without quotas; `--policy` takes
    precedence."""
    holder: str = "muster"
    """The name of this daemon in the log."""
    period_seconds: float | None = None
    """Shortest time between two cycles in seconds; by default that of the scenario."""
    scheduler_names: tuple[str, ...] = ("muster",)
    """muster schedules pods with one of these as `schedulerName`."""
    pod_labels: tuple[str, ...] = ()
    """Keys of the labels of pods that the view `pod` shows, such as `team`: what is asked for in SQL by team, project or cost centre."""
    shadow_of: tuple[str, ...] = ()
    """Run as a shadow of the schedulers of these names: record the cluster, decide about their pods, and act on nothing;
    `--shadow --of` takes precedence. `scheduler_names` and leader election have no effect then."""
    shadow_hold_seconds: float = 300.0
    """Seconds for which a shadow assumes a placement that it decided and the cluster does not show."""
    requests_at_once: int = 32
    """Most concurrent requests to the API server."""
    grace_seconds: float = 20.0
    """Seconds that a shutdown waits for requests and a cycle under way."""
    secret_annotations: tuple[str, ...] = ()
    """Annotations that are left out of the log, in addition to values of environment variables and commands."""
    snapshot_every: int = 20_000
    """Records between two snapshots of State, which make the next start, and questions about the past, short; 0 for none. They are
    written beside the loop in at most a twentieth of the time, and fewer are kept further back."""
    anchor_seconds: float = 900.0
    """Seconds between two anchors of the log: position and digest of its head as a metric and as an Event on the Lease, and signed if there
    is a `sign_key`. 0 for none."""
    sign_key: str | None = None
    """A file with the private Ed25519 key (PEM) that signs the head of the log, relative to the folder of this file. Without it
    nothing is signed."""
    accept_loss: tuple[str, ...] = ()
    """Go on with a log that lost its end: POSITION:DIGEST of what the error names as lost. The loss is recorded once, and no other one
    is accepted; `muster log accept-loss` does the same."""
    retain_days: float = 0.0
    """Days that records stay in the log; older ones are archived, a day or more at once, up to a snapshot, beside the loop in at most
    a twentieth of the time. 0 keeps all. Needs `archive_folder` and snapshots."""
    archive_folder: str | None = None
    """The folder of the archives, relative to the folder of this file; it must be there, and have room."""
    listen: str = "127.0.0.1:8080"
    """Host and port of probes and metrics; empty for none."""
    probes_listen: str = ""
    """Another host and port, for probes only; empty for none."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that HTTP requests may use, in addition to `localhost`, every IP address and the host in `listen`.
    A request with another Host header is answered 421."""
    token_file: str | None = None
    """A file with the bearer token that requests need except for probes and metrics, relative to the folder of
    this file. Without it, such requests are answered on a loopback address only."""
    tenants_listen: str = ""
    """Host and port for questions of tenants, who present a Kubernetes bearer token; empty for none."""
    tenants_certificate_file: str | None = None
    """The TLS certificate for `tenants_listen`, relative to the folder of this file; needed unless on a loopback address."""
    tenants_key_file: str | None = None
    """The key of that certificate."""
    kubeconfig: str | None = None
    """The kubeconfig, relative to the folder of this file; `--kubeconfig` takes precedence. Without one, the
    service account in a pod, and KUBECONFIG elsewhere."""
    context: str | None = None
    """A context of the kubeconfig; by default its current one."""
    leader_elect: bool = True
    """Whether the leader holds a Lease. Without it only the epoch in the log separates two daemons."""
    lease_name: str = "muster"
    """The name of the Lease, in muster's own namespace."""
    lease_seconds: int = 15
    """Seconds without a renewal after which another daemon may take over."""
    renew_seconds: float = 2.0
    """Seconds between two renewals of the Lease."""
    give_up_seconds: float = 10.0
    """Seconds without a renewal after which a leader stops; less than `lease_seconds`."""
    streams_lists: bool = False
    """Whether to request streaming lists; paged lists are used if the API server does not support them."""
    full_list_seconds: float = 3600.0
    """Seconds between two full lists of each kind, which are compared with the log; the first one
    is taken within ten minutes of a start. 0 for none."""
    writes_events: bool = True
    """Whether Kubernetes Events are written."""
    evictions_per_minute: int = 120
    """Most evictions in a minute, in the whole cluster; [shared](effects.md#evictions-of-a-minute) between tenants and queues."""
    evictions_per_workload: int = 30
    """Most evictions in a minute of the pods of one owner, and of the pods without an owner in one namespace."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of the lines on stderr. Records are logged at `info`."""


def as_shadow(settings: Settings, of: tuple[str, ...]) -> Settings:
    """The settings of a shadow of these schedulers: it writes neither Events nor a Lease."""
    return structs.replace(
        settings,
        shadow_of=of,
        scheduler_names=of,
        leader_elect=False,
        writes_events=False,
    )


def read_settings(path: Path) -> Settings:
    """The settings of a YAML or JSON file. An unknown key or a wrong type names the key."""
    try:
        document = read_data(read_text(path), str(path), limits_of().yaml_nodes)
        settings = msgspec.convert(document or {}, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {error}") from error
    positive = (
        "period_seconds",
        "requests_at_once",
        "grace_seconds",
        "shadow_hold_seconds",
        "lease_seconds",
        "renew_seconds",
    )
    for key in (*positive, "give_up_seconds", "evictions_per_minute", "evictions_per_workload"):
        value: float | None = getattr(settings, key)
        if value is not None and value <= 0:
            raise SettingsError(f"{path}: {key} must be more than nothing")
        if value is not None and not value <= SECONDS_MAX:
            raise SettingsError(f"{path}: {key} must be at most {SECONDS_MAX:,.0f}")
    for key in ("snapshot_every", "full_list_seconds", "anchor_seconds"):
        if not 0 <= getattr(settings, key) <= SECONDS_MAX:
            raise SettingsError(
                f"{path}: {key} must not be less than nothing or more than {SECONDS_MAX:,.0f}"
            )
    if settings.sign_key is not None and not settings.anchor_seconds:
        raise SettingsError(f"{path}: sign_key: nothing is signed if anchor_seconds is 0")
    _check_retention(path, settings)
    _check_listen(path, settings)
    if not settings.scheduler_names or not all(settings.scheduler_names):
        raise SettingsError(f"{path}: scheduler_names must name at least one scheduler")
    if "" in settings.pod_labels or len(settings.pod_labels) > POD_LABELS_MAX:
        raise SettingsError(
            f"{path}: pod_labels must name at most {POD_LABELS_MAX} labels, and none that is empty"
        )
    if not all(settings.shadow_of):
        raise SettingsError(f"{path}: shadow_of has an empty name")
    return settings


def _check_retention(path: Path, settings: Settings) -> None:
    if not 0 <= settings.retain_days <= RETAIN_DAYS_MAX:
        raise SettingsError(
            f"{path}: retain_days must not be less than nothing or more than {RETAIN_DAYS_MAX:,.0f}"
        )
    if not settings.retain_days:
        return
    if not settings.archive_folder:
        raise SettingsError(f"{path}: retain_days needs archive_folder, where archives are written")
    if not settings.snapshot_every:
        raise SettingsError(f"{path}: retain_days needs snapshots: snapshot_every must not be 0")
    folder = path.parent / with_environment(settings.archive_folder, str(path))
    if not folder.is_dir():
        raise SettingsError(f"{path}: archive_folder: {folder} is no folder")


def _check_listen(path: Path, settings: Settings) -> None:
    for key in ("listen", "probes_listen", "tenants_listen"):
        if address := getattr(settings, key):
            try:
                parse_address(address)
            except SettingsError as error:
                raise SettingsError(f"{path}: {key}: {error}") from None
    has_certificate = settings.tenants_certificate_file is not None
    if has_certificate != (settings.tenants_key_file is not None):
        raise SettingsError(
            f"{path}: tenants_certificate_file and tenants_key_file: one without the other"
        )
    is_open = settings.tenants_listen and not parse_address(settings.tenants_listen).is_loopback
    if is_open and not has_certificate:
        raise SettingsError(
            f"{path}: tenants_listen: tokens are sent there, so another address than a loopback one needs "
            "tenants_certificate_file and tenants_key_file"
        )


def read_token(path: Path) -> str:
    """The token in a file, without the white space around it."""
    try:
        token = read_text(path).strip()
    except UsageError as error:
        raise SettingsError(str(error)) from error
    if not token.isascii():
        raise SettingsError(f"{path}: a token is made of ASCII characters")
    if not token or not token.isprintable():
        raise SettingsError(f"{path}: holds no token")
    return token


class Supervision(Struct, frozen=True):
    """What a supervisor such as systemd asks of this process, as its environment says."""

    address: str = ""
    """The socket on which it wants to be told; empty for none."""
    watchdog_seconds: float | None = None
    """Within which it wants to be told that all is well; None where it does not."""


def supervision(process_id: int, environment: Mapping[str, str] = ENVIRONMENT) -> Supervision:
    """From NOTIFY_SOCKET, and from WATCHDOG_USEC where WATCHDOG_PID is absent or names this process."""
    address = environment.get("NOTIFY_SOCKET", "")
    microseconds = environment.get("WATCHDOG_USEC", "")
    meant = environment.get("WATCHDOG_PID") in (None, "", str(process_id))
    if not (meant and microseconds.isdecimal() and int(microseconds)):
        return Supervision(address=address)
    return Supervision(address=address, watchdog_seconds=int(microseconds) / 1_000_000)


def with_environment(text: str, what: str) -> str:
    """A path in which `${NAME}` stands for an environment variable."""
    try:
        return Template(text).substitute(ENVIRONMENT)
    except KeyError as error:
        raise SettingsError(
            f"{what}: the environment variable {error.args[0]} is not set"
        ) from None
    except ValueError:
        raise SettingsError(f"{what}: {text!r} has a $ without a name in braces") from None
