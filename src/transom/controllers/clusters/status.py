"""The conditions that the fleet controller sets on an EgressProxy, aggregated over all selected clusters. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from transom.capi.values.cluster_identity import InvalidIdentity, get_cluster_id
from transom.capi.values.cluster_objects import find_identity_conflicts, get_namespaced_name
from transom.common.counting import format_count, format_first
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.proxy import layers
from transom.proxy.objects import SettingsObjects
from transom.proxy.settings import ResolvedSettings
from transom.proxy.withholding import format_withheld_message

_SHOWN: Final = 3


class ClusterReport(msgspec.Struct, frozen=True):
    """The result of the last pass on a cluster: objects with another owner, and the error if it failed.

    `own_values` are Apps that ask for references and name values of their own at their place.
    """

    conflicts: tuple[str, ...] = ()
    failure: str = ""
    own_values: tuple[str, ...] = ()


def build_conditions(
    objects: SettingsObjects,
    newest: ResolvedSettings,
    reports: Mapping[tuple[str, str], ClusterReport],
) -> dict[str, Conditions]:
    """Return the conditions by name of the EgressProxy. `reports` are by namespace and name of the Cluster.

    A Cluster without a report has not been reconciled yet.
    """
    cached: dict[str, list[tuple[str, str]]] = {item.metadata.name: [] for item in objects.egress_proxies}
    nameless: dict[tuple[str, str], str] = {}
    for cluster in objects.clusters:
        for layer in layers.merge_workload_layers(objects, cluster).layers:
            # OpenShift's Proxy, where that is the base, has the name of the base, and no status that we may write
            name = layer.source.metadata.name
            if name in cached:
                cached[name].append(get_namespaced_name(cluster))
        try:
            get_cluster_id(cluster)
        except InvalidIdentity as error:
            nameless[get_namespaced_name(cluster)] = f"Cluster {'/'.join(get_namespaced_name(cluster))}: {error}"
    twice = {later: namesake.message for later, namesake in find_identity_conflicts(objects.clusters).items()}
    return {
        name: _build_conditions(name, selected, newest, reports, {**nameless, **twice}) for name, selected in cached.items()
    }


def _build_conditions(
    name: str,
    selected: Sequence[tuple[str, str]],
    newest: ResolvedSettings,
    reports: Mapping[tuple[str, str], ClusterReport],
    faults: Mapping[tuple[str, str], str],
) -> Conditions:
    conflicts = [faults[cluster] for cluster in selected if cluster in faults]
    foreign = [object_ for cluster in selected for object_ in reports.get(cluster, ClusterReport()).conflicts]
    if foreign:
        listed = format_first(foreign, _SHOWN)
        conflicts.append(f"{listed}: not managed by Transom, and unchanged; remove it, or hand it over with `transom adopt`")
    conditions: Conditions = {
        "Conflict": Condition("True", "Conflict", "; ".join(conflicts))
        if conflicts
        else Condition("False", "NoConflict", "no conflicting object in the workload clusters")
    }
    conditions["CredentialsWithheld"] = _build_credentials_withheld_condition(name, newest)
    conditions["ClustersApplied"] = _build_applied_condition(name, selected, newest, reports, faults)
    return conditions


def _build_credentials_withheld_condition(name: str, newest: ResolvedSettings) -> Condition:
    clusters = [cluster for cluster, item in newest.withheld.items() if item.egress_proxy == name]
    if not clusters:
        return Condition("False", "NotWithheld", "credentials of this object are not withheld from any cluster")
    return Condition("True", "NoClusterSelector", format_withheld_message(clusters, "spec.clusterSelector: "))


def _build_applied_condition(
    name: str,
    selected: Sequence[tuple[str, str]],
    newest: ResolvedSettings,
    reports: Mapping[tuple[str, str], ClusterReport],
    faults: Mapping[tuple[str, str], str],
) -> Condition:
    if not selected:
        if name == layers.BASE:
            return Condition("True", "NoClusters", "no workload cluster is selected")
        return Condition("False", "SelectsNothing", "spec.clusterSelector: no Cluster matches")
    failed = [f"{'/'.join(item)}: {reports[item].failure}" for item in selected if item in reports and reports[item].failure]
    withheld = [item for item in selected if item in newest.withheld]
    kept = [item for item in selected if newest.clusters.get(item) is None and item not in withheld]
    left = {*faults, *kept, *withheld}
    waiting = [item for item in selected if item not in reports and item not in left]
    count = format_count(len(selected), "cluster")
    if failed:
        return Condition("False", "Failed", f"{len(failed)} of {count} could not be written: {format_first(failed, _SHOWN)}")
    if kept:
        return Condition("False", "KeepsLast", f"{len(kept)} of {count} keep their settings, because the new ones are invalid")
    if waiting:
        return Condition("False", "InProgress", f"{len(waiting)} of {count} are not written yet")
    if withheld:
        text = f"of {count}, {len(withheld)} keep what they have: see the condition CredentialsWithheld of the EgressProxy"
        return Condition(
            "False",
            "CredentialsWithheld",
            f"{text} {', '.join(sorted({newest.withheld[item].egress_proxy for item in withheld}))}",
        )
    if faults.keys() & set(selected) or any(reports[item].conflicts for item in selected if item in reports):
        return Condition("False", "Conflict", "see the condition Conflict; all others have the settings")
    have = "has" if len(selected) == 1 else "have"
    own = [app for item in selected if item in reports for app in reports[item].own_values]
    apps = (
        f"; {format_first(own, _SHOWN)}: has values of its own there, and gets no reference: put it in by hand" if own else ""
    )
    return Condition("True", "Applied", f"{count} {have} the settings{apps}")
