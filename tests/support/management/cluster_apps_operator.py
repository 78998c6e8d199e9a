"""cluster-apps-operator beside Transom: its objects, as its own code prints them, and the rules by which it puts them back.

The rules are those of its library (giantswarm/operatorkit 59b64a4, pkg/resource/k8s/secretresource and configmapresource):
`new_secret_to_update.go` replaces annotations, labels and data of an object that differs; `create.go` creates what is missing;
`delete.go` deletes what has its labels and is not desired. It does so at each resync, by default every five minutes.
"""

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

OBSERVED: Final[Mapping[str, list[dict[str, Any]]]] = yaml.safe_load(
    (Path(__file__).parent / "cluster_apps_operator.yaml").read_text("utf-8")
)
MANAGED_BY: Final = ("giantswarm.io/managed-by", "cluster-apps-operator")
Key = tuple[str, str]


def desired_objects(state: str, identity: str = "demo", namespace: str = "org-demo") -> dict[Key, dict[str, Any]]:
    """Return the objects of a cluster with that id, by kind and name; `state` is `proxied` or `unproxied`."""
    text = yaml.safe_dump(OBSERVED[state]).replace("org-demo", namespace).replace("demo", identity)
    return {(item["kind"], item["metadata"]["name"]): _encoded(item) for item in yaml.safe_load(text)}


def values_of(item: Mapping[str, Any], key: str = "values") -> Any:
    """Return the document under a key of a Secret or a ConfigMap."""
    text = item["data"][key]
    return yaml.safe_load(base64.b64decode(text) if item["kind"] == "Secret" else text)


def reconcile(existing: Iterable[Mapping[str, Any]], desired: Mapping[Key, Mapping[str, Any]]) -> dict[Key, dict[str, Any]]:
    """Return the objects after a pass of the operator; those without its labels are not its own, and stay."""
    after: dict[Key, dict[str, Any]] = {}
    for item in existing:
        key = (item["kind"], item["metadata"]["name"])
        if (item["metadata"].get("labels") or {}).get(MANAGED_BY[0]) != MANAGED_BY[1]:
            after[key] = dict(item)
        elif key in desired:
            wanted = desired[key]
            metadata = {**item["metadata"], **{part: wanted["metadata"][part] for part in ("labels", "annotations")}}
            after[key] = {**item, "metadata": metadata, "data": wanted["data"]}
    return {**{key: dict(item) for key, item in desired.items()}, **after}


def _encoded(item: dict[str, Any]) -> dict[str, Any]:
    plain = item.pop("stringData", None)
    if plain is not None:
        item["data"] = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
    return {"apiVersion": "v1", **item}
