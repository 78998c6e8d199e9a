"""What is said of the machines on an EgressProxy: one aggregated word on all clusters that it holds for. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from transom.capi.commit import LINUX_CLASSES, WINDOWS_CLASSES, class_patch, entries_as_objects
from transom.capi.identity import systemd_name
from transom.capi.injection import CLUSTER_CLASS, on_windows
from transom.capi.kubeadm import Entries, File
from transom.capi.machine_files import linux_entries
from transom.capi.objects import key_of
from transom.controllers.machines import CachedControlPlane
from transom.controllers.machines.rollout import MachinesDecision, MachinesStanding, counted
from transom.controllers.machines.template_edits import ExaminedTemplates
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.kube.store import ObjectKey
from transom.proxy import layers
from transom.proxy.no_proxy import uncovered_text
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
    examined: tuple[ExaminedTemplates, ...]
    shared: tuple[str, ...]
    changed: str | None
    cluster: tuple[str, str]
    refused: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    """Addresses of its machines that its NO_PROXY does not cover."""

    @property
    def affected(self) -> bool:
        """Whether any of its machines boots with the settings, or should."""
        return any(one.affected for one in self.examined)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """What cannot be edited since it is somebody else's."""
        undone = [one for one in self.examined if one.taken_back and one.edit.operations]
        foreign = [f"{one.name}: {path} is there already" for one in self.examined for path in one.edit.foreign]
        taken = [f"{one.name}: the entries were taken out again" for one in undone]
        return (*taken, *foreign, *(f"{name}: several clusters use it" for name in self.shared))

    @property
    def to_commit(self) -> tuple[ExaminedTemplates, ...]:
        """What somebody else writes from a source of its own, and lacks our entries."""
        return tuple(one for one in self.examined if one.kept is not None and one.edit.operations)


def conditions(
    objects: SettingsObjects,
    found: Mapping[ObjectKey, ClusterMachines],
    standings: Mapping[ObjectKey, MachinesStanding],
    decision: MachinesDecision,
    refused: Mapping[tuple[str, str], str],
) -> dict[str, Conditions]:
    """The conditions by name of the EgressProxy: MachinesOutdated, MachineNetworkMissing, Conflict, RolloutHalted."""
    cached: dict[str, list[tuple[str, str]]] = {item.metadata.name: [] for item in objects.egress_proxies}
    for cluster in objects.clusters:
        key = key_of(cluster)
        if key in found:
            for layer in layers.of_workload_cluster(objects, cluster).layers:
                if isinstance(layer.source, EgressProxy):
                    cached[layer.source.metadata.name].append(key)
    return {
        name: _of_one(
            [found[ObjectKey(*key)] for key in keys],
            [standings[ObjectKey(*key)] for key in keys if key in standings],
            decision,
            refused,
        )
        for name, keys in cached.items()
        if keys
    }


def _of_one(
    found: Sequence[ClusterMachines],
    standings: Sequence[MachinesStanding],
    decision: MachinesDecision,
    refused: Mapping[tuple[str, str], str],
) -> Conditions:
    failed = [text for one in found for text in (*one.refused, *([refused[one.cluster]] if one.cluster in refused else ()))]
    said: Conditions = {
        "MachinesOutdated": _outdated(found, standings, decision, failed),
        "MachineNetworkMissing": _network_missing(found),
    }
    conflicts = [conflict for one in found for conflict in one.conflicts]
    if conflicts:
        said["Conflict"] = Condition("True", "Conflict", f"{_list(conflicts)}; left alone")
    if any(one.automatic for one in standings):
        said["RolloutHalted"] = (
            Condition("True", "NotHealthy", f"{decision.halted}; no other cluster is begun until its machines are ready")
            if decision.halted
            else Condition("False", "NotHalted", "no rollout of a cluster's machines is stuck")
        )
    return said


def _network_missing(found: Sequence[ClusterMachines]) -> Condition:
    missing = [one for one in found if one.uncovered]
    if not missing:
        return Condition("False", "Covered", "NO_PROXY of each cluster covers the addresses of its Machines")
    names = _list(["/".join(one.cluster) for one in missing])
    first = missing[0]
    text = f"{names}: of the Machines of {'/'.join(first.cluster)} {uncovered_text(first.uncovered)}"
    return Condition("True", "NotCovered", text)


