"""What was generated once and no provider, builder or Windows would have taken: `findings.yaml` says which test is whose."""

import base64
import fnmatch
import importlib.resources
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, get_args

import cloudbaseinit
import hcl2
import pytest
from tests.support.repository import DOCS

import lab
from lab import golang, infrastructure
from transom.capi.bootstrap import windows_proxy
from transom.capi.check import upstream
from transom.capi.check.upstream import Fact
from transom.capi.check.worker_inputs import Daemons, InputFile, ProviderName, WorkerInputs
from transom.capi.image.image_recipe import Recipe
from transom.capi.image.image_recipe import build_recipe as make_image
from transom.capi.image.inputs import ImageInputs, iter_downloads
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker import workers_page
from transom.capi.worker.machine_commands import find_command_problems
from transom.capi.worker.windows_release import PAUSE, RELEASES, build_image_name
from transom.capi.worker.worker_objects import WorkerTemplate, build_worker

NAMES = get_args(ProviderName)
FILES = Path(str(importlib.resources.files("transom.capi") / "image" / "files"))
SECOND = "v1.33.4"


def image(provider: ProviderName, **fields: Any) -> Recipe:
    return make_image(ImageInputs(provider, **fields))


def worker(provider: ProviderName = "aws", **fields: Any) -> WorkerTemplate:
    return build_worker(WorkerInputs(**{"cluster": "prod", "provider": provider, **fields}))


def machine(made: WorkerTemplate) -> dict[str, Any]:
    assert made.objects, made.findings
    found = next(item for item in made.objects if item["kind"].endswith("MachineTemplate"))
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def script(name: str) -> str:
    return (FILES / name).read_text("utf-8")


def errors(made: WorkerTemplate) -> list[str]:
    return [finding.message for finding in made.findings if finding.severity == "error"]


SOURCES = {
    "kubernetes-sigs/cluster-api-provider-aws": infrastructure.MODULES["aws"][0],
    "kubernetes-sigs/cluster-api-provider-gcp": infrastructure.MODULES["gcp"][0],
    "kubernetes/kubernetes": f"k8s.io/kubernetes@{upstream.PAUSE_1_36.version}",
}
"""Go modules that other tests have anyway; scripts/upstream looks at the commits of the table, and at all the others."""


@pytest.mark.lab
@pytest.mark.parametrize(
    "fact", [fact for fact in workers_page.FACTS if fact.repository in SOURCES], ids=lambda fact: fact.name
)
def test_upstreams_sources_say_so(fact: Fact) -> None:
    text = (golang.fetch_module_source(Path(str(lab.__file__)).parent, SOURCES[fact.repository]) / fact.file).read_text("utf-8")
    assert [say for say in fact.says if say not in text] == []


def test_cloudbase_init_says_so() -> None:
    facts = [fact for fact in workers_page.FACTS if fact.file.startswith("cloudbaseinit/")]
    assert facts
    for fact in facts:
        text = (Path(str(cloudbaseinit.__file__)).parents[1] / fact.file).read_text("utf-8")
        assert [say for say in fact.says if say not in text] == []


def test_the_page_shows_the_tables() -> None:
    page = (DOCS / "windows-workers.md").read_text("utf-8")
    assert workers_page.update_workers_page(page) == page, "scripts/reference writes it"


def test_each_fact_is_named_once() -> None:
    assert len({fact.name for fact in workers_page.FACTS}) == len(workers_page.FACTS) > 30


RECORDED = {
    "openssh": (f"https://github.com/PowerShell/Win32-OpenSSH/{upstream.OPENSSH_TAG.says[0]}", upstream.OPENSSH_TAG),
    "containerd": ("https://github.com/containerd/containerd/" + upstream.CONTAINERD_URL.value, upstream.CONTAINERD_VERSION),
    "cloudbase_init": (
        "https://github.com/cloudbase/cloudbase-init/" + upstream.CLOUDBASE_URL.value,
        upstream.CLOUDBASE_VERSION,
    ),
    "cni_plugins": (
        "https://github.com/containernetworking/plugins/" + upstream.CNI_PLUGINS_URL.value,
        upstream.CNI_PLUGINS_URL,
    ),
}
"""The form of each URL, and what says that its tag is one: `scripts/upstream` looks a fact up at its tag."""


@pytest.mark.parametrize("minor", list(PAUSE))
@pytest.mark.parametrize("daemons", ["hostprocess", "services"])
def test_default_urls_have_the_form_of_recorded_releases(daemons: Daemons, minor: int) -> None:
    version = f"v1.{minor}.3"
    urls = {item.name: item.url for item in iter_downloads(ImageInputs("aws", daemons=daemons, kubernetes_version=version))}
    for name, (form, fact) in RECORDED.items():
        # v2.2.1 is 2.2.1 in containerd's own form
        tag = fact.version.removeprefix("v") if name == "containerd" else fact.version
        assert urls.pop(name) == form.format(version=tag, version_=tag.replace(".", "_"))
    base = upstream.KUBERNETES_URL.value.format(version=version)
    assert set(urls.values()) == {f"{base}/{name.replace('_', '-')}.exe" for name in urls}


