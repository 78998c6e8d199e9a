"""The conditions of an EgressProxy about machines, aggregated over all selected clusters. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from transom.capi.bootstrap.kubeadm import Entries, File
from transom.capi.bootstrap.template_patches import convert_entries
from transom.capi.values.cluster_objects import get_namespaced_name
from transom.common.counting import format_count, format_first
from transom.controllers.machines.rollout import MachinesDecision, MachinesRolloutState, format_counts
from transom.controllers.machines.template_edits import ExaminedTemplate
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.kube.store import ObjectKey
from transom.proxy import layers
from transom.proxy.no_proxy import describe_uncovered
from transom.proxy.objects import EgressProxy, SettingsObjects
from transom.proxy.settings import Egress

_SHOWN: Final = 3


class ClusterMachines(msgspec.Struct, frozen=True):
    """What the last pass found of a cluster.

    `shared` are templates that other clusters use as well. `changed` is as in Group. `refused` is what the server did not take,
    with its reason.
    """

    egress: Egress
    identity: str
    paused: bool
    from_class: bool
    examined: tuple[ExaminedTemplate, ...]
    shared: tuple[str, ...]
    changed: str | None
    cluster: tuple[str, str]
    refused: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    """Kinds of its control plane and bootstrap configurations for which Transom has no entries."""
    uncovered: tuple[str, ...] = ()
    """Addresses of its machines that its NO_PROXY does not cover."""

    @property
    def affected(self) -> bool:
        """Whether any of its machines boots with the settings, or should."""
        return any(item.affected for item in self.examined)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Entries that cannot be edited because they have another owner."""
        undone = [item for item in self.examined if item.taken_back and item.edit.operations]
        foreign = [f"{item.name}: {path} already exists" for item in self.examined for path in item.edit.foreign]
        taken = [f"{item.name}: the entries were removed" for item in undone]
        return (*taken, *foreign, *(f"{name}: several clusters use it" for name in self.shared))

    @property
    def templates_to_commit(self) -> tuple[ExaminedTemplate, ...]:
        """Templates that another tool writes from its own source and that lack Transom's entries."""
        return tuple(item for item in self.examined if item.kept is not None and item.edit.operations)


def build_conditions(
    objects: SettingsObjects,
    machines_by_cluster: Mapping[ObjectKey, ClusterMachines],
    standings: Mapping[ObjectKey, MachinesRolloutState],
    decision: MachinesDecision,
    refused: Mapping[tuple[str, str], str],
) -> dict[str, Conditions]:
    """Build the conditions of the EgressProxy about machines, by its name.

    The types are MachinesOutdated, MachineNetworkMissing, MachinesNotSupported, Conflict and RolloutHalted.
    """
    cached: dict[str, list[tuple[str, str]]] = {item.metadata.name: [] for item in objects.egress_proxies}
    for cluster in objects.clusters:
        key = get_namespaced_name(cluster)
        if key in machines_by_cluster:
            for layer in layers.merge_workload_layers(objects, cluster).layers:
                if isinstance(layer.source, EgressProxy):
                    cached[layer.source.metadata.name].append(key)
    return {
        name: _build_conditions(
            [machines_by_cluster[ObjectKey(*key)] for key in keys],
            [standings[ObjectKey(*key)] for key in keys if key in standings],
            decision,
            refused,
        )
        for name, keys in cached.items()
        if keys
    }


def _build_conditions(
    cluster_machines: Sequence[ClusterMachines],
    standings: Sequence[MachinesRolloutState],
    decision: MachinesDecision,
    refused: Mapping[tuple[str, str], str],
) -> Conditions:
    failed = [
        text
        for item in cluster_machines
        for text in (*item.refused, *([refused[item.cluster]] if item.cluster in refused else ()))
    ]
    conditions: Conditions = {
        "MachinesOutdated": _build_outdated_condition(cluster_machines, standings, decision, failed),
        "MachineNetworkMissing": _build_network_condition(cluster_machines),
        "MachinesNotSupported": _build_support_condition(cluster_machines),
    }
    conflicts = [conflict for item in cluster_machines for conflict in item.conflicts]
    if conflicts:
        conditions["Conflict"] = Condition(
            "True", "Conflict", f"{format_first(conflicts, _SHOWN)}; Transom does not change them"
        )
    if any(standing.automatic for standing in standings):
        conditions["RolloutHalted"] = (
            Condition(
                "True",
                "NotHealthy",
                f"{decision.halted}; Transom does not continue with other clusters until its machines are ready",
            )
            if decision.halted
            else Condition("False", "NotHalted", "no rollout of machines is halted")
        )
    return conditions


