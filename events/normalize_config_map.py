"""ConfigMaps that are watched, in the one form that enters the log.

Of `data` only the keys of the selection stay. Those of the Ascend device stack are reports: a device plugin updates its ConfigMap every few seconds, with a newer `UpdateTime` and so with another `CheckCode`.
Both are moved out of the object, so that a report that says the same has an equal digest. As the code cannot be checked
any more then, it is checked here: an object whose code does not match its content says so in its place
(`docs/reference/ascend-reports.md`).

A text of a report that is not a JSON object is replaced by `NOT_JSON`: what cannot be read may
change with every update.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw, Struct

from events.json_value import Json, JsonObject
from events.limits import UNDECODABLE, decode_hostile

CONFIG_MAP: Final = "ConfigMap"


class Selection(Struct, frozen=True):
    """The ConfigMaps of one kind of report: where they are and what they are called."""

    name: str
    namespace: str
    label_selector: str = ""
    prefixes: tuple[str, ...] = ()
    """How their names begin."""
    only: str = ""
    """The name of the only one; empty if `prefixes` say which."""
    keys: tuple[str, ...] = ()
    """Keys of `data` that stay as they are; none of a report."""

    @property
    def kind(self) -> str:
        """The kind as records call it."""
        return f"{CONFIG_MAP}.{self.name}"

    @property
    def query(self) -> dict[str, str]:
        """The selectors of its list and its watch."""
        by_name = {"fieldSelector": f"metadata.name={self.only}"} if self.only else {}
        by_label = {"labelSelector": self.label_selector} if self.label_selector else {}
        return by_name | by_label

    def has(self, namespace: str, name: str) -> bool:
        """Return whether it contains a ConfigMap, whatever its labels."""
        is_named = name == self.only or (bool(self.prefixes) and name.startswith(self.prefixes))
        return namespace == self.namespace and is_named


DEVICE_PREFIX: Final = "mindx-dl-deviceinfo-"
NODE_PREFIX: Final = "mindx-dl-nodeinfo-"
SWITCH_PREFIX: Final = "mindx-dl-switchinfo-"
"""How the name of a report begins, before that of its node. In an aggregated ConfigMap it is a key."""

CLUSTER_PREFIX: Final = "cluster-info-"
CLUSTER_PREFIXES: Final = (
    *(f"{CLUSTER_PREFIX}device-", f"{CLUSTER_PREFIX}node-", f"{CLUSTER_PREFIX}switch-"),
)

DEVICE_INFO: Final = Selection(
    "device-info", "kube-system", "mx-consumer-cim=true", (DEVICE_PREFIX,)
)
NODE_INFO: Final = Selection("node-info", "mindx-dl", "mx-consumer-cim=true", (NODE_PREFIX,))
CLUSTER_INFO: Final = Selection(
    "cluster-info", "mindx-dl", "mx-consumer-volcano=true", CLUSTER_PREFIXES
)
REPORTS: Final = (DEVICE_INFO, NODE_INFO, CLUSTER_INFO)

DEVICE_KEY: Final = "DeviceInfoCfg"
SWITCH_KEY: Final = "SwitchInfoCfg"
SEPARATED_KEY: Final = "ManuallySeparateNPU"
NODE_KEY: Final = "NodeInfo"
"""Keys of `data`. That of an aggregated ConfigMap is its name."""

NOT_JSON: Final = "muster.sh/left-out: not a JSON object"
"""Stands in the log's copy for a text that is not a JSON object."""

MISMATCH: Final = "mismatch"
"""Stands in the log's copy for a `CheckCode` that is not that of the content."""

