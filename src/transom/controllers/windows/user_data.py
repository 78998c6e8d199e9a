"""The Secret `windows-user-data`: what new Windows machines of OpenShift run at their first boot."""

import base64
from typing import Final

import structlog

from transom.controllers.controller import Outcome
from transom.controllers.settings import Cluster, CurrentSettings
from transom.controllers.term import Term
from transom.controllers.watched import Watched
from transom.controllers.windows.machines import MACHINES, machines
from transom.hosts.errors import KeyUnusable
from transom.hosts.private_key import public_line
from transom.kube.apply import apply
from transom.kube.errors import NotFound, StatusError
from transom.kube.events import Regarding
from transom.kube.queue import KeyQueue
from transom.kube.resources import SECRETS
from transom.kube.store import Name
from transom.proxy.secret import Secret
from transom.sources.objects import ObjectReader
from transom.windows.instance import KEY
from transom.windows.userdata import user_data

_log: Final = structlog.get_logger("transom.user_data")
PRIVATE_KEY: Final = "cloud-private-key"
NAME: Final = "windows-user-data"
MACHINE_API: Final = "openshift-machine-api"
CLUSTER_API: Final = "openshift-cluster-api"
_CHECK: Final = 600.0


class UserDataController:
    """Keys are the namespaces that the Secret is kept in."""

    def __init__(self, watched: Watched, settings: CurrentSettings, *, openssh_msi: str) -> None:
        self._watched = watched
        self._settings = settings
        self._openssh_msi = openssh_msi
        self._machines = machines(watched)
        self._told: str | None = None
        self.queue: KeyQueue[Name] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._watched.secrets.subscribe(lambda name, _, __: self._ask() if name[1] == PRIVATE_KEY else None)
        self._machines.subscribe(lambda _, before, __: self._ask() if before is None else None)
        self._settings.subscribe(self._settings_changed)
        self._ask()

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters:
            self._ask()

    def _ask(self) -> None:
        for namespace in (MACHINE_API, CLUSTER_API):
            self.queue.add((namespace, NAME))

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Keep one copy of the Secret. Raises ApiError."""
        line = self._public_line(term)
        egress = self._settings.own
        if line is None or egress is None:
            return Outcome()
        if self._watched.served(MACHINES) is None:
            return Outcome(again=_CHECK)
        platform = self._settings.newest.networks.platform if self._settings.newest is not None else None
        made = user_data(line, egress, platform=platform.type if platform else "", openssh_msi=self._openssh_msi)
        data = {"userData": base64.b64encode(made.text.encode()).decode()}
        desired = {"metadata": {"name": NAME, "namespace": key[0]}, "data": data, "type": "Opaque"}
        try:
            changed = await apply(term.client, SECRETS, desired)
        except NotFound:
            # the namespace is not there
            return Outcome(again=_CHECK)
        except StatusError as error:
            if error.code != 403 or key[0] != CLUSTER_API:
                raise
            # nothing may be read where the roles for OpenShift are not installed
            return Outcome(again=_CHECK)
        if changed:
            _log.info("user data written", namespace=key[0], left_out=len(made.left_out))
            for one in made.left_out[:5]:
                _log.warning("no room in user data", certificate=one.subject, namespace=key[0])
        return Outcome(again=_CHECK)

    def _public_line(self, term: Term) -> str | None:
        """The public key; where there is none, an event says why, once."""
        held = self._watched.secrets.snapshot().get(PRIVATE_KEY, self._watched.namespace)
        problem: tuple[str, str] | None = None
        line = None
        text = _text(held.value) if held is not None else None
        if text is None:
            problem = "KeyMissing", f"Secret {PRIVATE_KEY} with the SSH key as `{KEY}` is missing: no host can be connected to"
        else:
            try:
                line = public_line(text)
            except KeyUnusable as error:
                problem = "KeyInvalid", f"Secret {PRIVATE_KEY}: {error}; no host can be connected to with it"
        needed = len(self._watched.windows_instances) or len(self._machines)
        if problem is not None and needed and problem[1] != self._told:
            uid = held.metadata.uid if held is not None else None
            term.recorder.warning(Regarding("v1", "Secret", PRIVATE_KEY, self._watched.namespace, uid), *problem)
            _log.warning("no key", reason=problem[0], message=problem[1])
        self._told = problem[1] if problem else None
        return line


def _text(value: dict[str, object]) -> Secret | None:
    """The private key in a Secret."""
    reader = ObjectReader("")
    reader.add({"apiVersion": "v1", "kind": "Secret", **value}, "", lambda _: (0, 0))
    found = next(iter(reader.objects().secrets.values()), None)
    return found.data.get(KEY) if found else None
