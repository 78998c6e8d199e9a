"""Every pod of the table: what it gets, why not, and that a second time changes nothing."""

from typing import Any

import pytest
from tests.pods.json_patch import applied
from tests.pods.table import CASES, Case, decoded, own_namespace, pod_egress, wanted

from transom.pods.patch import ca_text, patch, proxy_text


def normal(pod: dict[str, Any]) -> dict[str, Any]:
    """An empty value is as good as none."""
    for field in ("initContainers", "containers"):
        for container in pod["spec"].get(field, ()):
            for one in container.get("env", ()):
                if one.get("value") == "":
                    del one["value"]
    return pod


def test_the_table_is_large_enough() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_pod_gets(case: Case) -> None:
    made = pod_egress(case.settings)
    found = patch(decoded(case.pod), own_namespace(case), case.labels, made)
    after = applied(case.pod, found.operations)
    assert normal(after) == normal(wanted(case, case.pod, made))
    assert ("given" if found.proxy is None else found.proxy).find(case.proxy) >= 0
    if case.ca is not None:
        assert ("given" if found.ca is None else found.ca).find(case.ca) >= 0
    else:
        assert found.ca is not None
    assert bool(found.warnings) == (case.warning is not None)
    assert all(case.warning is not None and case.warning in one for one in found.warnings)
    assert "hunter2" not in repr(found)
    assert proxy_text(found).startswith(("given to", "nothing to do") if case.proxy == "given" else "not given: ")
    assert ca_text(found).startswith("mounted in" if case.with_ca else "not given: ")

    again = patch(decoded(after), own_namespace(case), case.labels, made)
    assert again.operations == ()
    assert found.needs_secret == (made.in_secret and case.proxy == "given" and bool(case.env))
