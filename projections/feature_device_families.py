"""The device families of a table of features, made once for each table."""

from functools import lru_cache

from projections.device_families import DeviceFamilies
from projections.device_family import DeviceFamily
from projections.feature import Features


@lru_cache(maxsize=8)
def families_of(features: Features) -> DeviceFamilies:
    """Return the device families of features: those that belong to no feature come first."""
    return DeviceFamilies(features.of(DeviceFamily))
