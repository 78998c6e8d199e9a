"""What the fleet controller says of an EgressProxy: one aggregated word on all clusters that it holds for. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from transom.capi.identity import ADOPT, InvalidIdentity, cluster_id
from transom.capi.objects import key_of, namesakes
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.proxy import layers
from transom.proxy.objects import SettingsObjects
from transom.proxy.settings import Effective
from transom.proxy.withholding import told

_SHOWN: Final = 3


class ClusterReport(msgspec.Struct, frozen=True):
    """How the last pass on a cluster went: objects that are somebody else's, and why it failed where it did.

    `own_values` are Apps that ask for references and name values of their own at their place.
    """

    conflicts: tuple[str, ...] = ()
    failure: str = ""
    own_values: tuple[str, ...] = ()


def conditions(
    objects: SettingsObjects,
    newest: Effective,
    reports: Mapping[tuple[str, str], ClusterReport],
) -> dict[str, Conditions]:
    """The conditions by name of the EgressProxy. `reports` are by namespace and name of the Cluster.

    A Cluster without a report has not been worked on yet.
    """
    cached: dict[str, list[tuple[str, str]]] = {item.metadata.name: [] for item in objects.egress_proxies}
    nameless: dict[tuple[str, str], str] = {}
    for cluster in objects.clusters:
        for layer in layers.of_workload_cluster(objects, cluster).layers:
            # OpenShift's Proxy, where that is the base, has the name of the base, and no status that we may write
            name = layer.source.metadata.name
            if name in cached:
                cached[name].append(key_of(cluster))
        try:
            cluster_id(cluster)
        except InvalidIdentity as error:
            nameless[key_of(cluster)] = f"Cluster {'/'.join(key_of(cluster))}: {error}"
    twice = {later: one.text for later, one in namesakes(objects.clusters).items()}
    return {name: _of_one(name, selected, newest, reports, {**nameless, **twice}) for name, selected in cached.items()}


def _of_one(
    name: str,
    selected: Sequence[tuple[str, str]],
    newest: Effective,
    reports: Mapping[tuple[str, str], ClusterReport],
    faults: Mapping[tuple[str, str], str],
) -> Conditions:
    conflicts = [faults[cluster] for cluster in selected if cluster in faults]
    foreign = [object_ for cluster in selected for object_ in reports.get(cluster, ClusterReport()).conflicts]
    if foreign:
        told = f'{_list(foreign)}: somebody else\'s, and left alone; remove it, or hand it over with annotation {ADOPT}: "true"'
        conflicts.append(told)
    said: Conditions = {
        "Conflict": Condition("True", "Conflict", "; ".join(conflicts))
        if conflicts
        else Condition("False", "NoConflict", "no object of a workload cluster is somebody else's")
    }
    said["CredentialsWithheld"] = _withheld(name, newest)
    said["ClustersApplied"] = _applied(name, selected, newest, reports, faults)
    return said


def _withheld(name: str, newest: Effective) -> Condition:
    clusters = [cluster for cluster, one in newest.withheld.items() if one.by == name]
    if not clusters:
        return Condition("False", "NotWithheld", "there is no cluster that credentials of this object are withheld from")
    return Condition("True", "NoClusterSelector", told(clusters, "spec.clusterSelector: "))


def _applied(
    name: str,
    selected: Sequence[tuple[str, str]],
    newest: Effective,
    reports: Mapping[tuple[str, str], ClusterReport],
    faults: Mapping[tuple[str, str], str],
) -> Condition:
    if not selected:
        if name == layers.BASE:
            return Condition("True", "NoClusters", "there is no workload cluster that this holds for")
        return Condition("False", "SelectsNothing", "spec.clusterSelector: no Cluster has such labels")
    failed = [f"{'/'.join(one)}: {reports[one].failure}" for one in selected if one in reports and reports[one].failure]
    withheld = [one for one in selected if one in newest.withheld]
    kept = [one for one in selected if newest.clusters.get(one) is None and one not in withheld]
    left = {*faults, *kept, *withheld}
    waiting = [one for one in selected if one not in reports and one not in left]
    count = _counted(len(selected))
    if failed:
        return Condition("False", "Failed", f"of {count}, {len(failed)} could not be written: {_list(failed)}")
    if kept:
        return Condition("False", "KeepsLast", f"of {count}, {len(kept)} keep what they have, since their settings are invalid")
    if waiting:
        return Condition("False", "InProgress", f"of {count}, {len(waiting)} wait to be written")
    if withheld:
        text = f"of {count}, {len(withheld)} keep what they have: see the condition CredentialsWithheld of the EgressProxy"
        return Condition(
            "False", "CredentialsWithheld", f"{text} {', '.join(sorted({newest.withheld[one].by for one in withheld}))}"
        )
    if faults.keys() & set(selected) or any(reports[one].conflicts for one in selected if one in reports):
        return Condition("False", "Conflict", "see the condition Conflict; all others have what the settings ask for")
    have = "has" if len(selected) == 1 else "have"
    own = [app for one in selected if one in reports for app in reports[one].own_values]
    apps = f"; {_list(own)}: has values of its own there, and gets no reference: put it in by hand" if own else ""
    return Condition("True", "Applied", f"{count} {have} what the settings ask for{apps}")


def _counted(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number:,} clusters"


def _list(items: Iterable[str]) -> str:
    items = list(items)
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
