"""What the API server of a scenario was told."""

from tests.scenarios.play import HERE, play, scenario_of


async def test_the_object_of_a_gang_goes_through_its_phases() -> None:
    path = HERE / "pod_group_phases" / "a_gang_whose_pods_have_ended_is_completed.yaml"
    played = await play(scenario_of(path))
    told = [
        (call.subject, call.value) for call in played.end.cluster.journal if call.verb == "phase"
    ]
    assert told == [("default/g", phase) for phase in ("Inqueue", "Running", "Completed")]
