"""Amounts as text: cpu in cores, bytes in binary units, shares of GPUs in GPUs, everything else as it is counted."""

from collections.abc import Mapping
from typing import Final

_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


SHARES: Final = "/milli"
"""End of the names of cards that are counted in thousandths."""

_GPU_MILLI: Final = "muster.sh/gpu-milli"
_GPU_MEMORY: Final = "muster.sh/gpu-memory"


def amount_text(name: str, amount: int) -> str:
    """`4` and `500m` of cpu, `16Gi` of memory, `8` cards, `0.25 of a card` for thousandths of a card."""
    if name.endswith(SHARES) or name == _GPU_MILLI:
        unit = "card" if amount == 1000 else "of a card" if 0 < amount < 1000 else "cards"
        return f"{fraction_text(amount)} {unit}"
    if name == _GPU_MEMORY:
        return f"{amount} MiB"
    if name == "cpu":
        return _cores_text(amount)
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return _bytes_text(amount)
    return str(amount)


def amount_cell(name: str, amount: int) -> str:
    """Return an amount as in `amount_text`, without a unit that follows from the name: `0.25` of `T4/milli`, which are cards."""
    return fraction_text(amount) if name.endswith(SHARES) else amount_text(name, amount)


def amounts_text(amounts: Mapping[str, int] | tuple[tuple[str, int], ...]) -> str:
    """`8 H200, 0.25 T4 (shared), 4 cpu, 16Gi memory`: cards and devices first; the resource `pods` is left out."""
    entries = dict(amounts)
    plain = [name for name in ("cpu", "memory") if name in entries]
    others = [name for name in entries if name not in (*plain, "pods")]
    return ", ".join(_entry_text(name, entries[name]) for name in (*others, *plain))


def fraction_text(thousandths: int) -> str:
    """Return thousandths as a decimal number: `0.25`."""
    sign, rest = "-" if thousandths < 0 else "", abs(thousandths)
    return sign + f"{rest // 1000}.{rest % 1000:03}".rstrip("0").rstrip(".")


def _entry_text(name: str, amount: int) -> str:
    if name.endswith(SHARES) or name == _GPU_MILLI:
        card = "GPU" if name == _GPU_MILLI else name.removesuffix(SHARES)
        return f"{fraction_text(amount)} {card} (shared)"
    if name == _GPU_MEMORY:
        return f"{amount} MiB of GPU memory"
    return f"{amount_text(name, amount)} {name}"


def _cores_text(milli: int) -> str:
    """Return cores as Kubernetes does; thousands with a fraction without it, as `~44212`."""
    if milli % 1000 == 0:
        return str(milli // 1000)
    return f"{milli}m" if abs(milli) < 1_000_000 else f"~{milli // 1000}"


def _bytes_text(amount: int) -> str:
    size, power = amount, 0
    while power < len(_UNITS) - 1 and size and size % 1024 == 0:
        size, power = size // 1024, power + 1
    if abs(size) < 10_000:
        return f"{size}{_UNITS[power]}"
    while power < len(_UNITS) - 1 and abs(size) >= 10_000:
        size, power = size // 1024, power + 1
    return f"~{size}{_UNITS[power]}"
