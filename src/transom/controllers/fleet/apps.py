"""The Apps of a workload cluster that ask for it: references to the values objects, where they have none."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from transom.capi.identity import ID_LABEL, values_name
from transom.controllers.fleet.kinds import APPS, HeldApp, Reference
from transom.kube.client import Client
from transom.kube.errors import Conflict, NotFound
from transom.kube.store import Name

FIELDS: Final = ("configMap", "secret")


def place_of(namespace: str | None, identity: str) -> str:
    """The value of the indexes: a cluster's namespace and id."""
    return f"{namespace}/{identity}"


def by_cluster(app: HeldApp) -> Iterator[str]:
    """The cluster of an App, by its label."""
    if identity := (app.metadata.labels or {}).get(ID_LABEL):
        yield place_of(app.metadata.namespace, identity)


def without_cluster(app: HeldApp) -> Iterator[str]:
    """The namespace of an App that asks, or was given something, and names no cluster: its name tells."""
    if (app.asks or app.applied) and not (app.metadata.labels or {}).get(ID_LABEL):
        yield app.metadata.namespace or ""


def by_values(app: HeldApp) -> Iterator[str]:
    """The ConfigMaps and Secrets that an App reads."""
    for held in (app.config.config_map, app.config.secret):
        if held is not None:
            yield place_of(held.namespace, held.name)


async def inject(client: Client, place: Name, apps: Iterable[HeldApp], *, values: bool) -> bool:
    """Bring the references of a cluster's Apps to what is wanted; whether all of them are. Raises ApiError.

    Only a field that is empty is written; one that Transom wrote is taken out when the App no longer asks. `values`: there are
    values objects to refer to.
    """
    namespace, identity = place
    wanted = Reference(values_name(identity), namespace or "")
    done = True
    for app in apps:
        held = dict(zip(FIELDS, (app.config.config_map, app.config.secret), strict=True))
        if not app.asks:
            fields: set[str] = set()
        elif values:
            fields = {name for name in FIELDS if held[name] is None or name in app.applied}
        else:
            continue
        if fields == app.applied and all(held[name] == wanted for name in fields):
            continue
        done = (
            await _apply(client, app, {name: {"name": wanted.name, "namespace": wanted.namespace} for name in sorted(fields)})
            and done
        )
    return done


async def _apply(client: Client, app: HeldApp, config: dict[str, Any]) -> bool:
    meta = app.metadata
    value: dict[str, Any] = {
        "apiVersion": APPS.api_version,
        "kind": APPS.kind,
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
    }
    if config:
        value["spec"] = {"config": config}
    try:
        await client.server_side_apply(APPS, value, meta.name, meta.namespace, force=False)
    except NotFound:
        return True
    except Conflict:
        # another owner took the field in the meantime: it is theirs
        return False
    return True
