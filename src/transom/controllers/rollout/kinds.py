"""The rollouts of the operator by kind: settings, payloads and SSH keys, each to the instances in the store."""

from collections.abc import Callable, Iterator
from typing import Final

from transom.apply.target import Target
from transom.controllers.rollout.in_flight_hosts import InFlightHosts
from transom.controllers.rollout.resume_annotation import ResumeAnnotation
from transom.controllers.rollout.rollout_kind import Group, RolloutKind
from transom.controllers.rollout.rollouts import Rollouts
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import INSTANCE_INDEXES, Informers, get_cluster_index
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.rollout.fingerprint import compute_rollout_fingerprint
from transom.rollout.markers import RolloutMember, parse_markers

_MAX_CACHED: Final = 2048
_NO_GROUP: Final = "nowhere"
"""The group of a host that takes part in no rollout of a kind."""


class _FingerprintCache:
    """Fingerprints by settings: a pass asks for the same few several times."""

    def __init__(self) -> None:
        self._cached: dict[int, tuple[Egress, str]] = {}

    def get(self, egress: Egress) -> str:
        """Return the fingerprint of settings."""
        cached, fingerprint = self._cached.get(id(egress), (None, ""))
        if cached is not egress:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            fingerprint = compute_rollout_fingerprint(egress)
            self._cached[id(egress)] = egress, fingerprint
        return fingerprint


def make_settings_rollouts(
    informers: Informers,
    settings: CurrentSettings,
    reports: ConditionAggregator,
    resume_annotation: ResumeAnnotation,
    in_flight_hosts: InFlightHosts,
) -> Rollouts:
    """Return the rollouts of settings, to all Windows hosts of a cluster."""
    fingerprints = _FingerprintCache()

    def get_latest_fingerprint(target: Target) -> str | None:
        egress = settings.for_instance(target.instance)
        return fingerprints.get(egress) if egress is not None else None

    kind = RolloutKind(
        "settings",
        lambda target: fingerprints.get(target.egress),
        get_latest_fingerprint,
        lambda target: target.instance.cluster,
        lambda: "these settings",
        "edit the settings or their readinessEndpoints to continue",
        refutable=True,
    )
    return _build_rollouts_per_cluster(informers, kind, reports, resume_annotation, in_flight_hosts, ("Egress", "Node"))


def make_upgrade_rollouts(
    informers: Informers,
    reports: ConditionAggregator,
    resume_annotation: ResumeAnnotation,
    in_flight_hosts: InFlightHosts,
    identity: Callable[[], str],
    describe_payload: Callable[[], str],
) -> Rollouts:
    """Return the rollouts of payloads, to the hosts of lifecycle Node. `identity` returns that of the current payload."""
    kind = RolloutKind(
        "upgrade",
        lambda _: identity(),
        lambda _: identity(),
        lambda target: target.instance.cluster,
        describe_payload,
        "use another payload",
        prepared=True,
    )
    return _build_rollouts_per_cluster(informers, kind, reports, resume_annotation, in_flight_hosts, ("Node",))


def make_key_rollouts(
    informers: Informers,
    reports: ConditionAggregator,
    resume_annotation: ResumeAnnotation,
    in_flight_hosts: InFlightHosts,
    fingerprint: Callable[[Target], str],
    latest_fingerprint: Callable[[Target], str | None],
    is_opened_by: Callable[[CachedInstance, str], bool],
) -> Rollouts:
    """Return the rollouts of SSH keys, to the hosts that a Secret opens.

    `is_opened_by` tells whether the key of a fingerprint opens a host.
    """

    def list_members(group: Group, text: str) -> Iterator[RolloutMember]:
        for instance in informers.windows_instances.take_snapshot().list_by_index("secret", str(group)):
            if _is_rollout_member(instance):
                markers = parse_markers(instance.live.changes)
                conforming = is_opened_by(instance, text.rpartition("\n")[2])
                yield RolloutMember(instance.metadata.name, markers, conforming)

    kind = RolloutKind(
        "keys",
        fingerprint,
        latest_fingerprint,
        lambda target: target.instance.spec.key_secret.name,
        lambda: "the new key",
        "change the Secret to continue",
    )
    rollouts = Rollouts(kind, list_members, reports, in_flight_hosts, resume_annotation.read)
    _follow_instances(informers, rollouts, lambda instance: next(iter(INSTANCE_INDEXES["secret"](instance))))
    return rollouts


def _build_rollouts_per_cluster(
    informers: Informers,
    kind: RolloutKind,
    reports: ConditionAggregator,
    resume_annotation: ResumeAnnotation,
    in_flight_hosts: InFlightHosts,
    lifecycles: tuple[str, ...],
) -> Rollouts:
    def has_matching_lifecycle(instance: CachedInstance) -> bool:
        return instance.spec_fields.get("lifecycle", "Egress") in lifecycles

    def list_members(group: Group, _: str) -> Iterator[RolloutMember]:
        cluster = group if isinstance(group, tuple) else None
        for instance in informers.windows_instances.take_snapshot().list_by_index("cluster", get_cluster_index(cluster)):
            if _is_rollout_member(instance) and has_matching_lifecycle(instance):
                yield RolloutMember(instance.metadata.name, parse_markers(instance.live.changes))

    def find_group(instance: CachedInstance) -> Group:
        reference = instance.spec_fields.get("clusterRef")
        if not has_matching_lifecycle(instance):
            return _NO_GROUP
        if not isinstance(reference, dict):
            return None
        return str(reference.get("namespace") or instance.metadata.namespace), str(reference.get("name"))

    rollouts = Rollouts(kind, list_members, reports, in_flight_hosts, resume_annotation.read)
    _follow_instances(informers, rollouts, find_group)
    return rollouts


def _is_rollout_member(instance: CachedInstance) -> bool:
    """Return True if a host counts. A paused host does not change, but what it has failed with is not forgotten."""
    if instance.metadata.deletion_timestamp is not None:
        return False
    if not instance.spec_fields.get("paused"):
        return True
    markers = parse_markers(instance.live.changes)
    return any(marker.halted or marker.state in ("failed", "refuted") for marker in markers)


def _follow_instances(informers: Informers, rollouts: Rollouts, find_group: Callable[[CachedInstance], Group]) -> None:
    """Add and remove hosts as instances come and go."""

    def get_group(instance: CachedInstance | None) -> Group:
        return find_group(instance) if instance is not None and _is_rollout_member(instance) else _NO_GROUP

    def on_change(name: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        former, current = get_group(before), get_group(after)
        if former not in (current, _NO_GROUP):
            rollouts.remove_host(former, name.name)
        if current not in (former, _NO_GROUP):
            rollouts.add_host(current, name.name)

    informers.windows_instances.subscribe(on_change)
