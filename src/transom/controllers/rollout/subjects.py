"""What the operator rolls out, and to whom: settings, payloads and SSH keys, each to the instances that are seen."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from transom.apply.roll_out import decision_text
from transom.apply.target import Target
from transom.controllers.rollout.begun_hosts import BegunHosts
from transom.controllers.rollout.marks import read
from transom.controllers.rollout.rollouts import RESUME, Group, RolloutMember, Rollouts, RolloutSubject
from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.informers import INSTANCE_INDEXES, Informers, cluster_index
from transom.controllers.runtime.settings import CurrentSettings
from transom.kube.objects import ObjectMeta
from transom.kube.resources import NAMESPACES
from transom.kube.store import ObjectKey
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress

_TEXTS: Final = 2048


class Resumption:
    """The word by which a person has halted rollouts go on: annotation `transom.dev/resume`, on the base or the namespace."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._namespaces = informers.watch(NAMESPACES, fields=f"metadata.name={informers.namespace}")

    def __call__(self) -> str:
        """All that was said; empty where nothing was."""
        namespace = self._namespaces.snapshot().named(self._informers.namespace)
        bases = (self._informers.egress_proxies.snapshot().named(BASE), self._informers.openshift_proxy, namespace)
        said = [_annotation(one.metadata) if one is not None else "" for one in bases]
        return msgspec.json.encode(said).decode() if any(said) else ""

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call `changed` when something else was said."""
        said = self()

        def look(*_: object) -> None:
            nonlocal said
            if (now := self()) != said:
                said = now
                changed()

        self._namespaces.subscribe(look)
        self._informers.egress_proxies.subscribe(look)
        self._informers.openshift_proxies.subscribe(look)


def _annotation(meta: ObjectMeta) -> str:
    return (meta.annotations or {}).get(RESUME, "")


def settings_of(
    informers: Informers,
    settings: CurrentSettings,
    reports: ConditionAggregator,
    resumed: Resumption,
    begun: BegunHosts,
) -> Rollouts:
    """The rollouts of settings, to all Windows hosts of a cluster."""

    texts: dict[int, tuple[Egress, str]] = {}

    def text(egress: Egress) -> str:
        # asked several times in a pass, of the same few settings
        known, found = texts.get(id(egress), (None, ""))
        if known is not egress:
            if len(texts) >= _TEXTS:
                texts.clear()
            found = decision_text(egress)
            texts[id(egress)] = egress, found
        return found

    def newest(target: Target) -> str | None:
        egress = settings.of(target.instance)
        return text(egress) if egress is not None else None

    subject = RolloutSubject(
        "settings",
        lambda target: text(target.egress),
        newest,
        lambda target: target.instance.cluster,
        lambda: "these settings",
        "edit the settings or their readinessEndpoints to go on",
        refutable=True,
    )
    return _of_clusters(informers, subject, reports, resumed, begun, ("Egress", "Node"))


def upgrades_of(
    informers: Informers,
    reports: ConditionAggregator,
    resumed: Resumption,
    begun: BegunHosts,
    identity: Callable[[], str],
    named: Callable[[], str],
) -> Rollouts:
    """The rollouts of payloads, to the hosts of lifecycle Node. `identity` is that of the payload now."""
    subject = RolloutSubject(
        "upgrade",
        lambda _: identity(),
        lambda _: identity(),
        lambda target: target.instance.cluster,
        named,
        "use another payload",
        prepared=True,
    )
    return _of_clusters(informers, subject, reports, resumed, begun, ("Node",))


def keys_of(
    informers: Informers,
    reports: ConditionAggregator,
    resumed: Resumption,
    begun: BegunHosts,
    digest: Callable[[Target], str],
    newest: Callable[[Target], str | None],
    opened: Callable[[CachedInstance, str], bool],
) -> Rollouts:
    """The rollouts of SSH keys, to the hosts that a Secret opens. `opened`: whether the key of this text opens a host."""

    def members(group: Group, text: str) -> Iterator[RolloutMember]:
        for cached in informers.windows_instances.snapshot().by("secret", str(group)):
            if _counts(cached):
                marks = read(cached.live.changes)
                yield RolloutMember(cached.metadata.name, marks, opened(cached, text.rpartition("\n")[2]))

    subject = RolloutSubject(
        "keys",
        digest,
        newest,
        lambda target: target.instance.spec.key_secret.name,
        lambda: "the new key",
        "change the Secret to go on",
    )
    rollouts = Rollouts(subject, members, reports, begun, resumed)
    _follow(informers, rollouts, lambda cached: next(iter(INSTANCE_INDEXES["secret"](cached))))
    return rollouts


def _of_clusters(
    informers: Informers,
    subject: RolloutSubject,
    reports: ConditionAggregator,
    resumed: Resumption,
    begun: BegunHosts,
    lifecycles: tuple[str, ...],
) -> Rollouts:
    def takes_part(cached: CachedInstance) -> bool:
        return cached.fields.get("lifecycle", "Egress") in lifecycles

    def members(group: Group, _: str) -> Iterator[RolloutMember]:
        cluster = group if isinstance(group, tuple) else None
        for cached in informers.windows_instances.snapshot().by("cluster", cluster_index(cluster)):
            if _counts(cached) and takes_part(cached):
                yield RolloutMember(cached.metadata.name, read(cached.live.changes))

    def where(cached: CachedInstance) -> Group:
        reference = cached.fields.get("clusterRef")
        if not takes_part(cached):
            return _NOWHERE
        if not isinstance(reference, dict):
            return None
        return str(reference.get("namespace") or cached.metadata.namespace), str(reference.get("name"))

    rollouts = Rollouts(subject, members, reports, begun, resumed)
    _follow(informers, rollouts, where)
    return rollouts


_NOWHERE: Final = "nowhere"


def _counts(cached: CachedInstance) -> bool:
    """Whether something becomes of a host. Of one that is paused nothing does; what it has failed with is not forgotten."""
    if cached.metadata.deletion_timestamp is not None:
        return False
    marks = read(cached.live.changes) if cached.fields.get("paused") else ()
    return not cached.fields.get("paused") or any(one.halted or one.state in ("failed", "refuted") for one in marks)


def _follow(informers: Informers, rollouts: Rollouts, where: Callable[[CachedInstance], Group]) -> None:
    """Tell of the hosts that come and go."""

    def place(cached: CachedInstance | None) -> Group:
        return where(cached) if cached is not None and _counts(cached) else _NOWHERE

    def changed(name: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        was, now = place(before), place(after)
        if was not in (now, _NOWHERE):
            rollouts.drop(was, name.name)
        if now not in (was, _NOWHERE):
            rollouts.join(now, name.name)

    informers.windows_instances.subscribe(changed)
