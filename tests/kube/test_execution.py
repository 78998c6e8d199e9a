"""How a command in a container ended; what a real kubelet says of it is in tests/linux/test_control_planes.py."""

import json
from typing import Any

import pytest

from transom.kube.errors import UnreadableObject
from transom.kube.pod_exec import parse_result


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"metadata": {}, "status": "Success"}, 0),
        # k8s.io/kubelet pkg/cri/streaming/remotecommand/exec.go: reason NonZeroExitCode
        (
            {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}},
            3,
        ),
        ({"status": "Failure", "reason": "InternalError", "message": "no such file", "details": {"causes": None}}, -1),
        ({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "x"}]}}, -1),
        ({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "9" * 5000}]}}, -1),
    ],
)
def test_the_code_of_a_command(status: dict[str, Any], code: int) -> None:
    found = parse_result(json.dumps(status).encode(), "out", "err")
    assert (found.code, found.out, found.err, found.message) == (code, "out", "err", status.get("message", ""))


def test_what_is_no_status() -> None:
    with pytest.raises(UnreadableObject):
        parse_result(b"502 Bad Gateway", "", "")
