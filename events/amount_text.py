"""Amounts as text: cpu in cores, bytes in binary units, everything else as it is counted."""

from collections.abc import Mapping
from typing import Final

_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def amount_text(name: str, amount: int) -> str:
    """`4` and `500m` of cpu, `16Gi` of memory, `8` cards."""
    if name == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return _bytes_text(amount)
    return str(amount)


def amounts_text(amounts: Mapping[str, int] | tuple[tuple[str, int], ...]) -> str:
    """`8 H200, 4 cpu, 16Gi memory`: cards and devices first; the resource `pods` is left out."""
    entries = dict(amounts)
    plain = [name for name in ("cpu", "memory") if name in entries]
    others = [name for name in entries if name not in (*plain, "pods")]
    return ", ".join(f"{amount_text(name, entries[name])} {name}" for name in (*others, *plain))


def _bytes_text(amount: int) -> str:
    size, power = amount, 0
    while power < len(_UNITS) - 1 and size and size % 1024 == 0:
        size, power = size // 1024, power + 1
    if abs(size) < 10_000:
        return f"{size}{_UNITS[power]}"
    while power < len(_UNITS) - 1 and abs(size) >= 10_000:
        size, power = size // 1024, power + 1
    return f"~{size}{_UNITS[power]}"
