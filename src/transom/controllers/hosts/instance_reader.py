"""What is known of instances: from the stores, and from what was written and is not in them yet."""

from dataclasses import replace

import msgspec

from transom.apply.target import Target
from transom.controllers.instance_state.node_identities import NodeIdentities
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.keys.key_rotation import KeyRotation
from transom.controllers.runtime.cached_objects import CachedInstance, HostNode
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers, get_address_index, parse_instance
from transom.kube.store import ObjectKey
from transom.proxy.finding import Finding
from transom.windows.nodes.node_identity import Identity
from transom.windows.nodes.requests import RESTART, read_request_annotation
from transom.windows.nodes.windows_instance import KEY, WindowsInstance, examine_instances, read_private_key


class InstanceReader:
    """A case is what all stores say of one instance at one moment."""

    def __init__(self, informers: Informers, settings: CurrentSettings, keys: KeyRotation, identities: NodeIdentities) -> None:
        self._informers, self._settings, self._keys, self._identities = informers, settings, keys, identities
        self._written: dict[ObjectKey, tuple[str | None, CachedInstance]] = {}

    def load(self, key: ObjectKey) -> InstanceView | None:
        """Return an instance and its settings from the stores, without waiting in between."""
        snapshot = self._informers.windows_instances.take_snapshot()
        cached = snapshot.get(key)
        if cached is None:
            return None
        based, written = self._written.get(key, (None, cached))
        if based == cached.metadata.resource_version:
            cached = written
        else:
            self._written.pop(key, None)
        cached = self._identities.get_newest(cached)
        read = parse_instance(cached, self._informers.namespace)
        errors = [finding for finding in read.findings if finding.severity == "error"]
        instance = next(iter(read.windows_instances), None)
        if instance is None:
            return InstanceView(cached, None, tuple(errors), None, None, None)
        instance = _without_handled_restart(instance, cached)
        objects = self._informers.get_instance_objects(instance)
        errors += [
            item
            for item in examine_instances([instance], objects)
            if item.severity == "error" and not _is_login_key_finding(item)
        ]
        spec = instance.spec
        others = [
            item.metadata.name
            for item in snapshot.list_by_index("place", get_address_index(cached))
            if (item.metadata.creation_timestamp or "", item.metadata.name)
            < (cached.metadata.creation_timestamp or "", cached.metadata.name)
        ]
        if spec.address and others:
            message = f"WindowsInstance {others[0]} has the same address and port: one host is one WindowsInstance"
            errors.append(instance.place.build_error(("spec", "address"), message))
        key_text = read_private_key(instance, objects)
        egress = self._settings.for_instance(instance)
        target = None
        if egress is not None and key_text is not None:
            earlier = self._keys.find_previous_keys(cached, spec.key_secret.name, key_text, objects)
            target = Target(instance, egress, key_text, previous=earlier)
        missing = None
        if key_text is None:
            missing = f"Secret {instance.metadata.namespace}/{spec.key_secret.name} with the SSH key as `{KEY}` is missing"
        withheld = self._settings.find_withheld(instance)
        case = InstanceView(cached, instance, tuple(errors), target, missing, None, withheld=withheld)
        return self.with_identity(case, self._identities.identify(cached), cached)

    def with_identity(self, view: InstanceView, identity: Identity, cached: CachedInstance) -> InstanceView:
        """Return the view with the Node that was decided."""
        managed = self.find_foreign_node(cached, identity=identity)
        return replace(view, cached=cached, identity=identity, node=self._identities.get_node(identity), managed=managed)

    def find_foreign_node(
        self, cached: CachedInstance, reported_name: str = "", reached: str = "", identity: Identity | None = None
    ) -> HostNode | None:
        """Return another operator's Node that may be the host, which reports `reported_name` and is at `reached`."""
        return next(
            (
                node
                for node in self._identities.iter_related_nodes(cached, reported_name, reached, identity)
                if node.is_managed_by_other
            ),
            None,
        )

    def refresh(self, view: InstanceView) -> InstanceView:
        """Return the view with the status that was written meanwhile."""
        key = view.cached.key
        _, written = self._written.get(key, (None, None))
        latest = self._informers.windows_instances.take_snapshot().get(key)
        for cached in (written, latest):
            if cached is not None and cached.metadata.uid == view.cached.metadata.uid:
                return replace(view, cached=self._identities.get_newest(cached))
        return view

    def remember_written(self, written: CachedInstance) -> None:
        """Keep the server's answer until the store has it."""
        meta = written.metadata
        latest = self._informers.windows_instances.take_snapshot().find_named(meta.name, meta.namespace)
        if latest is not None and _is_older(latest.metadata.resource_version, meta.resource_version):
            self._written[ObjectKey(meta.namespace, meta.name)] = (latest.metadata.resource_version, written)

    def forget(self, key: ObjectKey) -> None:
        """Forget an answer that the store has by now, or a later one."""
        self._written.pop(key, None)


def _without_handled_restart(instance: WindowsInstance, cached: CachedInstance) -> WindowsInstance:
    """Return the instance without a request for a restart that was handled: it restarts nothing a second time."""
    annotations = instance.metadata.annotations
    if RESTART not in annotations or read_request_annotation(annotations, RESTART) != cached.live.last_handled_restart:
        return instance
    left = {name: text for name, text in annotations.items() if name != RESTART}
    return msgspec.structs.replace(instance, metadata=msgspec.structs.replace(instance.metadata, annotations=left))


def _is_older(version: str | None, other: str | None) -> bool:
    """Return True if a version of an object precedes another one (Kubernetes, "Resource versions": they are numbers)."""
    return version is not None and other is not None and version.isdecimal() and other.isdecimal() and int(version) < int(other)


def _is_login_key_finding(finding: Finding) -> bool:
    """Return True for findings about the key, which has reasons of its own."""
    return finding.field == "spec.keySecret.name" or finding.object.startswith("Secret/")
