"""What differs, and what a real server makes of it: fields come and go, others' fields stay, and nothing is written twice."""

import copy
from typing import Any

import pytest
from lab.control_plane import ControlPlane

from transom.kube.apply import apply, needs_apply
from transom.kube.client import Client
from transom.kube.errors import Conflict
from transom.kube.resources import CONFIG_MAPS, NODES

CONDITION = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
APPLIED: dict[str, Any] = {
    "metadata": {
        "name": "a",
        "managedFields": [
            {"manager": "somebody", "operation": "Update", "fieldsV1": {"f:data": {"f:theirs": {}}}},
            {
                "manager": "transom",
                "operation": "Apply",
                "fieldsV1": {"f:data": {"f:ours": {}}, "f:metadata": {"f:finalizers": {'v:"transom.dev/x"': {}}}},
            },
            {
                "manager": "transom",
                "operation": "Apply",
                "subresource": "status",
                "fieldsV1": {
                    "f:status": {"f:n": {}, "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}}}
                },
            },
        ],
        "finalizers": ["transom.dev/x", "other/y"],
    },
    "data": {"ours": "1", "theirs": "2"},
    "status": {"n": 1, "conditions": [CONDITION, CONDITION | {"type": "Theirs"}]},
}
OURS: dict[str, Any] = {"metadata": {"name": "a", "finalizers": ["transom.dev/x"]}, "data": {"ours": "1"}}
STATUS: dict[str, Any] = {"metadata": {"name": "a"}, "status": {"n": 1, "conditions": [CONDITION]}}


def changed(value: dict[str, Any], *path: str, to: Any = None) -> dict[str, Any]:
    made = copy.deepcopy(value)
    at = made
    for step in path[:-1]:
        at = at[step]
    if to is None:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return made


@pytest.mark.parametrize(
    ("desired", "live", "subresource", "expected"),
    [
        pytest.param(STATUS, APPLIED, "status", False, id="nothing"),
        pytest.param(STATUS, None, "status", True, id="not there"),
        pytest.param(STATUS, changed(APPLIED, "metadata", "managedFields"), "status", True, id="never applied by us"),
        pytest.param(
            {"metadata": {"name": "a", "uid": "u"}}, changed(APPLIED, "metadata", "managedFields"), None, False, id="empty"
        ),
        pytest.param({"metadata": {"name": "a"}}, APPLIED, None, True, id="empty, and we have something there"),
        pytest.param(changed(STATUS, "status", "n", to=2), APPLIED, "status", True, id="another value"),
        pytest.param(changed(STATUS, "status", "n", to=True), APPLIED, "status", True, id="another type that is equal"),
        pytest.param(changed(STATUS, "status", "n"), APPLIED, "status", True, id="a field that is ours and not wanted"),
        pytest.param(changed(STATUS, "status", "more", to="x"), APPLIED, "status", True, id="a new field"),
        pytest.param(
            changed(STATUS, "status", "conditions", to=[CONDITION | {"status": "False"}]),
            APPLIED,
            "status",
            True,
            id="in an item",
        ),
        pytest.param(changed(STATUS, "status", "conditions", to=[]), APPLIED, "status", True, id="an item of ours that goes"),
        pytest.param(OURS, changed(APPLIED, "data", "theirs", to="3"), None, True, id="finalizers as a whole list"),
    ],
)
def test_differences(desired: dict[str, Any], live: dict[str, Any] | None, subresource: str | None, expected: bool) -> None:
    assert needs_apply(desired, live, subresource) is expected


@pytest.mark.lab
async def test_a_key_comes_changes_and_goes_and_others_stay(control_plane: ControlPlane, direct: Client) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shared", "namespace": "default", "labels": {"a": "b"}},
        "data": {"theirs": "1", "both": "1"},
    }
    path = CONFIG_MAPS.build_path("default", "shared")
    query = {"fieldManager": "somebody", "force": "true"}
    await direct.request("PATCH", path, query, theirs, content_type="application/apply-patch+yaml")

    async def data() -> dict[str, str]:
        found: dict[str, str] = (await direct.get(CONFIG_MAPS, "shared", "default")).value["data"]
        return found

    def ours(**data: str) -> dict[str, Any]:
        return {"metadata": {"name": "shared", "namespace": "default"}, "data": data}

    began = control_plane.get_moment()

    def writes() -> int:
        return sum(entry["verb"] == "patch" and entry["userAgent"] == "transom" for entry in control_plane.read_audit(began))

    assert await apply(direct, CONFIG_MAPS, ours(bundle="x"))
    assert await data() == {"theirs": "1", "both": "1", "bundle": "x"}
    before = writes()
    for _ in range(3):
        assert not await apply(direct, CONFIG_MAPS, ours(bundle="x"))
    assert writes() == before, "written without need"
    with pytest.raises(Conflict, match='conflict with "somebody"'):
        await apply(direct, CONFIG_MAPS, ours(bundle="x", both="2"), force=False)
    assert await apply(direct, CONFIG_MAPS, ours(bundle="y"))
    assert await data() == {"theirs": "1", "both": "1", "bundle": "y"}
    await direct.patch(CONFIG_MAPS, {"data": {"bundle": "edited"}}, "shared", "default")
    assert await apply(direct, CONFIG_MAPS, ours(bundle="y"))
    empty = {"metadata": {"name": "shared", "namespace": "default"}}
    assert await apply(direct, CONFIG_MAPS, empty)
    assert await data() == {"theirs": "1", "both": "1"}
    assert not await apply(direct, CONFIG_MAPS, empty)
    await direct.delete(CONFIG_MAPS, "shared", "default")


@pytest.mark.lab
async def test_a_status_is_written_once(direct: Client) -> None:
    await direct.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "applied"}})
    status = {"metadata": {"name": "applied"}, "status": {"conditions": [CONDITION | {"type": "Transom"}]}}
    assert await apply(direct, NODES, status, subresource="status")
    assert not await apply(direct, NODES, status, subresource="status")
    await direct.delete(NODES, "applied")
