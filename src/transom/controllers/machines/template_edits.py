"""The edits of templates and control planes that let Transom edit them: what there is to do, and doing it once."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog

from transom.capi import windows_proxy
from transom.capi.identity import systemd_name
from transom.capi.injection import (
    CLUSTER_CLASS,
    CONFIG_SPEC,
    CONTROL_PLANE_SPEC,
    TEMPLATE_SPEC,
    Edit,
    asks,
    edit,
    keeper,
    on_windows,
    secrets_named,
)
from transom.capi.kubeadm import Entries
from transom.capi.machine_files import CA_STEM, linux_entries, runtime_of
from transom.controllers.machines import (
    CONFIGS,
    CONTROL_PLANES,
    TEMPLATES,
    CachedControlPlane,
    CachedDeployment,
    CachedPoolConfig,
    CachedTemplate,
)
from transom.controllers.runtime.informers import Informers
from transom.kube import StatusError
from transom.kube.client import Client
from transom.kube.resources import Resource
from transom.proxy.settings import Egress

_log: Final = structlog.get_logger("transom.machines")
_UNPROCESSABLE: Final = 422

Held = CachedTemplate | CachedControlPlane | CachedPoolConfig
_KINDS: Final[dict[type[Held], tuple[Resource[Any], tuple[str, ...]]]] = {
    CachedTemplate: (TEMPLATES, TEMPLATE_SPEC),
    CachedControlPlane: (CONTROL_PLANES, CONTROL_PLANE_SPEC),
    CachedPoolConfig: (CONFIGS, CONFIG_SPEC),
}
"""Of each kind what it is called, and where it has its KubeadmConfigSpec."""


class ExaminedTemplates(msgspec.Struct, frozen=True):
    """What there is to do in one template or control plane.

    `wanted` are the entries it should have, None where it does not ask and never was edited. `affected`: it has entries of
    ours, or should have. `taken_back`: somebody took out what was put there for this very `wanted`.
    """

    cached: Held
    wanted: Entries | None
    edit: Edit
    kept: str | None
    affected: bool
    taken_back: bool

    @property
    def kind(self) -> str:
        """KubeadmConfigTemplate, KubeadmControlPlane, or KubeadmConfig of a MachinePool."""
        return _KINDS[type(self.cached)][0].kind

    @property
    def name(self) -> str:
        """Kind, namespace and name, as in messages."""
        return f"{self.kind} {self.cached.metadata.namespace}/{self.cached.metadata.name}"

    @property
    def to_edit(self) -> bool:
        """Whether there is an edit that may be tried."""
        return bool(self.edit.operations) and not self.taken_back


class TemplateEditor:
    """Knows what it has edited, so that what somebody takes back is not put there again."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._edited: dict[str, tuple[str, int]] = {}

    def forget(self, uid: str | None) -> None:
        """An object is gone."""
        self._edited.pop(uid or "", None)

    def remember(self, text: str | None) -> None:
        """Take over what `note` said before a restart."""
        try:
            noted = msgspec.json.decode(text or "{}", type=dict[str, tuple[str, int]])
        except msgspec.DecodeError:
            return
        for uid, (digest, generation) in noted.items():
            self._edited.setdefault(uid, (digest, generation))

    def note(self, examined: Sequence[ExaminedTemplates]) -> str | None:
        """What was edited of these objects, as a text to be kept; None where nothing was."""
        uids = sorted(one.cached.metadata.uid or "" for one in examined)
        noted = {uid: self._edited[uid] for uid in uids if uid in self._edited}
        return msgspec.json.encode(noted).decode() if noted else None

    def examine(self, cached: Held, egress: Egress, identity: str, *, asked: bool = False) -> ExaminedTemplates:
        """What the settings ask of an object of the cluster with that id.

        `asked`: the Cluster itself asks, for what its class makes.
        """
        control_plane = isinstance(cached, CachedControlPlane)
        spec = cached.configuration
        secrets = frozenset((systemd_name(identity), windows_proxy.secret_name(identity)))
        meta = cached.metadata
        metadata = msgspec.to_builtins(meta)
        kept = keeper(metadata)
        wanted: Entries | None
        if asks(metadata) or (asked and kept == CLUSTER_CLASS):
            wanted = entries_for(spec or {}, egress, identity, control_plane=control_plane)
        else:
            # its label was taken away: so are our entries, if they are ours
            wanted = Entries() if meta.edited else None
        at = _KINDS[type(cached)][1]
        found = edit(spec, wanted, secrets, at, meta.generation) if wanted is not None else Edit()
        files = (spec or {}).get("files") or ()
        refers = bool(secrets_named(spec or {}) & secrets) or any(str(one.get("path")).startswith(CA_STEM) for one in files)
        return ExaminedTemplates(
            cached, wanted, found, keeper(metadata), refers or bool(wanted and wanted.files), self._undone(cached, wanted)
        )

    async def patch(self, client: Client, examined: ExaminedTemplates) -> bool:
        """Edit it; False where it was another by then. Raises ApiError."""
        resource: Resource[Any] | None = self._informers.served(_KINDS[type(examined.cached)][0])
        if resource is None or examined.wanted is None:
            return False
        meta = examined.cached.metadata
        try:
            after = await client.json_patch(resource, examined.edit.operations, meta.name, meta.namespace)
        except StatusError as error:
            if error.code == _UNPROCESSABLE:
                _log.info("not edited", object=examined.name, error=str(error))
                return False
            raise
        self._edited[meta.uid or ""] = (_digest(examined.wanted), after.metadata.generation or 0)
        _log.info("edited", object=examined.name)
        return True

    def _undone(self, cached: Held, wanted: Entries | None) -> bool:
        """Whether these entries were put there, and the object has changed since: an edit now would be the second."""
        digest, generation = self._edited.get(cached.metadata.uid or "", ("", 0))
        return wanted is not None and digest == _digest(wanted) and (cached.metadata.generation or 0) > generation


def entries_for(spec: dict[str, object], egress: Egress, identity: str, *, control_plane: bool) -> Entries:
    """The entries of a KubeadmConfigSpec, by the machines that it is for."""
    if not on_windows(spec):
        return linux_entries(systemd_name(identity), egress, control_plane=control_plane, runtime=runtime_of(spec))
    if "Nodes" not in egress.consumers or not egress.configured:
        return Entries()
    return windows_proxy.entries(windows_proxy.secret_name(identity))


def keeper_of(deployment: CachedDeployment) -> str | None:
    """Who else writes a MachineDeployment."""
    return keeper(msgspec.to_builtins(deployment.metadata))


def _digest(entries: Entries) -> str:
    return hashlib.sha256(msgspec.json.encode(entries)).hexdigest()[:16]
