"""Templates on a real API server, rendered by the real CABPK, read by cloudbase-init: what was put in comes out."""

import base64
import functools
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lab.cluster_api import BootstrapProvider
from lab.control_plane import ControlPlane
from lab.machine import Machine
from tests.capi.instances import INSTANCES, NAME, POOL_INSTANCES, serving
from tests.capi.settings import EGRESS, PASSWORD
from typer.testing import CliRunner

from lab import build, cloudbase
from transom.capi.bootstrap import windows_proxy
from transom.capi.check.worker_inputs import ApiVersion, Cni, Daemons, InputFile, InputUser, ProviderName, WorkerInputs
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker import user_data
from transom.capi.worker.file_content import read_script
from transom.capi.worker.machine_commands import find_command_problems
from transom.capi.worker.user_data import UserDataLimit
from transom.capi.worker.windows_release import PAUSE
from transom.capi.worker.worker_objects import CRI_SOCKET, POWERSHELL, WorkerTemplate, build_worker
from transom.cli.program import build_program
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue

pytestmark = pytest.mark.lab

JOIN = (
    "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > /run/cluster-api/bootstrap-success.complete"
)
SPECIAL = [
    b"{{ x }}",
    b"{% raw %}",
    b"{#",
    b"%PATH%",
    b"\"'`^&|<>!",
    "é…漢\u0000".encode(),
    b"a\r\nb\r\n",
    b"\n\n",
    b"---\n",
    b"#cloud-config",
]
CONTENTS = st.one_of(st.sampled_from(SPECIAL), st.text(max_size=60).map(lambda text: text.encode()), st.binary(max_size=120))
PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=60)
COMMANDS = st.lists(PRINTABLE.filter(lambda text: not list(find_command_problems(text))), max_size=4)
USERS = st.lists(
    st.tuples(
        st.from_regex(r"[a-z]u[A-Za-z0-9._-]{0,10}", fullmatch=True),
        st.sets(st.sampled_from(["Administrators", "Remote Users"])),
    ),
    max_size=2,
    unique_by=lambda user: user[0],
)
MODES = [("hostprocess", "calico"), ("hostprocess", "flannel"), ("services", "calico"), ("hostprocess", "none")]
DRAWS, FILES = 100, 10
VERSIONS = [f"v1.{minor}.1" for minor in PAUSE]
WAYS: list[tuple[ProviderName, bool]] = [
    *((PROVIDERS[name].name, False) for name in sorted(PROVIDERS)),
    *((PROVIDERS[name].name, True) for name in sorted(PROVIDERS) if PROVIDERS[name].pool),
]
"""A machine of each provider, and one of each that has pools."""
POOL_KINDS = ("MachinePool", "KubeadmConfig")
ABSENT = ("SSH keys not found at location",)
"""What cloudbase-init warns of on a machine that needs none of it."""


