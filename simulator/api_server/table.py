"""Server-side printing: objects as a `Table`, which is what `kubectl get` asks for.

https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from events.normalize import Json, JsonObject
from simulator.api_server.http_message import Request
from simulator.api_server.printer_columns import Printer, printer_of
from simulator.api_server.served_resources import ServedResource
from simulator.api_server.status_errors import bad_request
from simulator.manifest import Manifest
from simulator.manifest_fields import phase_of, section

API_VERSION: Final = "meta.k8s.io/v1"
_COMPLETED: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}
"""Of pods that have ended: kubectl can leave such rows out."""
_INCLUDED: Final = ("None", "Metadata", "Object")


class TablePrinter:
    """Makes Tables out of the objects of one resource."""

    def __init__(
        self, served: ServedResource, now_seconds: Callable[[], int], included: str = "Metadata"
    ) -> None:
        """`included`: what a row has of its object, `None`, `Metadata` or `Object`."""
        kind = served.kind
        self._printer: Printer = printer_of(kind.kind, kind.group, served.columns)
        self._now_seconds = now_seconds
        self._included = included

    def table(
        self, manifests: Iterable[Manifest], metadata: JsonObject, *, has_columns: bool = True
    ) -> JsonObject:
        """Return a Table with one row for each object."""
        table: JsonObject = {"kind": "Table", "apiVersion": API_VERSION, "metadata": metadata}
        columns: list[Json] = [one.definition() for one in self._printer.columns]
        table["columnDefinitions"] = columns if has_columns else []
        now = self._now_seconds()
        table["rows"] = [self._row(one, now) for one in manifests]
        return table

    def of_object(self, manifest: Manifest, *, has_columns: bool = True) -> bytes:
        """Return the Table of one object, encoded."""
        revision = section(manifest, "metadata").get("resourceVersion")
        metadata: JsonObject = {"resourceVersion": revision}
        return msgspec.json.encode(self.table([manifest], metadata, has_columns=has_columns))

    def _row(self, manifest: Manifest, now: int) -> JsonObject:
        row: JsonObject = {"cells": self._printer.cells(manifest, now)}
        if manifest["kind"] == "Pod" and (phase := phase_of(manifest)) in _COMPLETED:
            row["conditions"] = [
                {
                    "type": "Completed",
                    "status": "True",
                    "reason": phase,
                    "message": _COMPLETED[phase],
                }
            ]
        if self._included == "Metadata":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": API_VERSION,
                "metadata": manifest["metadata"],
            }
        elif self._included == "Object":
            row["object"] = manifest
        return row


def table_printer(
    request: Request, served: ServedResource, now_seconds: Callable[[], int]
) -> TablePrinter | None:
    """Return the printer of a request that prefers a Table to the objects themselves, else None."""
    if not prefers_table(request.accept):
        return None
    included = request.query.get("includeObject", "") or "Metadata"
    if included not in _INCLUDED:
        raise bad_request(f"unrecognized includeObject value: {included!r}")
    return TablePrinter(served, now_seconds, included)


def prefers_table(accept: str) -> bool:
    """Return True if a Table is the first form in an Accept header that this server can write."""
    for clause in accept.split(","):
        media_type, _, rest = clause.strip().partition(";")
        wanted = _parameters(rest)
        if media_type.strip() not in ("application/json", "application/*", "*/*"):
            continue
        if "as" not in wanted:
            return False
        form = (wanted["as"], wanted.get("g"), wanted.get("v"))
        if form == ("Table", "meta.k8s.io", "v1"):
            return True
    return False


def _parameters(text: str) -> Mapping[str, str]:
    pairs = [part.partition("=") for part in text.split(";")]
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip()}
