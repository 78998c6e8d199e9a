"""What is known of instances: from the stores, and from what was written and is not in them yet."""

from dataclasses import replace

from transom.controllers.kept import HeldInstance, HostNode
from transom.controllers.settings import CurrentSettings
from transom.controllers.watched import Watched, read_instance
from transom.controllers.windows.case import Case
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.key_rotation import KeyRotation
from transom.kube.store import Name
from transom.proxy.finding import Finding
from transom.windows import instance as instances
from transom.windows.instance import WindowsInstance


class Cases:
    """A case is what all stores say of one instance at one moment."""

    def __init__(self, watched: Watched, settings: CurrentSettings, keys: KeyRotation) -> None:
        self._watched, self._settings, self._keys = watched, settings, keys
        self._written: dict[Name, tuple[str | None, HeldInstance]] = {}

    def load(self, key: Name) -> Case | None:
        """What the stores say, without a wait in between."""
        snapshot = self._watched.windows_instances.snapshot()
        held = snapshot.get(key[1], key[0])
        if held is None:
            return None
        based, written = self._written.get(key, (None, held))
        if based == held.metadata.resource_version:
            held = written
        else:
            self._written.pop(key, None)
        read = read_instance(held, self._watched.namespace)
        errors = [finding for finding in read.findings if finding.severity == "error"]
        found = next(iter(read.windows_instances), None)
        if found is None:
            return Case(held, None, tuple(errors), None, None, None)
        objects = self._watched.instance_objects(found)
        errors += [one for one in instances.examine([found], objects) if one.severity == "error" and not _of_key(one)]
        spec = found.spec
        others = [
            one.metadata.name
            for one in snapshot.by("place", f"{spec.address.casefold()} {spec.port}")
            if (one.metadata.creation_timestamp or "", one.metadata.name)
            < (held.metadata.creation_timestamp or "", held.metadata.name)
        ]
        if spec.address and others:
            message = f"WindowsInstance {others[0]} has the same address and port: one host is one WindowsInstance"
            errors.append(found.place.error(("spec", "address"), message))
        key_text = instances.private_key(found, objects)
        egress = self._settings.of(found)
        target = None
        if egress is not None and key_text is not None:
            earlier = self._keys.earlier(held, spec.key_secret.name, key_text, objects)
            target = Target(found, egress, key_text, previous=earlier)
        missing = None
        if key_text is None:
            missing = (
                f"Secret {found.metadata.namespace}/{spec.key_secret.name} with the SSH key as `{instances.KEY}` is missing"
            )
        known_name = str(held.live.get("nodeName") or "")
        return Case(held, found, tuple(errors), target, missing, self.node(found, known_name))

    def node(self, instance: WindowsInstance, name: str) -> HostNode | None:
        """The Node of an instance: by the name that it asks for, that its host has, or by its address."""
        nodes = self._watched.nodes.snapshot()
        if instance.spec.node_name:
            return nodes.get(instance.spec.node_name)
        if name and (node := nodes.get(name.lower())) is not None:
            return node
        return next(iter(nodes.by("address", instance.spec.address.casefold())), None)

    def current(self, case: Case) -> Case:
        """The case with the status that was written meanwhile."""
        key = case.held.key
        _, written = self._written.get(key, (None, None))
        latest = self._watched.windows_instances.snapshot().get(key[1], key[0])
        for held in (written, latest):
            if held is not None and held.metadata.uid == case.held.metadata.uid:
                return replace(case, held=held)
        return case

    def remember(self, written: HeldInstance) -> None:
        """What the server answered, until the store has it."""
        meta = written.metadata
        latest = self._watched.windows_instances.snapshot().get(meta.name, meta.namespace)
        if latest is not None and _is_older(latest.metadata.resource_version, meta.resource_version):
            self._written[meta.namespace, meta.name] = (latest.metadata.resource_version, written)

    def forget(self, key: Name) -> None:
        """What was written is in the store now, or overtaken."""
        self._written.pop(key, None)


def _is_older(version: str | None, other: str | None) -> bool:
    """Whether a version of an object came before another one of it (Kubernetes, "Resource versions": they are numbers)."""
    return version is not None and other is not None and version.isdecimal() and other.isdecimal() and int(version) < int(other)


def _of_key(finding: Finding) -> bool:
    """The key is judged apart: it has reasons of its own."""
    return finding.field == "spec.keySecret.name" or finding.object.startswith("Secret/")