def put(server: ControlPlane, objects: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The objects, checked strictly; the KubeadmConfigTemplate as it is there then."""
    held: dict[str, Any] = {}
    for item in objects:
        group, _, version = item["apiVersion"].rpartition("/")
        start = f"/apis/{group}/{version}" if group else f"/api/{version}"
        path = f"{start}/namespaces/{item['metadata']['namespace']}/{item['kind'].lower()}s"
        made = json.loads(server.request("POST", f"{path}?fieldValidation=Strict", item))
        if item["kind"] == "KubeadmConfigTemplate":
            held = made
    return held


def machine_data(server: ControlPlane, cabpk: BootstrapProvider, worker: WorkerTemplate) -> bytes:
    """What a machine of the worker boots with, made of what CABPK reads."""
    template = put(server, (item for item in worker.objects if item["kind"] in ("Secret", "KubeadmConfigTemplate")))
    return cabpk.wait_data("default", start(server, cabpk, worker, template))


def start(server: ControlPlane, cabpk: BootstrapProvider, worker: WorkerTemplate, template: dict[str, Any]) -> str:
    """A machine of the worker, by its name; what CAPZ would make is there."""
    for name in (item["metadata"]["name"] for item in worker.objects if item["kind"] == "AzureMachineTemplate"):
        put_azure_json(server, name)
    (deployment,) = [item for item in worker.objects if item["kind"] == "MachineDeployment"]
    version = deployment["spec"]["template"]["spec"]["version"]
    return cabpk.start_machine("default", "prod", template["spec"]["template"]["spec"], version=version)


def start_pool(server: ControlPlane, cabpk: BootstrapProvider, worker: WorkerTemplate) -> str:
    """A pool of the worker; the name of its configuration."""
    pool, configuration = (next(item for item in worker.objects if item["kind"] == kind) for kind in POOL_KINDS)
    put(server, (configuration, pool))
    for name in (item["metadata"]["name"] for item in worker.objects if item["kind"] == "AzureMachinePool"):
        put_azure_json(server, name)
    cabpk.start_pool("default", "prod", pool["metadata"]["name"], configuration["metadata"]["name"])
    return str(configuration["metadata"]["name"])


def drop_pool(server: ControlPlane, worker: WorkerTemplate) -> None:
    """The pool, and with it the rotation of its token."""
    for item in (obj for obj in worker.objects if obj["kind"] in POOL_KINDS):
        group, kind, name = item["apiVersion"], item["kind"].lower(), item["metadata"]["name"]
        server.request("DELETE", f"/apis/{group}/namespaces/default/{kind}s/{name}")


def put_azure_json(server: ControlPlane, name: str) -> None:
    """What CAPZ makes for each of its templates and pools."""
    data = {"worker-node-azure.json": base64.b64encode(b"{}").decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{name}-azure-json"}, "data": data}
    server.request("POST", "/api/v1/namespaces/default/secrets", secret)


def drop_proxy_secret(server: ControlPlane, worker: WorkerTemplate) -> None:
    """The Secret of the cluster is one for all workers: the next one brings it again."""
    server.request("DELETE", f"/api/v1/namespaces/default/secrets/{worker.secret}")


class Draw(NamedTuple):
    """What somebody gives for a machine."""

    contents: list[bytes]
    pre: list[str]
    post: list[str]
    users: list[tuple[str, set[str]]]


@functools.cache
def draws() -> tuple[Draw, ...]:
    """A hundred."""
    found: list[Draw] = []

    @settings(max_examples=DRAWS, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(st.builds(Draw, st.lists(CONTENTS, min_size=FILES, max_size=FILES), COMMANDS, COMMANDS, USERS))
    def draw(one: Draw) -> None:
        found.append(one)

    draw()
    assert len(found) == DRAWS
    return tuple(found)


@pytest.mark.parametrize("number", range(len(WAYS)), ids=[name + "-pool" * pool for name, pool in WAYS])
def test_what_was_put_in_comes_out(
    number: int, management: ControlPlane, cabpk: BootstrapProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred draws over ways and versions: rendered by CABPK, wrapped as the provider does, read by its metadata class."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    provider, pooled = WAYS[number]
    given = draws()[number :: len(WAYS)]
    assert len(given) > len(VERSIONS)
    made = POOL_INSTANCES if pooled else INSTANCES
    started, workers = [], []
    for count, draw in enumerate(given):
        inputs = WorkerInputs(
            cluster="prod",
            provider=provider,
            name=f"{provider}-{'pool-' * pooled}{count}",
            kubernetes_version=VERSIONS[count % len(VERSIONS)],
            machine_pool=pooled,
            location="westeurope" if pooled else "",
            machine_name_prefix="" if pooled else "win",
            files=tuple(
                InputFile(f"C:/k/drawn/{number}.bin", content_base64=base64.b64encode(content).decode())
                for number, content in enumerate(draw.contents)
            ),
            pre_kubeadm_commands=tuple(draw.pre),
            post_kubeadm_commands=tuple(draw.post),
            users=tuple(InputUser(name, tuple(sorted(groups))) for name, groups in draw.users),
        )
        worker = build_worker(inputs, EGRESS)
        assert worker.objects, worker.findings
        if not started:
            # the Secret of the settings is one for all
            put(management, (item for item in worker.objects if item["kind"] == "Secret"))
        workers.append(worker)
        if pooled:
            started.append(start_pool(management, cabpk, worker))
            continue
        template = next(item for item in worker.objects if item["kind"] == "KubeadmConfigTemplate")
        started.append(start(management, cabpk, worker, template))
    for name, draw in zip(started, given, strict=True):
        data = cabpk.wait_data("default", name)
        limit = _pool_limit(provider) if pooled else PROVIDERS[provider].limit
        assert user_data.measure_size(data, limit) <= limit.most
        with serving() as endpoint:
            instance = made[provider](endpoint, data, tmp_path)
            # its name is as the provider wants it: nothing needs a restart
            instance.machine.name = NAME
            found = instance.run()
        assert [text for text in found.complaints if not text.startswith(ABSENT)] == []
        check(found, draw)
    drop_proxy_secret(management, worker)
    for entry in workers if pooled else ():
        drop_pool(management, entry)


def _pool_limit(provider: ProviderName) -> UserDataLimit:
    pool = PROVIDERS[provider].pool
    assert pool is not None
    return pool.limit


def check(found: cloudbase.Outcome, draw: Draw) -> None:
    """That what cloudbase-init does is what was given."""
    files = {file.path: file for file in found.files}
    assert [path for path in files if path.startswith("C:\\k\\drawn")] == [
        rf"C:\k\drawn\{number}.bin" for number in range(FILES)
    ]
    for number, content in enumerate(draw.contents):
        assert files[rf"C:\k\drawn\{number}.bin"] == cloudbase.WrittenFile(rf"C:\k\drawn\{number}.bin", content, 0o644)
    assert files["C:\\k\\proxy.reg"].content == windows_proxy.render_proxy_reg(EGRESS, "prod")
    assert files["C:\\k\\proxy.reg"].permissions == 0o600
    first = [windows_proxy.BEFORE_JOIN, windows_proxy.OR_STOP]
    assert found.commands == [*first, POWERSHELL, *draw.pre, JOIN, *draw.post, windows_proxy.AFTER_JOIN]
    assert [(user.name, user.groups) for user in found.users] == [(name, tuple(sorted(groups))) for name, groups in draw.users]
    assert len(found.scripts) == 1
    script = found.scripts[0].content
    assert all(secret not in script for secret in (b"%", PASSWORD.encode(), b"hunter2hunter2xx"))
    join = yaml.safe_load(files["\\run\\kubeadm\\kubeadm-join-config.yaml"].content)
    registration = join["nodeRegistration"]
    assert (registration["name"], registration["criSocket"]) == (NAME, CRI_SOCKET)
    taints = files["C:\\k\\kubelet-arguments.txt"].content.decode().partition("--register-with-taints=")[2].splitlines()[0]
    assert set(taints.split(",")) == {_taint(taint) for taint in registration["taints"]}
    assert join["discovery"]["bootstrapToken"]["token"] == "abcdef.hunter2hunter2xx"


def _taint(taint: dict[str, str]) -> str:
    return f"{taint['key']}{'=' + taint['value'] if 'value' in taint else ''}:{taint['effect']}"


def test_large_contents_are_carried_or_refused_with_the_limit(management: ControlPlane, cabpk: BootstrapProvider) -> None:
    large = b"".join(number.to_bytes(4, "little") for number in range(2_500))
    huge = bytes(range(256)) * 4_000
    files = tuple(
        InputFile(f"C:/k/{name}.bin", content_base64=base64.b64encode(content).decode())
        for name, content in (("large", large), ("huge", huge), ("empty", b""))
    )
    inputs = WorkerInputs(cluster="prod", provider="vsphere", name="large", files=files)
    found = cloudbase.read(machine_data(management, cabpk, build_worker(inputs)))
    contents = {file.path: file.content for file in found.files}
    assert (contents[r"C:\k\large.bin"], contents[r"C:\k\huge.bin"], contents[r"C:\k\empty.bin"]) == (large, huge, b"")


def test_the_size_of_user_data_is_known_before(management: ControlPlane, cabpk: BootstrapProvider) -> None:
    servers = ("ntp-1.example.com", "192.0.2.1")
    inputs = WorkerInputs(
        cluster="prod",
        provider="gcp",
        name="sized",
        files=(InputFile("C:/k/a.txt", "x" * 3_000),),
        ntp_servers=servers,
        verbosity=5,
        skip_phases=("preflight",),
        patches="C:/k/patches",
    )
    worker = build_worker(inputs, EGRESS)
    data = machine_data(management, cabpk, worker)
    drop_proxy_secret(management, worker)
    assert len(data) <= made_size(worker) <= len(data) * 1.1
    found = cloudbase.read(data)
    assert [event.servers for event in found.events if isinstance(event, cloudbase.Clock)] == [servers]
    join = yaml.safe_load(next(file.content for file in found.files if file.path.endswith("kubeadm-join-config.yaml")))
    assert (join["skipPhases"], join["patches"]) == (["preflight"], {"directory": "C:/k/patches"})
    assert [line for line in found.commands if line.startswith("kubeadm join")] == [
        JOIN.replace("config.yaml  &&", "config.yaml --v 5 &&")
    ]


def made_size(worker: WorkerTemplate) -> int:
    """What `transom.capi` takes the size for: the text that it holds against the limit."""
    spec = next(item for item in worker.objects if item["kind"] == "KubeadmConfigTemplate")["spec"]["template"]["spec"]
    secrets = [item for item in worker.objects if item["kind"] == "Secret"]
    texts = {
        (item["metadata"]["name"], key): base64.b64decode(text).decode()
        for item in secrets
        for key, text in item["data"].items()
    }
    return len(user_data.render_user_data(spec, texts))


@pytest.mark.parametrize(("daemons", "cni"), MODES)
@pytest.mark.parametrize("version", get_args(ApiVersion))
def test_the_server_takes_the_objects_of_both_versions(
    management: ControlPlane, version: ApiVersion, daemons: Daemons, cni: Cni
) -> None:
    inputs = WorkerInputs(
        cluster="prod",
        provider="aws",
        name=f"{version}-{daemons}-{cni}",
        machine_name_prefix="win",
        api_version=version,
        daemons=daemons,
        cni=cni,
        network_name="l2bridge" if cni == "none" else "",
        node_labels={"example.com/pool": "windows"},
        users=(InputUser("operator", ("Administrators",), ("ssh-ed25519 AAAA a@b",)),),
    )
    worker = build_worker(inputs)
    put(management, worker.objects)
    assert [item["kind"] for item in worker.daemons].count("DaemonSet") == {"hostprocess": 1, "services": 0}[daemons]
    for item in worker.daemons:
        group, _, kind_version = item["apiVersion"].rpartition("/")
        start = f"/apis/{group}/{kind_version}" if group else f"/api/{kind_version}"
        plural = item["kind"].lower() + ("es" if item["kind"].endswith("s") else "s")
        namespace = f"/namespaces/{item['metadata']['namespace']}" if "namespace" in item["metadata"] else ""
        path = f"{start}{namespace}/{plural}?fieldValidation=Strict&dryRun=All"
        made = json.loads(management.request("POST", path, item))
        if daemons == "hostprocess" and item["kind"] == "DaemonSet":
            spec = made["spec"]["template"]["spec"]
            assert spec["securityContext"]["windowsOptions"] == {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}
            assert spec["hostNetwork"] is True


def test_the_settings_of_the_management_cluster(management: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    context = yaml.safe_load(management.kubeconfig.read_text())["current-context"]
    monkeypatch.setenv("KUBECONFIG", str(management.kubeconfig))
    arguments = ["capi", "worker", "--cluster", "prod", "--provider", "gcp", "--context", context, "-o", "json"]
    done = CliRunner().invoke(build_program(), arguments)
    assert done.exit_code == 0, done.stderr
    (secret,) = [item for item in json.loads(done.stdout)["items"] if item["kind"] == "Secret"]
    assert secret["metadata"]["name"] == "prod-windows-proxy"
    held = reg.parse(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["proxyReg"]))))
    items = next(edit.value.to_texts() for edit in held if isinstance(edit, SetValue) and edit.name == "Environment")
    assert items[2].startswith("NO_PROXY=cluster.local,10.96.0.0/12,192.168.0.0/16,prod.example.com,")


def test_kubeadm_on_windows_takes_the_join_configuration(management: ControlPlane, cabpk: BootstrapProvider) -> None:
    more = {"skip_phases": ("preflight",), "patches": "C:/k/patches"}
    worker = build_worker(WorkerInputs(cluster="prod", provider="aws", name="joining", **more))
    found = cloudbase.read(machine_data(management, cabpk, worker))
    join = next(file.content for file in found.files if file.path.endswith("kubeadm-join-config.yaml"))
    pattern = re.findall(r"-Pattern '(.*?)' \|", read_script("kubelet-arguments.ps1").decode())[0].replace("''", "'")
    assert [match[1] for match in re.finditer(pattern, join.decode(), re.MULTILINE)] == ["win-1"]
    with Machine() as machine:
        (machine.drive / "join.yaml").write_bytes(join)
        (machine.drive / "kubeadm.exe").write_bytes(build.build_program(build.get_kubeadm_program()).read_bytes())
        machine.boot()
        done = machine.run(r"C:\kubeadm.exe", "config", "validate", "--config", r"C:\join.yaml")
    assert (done.returncode, done.stdout.strip()) == (0, b"ok"), done.stderr
