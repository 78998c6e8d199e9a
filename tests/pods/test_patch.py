"""Every pod of the table: what it gets, why not, and that a second time changes nothing."""

from typing import Any

import pytest
from tests.pods.json_patch import applied
from tests.pods.table import CASES, Case, decoded, own_namespace, pod_egress, wanted

from transom.pods.patch import build_patch, format_ca_result, format_proxy_result


def normal(pod: dict[str, Any]) -> dict[str, Any]:
    """An empty value is as good as none."""
    for field in ("initContainers", "containers"):
        for container in pod["spec"].get(field, ()):
            for item in container.get("env", ()):
                if item.get("value") == "":
                    del item["value"]
    return pod


def test_the_table_is_large_enough() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_pod_gets(case: Case) -> None:
    made = pod_egress(case.settings)
    found = build_patch(decoded(case.pod), own_namespace(case), case.labels, made)
    after = applied(case.pod, found.operations)
    assert normal(after) == normal(wanted(case, case.pod, made))
    assert ("given" if found.proxy is None else found.proxy).find(case.proxy) >= 0
    if case.ca is not None:
        assert ("given" if found.ca is None else found.ca).find(case.ca) >= 0
    else:
        assert found.ca is not None
    assert bool(found.warnings) == (case.warning is not None)
    assert all(case.warning is not None and case.warning in warning for warning in found.warnings)
    assert "hunter2" not in repr(found)
    assert format_proxy_result(found).startswith(("given to", "nothing to do") if case.proxy == "given" else "not given: ")
    assert format_ca_result(found).startswith("mounted in" if case.with_ca else "not given: ")

    again = build_patch(decoded(after), own_namespace(case), case.labels, made)
    assert again.operations == ()
    assert found.needs_secret == (made.in_secret and case.proxy == "given" and bool(case.env))
