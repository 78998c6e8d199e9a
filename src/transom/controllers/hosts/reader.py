"""What is known of instances: from the stores, and from what was written and is not in them yet."""

from dataclasses import replace

from transom.apply.target import Target
from transom.controllers.instance.node_identities import NodeIdentities
from transom.controllers.instance.view import InstanceView
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.runtime.cached import CachedInstance, HostNode
from transom.controllers.runtime.informers import Informers, place_of, read_instance
from transom.controllers.runtime.settings import CurrentSettings
from transom.kube.store import ObjectKey
from transom.proxy.finding import Finding
from transom.windows.nodes import KEY, examine, private_key
from transom.windows.nodes.node_identity import Identity


class InstanceReader:
    """A case is what all stores say of one instance at one moment."""

    def __init__(self, informers: Informers, settings: CurrentSettings, keys: KeyRotation, identities: NodeIdentities) -> None:
        self._informers, self._settings, self._keys, self._identities = informers, settings, keys, identities
        self._written: dict[ObjectKey, tuple[str | None, CachedInstance]] = {}

    def load(self, key: ObjectKey) -> InstanceView | None:
        """What the stores say, without a wait in between."""
        snapshot = self._informers.windows_instances.snapshot()
        cached = snapshot.get(key)
        if cached is None:
            return None
        based, written = self._written.get(key, (None, cached))
        if based == cached.metadata.resource_version:
            cached = written
        else:
            self._written.pop(key, None)
        cached = self._identities.newest(cached)
        read = read_instance(cached, self._informers.namespace)
        errors = [finding for finding in read.findings if finding.severity == "error"]
        found = next(iter(read.windows_instances), None)
        if found is None:
            return InstanceView(cached, None, tuple(errors), None, None, None)
        objects = self._informers.instance_objects(found)
        errors += [one for one in examine([found], objects) if one.severity == "error" and not _of_key(one)]
        spec = found.spec
        others = [
            one.metadata.name
            for one in snapshot.by("place", place_of(cached))
            if (one.metadata.creation_timestamp or "", one.metadata.name)
            < (cached.metadata.creation_timestamp or "", cached.metadata.name)
        ]
        if spec.address and others:
            message = f"WindowsInstance {others[0]} has the same address and port: one host is one WindowsInstance"
            errors.append(found.place.error(("spec", "address"), message))
        key_text = private_key(found, objects)
        egress = self._settings.of(found)
        target = None
        if egress is not None and key_text is not None:
            earlier = self._keys.earlier(cached, spec.key_secret.name, key_text, objects)
            target = Target(found, egress, key_text, previous=earlier)
        missing = None
        if key_text is None:
            missing = f"Secret {found.metadata.namespace}/{spec.key_secret.name} with the SSH key as `{KEY}` is missing"
        withheld = self._settings.withheld_from(found)
        case = InstanceView(cached, found, tuple(errors), target, missing, None, withheld=withheld)
        return self.identified(case, self._identities.of(cached), cached)

    def identified(self, case: InstanceView, identity: Identity, cached: CachedInstance) -> InstanceView:
        """The case with the Node that was decided."""
        managed = self.managed(cached, identity=identity)
        return replace(case, cached=cached, identity=identity, node=self._identities.node(identity), managed=managed)

    def managed(
        self, cached: CachedInstance, said: str = "", reached: str = "", identity: Identity | None = None
    ) -> HostNode | None:
        """A Node of another operator's that the host may be: `said` is the name that it gives itself, `reached` its address."""
        return next((node for node in self._identities.related(cached, said, reached, identity) if node.managed_by_other), None)

    def current(self, case: InstanceView) -> InstanceView:
        """The case with the status that was written meanwhile."""
        key = case.cached.key
        _, written = self._written.get(key, (None, None))
        latest = self._informers.windows_instances.snapshot().get(key)
        for cached in (written, latest):
            if cached is not None and cached.metadata.uid == case.cached.metadata.uid:
                return replace(case, cached=self._identities.newest(cached))
        return case

    def remember(self, written: CachedInstance) -> None:
        """What the server answered, until the store has it."""
        meta = written.metadata
        latest = self._informers.windows_instances.snapshot().named(meta.name, meta.namespace)
        if latest is not None and _is_older(latest.metadata.resource_version, meta.resource_version):
            self._written[ObjectKey(meta.namespace, meta.name)] = (latest.metadata.resource_version, written)

    def forget(self, key: ObjectKey) -> None:
        """What was written is in the store now, or overtaken."""
        self._written.pop(key, None)


def _is_older(version: str | None, other: str | None) -> bool:
    """Whether a version of an object came before another one of it (Kubernetes, "Resource versions": they are numbers)."""
    return version is not None and other is not None and version.isdecimal() and other.isdecimal() and int(version) < int(other)


def _of_key(finding: Finding) -> bool:
    """The key is judged apart: it has reasons of its own."""
    return finding.field == "spec.keySecret.name" or finding.object.startswith("Secret/")