def _outdated(
    found: Sequence[ClusterMachines], standings: Sequence[MachinesStanding], decision: MachinesDecision, failed: Sequence[str]
) -> Condition:
    to_commit = [(one, examined) for one in found for examined in one.to_commit]
    pending = any(group.pending for one in standings for group in one.groups)
    unseen = [f"{'/'.join(one.cluster)}/{group.name}" for one in standings for group in one.groups if group.unseen]
    not_judged = f"; MachinePools without Machines, whose age is not known here: {_list(unseen)}" if unseen else ""
    if not pending and not to_commit and not failed:
        return Condition("False", "UpToDate", f"no machine is older than its settings{not_judged}")
    told = [f"{counted(standings)} are older than their settings"]
    ours = [one for one in standings if any(group.pending for group in one.rolled)]
    manual = sum(not one.automatic for one in ours)
    reason = "Outdated"
    if manual:
        told.append(f"{_clusters(manual)} wait for a rollout by hand, or for spec.rollout: Automatic")
    if decision.current is not None and any(one.cluster == decision.current for one in standings):
        told.append(f"rolling {'/'.join(decision.current)}")
        reason = "RollingOut"
    left = [(one, group) for one in standings for group in one.groups if group.of_pool and group.pending and group.kept]
    pools = [f"{'/'.join(one.cluster)}/{group.name}" for one, group in left]
    if pools:
        told.append(f"{_list(pools)}: MachinePools, whose machines are not replaced from here")
    skipped = [one for one in decision.skipped if any(one == standing.cluster for standing in standings)]
    if skipped:
        told.append(f"{_list(['/'.join(one) for one in skipped])}: not begun, machines are not ready")
    paused = [one for one in ours if one.paused]
    if paused:
        told.append(f"{_list(['/'.join(one.cluster) for one in paused])}: paused, and left alone")
    if failed:
        told.append(f"refused: {_list(failed)}")
        reason = "Refused"
    if to_commit:
        told.append(_commit(to_commit))
        reason = "CommitNeeded"
    return Condition("True", reason, f"{'; '.join(told)}{not_judged}")


def _commit(to_commit: Sequence[tuple[ClusterMachines, ExaminedTemplates]]) -> str:
    """Who has to commit, and what: of the first of them in full, but for certificates."""
    names = [f"{one.name} ({one.kept})" for _, one in to_commit]
    found, first = to_commit[0]
    text = msgspec.json.encode(_class_patch(found) if found.from_class else entries_as_objects(_short(first))).decode()
    where = "spec.patches of its ClusterClass" if found.from_class else first.name
    return f"commit the entries of {_list(names)} at their source: in {where}: {text} (whole: transom render)"


def _class_patch(found: ClusterMachines) -> dict[str, Any]:
    secret = systemd_name(found.identity)
    control_plane = _without_certificates(linux_entries(secret, found.egress, control_plane=True))
    templates = [one for one in found.examined if one.kept == CLUSTER_CLASS and not isinstance(one.cached, CachedControlPlane)]
    by_system = {on_windows(one.cached.configuration or {}): _short(one) for one in templates}
    workers: dict[tuple[str, ...], Entries]
    if len(by_system) == 1:
        workers = {("*",): next(iter(by_system.values()))}
    else:
        names = {True: WINDOWS_CLASSES, False: LINUX_CLASSES}
        workers = {names[windows]: entries for windows, entries in by_system.items()}
    return class_patch(control_plane, workers, found.identity, labelled=found.identity != found.cluster[1])


def _short(examined: ExaminedTemplates) -> Entries:
    return _without_certificates(examined.wanted or Entries())


def _without_certificates(entries: Entries) -> Entries:
    """Certificates are long, and stand in a ConfigMap anyway."""
    files = tuple(_shortened(file) for file in entries.files)
    return msgspec.structs.replace(entries, files=files)


def _shortened(file: File) -> File:
    return msgspec.structs.replace(file, content="…") if len(file.content) > 200 else file


def _clusters(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number:,} clusters"


def _list(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
