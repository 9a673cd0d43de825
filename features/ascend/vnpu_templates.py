"""Templates of virtual NPUs: parts in which a chip can be cut, by kind of chip. Each node has the table of its chips.

A template is AI cores, AICPUs and a share of the image and video units (DVPP). A task asks for a number of AI cores
(`huawei.com/npu-core`); the template follows from that, from the labels `vnpu-level` and `vnpu-dvpp`, and from the chip.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

NPU_CORE: Final = "huawei.com/npu-core"
LEVEL: Final = "vnpu-level"
DVPP: Final = "vnpu-dvpp"
YES: Final = "yes"
NO: Final = "no"
NULL: Final = "null"
HIGH: Final = "high"
LOW: Final = "low"


class Template(Struct, frozen=True):
    """A part of a chip."""

    name: str
    cores: int
    cpus: int
    dvpp: str = NULL
    """`yes`: all of it, `no`: none of it, `null`: what others leave."""


class CoreRequest(Struct, frozen=True):
    """What a task asks for."""

    cores: int
    level: str = LOW
    dvpp: str = NULL


class ChipKind(Struct, frozen=True):
    """A kind of chip, and the templates in which it can be cut."""

    name: str
    cores: int
    """AI cores of a chip."""
    cpus: int
    """AICPUs of a chip."""
    templates: tuple[Template, ...]
    parts: tuple[tuple[int, str, str, str], ...] = ()
    """Number of cores, `vnpu-level`, `vnpu-dvpp`, and the template that serves such a request; "" stands for any
    level."""
    downgrades: tuple[tuple[str, str], ...] = ()
    """Template to the one that serves the task if AICPUs are short."""
    has_groups: bool = False
    """Whether parts are in virtual groups, of which a chip has four."""

    def template(self, name: str) -> Template:
        """Return a template by name. Raise KeyError."""
        found = next((one for one in self.templates if one.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def template_of(self, request: CoreRequest) -> Template | None:
        """Return the template that serves a request; None if no part of this chip does."""
        for cores, level, dvpp, name in self.parts:
            if cores == request.cores and dvpp == request.dvpp and level in ("", request.level):
                return self.template(name)
        return None

    def downgraded(self, template: Template) -> Template | None:
        """Return the template with fewer AICPUs that serves the same request, if any."""
        name = dict(self.downgrades).get(template.name)
        return None if name is None else self.template(name)

    def problem(self, request: CoreRequest) -> str:
        """Return why chips of this kind never serve a request; "" if they do."""
        cores = request.cores
        if self.is_whole(request):
            return ""
        sizes = {size for size, *_ in self.parts}
        if cores not in sizes:
            return f"err require number:{cores}"
        if self.template_of(request) is None:
            return f"task req {cores} ai-core, but dvpp label is:{request.dvpp}"
        return ""

    def is_whole(self, request: CoreRequest) -> bool:
        """Return whether a request is for whole chips."""
        return request.cores > 0 and request.cores % self.cores == 0


_TEMPLATES_310P: Final = (
    Template("vir01", 1, 1),
    Template("vir02", 2, 2),
    Template("vir02_1c", 2, 1),
    Template("vir04", 4, 4),
    Template("vir04_3c", 4, 3),
    Template("vir04_3c_ndvpp", 4, 3, NO),
    Template("vir04_4c_dvpp", 4, 4, YES),
)
_PARTS_310P: Final = (
    (1, "", NULL, "vir01"),
    (2, HIGH, NULL, "vir02"),
    (2, LOW, NULL, "vir02_1c"),
    (4, "", YES, "vir04_4c_dvpp"),
    (4, "", NO, "vir04_3c_ndvpp"),
    (4, HIGH, NULL, "vir04"),
    (4, LOW, NULL, "vir04_3c"),
)


def _ascend_310p(cores: int) -> ChipKind:
    return ChipKind(
        f"310P-{cores}",
        cores,
        7,
        _TEMPLATES_310P,
        _PARTS_310P,
        downgrades=(("vir02", "vir02_1c"), ("vir04", "vir04_3c")),
        has_groups=True,
    )


def _of_sizes(name: str, cores: int, small: Template, large: Template, *more: Template) -> ChipKind:
    """Return a kind of which two sizes of parts can be requested. `more` can be cut, but not requested."""
    parts = tuple((one.cores, "", NULL, one.name) for one in (small, large))
    return ChipKind(name, cores, 6, (*more, small, large), parts)


_VIR03_8G: Final = Template("vir03_1c_8g", 3, 1)
_VIR05_16G: Final = Template("vir05_1c_16g", 5, 1)
_VIR06_16G: Final = Template("vir06_1c_16g", 6, 1)
_VIR10_32G: Final = Template("vir10_3c_32g", 10, 3)
_VIR12_32G: Final = Template("vir12_3c_32g", 12, 3)

_KINDS: Final = (
    _ascend_310p(8),
    _ascend_310p(10),
    _of_sizes("910B1", 25, _VIR06_16G, _VIR12_32G, _VIR03_8G),
    _of_sizes("910B2", 24, _VIR06_16G, _VIR12_32G, _VIR03_8G),
    _of_sizes("910B2C", 24, _VIR06_16G, _VIR12_32G, _VIR03_8G),
    _of_sizes("910B3", 20, _VIR05_16G, _VIR10_32G),
    _of_sizes("910B4-1", 20, _VIR05_16G, _VIR10_32G),
    _of_sizes("A3-20", 20, _VIR05_16G, _VIR10_32G),
    _of_sizes("A3-24", 24, _VIR06_16G, _VIR12_32G),
    ChipKind(
        "910B4",
        20,
        6,
        (
            Template("vir05_1c_8g", 5, 1),
            Template("vir10_3c_16g", 10, 3),
            Template("vir10_3c_16g_nm", 10, 3, NO),
            Template("vir10_4c_16g_m", 10, 4, YES),
        ),
        (
            (5, "", NULL, "vir05_1c_8g"),
            (10, "", NULL, "vir10_3c_16g"),
            (10, "", NO, "vir10_3c_16g_nm"),
            (10, "", YES, "vir10_4c_16g_m"),
        ),
    ),
)
KINDS: Final[Mapping[str, ChipKind]] = {one.name: one for one in _KINDS}
"""Name to kind of chip."""

_SERVER: Final = re.compile(r"Ascend(310P|910A3|910)-([0-9]{1,3})(-dual)?")
_REAL: Final = re.compile(
    r"(?P<type>Ascend[0-9A-Z]{1,8})-(?P<template>[0-9a-z][0-9a-z._]{0,31})-(?P<vnpu>[0-9]{1,6})-"
    r"(?P<chip>[0-9]{1,4})(?:_(?P<group>[0-9]{1,3}))?"
)
_SIZE: Final = re.compile(
    r"(?P<cores>[0-9]{1,3})c(?:\.(?P<cpus>[0-9]{1,3})cpu)?(?:\.[0-9]{1,4}g)?(?P<dvpp>\.n?dvpp)?"
)


def kind_of(accelerator: str, server_type: str, chip_name: str) -> ChipKind | None:
    """Return the kind of the chips of a node by its labels `accelerator`, `servertype` and
    `node.kubernetes.io/npu.chip.name`; None if they name no chip that can be cut."""
    match = _SERVER.fullmatch(server_type)
    family, cores = (match[1], int(match[2])) if match else ("", 0)
    if family == "310P" or accelerator == "huawei-Ascend310P":
        kind = KINDS.get(f"310P-{cores}")
    elif family == "910A3":
        kind = KINDS.get(f"A3-{cores}")
    else:
        kind = KINDS.get(chip_name)
    if kind is None or (cores and cores != kind.cores):
        return None
    return kind


class Segment(Struct, frozen=True):
    """A part of a chip that a pod has."""

    template: Template
    group: int | None = None
    """Its virtual group, once the device plugin has said so."""
    is_reported: bool = False
    """Whether the device plugin has confirmed it."""


def reported_part(name: str) -> tuple[str, str] | None:
    """Return the chip and the part that a device plugin reports: `Ascend310P-0` and `4c.3cpu@3` for
    `Ascend310P-4c.3cpu-105-0_3`, in virtual group 3. None if the name is not of this form."""
    match = _REAL.fullmatch(name)
    if match is None:
        return None
    group = "" if match["group"] is None else f"@{match['group']}"
    return f"{match['type']}-{match['chip']}", f"{match['template']}{group}"


def template_named(text: str, kind: ChipKind) -> Template:
    """Return a template by its name, or by its sizes as device plugins write them: `4c.3cpu.ndvpp`. A text that cannot be
    read is all of the chip."""
    known = next((one for one in kind.templates if one.name == text), None)
    if known is not None:
        return known
    size = _SIZE.fullmatch(text)
    if size is None:
        return Template(text, kind.cores, kind.cpus, YES)
    cores = int(size["cores"])
    dvpp = {None: NULL, ".dvpp": YES, ".ndvpp": NO}[size["dvpp"]]
    alike = [one for one in kind.templates if one.cores == cores]
    cpus = int(size["cpus"]) if size["cpus"] else max([one.cpus for one in alike], default=cores)
    exact = [one for one in alike if one.cpus == cpus and one.dvpp == dvpp]
    return exact[0] if exact else Template(text, cores, cpus, dvpp)
