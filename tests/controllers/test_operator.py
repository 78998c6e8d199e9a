"""The list of controllers: each has its rights by the same name, and may look at what it asks for."""

import pytest

from transom.controllers.operator import CONTROLLERS
from transom.kube.objects import Metadata
from transom.kube.resources import Resource
from transom.kube.store import Store
from transom.manifests import roles


def test_each_controller_has_its_rights() -> None:
    assert set(CONTROLLERS) == {item for group in roles.CONTROLLERS.values() for item in group}
    assert set(CONTROLLERS) == set(roles.GRANTS)


def test_an_index_may_be_added_before_there_are_objects() -> None:
    def by_zone(obj: Metadata) -> list[str]:
        return [(obj.metadata.labels or {}).get("zone", "")]

    store: Store[Metadata] = Store()
    store.add_indexes({"zone": by_zone})
    store.add_indexes({"zone": by_zone})
    with pytest.raises(ValueError, match="another index 'zone'"):
        store.add_indexes({"zone": lambda obj: [obj.metadata.name]})
    resource = Resource("", "v1", "Thing", "things", False, Metadata)
    store.put(resource.decode(b'{"metadata": {"name": "a", "labels": {"zone": "north"}}}'))
    assert [item.metadata.name for item in store.take_snapshot().list_by_index("zone", "north")] == ["a"]
    with pytest.raises(ValueError, match="comes after the objects"):
        store.add_indexes({"name": lambda obj: [obj.metadata.name]})


def test_rights_in_openshifts_namespaces_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = roles.build_rule("", "secrets", "create", "why")
    grants = {"one": roles.Grants(openshift={"openshift-machine-api": (rule,)}), "two": roles.Grants()}
    monkeypatch.setattr(roles, "GRANTS", grants)

    def places(*controllers: str, openshift: bool) -> list[str]:
        made = roles.iter_roles("transom-system", controllers, openshift=openshift)
        return [item["metadata"]["namespace"] for item in made if item["kind"] == "Role"]

    assert places("one", openshift=False) == ["transom-system"]
    assert places("one", "two", openshift=True) == ["transom-system", "openshift-machine-api"]
    assert places("two", openshift=True) == ["transom-system"]
