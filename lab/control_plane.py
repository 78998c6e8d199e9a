"""A real control plane on 127.0.0.1: etcd, kube-apiserver and, where asked for, kube-controller-manager."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple

import msgspec
import yaml
from image.progress import run_step

from lab import cache, kubernetes
from lab.authority import Authority, write_key_pair
from lab.connections import Connections
from lab.kubernetes import ControlPlaneError
from lab.objects import DEFINITIONS, Objects
from lab.ports import reserve
from lab.process import TIED

CONTROLLERS = (
    "certificatesigningrequest-signing-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
)
SERVICE_NETWORK = "10.96.0.0/16"
UNWATCHED = (
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "controllerrevisions.apps",
    "cronjobs.batch",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "daemonsets.apps",
    "deployments.apps",
    "deviceclasses.resource.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "horizontalpodautoscalers.autoscaling",
    "ingressclasses.networking.k8s.io",
    "ingresses.networking.k8s.io",
    "ipaddresses.networking.k8s.io",
    "jobs.batch",
    "limitranges",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "networkpolicies.networking.k8s.io",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets.policy",
    "podtemplates",
    "priorityclasses.scheduling.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "replicasets.apps",
    "replicationcontrollers",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourcequotas",
    "resourceslices.resource.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "runtimeclasses.node.k8s.io",
    "serviceaccounts",
    "servicecidrs.networking.k8s.io",
    "statefulsets.apps",
    "storageclasses.storage.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
)
"""Kinds that the server and the controllers alone follow: without the latter they come from etcd, and no cache idles."""
_START_SECONDS = 240
# the death signal comes when the thread ends that made the child: this one lasts as long as the process
_SPAWNER = ThreadPoolExecutor(1, "control-plane")
_MOST = 100
"""Operations of a transaction; etcd takes 128 (--max-txn-ops)."""
_KEPT = re.compile(
    r"/registry/(apiextensions\.k8s\.io|apiregistration\.k8s\.io|flowschemas|leases/kube-system|namespaces/kube-"
    r"|masterleases|ranges|services/endpoints/default/kubernetes|endpointslices/default/kubernetes)"
)
"""Definitions, whose kinds cost seconds to bring, and what the API server makes by itself at any time."""
_DEFINITIONS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
"""By which CAs a server knows its clients: it says so once it is ready."""
_OF_ONE_CLUSTER = ("/registry/namespaces/kube-system", "/registry/configmaps/kube-system/extension-apiserver-authentication")
"""The UID that a cluster is known by, and its CAs."""
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        # of a watch its beginning is known at once, its end a minute later
        {"level": "Metadata", "verbs": ["watch"], "omitStages": ["RequestReceived", "ResponseComplete", "Panic"]},
        {"level": "Metadata", "omitStages": ["RequestReceived", "ResponseStarted"]},
    ],
}


class Moment(NamedTuple):
    """What was asked later than `time` is written to the audit log behind its first `size` bytes."""

    time: datetime
    size: int


class ControlPlane:
    """A control plane and the directory that it lives in. A context manager: everything it started is stopped at the end."""

    started: ClassVar[int] = 0
    """How many this process has started."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        controllers: bool = False,
        address: str = "127.0.0.1",
        definitions: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Prepare a control plane that serves the kinds of `definitions` from its start.

        Defining them later costs more: 2 s of CPU for Cluster API's.
        """
        self._own_directory = directory is None
        self._begins_with = tuple(definitions)
        self.directory = directory or Path(tempfile.mkdtemp(prefix="transom-control-plane-"))
        self.address = address
        self._controllers = controllers
        self.programs = kubernetes.build_binaries()
        """The directory that kubectl and the servers are in."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._asking: set[subprocess.Popen[str]] = set()
        """Each kubectl that runs, in whatever thread."""
        self.port, self._etcd_port, self._peer_port = (reserve(address) for _ in range(3))
        self.admin_token = secrets.token_hex(16)
        self.kubeconfig = self.directory / "admin.kubeconfig"
        self.audit_log = self.directory / "audit.log"
        self._connections = Connections(address, self.port, self.authority_file, self.admin_token)
        self._objects = Objects(self.request)
        self._oldest = 0
        """The first revision that etcd still has."""

    @property
    def url(self) -> str:
        """The address of the API server."""
        return f"https://{self.address}:{self.port}"

    @property
    def authority_file(self) -> Path:
        """The CA by which the API server is known, as PEM."""
        return self.directory / "ca.crt"

    @property
    def client_authority_file(self) -> Path:
        """The CA of its clients, kubelets among them, as PEM: another one, as on OpenShift."""
        return self.directory / "clients" / "ca.crt"

    def __enter__(self) -> ControlPlane:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait until the API server is ready."""
        ControlPlane.started += 1
        self._prepare()
        self._fill_etcd()
        self.start_etcd()
        self.start_apiserver()
        self._wait_for(_AUTHENTICATION)
        self._objects.wait_listed(_select_definitions(self._begins_with))
        if self._controllers:
            self.start_controller_manager()

    def stop(self) -> None:
        """End every process that was started; remove the directory where it was made here."""
        for asking in list(self._asking):
            # it would ask for minutes where nobody is any more
            asking.kill()
        for name in reversed(list(self._processes)):
            self.kill(name)
        self._connections.close()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start_etcd(self) -> None:
        """Start etcd alone."""
        client, peer = (f"http://{self.address}:{port}" for port in (self._etcd_port, self._peer_port))
        self._run(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            GOMAXPROCS="1",
        )

    def start_apiserver(self) -> None:
        """Start the API server and wait until `/readyz` says ok. Raises ControlPlaneError with the end of its log."""
        here = self.directory
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://{self.address}:{self._etcd_port}",
            f"--bind-address={self.address}",
            # by default it is an address of the interface with the default route, and a machine may have none
            f"--advertise-address={self.address}",
            f"--secure-port={self.port}",
            f"--tls-cert-file={here / 'server.crt'}",
            f"--tls-private-key-file={here / 'server.key'}",
            f"--client-ca-file={self.client_authority_file}",
            f"--service-account-key-file={here / 'sa.pub'}",
            f"--service-account-signing-key-file={here / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={here / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-bootstrap-token-auth",
            "--enable-admission-plugins=NodeRestriction",
            "--disable-admission-plugins=ServiceAccount",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--allow-privileged",
            f"--kubelet-client-certificate={here / 'clients' / 'kubelet-client.crt'}",
            f"--kubelet-client-key={here / 'clients' / 'kubelet-client.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--endpoint-reconciler-type=none",
            "--etcd-compaction-interval=0",
            f"--audit-policy-file={here / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
            f"--watch-cache-sizes={','.join(f'{kind}#0' for kind in UNWATCHED if not self._controllers)}",
            # a fifth of its CPU for twice the memory of its heap, and a tenth for threads that look for work
            GOGC="200",
            GOMAXPROCS="1",
        )
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the API server says that it is ready."""
        self._wait_for("/readyz")

    def _wait_for(self, path: str) -> None:
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.request("GET", path)
            except OSError as error:
                process = self._processes["kube-apiserver"]
                if process.poll() is not None or time.monotonic() > end:
                    raise ControlPlaneError(
                        f"kube-apiserver is not ready: {error}\n{self.read_log('kube-apiserver')}"
                    ) from error
            else:
                return
            time.sleep(0.1)

    def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | None = None,
        seconds: float = 60,
        content_type: str = "application/json",
        user: str = "",
    ) -> bytes:
        """One request as the administrator, quicker than kubectl. Raises OSError; an HTTPError has the Status.

        As a user where one is named, as `kubectl --as` does: a service account then has the groups of all service accounts.
        A body of bytes is JSON already: of a value that is nested as deep as the server takes, Python's encoder makes none.
        What is answered by 429 is asked again, as kubectl does: the first request for a kind that was just defined is.
        """
        headers = {"Content-Type": content_type} | ({"Impersonate-User": user} if user else {})
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return self._connections.request(method, path, data, headers, seconds)

    def kill(self, name: str, with_signal: signal.Signals = signal.SIGKILL) -> None:
        """End one program (``etcd``, ``kube-apiserver``, ``kube-controller-manager``) and wait for its end."""
        process = self._processes.pop(name)
        process.send_signal(with_signal)
        process.wait()

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again on its port."""
        self.kill("kube-apiserver")
        self.start_apiserver()

    def rotate_authority(self) -> None:
        """Replace the CA of the API server and its certificate, and start it again: who trusts the former CA fails."""
        self.kill("kube-apiserver")
        self._issue_server_certificate(Authority(self.directory))
        self._connections.close()
        self._connections = Connections(self.address, self.port, self.authority_file, self.admin_token)
        self.start_apiserver()

    def signal(self, name: str, what: signal.Signals) -> None:
        """Send a signal to one program, such as SIGSTOP."""
        self._processes[name].send_signal(what)

    def read_log(self, name: str) -> str:
        """Return the end of a program's log."""
        return (self.directory / f"{name}.log").read_text(errors="replace")[-3000:]

    def run_kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator and return its stdout. Raises ControlPlaneError with its stderr."""
        command = [str(self.programs / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        # a quarter of what a start costs is looking for garbage
        environment = self._build_environment() | {"GOGC": "off"}
        stdin, pipe = None if input is None else subprocess.PIPE, subprocess.PIPE
        with subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, env=environment, text=True) as asking:
            self._asking.add(asking)
            try:
                output, trouble = asking.communicate(input)
            finally:
                # Ctrl-C would wait for its answer
                asking.kill()
                self._asking.discard(asking)
        if check and asking.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {trouble.strip()}")
        return output

    def apply(self, objects: Sequence[dict[str, Any]]) -> None:
        """Apply objects as the administrator. Raises ControlPlaneError."""
        self._objects.apply(objects)

    def define(self, objects: Sequence[dict[str, Any]] = ()) -> None:
        """Apply objects, and wait until the server serves the kinds that they define; without objects, until it serves all."""
        self._objects.apply(objects)
        self._objects.wait_served(_select_definitions(objects))

    def wait_readable(self, objects: Sequence[dict[str, Any]]) -> None:
        """Wait until the server reads objects of the kinds that objects define: a deletion before can take it 5 minutes."""
        self._objects.wait_readable(_select_definitions(objects))

    def forget(self, objects: Sequence[dict[str, Any]]) -> None:
        """Take the definitions among objects away, with every object of theirs, and wait until they are not served."""
        self._objects.forget(_select_definitions(objects))

    def delete(self, objects: Sequence[dict[str, Any]]) -> None:
        """Delete what is there of objects, as the administrator; nothing is waited for. Raises ControlPlaneError."""
        self._objects.delete(objects)

    def build_path(self, value: dict[str, Any]) -> str:
        """Return the path of an object's collection, without its name. Raises ControlPlaneError."""
        return self._objects.build_path(value)

    def write_kubeconfig(self, name: str, token: str, *, server: str | None = None, namespace: str = "default") -> Path:
        """Write a kubeconfig with that token; set `server` if clients connect through a relay."""
        path = self.directory / f"{name}.kubeconfig"
        cluster = {"server": server or self.url, "certificate-authority": str(self.authority_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name, "namespace": namespace}}],
            "current-context": "lab",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def create_service_account_token(self, namespace: str, name: str) -> str:
        """Create a token of an existing service account, with TokenRequest."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        return str(json.loads(self.request("POST", path, token_request))["status"]["token"])

    def compact(self) -> None:
        """Compact etcd up to now: the API server answers older resource versions with 410."""
        self._oldest = self.read_revision()
        self._request_etcd("kv/compaction", {"revision": self._oldest, "physical": True})

    def read_revision(self) -> int:
        """Return etcd's current revision; objects that are created later have a higher one."""
        return int(self._request_etcd("maintenance/status", {})["header"]["revision"])

    def set_etcd_full(self, *, full: bool) -> None:
        """Raise or clear the alarm NOSPACE, which etcd raises when its database reaches the quota: it refuses every write."""
        member = self._request_etcd("maintenance/status", {})["header"]["member_id"]
        alarm = {"action": "ACTIVATE" if full else "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"}
        self._request_etcd("maintenance/alarm", alarm)

    def write_damaged_object(self, resource: str, namespace: str, name: str) -> None:
        """Write an object that no API server can decode, as a damaged disk or a lost encryption key leaves it."""
        key = f"/registry/{resource}/{namespace}/{name}"
        self._request_etcd("kv/put", {"key": _encode_key(key), "value": _encode_key("not an object")})

    def remove_damaged_object(self, resource: str, namespace: str, name: str) -> None:
        """Remove such an object from etcd."""
        self._request_etcd("kv/deleterange", {"key": _encode_key(f"/registry/{resource}/{namespace}/{name}")})

    def copy_etcd(self, target: Path) -> None:
        """Copy etcd's present data, as a backup: what a crash would leave, which etcd recovers from."""
        self.signal("etcd", signal.SIGSTOP)
        try:
            shutil.copytree(self.directory / "etcd", target)
        finally:
            self.signal("etcd", signal.SIGCONT)

    def restore_etcd(self, copy: Path) -> None:
        """Replace etcd's data with a copy of an earlier time, and start etcd and the API server on it."""
        self.kill("kube-apiserver")
        self.kill("etcd")
        shutil.rmtree(self.directory / "etcd")
        shutil.copytree(copy, self.directory / "etcd")
        self.start_etcd()
        self.start_apiserver()

    def restore(self, revision: int) -> None:
        """Restore every object to its state at that revision, regardless of finalizers, and remove newer definitions.

        The server sees the changes by its watches of etcd. Objects deleted since then stay deleted, and changes before a
        compaction stay; definitions that the server started with are not changed.
        """
        made = self._list_keys(min_create_revision=revision + 1)
        own = {_DEFINITIONS + definition["metadata"]["name"] for definition in _select_definitions(self._begins_with)}
        definitions = [key for key in made if key.startswith(_DEFINITIONS) and key not in own]
        changes: list[dict[str, Any]] = [
            {"request_delete_range": {"key": _encode_key(key)}} for key in made if not _KEPT.match(key)
        ]
        for key in self._list_keys(min_mod_revision=revision + 1, max_create_revision=revision):
            if _KEPT.match(key):
                continue
            range_request = {"key": _encode_key(key), "revision": max(revision, self._oldest)}
            (former,) = self._request_etcd("kv/range", range_request)["kvs"]
            changes.append({"request_put": {"key": _encode_key(key), "value": former["value"]}})
        for some in (changes[start : start + _MOST] for start in range(0, len(changes), _MOST)):
            self._request_etcd("kv/txn", {"success": some})
        paths = (f"{DEFINITIONS}/{key.removeprefix(_DEFINITIONS)}" for key in definitions)
        self._objects.forget([json.loads(self.request("GET", path)) for path in paths])

    def get_moment(self) -> Moment:
        """Return the current moment, as `read_audit` takes it."""
        return Moment(datetime.now(UTC), self.audit_log.stat().st_size)

    def read_audit(self, since: Moment | None = None) -> list[dict[str, Any]]:
        """Read the requests to the API server, all or since a moment (audit.k8s.io/v1 Event, level Metadata).

        The events are in the order of the requests. The log has the order of the responses, in which a request that its client
        gave up can come after the next one. A client that the server did not know (401) has the name `""`.
        """
        with self.audit_log.open("rb") as log:
            if since and since.size:
                # a line that was being written at that moment is of a request before it
                log.seek(since.size - 1)
                log.readline()
            events = [msgspec.json.decode(line) for line in log if line.endswith(b"\n")]
        order = sorted((datetime.fromisoformat(item["requestReceivedTimestamp"]), number) for number, item in enumerate(events))
        for event in events:
            event["user"].setdefault("username", "")
        return [events[number] for time, number in order if since is None or time > since.time]

    def _list_keys(self, **limits: int) -> list[str]:
        """Return the keys of objects, as the API server names them in etcd."""
        everything = {"key": _encode_key("/registry/"), "range_end": _encode_key("/registry0"), "keys_only": True}
        items = self._request_etcd("kv/range", everything | limits).get("kvs", ())
        return [base64.b64decode(item["key"]).decode() for item in items]

    def _request_etcd(self, path: str, body: dict[str, Any]) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = f"http://{self.address}:{self._etcd_port}/v3/{path}"
        with opener.open(urllib.request.Request(url, data=json.dumps(body).encode()), timeout=60) as answer:
            return json.load(answer)

    def _fill_etcd(self) -> None:
        """Begin with what each server makes at its first start: roles, namespaces, priority levels, and the definitions."""
        if not (self.directory / "etcd").exists():
            _copy(build_first_data(self._begins_with), self.directory)

    def _prepare(self) -> None:
        here = self.directory
        here.mkdir(parents=True, exist_ok=True)
        (here / "clients").mkdir(exist_ok=True)
        authority, clients = Authority(here), Authority(here / "clients", "test-clients-ca")
        self._issue_server_certificate(authority)
        clients.issue("kubelet-client", "kube-apiserver-kubelet-client", organizations=("system:masters",))
        clients.issue("other-client", "other-client", organizations=("system:masters",))
        write_key_pair(here / "sa.key", here / "sa.pub")
        (here / "tokens.csv").write_text(f"{self.admin_token},admin,admin,system:masters\n")
        (here / "audit-policy.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        self.write_kubeconfig("admin", self.admin_token)

    def _issue_server_certificate(self, authority: Authority) -> None:
        first_service = SERVICE_NETWORK.replace(".0.0/16", ".0.1")
        authority.issue("server", "kube-apiserver", addresses=(self.address, "kubernetes.default.svc", first_service))

    def start_controller_manager(self) -> None:
        """Start kube-controller-manager with `CONTROLLERS`; `kill` ends it."""
        here = self.directory
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(CONTROLLERS)}",
            f"--cluster-signing-cert-file={self.client_authority_file}",
            f"--cluster-signing-key-file={here / 'clients' / 'ca.key'}",
            f"--root-ca-file={here / 'ca.crt'}",
            f"--service-account-private-key-file={here / 'sa.key'}",
            "--leader-elect=false",
            "--secure-port=0",
        )

    def _run(self, name: str, *arguments: str, **more: str) -> None:
        command = [*TIED, str(self.programs / name), *arguments]
        with (self.directory / f"{name}.log").open("ab") as log:

            def start() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._build_environment() | more,
                    cwd=self.directory,
                )

            self._processes[name] = _SPAWNER.submit(start).result()

    def _build_environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "HOME": str(self.directory)}