@pytest.mark.parametrize("provider", NAMES)
def test_files_are_found_from_any_directory(provider: ProviderName) -> None:
    """Packer reads `file()` relative to the template (hcl2template/functions.go), all else to where it was started."""
    made = make_image(ImageInputs(provider), {item.file: "0" * 64 for item in iter_downloads(ImageInputs(provider))})
    text = made.files["windows.pkr.hcl"].decode()
    hcl2.loads(text)
    named = re.findall(r'^ +(?:source|user_data_file|destination) += "([^"]+)"$', text, re.MULTILINE)
    local = [name for name in named if not re.match(r"github\.com/|[A-Z]:/", name)]
    assert {"${path.root}/scripts/", "${path.root}/downloads/", "${path.root}/image-manifest.json"} <= set(local)
    assert [name for name in local if not name.startswith("${path.root}/")] == []
    called = [name.removeprefix("${path.root}/") for name in local] + re.findall(r'\bfile\("([^"]+)"\)', text)
    missing = [name for name in called if name.startswith("scripts/") and not name.endswith("/") and name not in made.files]
    assert missing == []


@pytest.mark.parametrize("provider", NAMES)
def test_sysprep_is_awaited_as_the_builder_needs_it(provider: ProviderName) -> None:
    made = image(provider)
    text, sysprep = made.files["windows.pkr.hcl"].decode(), made.files["scripts/sysprep.ps1"].decode()
    last = text.rpartition('provisioner "powershell"')[2]
    assert "Sysprep\\unattend.xml" in sysprep
    if provider in ("vsphere", "nutanix"):
        assert (upstream.VSPHERE_SHUTDOWN.value in text, "sysprep.ps1" in last, "'/shutdown'" in sysprep) == (True, False, True)
        return
    assert "sysprep.ps1" in last
    if provider == "aws":
        assert re.search(rf"{upstream.AWS_STOP.value} += true", text)
        assert upstream.AWS_ANSWER_FILE.value.split("\\")[-1] in sysprep
        return
    assert upstream.GENERALIZED.value in sysprep
    assert all(f"'{word}'" in sysprep for word in upstream.SYSPREP.value.split())


def test_the_limit_counts_what_the_provider_sends() -> None:
    """CAPA gzips where `uncompressedUserData` is false (UserDataIsUncompressed, pkg/cloud/scope), and only there."""
    for name in NAMES:
        gzipped = machine(worker(name)).get(upstream.UNCOMPRESSED.value) is False
        assert gzipped == PROVIDERS[name].limit.gzip, name


def test_key_pairs() -> None:
    looked_up, given = machine(worker()), machine(worker(key_pair="ops", image="ami-1"))
    assert (looked_up["sshKeyName"], given["sshKeyName"]) == ("", "ops")
    other = worker(image="ami-1")
    assert "sshKeyName" not in machine(other)
    assert any("key pair called `default`" in note for note in other.notes)
    assert "reads no user data" in errors(worker(image="ami-1", machine={"sshKeyName": ""}))[0]
    assert "has no key pairs" in errors(worker("gcp", key_pair="ops"))[0]


def test_azure_image() -> None:
    made = image("azure").files
    text = made["scripts/azure.ps1"].decode()
    address, user = upstream.WIRE_SERVER.value, "S-1-5-18"
    assert (f"-RemoteAddress '{address}' -RemotePort 80" in text, f"(D;;CC;;;{user})(A;;CC;;;S-1-1-0)" in text) == (True, True)
    assert all(f"'{name}'" in text for name in upstream.AZURE_AGENTS.value.split(", "))
    assert "azure.ps1" in made["windows.pkr.hcl"].decode()
    assert {f"{name}=true" for name in upstream.REPORTED.value.split(", ")} <= set(
        made["scripts/cloudbase-init.conf"].decode().splitlines()
    )


