"""The chips of an Ascend node, as its device plugin names them in the annotation `baseDeviceInfos`."""

from typing import Final

import msgspec

from simulator.manifest import Manifest
from simulator.manifest_fields import section, text_at

BASE_DEVICES: Final = "baseDeviceInfos"
DOMAIN: Final = "huawei.com/"
"""Domain of the resources and annotations of Ascend device plugins."""

_NAMES: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def chips_of(node: Manifest) -> list[str]:
    """Return the names of its chips (`Ascend910-3`), in the order of the annotation; none if it cannot be read."""
    text = text_at(section(node, "metadata", "annotations"), BASE_DEVICES)
    try:
        return list(_NAMES.decode(text or "{}"))
    except msgspec.DecodeError:
        return []


def resource_of_chip(chip: str) -> str:
    """Return the resource of a chip: `huawei.com/Ascend910` of `Ascend910-3`."""
    return DOMAIN + chip.rpartition("-")[0]
