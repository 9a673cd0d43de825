"""How often things break, and for how long: published rates, and the part of a scenario that changes them.

The rates come from Kokolis et al., *Revisiting Reliability in Large-Scale Machine Learning Research Clusters* (HPCA 2025),
the Llama 3 report (2024), Cui et al. (SC 2025), Qian et al., *Alibaba HPN* (SIGCOMM 2024) and Singh et al. (CCR 2021); `low`
and `high` are the ends of what is published and `mid` the middle.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from msgspec import Struct, field

from events.duration import SECOND
from events.yaml_document import YamlValue

MINUTE: Final = 60 * SECOND
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
MONTH: Final = 30 * DAY
YEAR: Final = 365 * DAY

PRESETS: Final = ("low", "mid", "high")
SCALE_MAX: Final = 1_000_000

NODE_STOP: Final = "node_stop"
CARD_FATAL: Final = "card_fatal"
CARD_RECOVERABLE: Final = "card_recoverable"
CARD_SLOW: Final = "card_slow"
LINK_DOWN: Final = "link_down"
SWITCH_DOWN: Final = "switch_down"
FALSE_ALARM: Final = "false_alarm"


class FaultClass(Struct, frozen=True):
    """A class of faults. A rate is the expected number of faults of 1,000 units in a period."""

    unit: str
    """`node`, `card`, `link` or `switch`"""
    period_ns: int
    rates: tuple[str, str, str]
    """Low, mid and high."""
    durations: tuple[tuple[int, int, int], ...]
    """Percentage, shortest and longest time until it is over."""
    detection: tuple[int, int] = (0, 0)
    """Shortest and longest time until it can be seen."""


CLASSES: Final[dict[str, FaultClass]] = {
    NODE_STOP: FaultClass(
        *("node", DAY, ("0.3", "0.8", "1.5")),
        durations=(
            (30, 5 * MINUTE, 15 * MINUTE),
            (50, 2 * HOUR, 24 * HOUR),
            (20, DAY, 14 * DAY),
        ),
        detection=(40 * SECOND, 50 * SECOND),
    ),
    CARD_FATAL: FaultClass(
        *("card", YEAR, ("30", "100", "250")),
        durations=((20, 2 * MINUTE, 5 * MINUTE), (80, 4 * HOUR, 7 * DAY)),
        detection=(SECOND, MINUTE),
    ),
    CARD_RECOVERABLE: FaultClass(
        *("card", YEAR, ("50", "300", "1000")),
        durations=((100, 15 * SECOND, 180 * SECOND),),
        detection=(SECOND, 30 * SECOND),
    ),
    CARD_SLOW: FaultClass(
        *("card", YEAR, ("20", "100", "400")),
        durations=((100, 8 * MINUTE, 12 * MINUTE),),
        detection=(MINUTE, 10 * MINUTE),
    ),
    LINK_DOWN: FaultClass(
        *("link", MONTH, ("0.3", "0.6", "3")),
        durations=((100, HOUR, 24 * HOUR),),
        detection=(20 * SECOND, 30 * SECOND),
    ),
    SWITCH_DOWN: FaultClass(
        *("switch", MONTH, ("0.5", "2", "7")),
        durations=((50, MINUTE, 6 * MINUTE), (50, HOUR, 48 * HOUR)),
        detection=(20 * SECOND, 60 * SECOND),
    ),
    FALSE_ALARM: FaultClass(
        *("node", DAY, ("1", "5", "20")),
        durations=((100, 5 * SECOND, 60 * SECOND),),
    ),
}


class FaultRates(Struct, frozen=True, kw_only=True):
    """The faults of a scenario, drawn from rates."""

    place: str
    """`FILE:LINE` of the key."""
    seed: int = 1
    after_ns: int = 0
    """When they begin."""
    rates: dict[str, Decimal] = field(default_factory=dict)
    """Class to its rate, scaled."""
    flapping_percent: int = 50
    """Links that go down several times for moments, of all that go down."""
    lemon_permille: int = 12
    """Nodes that fail more often."""
    lemon_factor: int = 20
    cards: tuple[str, ...] = ()
    """Resources that count cards; without any, those named `.../gpu` or `.../npu`."""
    card_condition: str = ""
    """The condition that a node gets while a counted card of it is broken; empty for none."""


_KEYS: Final = (
    "preset",
    "seed",
    "scale",
    "rates",
    "flapping",
    "lemons",
    "cards",
    "card_condition",
    "after",
)


def read_fault_rates(value: YamlValue) -> FaultRates:
    """Read the key `faults` of a scenario."""
    fields = value.fields("faults", _KEYS)
    preset = fields["preset"].text("preset") if "preset" in fields else "mid"
    if preset not in PRESETS:
        raise fields["preset"].error(f"preset: {preset!r} is not one of {', '.join(PRESETS)}")
    column = PRESETS.index(preset)
    scale = _number(fields, "scale", Decimal(1), Decimal(SCALE_MAX))
    own = fields["rates"].fields("rates", tuple(CLASSES)) if "rates" in fields else {}
    rates = {
        name: _number(own, name, Decimal(one.rates[column]), Decimal(SCALE_MAX)) * scale
        for name, one in CLASSES.items()
    }
    lemons = fields["lemons"].fields("lemons", ("share", "factor")) if "lemons" in fields else {}
    return FaultRates(
        place=value.place,
        seed=fields["seed"].whole("seed") if "seed" in fields else 1,
        after_ns=fields["after"].time_ns("after") if "after" in fields else 0,
        rates=rates,
        flapping_percent=int(_number(fields, "flapping", Decimal("0.5"), Decimal(1)) * 100),
        lemon_permille=int(_number(lemons, "share", Decimal("0.012"), Decimal(1)) * 1000),
        lemon_factor=lemons["factor"].whole("factor", 1) if "factor" in lemons else 20,
        cards=tuple(one.text("cards") for one in fields["cards"].items("cards"))
        if "cards" in fields
        else (),
        card_condition=fields["card_condition"].text("card_condition")
        if "card_condition" in fields
        else "",
    )


def _number(
    fields: Mapping[str, YamlValue], name: str, default: Decimal, largest: Decimal
) -> Decimal:
    """Read a number from 0 on."""
    if name not in fields:
        return default
    given = fields[name].plain()
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= Decimal(str(given)) <= largest:
        raise fields[name].error(f"{name} must be a number from 0 to {largest}")
    return Decimal(str(given))