def _build_support_condition(cluster_machines: Sequence[ClusterMachines]) -> Condition:
    unsupported = [f"{'/'.join(item.cluster)} ({', '.join(item.unsupported)})" for item in cluster_machines if item.unsupported]
    if not unsupported:
        return Condition("False", "Supported", "Transom has entries for the machines of each cluster")
    return Condition("True", "KindNotSupported", f"Transom has no entries for machines of {format_first(unsupported, _SHOWN)}")


def _build_network_condition(cluster_machines: Sequence[ClusterMachines]) -> Condition:
    missing = [item for item in cluster_machines if item.uncovered]
    if not missing:
        return Condition("False", "Covered", "NO_PROXY of each cluster covers the addresses of its Machines")
    names = format_first(["/".join(item.cluster) for item in missing], _SHOWN)
    first = missing[0]
    text = f"{names}: of the Machines of {'/'.join(first.cluster)} {describe_uncovered(first.uncovered)}"
    return Condition("True", "NotCovered", text)


def _build_outdated_condition(
    cluster_machines: Sequence[ClusterMachines],
    standings: Sequence[MachinesRolloutState],
    decision: MachinesDecision,
    failed: Sequence[str],
) -> Condition:
    to_commit = [(item, examined) for item in cluster_machines for examined in item.templates_to_commit]
    pending = any(group.pending for standing in standings for group in standing.groups)
    unseen = [
        f"{'/'.join(standing.cluster)}/{group.name}"
        for standing in standings
        for group in standing.groups
        if group.has_unknown_ages
    ]
    not_judged = (
        f"; MachinePools without Machines, whose age is not known here: {format_first(unseen, _SHOWN)}" if unseen else ""
    )
    if not pending and not to_commit and not failed:
        return Condition("False", "UpToDate", f"no machine is older than its settings{not_judged}")
    phrases = [f"{format_counts(standings)} are older than their settings"]
    ours = [standing for standing in standings if any(group.pending for group in standing.rollout_groups)]
    manual = sum(not our.automatic for our in ours)
    reason = "Outdated"
    if manual:
        phrases.append(f"{format_count(manual, 'cluster')} wait for a rollout by hand, or for spec.rollout: Automatic")
    if decision.current is not None and any(standing.cluster == decision.current for standing in standings):
        phrases.append(f"rolling {'/'.join(decision.current)}")
        reason = "RollingOut"
    left = [
        (standing, group)
        for standing in standings
        for group in standing.groups
        if group.is_machine_pool and group.pending and group.kept
    ]
    pools = [f"{'/'.join(item.cluster)}/{group.name}" for item, group in left]
    if pools:
        phrases.append(f"{format_first(pools, _SHOWN)}: MachinePools, whose machines are not replaced from here")
    skipped = [item for item in decision.skipped if any(item == standing.cluster for standing in standings)]
    if skipped:
        phrases.append(f"{format_first(['/'.join(item) for item in skipped], _SHOWN)}: not begun, machines are not ready")
    paused = [our for our in ours if our.paused]
    if paused:
        phrases.append(f"{format_first(['/'.join(item.cluster) for item in paused], _SHOWN)}: paused, and left alone")
    if failed:
        phrases.append(f"refused: {format_first(failed, _SHOWN)}")
        reason = "Refused"
    if to_commit:
        phrases.append(_format_commit(to_commit))
        reason = "CommitNeeded"
    return Condition("True", reason, f"{'; '.join(phrases)}{not_judged}")


def _format_commit(to_commit: Sequence[tuple[ClusterMachines, ExaminedTemplate]]) -> str:
    """Return what to commit: entries of the first template except certificates, or the command that prints a class patch."""
    names = [f"{item.name} ({item.kept})" for _, item in to_commit]
    machines, first = to_commit[0]
    what = f"commit the entries of {format_first(names, _SHOWN)} at their source"
    if machines.from_class:
        return f"{what}: `transom render --machine-templates cluster-class` prints them for spec.patches of the ClusterClass"
    return f"{what}: in {first.name}: {msgspec.json.encode(_shorten_entries(first)).decode()} (whole: transom render)"


def _shorten_entries(examined: ExaminedTemplate) -> dict[str, Any]:
    """Remove certificates: they are long, and a ConfigMap has them."""
    entries = examined.wanted or Entries()
    return convert_entries(msgspec.structs.replace(entries, files=tuple(_shorten_file(file) for file in entries.files)))


def _shorten_file(file: File) -> File:
    return msgspec.structs.replace(file, content="…") if len(file.content) > 200 else file