_CODE: Final = "CheckCode"
_TIME: Final = "UpdateTime"
_TIMES: Final = (_TIME, "HeartbeatTime")
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_VALUE: Final = msgspec.json.Decoder()
_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")
_AS_SENT: Final = msgspec.json.Encoder()
_HTML: Final = (
    *((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026")),
    *(("\u2028".encode(), rb"\u2028"), ("\u2029".encode(), rb"\u2029")),
)
"""Characters that Go's `json.Marshal` escapes in strings, where alone they can occur."""


def selection_of(
    namespace: str, name: str, selections: Iterable[Selection] = REPORTS
) -> Selection | None:
    """Return the selection that contains a ConfigMap; None if none does."""
    return next((one for one in selections if one.has(namespace, name)), None)


def normalize_data(selection: Selection, name: str, manifest: JsonObject) -> dict[str, str]:
    """Normalize the data of a ConfigMap of a selection, in place; return the update times of a report by key."""
    kind = selection.kind
    manifest.pop("binaryData", None)
    data = manifest.get("data")
    heartbeats: dict[str, str] = {}
    kept: JsonObject = {}
    for key, text in data.items() if isinstance(data, dict) else ():
        if key == SEPARATED_KEY and kind == DEVICE_INFO.kind:
            kept[key] = text
        elif selection.keys:
            if key in selection.keys:
                kept[key] = text
        elif key in _keys(kind, name):
            kept[key], heartbeat = _without_time(key, text)
            if heartbeat:
                heartbeats[key] = heartbeat
    manifest["data"] = kept
    return heartbeats


def check_code(raw: bytes) -> str:
    """Return the `CheckCode` of a value as its JSON text is."""
    return sha256(raw).hexdigest()


def go_json(value: Json) -> bytes:
    """Return JSON as Go's `json.Marshal` writes it: compact, with `<`, `>` and `&` escaped."""
    raw = _AS_SENT.encode(value)
    for plain, escaped in _HTML:
        raw = raw.replace(plain, escaped)
    return raw


def _keys(kind: str, name: str) -> tuple[str, ...]:
    if kind == DEVICE_INFO.kind:
        return DEVICE_KEY, SWITCH_KEY
    return (NODE_KEY,) if kind == NODE_INFO.kind else (name,)


def _without_time(key: str, text: Json) -> tuple[str, str]:
    """Return the text without times and codes, and its newest time; empty if it states none."""
    try:
        if not isinstance(text, str):
            raise TypeError
        raw = text.encode(errors="replace")
        fields = decode_hostile(raw, _FIELDS.decode)
        times: list[str] = []
        document: Json
        if key == DEVICE_KEY:
            document = _checked(fields, "DeviceInfo", times)
        elif key == NODE_KEY:
            document = _checked(fields, NODE_KEY, times)
        elif key == SWITCH_KEY:
            document = _timeless(fields, times)
        else:
            document = {name: _timeless(one, times) for name, one in fields.items()}
        text = _CANONICAL.encode(document).decode()
    except (*UNDECODABLE, TypeError):
        return NOT_JSON, ""
    return text, max(times, key=lambda one: (len(one), one), default="")


def _checked(fields: dict[str, Raw], key: str, times: list[str]) -> JsonObject:
    """Return the fields without the time of the inner object; the code stays only if it does not match."""
    document: JsonObject = {name: _VALUE.decode(one) for name, one in fields.items()}
    code = document.pop(_CODE, "")
    if key in fields:
        if code not in ("", None) and str(code).lower() not in _codes(key, fields[key]):
            document[_CODE] = MISMATCH
        document[key] = _timeless(fields[key], times)
    return document


def _codes(key: str, raw: Raw) -> tuple[str, ...]:
    """Return the codes that a value may have: of its text as sent, and written compactly as the documents state."""
    value = _VALUE.decode(raw)
    if key == "DeviceInfo" and isinstance(value, dict):
        listed = value.get("DeviceList")
        devices = dict(sorted(listed.items())) if isinstance(listed, dict) else listed
        value = {"DeviceList": devices, _TIME: value.get(_TIME, 0)}
    return check_code(bytes(raw)), check_code(go_json(value))


def _timeless(value: Raw | dict[str, Raw], times: list[str]) -> Json:
    """Return a decoded value without its update times, which are added to `times`."""
    decoded: Json = (
        {name: _VALUE.decode(one) for name, one in value.items()}
        if isinstance(value, dict)
        else _VALUE.decode(value)
    )
    if isinstance(decoded, dict):
        for name in _TIMES:
            time = decoded.pop(name, None)
            if isinstance(time, int) and not isinstance(time, bool):
                times.append(str(time))
    return decoded
