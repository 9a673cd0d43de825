"""Each form in which pods ask for shares of GPUs, and what is wrong with requests that are refused."""

import pytest

from features.gpu_shares.share_request import ShareRequest, share_request

CASES: list[tuple[dict[str, str], int, ShareRequest | None]] = [
    ({}, 0, None),
    ({}, 2, ShareRequest(2, 1000)),
    (
        {"alibabacloud.com/gpu-milli": "460", "alibabacloud.com/gpu-count": "1"},
        0,
        ShareRequest(1, 460),
    ),
    (
        {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-count": "8"},
        0,
        ShareRequest(8, 1000),
    ),
    ({"alibabacloud.com/gpu-count": "2"}, 0, ShareRequest(2, 1000)),
    ({"alibabacloud.com/gpu-milli": "1"}, 0, ShareRequest(1, 1)),
    ({"gpu-fraction": "0.5"}, 0, ShareRequest(1, 500)),
    ({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, 0, ShareRequest(2, 250)),
    ({"gpu-fraction": "0.3333"}, 0, ShareRequest(1, 334)),
    ({"gpu-fraction": "1"}, 0, ShareRequest(1, 1000)),
    ({"gpu-fraction": ".5"}, 0, ShareRequest(1, 500)),
    ({"gpu-memory": "2000"}, 0, ShareRequest(1, memory=2000)),
    ({"nvidia.com/gpumem": "3000"}, 1, ShareRequest(1, memory=3000)),
    (
        {"nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        2,
        ShareRequest(2, 300, 3000, cores=30),
    ),
    ({"nvidia.com/gpumem-percentage": "50"}, 1, ShareRequest(1, memory_milli=500)),
    ({"nvidia.com/gpumem": "3000"}, 0, ShareRequest(1, memory=3000)),
    ({"nvidia.com/gpucores": "30"}, 1, ShareRequest(1, 1000, cores=30)),
]


@pytest.mark.parametrize(("options", "gpus", "expected"), CASES)
def test_a_request_is_read_in_each_form(
    options: dict[str, str], gpus: int, expected: ShareRequest | None
) -> None:
    assert share_request(tuple(sorted(options.items())), gpus) == expected


WRONG: list[tuple[dict[str, str], int, str]] = [
    (
        {"alibabacloud.com/gpu-milli": "0"},
        0,
        "alibabacloud.com/gpu-milli: '0' is not a whole number",
    ),
    ({"alibabacloud.com/gpu-milli": "1001"}, 0, "'1001' is not a whole number from 1 to 1000"),
    ({"alibabacloud.com/gpu-milli": "4.6"}, 0, "'4.6' is not a whole number"),
    ({"alibabacloud.com/gpu-milli": "-1"}, 0, "'-1' is not a whole number"),
    ({"alibabacloud.com/gpu-milli": "٣"}, 0, "is not a whole number"),
    ({"alibabacloud.com/gpu-milli": "9" * 5000}, 0, "is not a whole number"),
    (
        {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-count": "2"},
        0,
        "of one GPU only",
    ),
    ({"alibabacloud.com/gpu-count": "0"}, 0, "alibabacloud.com/gpu-count: '0'"),
    ({"gpu-fraction": "0"}, 0, "gpu-fraction: '0' is not a decimal number above 0 and up to 1"),
    ({"gpu-fraction": "1.001"}, 0, "'1.001' is not a decimal number above 0 and up to 1"),
    ({"gpu-fraction": "0."}, 0, "is not a decimal number"),
    ({"gpu-fraction": "."}, 0, "is not a decimal number"),
    ({"gpu-fraction": "1e-1"}, 0, "is not a decimal number"),
    ({"gpu-fraction": "nan"}, 0, "is not a decimal number"),
    ({"gpu-fraction": "0." + "3" * 5000}, 0, "is not a decimal number"),
    (
        {"gpu-fraction-num-devices": "2"},
        0,
        "gpu-fraction-num-devices needs gpu-fraction or gpu-memory",
    ),
    ({"gpu-memory": "0"}, 0, "gpu-memory: '0' is not a whole number"),
    ({"gpu-memory": "2Gi"}, 0, "gpu-memory: '2Gi' is not a whole number"),
    ({"gpu-memory": "-1"}, 0, "gpu-memory: '-1' is not a whole number"),
    ({"gpu-memory": "1e3"}, 0, "gpu-memory: '1e3' is not a whole number"),
    ({"gpu-memory": "1" * 5000}, 0, "is not a whole number"),
    ({"gpu-fraction": "-0.5"}, 0, "gpu-fraction: '-0.5' is not a decimal number"),
    ({"gpu-fraction": "0.\u0665"}, 0, "is not a decimal number"),
    (
        {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1025"},
        0,
        "gpu-fraction-num-devices: '1025' is not a whole number from 1 to 1024",
    ),
    (
        {"gpu-fraction": "0.5", "gpu-memory": "2000"},
        0,
        "gpu-fraction and gpu-memory are different ways",
    ),
    ({"gpu-fraction": "0.5"}, 1, "gpu-fraction and nvidia.com/gpu are different ways"),
    ({"gpu-fraction": "0.5", "nvidia.com/gpumem": "10"}, 1, "are different ways to ask for GPUs"),
    (
        {"nvidia.com/gpumem": "10", "nvidia.com/gpumem-percentage": "10"},
        1,
        "are different ways to ask",
    ),
    ({"nvidia.com/gpucores": "101", "nvidia.com/gpumem": "10"}, 1, "nvidia.com/gpucores: '101'"),
    ({"nvidia.com/gpumem-percentage": "101"}, 1, "nvidia.com/gpumem-percentage: '101'"),
]


@pytest.mark.parametrize(("options", "gpus", "expected"), WRONG)
def test_a_request_that_is_not_valid_has_a_short_message_that_names_the_key(
    options: dict[str, str], gpus: int, expected: str
) -> None:
    found = share_request(tuple(sorted(options.items())), gpus)
    assert isinstance(found, str)
    assert expected in found
    assert len(found) < 300
