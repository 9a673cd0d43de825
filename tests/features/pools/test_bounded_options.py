"""What counts of the options of a job: within the bounds of its queue and pool, whatever it states."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.duration import SECOND
from events.errors import PolicyError
from features.pools.bounded_options import cut_options
from features.pools.job_options import read_job_options
from projections.job_option_keys import POSITION, PREEMPTIBLE, SUBMITTED, TIMEOUT, WEIGHT
from projections.policy.job_bounds import TIMEOUT_MAX_NS, JobBounds, read_job_bounds
from projections.policy.pools import Pool, read_pools
from projections.policy.queue_rules import UseRule

HOSTILE = (
    *("", "NaN", "nan", "inf", "-inf", "1e999", "-0", "-0.0", "0x10", "1_0", "+5", "٣", " 5", "5 "),
    *("9" * 30, "-" + "9" * 30, "1." + "9" * 40, "9" * 10_000, "1/3", "--1", "1e-400", "0"),
    *(
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2016-12-31T23:59:60Z",
        "1970-01-01T00:00:00Z",
    ),
    *("10000-01-01T00:00:00Z", "2020-13-40T99:99:99Z", "0000-00-00T00:00:00+99:99"),
    *("true", "TRUE", "False", "87600h", "999999999d", "-1h", "1h1h", "0s", "1ns"),
)
KEYS = (
    POSITION,
    SUBMITTED,
    WEIGHT,
    TIMEOUT,
    PREEMPTIBLE,
    "muster.sh/priority",
    "muster.sh/max-slots",
)

priorities = st.none() | st.integers(-(2**31), 2**31 - 1)
weights = st.none() | st.sampled_from([(1, 2), (1, 1), (3, 1), (1, 1_000_000), (1_000_000, 1)])
timeouts = st.none() | st.sampled_from([0, SECOND, 60 * SECOND, 10**15])
choices = st.none() | st.booleans()
bounds = st.builds(
    JobBounds, priorities, st.booleans(), weights, timeouts, choices, choices, choices
)
values = st.sampled_from(HOSTILE) | st.text(max_size=20) | st.decimals(allow_nan=False).map(str)
stated = st.dictionaries(st.sampled_from(KEYS), values)


@given(stated, bounds, bounds, st.sampled_from(["priority", "fair_share", "round_robin"]))
def test_nothing_counts_beyond_the_bounds_of_queue_and_pool(
    given_options: dict[str, str], of_queue: JobBounds, of_pool: JobBounds, decider: str
) -> None:
    pool = Pool(decider=decider, preemption_timeout_ns=10 * SECOND, use=UseRule(bounds=of_pool))
    options = read_job_options(given_options)
    found = cut_options(options, pool, "q", of_queue)
    both = (of_queue, of_pool)
    for option, field in (
        (found.position, "may_state_position"),
        (found.submitted_ns, "may_state_submission"),
    ):
        said = [getattr(one, field) for one in both]
        assert option is None or (True in said and False not in said)
    if not found.is_preemptible:
        assert False not in [one.may_refuse_preemption for one in both]
    if decider == "fair_share" and found.weight is not None:
        limits = [Fraction(*one.weight_max) for one in both if one.weight_max is not None]
        assert all(Fraction(*found.weight) <= most for most in limits)
    if found.timeout_ns is not None:
        spans = [one.timeout_max_ns for one in both if one.timeout_max_ns is not None]
        assert found.timeout_ns <= min(spans, default=TIMEOUT_MAX_NS)
    assert cut_options(found, pool, "q", of_queue).cuts in ((), found.cuts), "a cut is cut once"
    # What is within the bounds stays as it is.
    if not found.cuts and found.position == options.position:
        assert found == options


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("key", KEYS)
def test_a_hostile_value_is_an_error_of_the_job_or_counts_as_it_is(key: str, value: str) -> None:
    options = read_job_options({key: value})
    assert len(options.problems) <= 1
    if options.problems:
        plain = read_job_options({})
        assert (options.position, options.weight, options.submitted_ns, options.timeout_ns) == (
            plain.position,
            plain.weight,
            plain.submitted_ns,
            plain.timeout_ns,
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("priorityMax", one) for one in (1.5, True, "1e3", "NaN", 2**31, "9" * 11, None)),
        *(("weightMax", one) for one in (0, -1, "0.0000001", "nan", 10**7)),
        *(("preemptionTimeoutMax", one) for one in (60, "-1s", "long")),
        *(
            (key, "maybe")
            for key in ("preemptible", "position", "submissionTime", "priorityFromPods")
        ),
    ],
)
def test_a_bound_that_cannot_be_read_is_an_error_with_its_path(key: str, value: object) -> None:
    with pytest.raises(PolicyError) as found:
        read_job_bounds({key: value}, "queues[0]")
    assert str(found.value).startswith(f"queues[0].{key}:")


def test_with_lower_first_a_bound_of_priorities_is_of_the_scale() -> None:
    def read(most: object) -> Any:
        pool = {
            "name": "p",
            "decider": "priority",
            "priorityDirection": "lower_first",
            "priorityMax": most,
        }
        return read_pools({"pools": [pool]}, lambda *_: None)

    assert read(30).all[0].use.bounds.priority_max == 30
    with pytest.raises(PolicyError, match=r"pools\[0\].priorityMax: 1000 is not from 1 to 99"):
        read(1000)