@pytest.mark.parametrize("version", ["v1.36.3", SECOND, "v1.35.1+vmware.1"])
@pytest.mark.parametrize("provider", NAMES)
def test_the_worker_finds_what_the_build_names(provider: ProviderName, version: str) -> None:
    variables = {"kubernetes_base_url": "https://builds.example.com/k8s"} if "+" in version else {}
    text = image(provider, kubernetes_version=version, variables=variables).files["windows.pkr.hcl"].decode()
    spec = machine(worker(provider, kubernetes_version=version))
    name = build_image_name("2022", version)
    assert f'image_name = "{name}"' in text
    if provider == "aws":
        (made,) = re.findall(r'ami_name +?= "(.+)"', text)
        pattern = spec["imageLookupFormat"]
        assert fnmatch.fnmatchcase(made.replace("${local.image_name}", name).replace("${local.stamp}", "202611220000"), pattern)
    elif provider == "azure":
        assert "image" not in spec
    elif provider == "vsphere":
        assert (spec["template"], "vm_name             = local.image_name" in text) == (name, True)
    elif provider == "openstack":
        assert (
            spec["image"]["filter"]["name"],
            re.search(r"image_name +?= local.image_name$", text, re.MULTILINE) is None,
        ) == (
            name,
            False,
        )
    elif provider == "nutanix":
        assert (spec["image"], "image_name       = local.image_name\n" in text) == ({"type": "name", "name": name}, True)
    else:
        family = 'image_family            = replace(local.image_name, ".", "-")'
        assert (spec["imageFamily"], family in text) == (f"global/images/family/{name.replace('.', '-')}", True)


@pytest.mark.parametrize("version", ["v1.36.3", SECOND])
def test_the_kubelet_finds_containerd(version: str) -> None:
    flag = upstream.RUNTIME_ENDPOINT.value
    assert f"'{flag}'" in script("kubernetes.ps1")
    template = next(item for item in worker(kubernetes_version=version).objects if item["kind"] == "KubeadmConfigTemplate")
    files = template["spec"]["template"]["spec"]["files"]
    (arguments,) = [file["content"] for file in files if file["path"].endswith("kubelet-arguments.txt")]
    assert flag in base64.b64decode(arguments).decode().splitlines()


def test_keys_of_administrators_are_read() -> None:
    """OpenSSH's default for Windows ends in a block that reads them elsewhere."""
    lines = [line for line in script("sshd_config").splitlines() if not line.startswith("#")]
    assert "AuthorizedKeysFile .ssh/authorized_keys" in lines
    assert "PasswordAuthentication no" in lines
    assert not [line for line in lines if line.startswith("Match")]
    text = script("openssh.ps1")
    assert "Start-Service" not in text
    assert "sshd_config" in image("aws").files["scripts/openssh.ps1"].decode()
    assert "scripts/sshd_config" in image("aws").files


def test_the_kubelets_log_is_kept() -> None:
    text = script("kubernetes.ps1")
    runner = upstream.LOG_RUNNER.value
    assert rf"C:\k\{runner}.exe --log-file=C:\var\log\kubelet\kubelet.log C:\k\kubelet.exe" in text
    assert runner in {item.file.removesuffix(".exe") for item in iter_downloads(ImageInputs("gcp"))}


def test_settings_of_a_node() -> None:
    text = script("hns.ps1")
    values = upstream.HNS_SETTINGS.value.split(", ")
    assert [value for value in values if f"'{value}'" not in text] == []
    assert upstream.NO_AUTOMATIC_UPDATES.value in text
    assert "', '".join(upstream.PORT_RANGE.value.split()) in text
    assert "AUTOMATIC_UPDATES" in image("gcp").files["windows.pkr.hcl"].decode()


def test_the_image_is_looked_at_before_it_is_generalised() -> None:
    made = image("aws").files
    steps = re.findall(r"image\\\\([a-z-]+)\.ps1", made["windows.pkr.hcl"].decode())
    assert steps[-4:] == ["transom-image-check", "manifest", "finish", "sysprep"]
    assert steps[:2] == ["features", "updates"]
    text = script("transom-image-check.ps1")
    for value in (upstream.RUNTIME_ENDPOINT.value, f"{upstream.LOG_RUNNER.value}.exe", upstream.EARLY_REBOOT.value):
        assert f"'{value}'" in text