class _First(ControlPlane):
    """One whose etcd is empty."""

    def _fill_etcd(self) -> None:
        """Nothing."""

    def leave_data(self, target: Path) -> None:
        """Copy etcd's data without what belongs to one cluster. The servers end."""
        self.kill("kube-apiserver")
        for key in _OF_ONE_CLUSTER:
            self._request_etcd("kv/deleterange", {"key": _encode_key(key)})
        leases = {"key": _encode_key("/registry/leases/"), "range_end": _encode_key("/registry/leases0")}
        self._request_etcd("kv/deleterange", leases)
        self.compact()
        self._request_etcd("maintenance/defragment", {})
        self.kill("etcd", signal.SIGTERM)
        _copy(self.directory / "etcd", target)


def build_first_data(definitions: Sequence[dict[str, Any]] = ()) -> Path:
    """Return etcd's data after the first start of a server with these definitions; build it once."""

    def make(target: Path) -> None:
        first = _First()
        with run_step("starting the first control plane of its kind"), first:
            if definitions:
                first.define(definitions)
            first.leave_data(target)

    key = cache.digest([Path(__file__), str(kubernetes.build_binaries()), json.dumps(list(definitions), sort_keys=True)])
    return cache.get_entry("etcd-data", key, make) / "etcd"


def _copy(source: Path, directory: Path) -> None:
    # etcd's log is 64 MB of which next to nothing is written: shutil would write all of it
    subprocess.run(["cp", "--recursive", "--sparse=always", source, directory], check=True)


def _select_definitions(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]


def _encode_key(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
