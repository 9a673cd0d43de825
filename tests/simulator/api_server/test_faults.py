"""Faults by seed and by script."""

from simulator.api_server.faults import (
    ALL,
    Fault,
    FaultContext,
    FaultKind,
    ScriptedFaults,
    SeededFaults,
)

VERBS = ("watch", "list", "get", "create", "patch", "delete")


def struck(faults: SeededFaults, count: int = 2000) -> list[Fault | None]:
    """What befalls so many requests."""
    return [
        faults.pick(FaultContext(index, VERBS[index % len(VERBS)], "pods"))
        for index in range(1, count + 1)
    ]


def test_as_many_requests_are_struck_as_was_asked_and_by_everything() -> None:
    """Seeded faults; same seed, same faults."""
    seen = struck(SeededFaults(7, 300))
    hit = [one for one in seen if one is not None]
    assert 500 < len(hit) < 700
    assert {one.kind for one in hit} == set(ALL)
    assert seen == struck(SeededFaults(7, 300))
    assert seen != struck(SeededFaults(8, 300))


def test_each_verb_is_struck_by_what_can_befall_it() -> None:
    faults = SeededFaults(1, 1000)
    for verb in VERBS:
        for index in range(300):
            ask = FaultContext(index, verb, "pods")
            fault = faults.pick(ask)
            assert fault is not None
            assert fault.kind in ask.possible
    assert FaultKind.CONFLICT not in FaultContext(1, "watch", "pods").possible
    assert FaultKind.GONE_EVENT not in FaultContext(1, "create", "pods").possible


def test_faults_can_be_chosen_spared_and_switched_off() -> None:
    faults = SeededFaults(1, 1000, (FaultKind.CONFLICT,), ("leases",))
    assert faults.pick(FaultContext(1, "create", "pods")) is not None
    assert faults.pick(FaultContext(1, "get", "pods")) is None
    assert faults.pick(FaultContext(1, "create", "leases")) is None
    faults.is_on = False
    assert faults.pick(FaultContext(1, "create", "pods")) is None


def test_a_script_strikes_the_first_request_that_it_means() -> None:
    faults = ScriptedFaults()
    fault = Fault(FaultKind.LOSE)
    faults.add(fault, "create", "pods/binding", times=2)
    faults.add(Fault(FaultKind.DROP))
    binding = FaultContext(1, "create", "pods", "binding")
    assert faults.pick(binding) == fault
    assert faults.pick(FaultContext(2, "list", "nodes")) == Fault(FaultKind.DROP)
    assert faults.pick(FaultContext(3, "create", "pods")) is None
    assert faults.pick(binding) == fault
    assert faults.pick(binding) is None