class Proxy(BaseHTTPRequestHandler):
    """A proxy that wants a password, and what it was asked for."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        Proxy.asked.append((self.path, self.headers["Proxy-Authorization"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")


@pytest.mark.lab
def test_downloads_go_through_the_proxy_of_the_environment(tmp_path: Path) -> None:
    """The call of curl.exe, by a real curl: user and password of the proxy are sent, and exemptions go direct."""
    found = re.search(r"-Program \"[^\"]+curl\.exe\" -Arguments @\((.+)\)$", script("common.ps1"), re.MULTILINE)
    assert found is not None
    arguments = re.findall(r"'([^']+)'", found[1])
    assert arguments[-1] == "--output"
    assert "Invoke-WebRequest" not in "".join(script(file.name) for file in FILES.glob("*.ps1"))
    Proxy.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        here = f"127.0.0.1:{server.server_port}"
        environment = {"http_proxy": f"http://alice:hunter2%40@{here}", "no_proxy": "127.0.0.1"}
        for url in ("http://containerd.example.com/c.tgz", f"http://{here}/direct"):
            call = ["curl", *arguments, str(tmp_path / "out"), url]
            subprocess.run(call, env=environment, check=True, timeout=120)
        server.shutdown()
    assert Proxy.asked == [("http://containerd.example.com/c.tgz", "Basic YWxpY2U6aHVudGVyMkA="), ("/direct", None)]


def test_the_signer_is_named() -> None:
    signed = {item.name: item.signer for item in iter_downloads(ImageInputs("aws")) if item.check == "signature"}
    assert set(signed) == {"cloudbase_init", "openssh"}
    assert all(signed.values())
    text = image("aws").files["windows.pkr.hcl"].decode()
    for name in signed:
        assert f"{name.upper()}_SIGNER" in text
        assert f"-Signer $env:{name.upper()}_SIGNER" in script(f"{name.replace('_', '-')}.ps1")


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("(", True),
        ("echo x & exit /b 1", True),
        ("if 1==1 exit /b 3", True),
        ("if not exist C:\\k\\a.txt goto end", True),
        (r"echo x & C:\k\a.cmd", True),
        (r'"C:\Program Files\a b.bat" x', True),
        (r"if exist C:\k\a.cmd C:\k\a.cmd", True),
        ("echo x && (echo y) || exit 1", True),
        ("echo )", True),
        (r"if exist C:\k\a.cmd call C:\k\a.cmd", False),
        (r"cmd.exe /d /c C:\k\a.cmd", False),
        (r'cmd.exe /d /c "echo x & exit /b 1"', False),
        ("echo x ^& exit", False),
        ("(echo a & echo b)", False),
        ("echo exit", False),
        ("msiexec.exe /i C:\\k\\a.msi /qn", False),
    ],
)
def test_commands_that_end_the_script(command: str, refused: bool) -> None:
    assert bool(list(find_command_problems(command))) == refused


def test_node_labels_are_joined() -> None:
    made = worker(node_labels={"pool": "a"}, kubelet_arguments={"node-labels": "site=b"})
    spec = next(item for item in made.objects if item["kind"] == "KubeadmConfigTemplate")["spec"]["template"]["spec"]
    arguments = {item["name"]: item["value"] for item in spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]}
    assert arguments["node-labels"] == "pool=a,site=b"


def test_a_failed_proxy_ends_the_script() -> None:
    assert windows_proxy.build_windows_entries("secret").pre == (r"cmd.exe /d /c C:\k\proxy.cmd", "if errorlevel 1 exit /b 1")


@pytest.mark.parametrize("version", ["v1.36.3+vmware.1", "v1.36.3-eks-1a2b3c4", "v1.32.0"])
def test_versions_of_vendors(version: str) -> None:
    assert errors(worker(kubernetes_version=version)) == []


@pytest.mark.parametrize("windows", list(RELEASES))
@pytest.mark.parametrize("minor", list(PAUSE))
def test_pairs_of_kubernetes_and_windows(minor: int, windows: str) -> None:
    """Server 2025 has no pause image before 3.10.2; else it is kubeadm's of that version."""
    version = f"v1.{minor}.1"
    variables = hcl2.loads(image("gcp", kubernetes_version=version, windows=windows).files["variables.pkr.hcl"].decode())
    pause = next(block for block in variables["variable"] if "pause_image" in str(block))
    expected = "3.10.2" if windows == "2025" else PAUSE[minor]
    assert f'registry.k8s.io/pause:{expected}"' in str(pause) + '"' or f"pause:{expected}'" in str(pause)
    made = worker(kubernetes_version=version, windows=windows)
    warned = [finding.field for finding in made.findings if finding.severity == "warning" and finding.field != "secretStore"]
    old_image = ["daemonImages.kube-proxy"] if minor == 32 else []
    assert (errors(made), warned) == ([], (["windows"] if windows == "2019" else []) + old_image)


def test_other_versions_are_warned_about() -> None:
    warned = [finding.field for finding in worker(kubernetes_version="v1.30.1").findings if finding.severity == "warning"]
    assert "kubernetesVersion" in warned


@pytest.mark.parametrize("path", ["C:/k/./proxy.reg", "C:/k/proxy.reg.", "C:/k/../k/proxy.reg", "C:/k./proxy.reg"])
def test_other_spellings_of_reserved_paths(path: str) -> None:
    assert errors(worker(files=(InputFile(path, "x"),)))


def test_names_that_are_no_labels() -> None:
    assert "into a label" in errors(worker(cluster="c" * 64, name="win"))[0]
