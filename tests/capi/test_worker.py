"""What `transom capi worker` makes of inputs, and which it refuses."""

import base64
import gzip
import json
import pkgutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.capi.settings import EGRESS, PASSWORD, URL
from tests.support.repository import DOCS
from typer.testing import CliRunner

from transom.capi import providers
from transom.capi.bootstrap import windows_proxy
from transom.capi.check.worker_inputs import InputFile, InputUser, ProviderName, WorkerInputs, build_schema
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker.worker_objects import WorkerTemplate, build_worker, iter_obsolete_objects
from transom.cli.program import build_program
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue

SCHEMA = DOCS / "schemas" / "worker.json"


def inputs(provider: ProviderName = "aws", **fields: Any) -> WorkerInputs:
    return WorkerInputs(**{"cluster": "prod", "provider": provider, **fields})


def of_kind(worker: WorkerTemplate, kind: str) -> dict[str, Any]:
    (found,) = [item for item in worker.objects if item["kind"].endswith(kind)]
    return found


def errors(worker: WorkerTemplate) -> list[tuple[str, str]]:
    return [(finding.field, finding.message) for finding in worker.findings if finding.severity == "error"]


def test_each_module_of_a_provider_is_named() -> None:
    modules = {module.name for module in pkgutil.iter_modules(providers.__path__)} - {"provider", "provider_table"}
    assert modules == set(get_args(ProviderName)) == {provider.name for provider in PROVIDERS.values()}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_defaults_are_enough(provider: ProviderName) -> None:
    done = CliRunner().invoke(build_program(), ["capi", "worker", "--cluster", "prod", "--provider", provider])
    assert done.exit_code == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    kinds = [item["kind"] for item in objects]
    assert kinds[0] == "KubeadmConfigTemplate"
    assert kinds[1].endswith("MachineTemplate")
    assert kinds[2:] == ["MachineDeployment", "ConfigMap", "ClusterResourceSet"]
    template = objects[2]["spec"]["template"]["spec"]
    assert template["bootstrap"]["configRef"]["name"] == objects[0]["metadata"]["name"]
    assert template["infrastructureRef"]["name"] == objects[1]["metadata"]["name"]
    assert "licence of Windows Server" in done.stderr


FILE = InputFile("C:/k/a", "x")


@pytest.mark.parametrize(
    ("provider", "fields", "field", "said"),
    [
        ("aws", {"kubernetes_version": "1.36"}, "kubernetesVersion", "form v1.N.M"),
        ("aws", {"kubernetes_version": "v1.36.3-beta"}, "kubernetesVersion", "form v1.N.M"),
        ("aws", {"kubernetes_version": "v2.0.0"}, "kubernetesVersion", "form v1.N.M"),
        ("aws", {"control_plane_version": "v1.35.0"}, "kubernetesVersion", "newer than the control plane's"),
        ("aws", {"kubernetes_version": "v1.31.0", "control_plane_version": "v1.35.0"}, "kubernetesVersion", "older than"),
        ("aws", {"windows": "2016"}, "windows", "does not list"),
        ("aws", {"name": "Prod_Win"}, "name", "lower-case letters"),
        ("aws", {"name": "n" * 53}, "name", "at most 52"),
        ("azure", {"machine_name_prefix": "prod-windows"}, "machineNamePrefix", "azure takes 15 for Windows"),
        ("gcp", {"machine_name_prefix": "1win"}, "machineNamePrefix", "cannot begin a machine's name on gcp"),
        ("vsphere", {"secret_store": "secrets-manager"}, "secretStore", "vsphere has no secrets-manager"),
        ("aws", {"files": (InputFile("k/a", "x"),)}, "files[0].path", "a path on drive C"),
        ("aws", {"files": (InputFile("C:/k/a: b", "x"),)}, "files[0].path", "a path on drive C"),
        ("aws", {"files": (InputFile("c:\\K\\proxy.reg", "x"),)}, "files[0].path", "is reserved"),
        ("aws", {"files": (InputFile("C:/k/kube-proxy-start.ps1", "x"),)}, "files[0].path", "is reserved"),
        ("aws", {"files": (FILE, InputFile("c:\\K\\A", "y"))}, "files[1].path", "duplicate path c:\\K\\A: files[0]"),
        ("aws", {"files": (FILE, InputFile("C:/k/b", "x", permissions="644"))}, "files[1].permissions", "four octal digits"),
        ("aws", {"files": (InputFile("C:/k/a", content_base64="%"),)}, "files[0].contentBase64", "not valid base64"),
        ("aws", {"users": (InputUser("null"),)}, "users[0].name", "letters, digits"),
        ("aws", {"users": (InputUser("a", ("x: y",)),)}, "users[0].groups[0]", "'x: y' is not a valid group name"),
        ("aws", {"users": (InputUser("a", (), ("ssh-rsa",)),)}, "users[0].sshAuthorizedKeys[0]", "authorized_keys"),
        ("aws", {"kubelet_arguments": {"v": "a b"}}, "kubeletArguments", "'v'"),
        ("aws", {"node_labels": {"a b": "x"}}, "nodeLabels", "'a b': not a valid label name"),
        ("aws", {"node_labels": {"a": "x,y"}}, "nodeLabels", "'a': not a valid label name or value"),
        ("aws", {"images": ("mcr.microsoft.com/windows/nanoserver:ltsc2019",)}, "images[0]", "use the ltsc2022 one"),
        ("aws", {"ntp_servers": ("a b",)}, "ntpServers[0]", "not a valid name or address"),
        ("aws", {"verbosity": 11}, "verbosity", "from 0 to 10"),
        ("aws", {"skip_phases": ("preflight", "kubelet-start")}, "skipPhases[1]", "can do without preflight"),
        ("aws", {"patches": "k/patches"}, "patches", "not a path on drive C"),
        ("aws", {"replicas": -1}, "replicas", "0 to 5,000"),
    ],
)
def test_refused(provider: ProviderName, fields: dict[str, Any], field: str, said: str) -> None:
    made = build_worker(inputs(provider, **fields))
    assert made.objects == ()
    assert [error for error in errors(made) if error[0] == field and said in error[1]], made.findings


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo %PATH%", "expands `%`"),
        ("echo {{ x }}", "as a template"),
        ("echo {% x %}", "as a template"),
        ("echo {# x", "as a template"),
        ("echo é", "code page"),
        ("echo a\necho b", "printable ASCII"),
        ("", "an empty command"),
        ("echo a ^", "takes the next command"),
        (r"C:\k\a.cmd x", "ends all commands"),
        ("exit /b 1", "leaves the script"),
        ("echo " + "x" * 9_000, "8,191"),
    ],
)
def test_a_command_that_one_script_cannot_hold_is_refused(command: str, said: str) -> None:
    for field in ("preKubeadmCommands", "postKubeadmCommands"):
        given = {"pre_kubeadm_commands" if field.startswith("pre") else "post_kubeadm_commands": ("dir", command)}
        found = errors(build_worker(inputs(**given)))
        assert [path for path, _ in found] == [f"{field}[1]"] * len(found)
        assert any(said in message for _, message in found), found


NOISE = Random(1).randbytes(3_000_000)


def noise(size: int) -> tuple[InputFile, ...]:
    return (InputFile("C:/k/big", content_base64=base64.b64encode(NOISE[:size]).decode()),)


def test_large_contents_name_the_limit() -> None:
    ((_, message),) = errors(build_worker(inputs("aws", files=noise(30_000))))
    assert "bytes gzipped; EC2 takes 16 kB before base64 (16,384). The largest file is C:/k/big" in message
    assert "--secret-store" in message
    assert errors(build_worker(inputs("aws", secret_store="secrets-manager", files=noise(30_000)))) == []
    assert errors(build_worker(inputs("vsphere", files=noise(500_000)))) == []
    ((field, message),) = errors(build_worker(inputs("vsphere", files=noise(1_000_000))))
    assert (field, "1,000,000 bytes are 1,333,336 in base64; a Secret holds 1,048,576" in message) == ("files[0].content", True)


def test_a_bundle_too_large_for_user_data_is_refused_with_the_limit() -> None:
    trust = parse_bundle("".join(authority(number) for number in range(40))).certificates
    ((_, message),) = errors(build_worker(inputs("openstack"), msgspec.structs.replace(EGRESS, trust=trust)))
    assert "in base64; Nova takes 65,535 bytes" in message
    assert "C:/k/proxy.reg: it holds the trusted CAs" in message


def authority(number: int) -> str:
    """A root with something in it that cannot be compressed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Root {number}")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    padding = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), NOISE[number * 2_000 :][:2_000])
    builder = x509.CertificateBuilder(name, name, key.public_key(), number + 1, start, start + timedelta(days=3_650))
    made = builder.add_extension(padding, critical=False).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


def test_a_machine_of_nutanix_without_a_place_is_told() -> None:
    place = {"cluster": {"type": "name", "name": "pe"}, "subnet": [{"type": "name", "name": "vlan"}]}
    assert "no cluster and no subnet" in build_worker(inputs("nutanix")).notes[0]
    assert not any("failure domain" in note for note in build_worker(inputs("nutanix", machine=place)).notes)


def test_a_second_run_makes_new_templates_where_something_is_new() -> None:
    def names(worker: WorkerTemplate) -> tuple[str, str]:
        return of_kind(worker, "ConfigTemplate")["metadata"]["name"], of_kind(worker, "MachineTemplate")["metadata"]["name"]

    first = build_worker(inputs(), EGRESS)
    assert build_worker(inputs(), EGRESS) == first
    proxy = msgspec.structs.replace(EGRESS, http_proxy=Secret("http://alice:hunter2@other.example.com:3128"))
    for new in (
        build_worker(inputs(), proxy),
        build_worker(inputs(), msgspec.structs.replace(EGRESS, trust=EGRESS.trust[:1])),
        build_worker(inputs(kubernetes_version="v1.35.1"), EGRESS),
        build_worker(inputs(revision="2"), EGRESS),
    ):
        assert names(new)[0] != names(first)[0]
        deployment = of_kind(new, "Deployment")
        assert deployment["metadata"]["name"] == of_kind(first, "Deployment")["metadata"]["name"]
        spec = deployment["spec"]["template"]["spec"]
        assert (spec["bootstrap"]["configRef"]["name"], spec["infrastructureRef"]["name"]) == names(new)
    # no hash of a credential is published: another password alone needs another revision
    password = msgspec.structs.replace(EGRESS, http_proxy=Secret(URL.replace("alice", "bob")), https_proxy=Secret(URL))
    assert names(build_worker(inputs(), password)) == names(first)


def test_old_templates_are_named_until_nothing_uses_them() -> None:
    first, second = build_worker(inputs(), EGRESS), build_worker(inputs(kubernetes_version="v1.36.4"), EGRESS)
    old = [of_kind(first, kind)["metadata"]["name"] for kind in ("ConfigTemplate", "MachineTemplate")]
    held = [*first.objects, *second.objects]
    assert list(iter_obsolete_objects(second.objects, second.objects)) == []
    (config, machine, _) = iter_obsolete_objects(second.objects, held)
    assert config.endswith(f"default/{old[0]} is an old one: delete it once no MachineSet or MachinePool names it")
    using = {
        "kind": "MachineSet",
        "metadata": {"namespace": "default", "name": "prod-win-x"},
        "spec": {"template": {"spec": {"bootstrap": {"configRef": {"name": old[0]}}}}},
    }
    config, machine, *_ = iter_obsolete_objects(second.objects, [*held, using])
    assert config.endswith("MachineSet prod-win-x still uses it: keep it")
    assert machine.endswith(f"nothing uses it: kubectl delete -n default AWSMachineTemplate {old[1]}")


def test_credentials_are_in_the_secret_alone(tmp_path: Path) -> None:
    made = build_worker(inputs(), EGRESS)
    templates = json.dumps([item for item in made.objects if item["kind"] != "Secret"])
    assert PASSWORD not in templates
    assert PASSWORD not in repr(build_worker(inputs(), EGRESS).findings)
    assert made.secret == "prod-windows-proxy"

    manifests = tmp_path / "manifests.yaml"
    objects = [
        {
            "apiVersion": "transom.dev/v1alpha1",
            "kind": "EgressProxy",
            "metadata": {"name": "cluster"},
            "spec": {"httpProxy": URL, "httpsProxy": URL, "noProxy": "corp.example"},
        },
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "default"},
            "spec": {
                "clusterNetwork": {"services": {"cidrBlocks": ["10.96.0.0/12"]}},
                "controlPlaneEndpoint": {"host": "a.example", "port": 6443},
            },
        },
    ]
    manifests.write_text(yaml.safe_dump_all(objects))
    arguments = ["capi", "worker", "--cluster", "prod", "--provider", "gcp", "-f", str(manifests)]
    told = CliRunner().invoke(build_program(), arguments)
    assert (told.exit_code, "prod-windows-proxy" in told.stderr) == (0, True)
    assert "kind: Secret" not in told.stdout
    shown = CliRunner().invoke(build_program(), [*arguments, "--show-secrets"])
    secret = next(item for item in yaml.safe_load_all(shown.stdout) if item["kind"] == "Secret")
    held = gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["proxyReg"])))
    environments = [
        edit.value.to_texts() for edit in reg.parse(held) if isinstance(edit, SetValue) and edit.name == "Environment"
    ]
    assert [PASSWORD in items[0] for items in environments] == [True, True]
    assert secret["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "transom"

    written = CliRunner().invoke(build_program(), [*arguments, "--output-dir", str(tmp_path / "out")])
    assert written.exit_code == 0, written.stderr
    file = tmp_path / "out" / "default" / "secret-prod-windows-proxy.yaml"
    assert (file.stat().st_mode & 0o777, yaml.safe_load(file.read_text())["data"]) == (0o600, secret["data"])
    again = CliRunner().invoke(
        build_program(), [*arguments, "--output-dir", str(tmp_path / "out"), "--kubernetes-version", "v1.36.4"]
    )
    assert "is an old one" in again.stderr
    assert (
        CliRunner().invoke(build_program(), [*arguments[:-2], "-f", str(manifests), "--cluster-namespace", "x"]).exit_code == 2
    )


def test_settings_without_anything_change_nothing() -> None:
    assert reg.parse(windows_proxy.render_proxy_reg(Egress(), "prod")) == ()
    assert not [item for item in build_worker(inputs(), Egress()).objects if item["kind"] == "Secret"]


def test_the_schema_is_published() -> None:
    assert json.loads(SCHEMA.read_text()) == json.loads(
        CliRunner().invoke(build_program(), ["capi", "worker", "--schema"]).stdout
    )
    assert json.loads(msgspec.json.encode(build_schema())) == json.loads(SCHEMA.read_text())


def test_inputs_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "inputs.yaml"
    network = "{network: {devices: [{networkName: lab, dhcp4: true}]}}"
    file.write_text(f"cluster: prod\nprovider: vsphere\nreplicas: 3\nmachine: {network}\n")
    done = CliRunner().invoke(build_program(), ["capi", "worker", "--inputs", str(file), "--replicas", "5"])
    objects = list(yaml.safe_load_all(done.stdout))
    assert objects[2]["spec"]["replicas"] == 5
    assert objects[1]["spec"]["template"]["spec"]["network"] == {"devices": [{"networkName": "lab", "dhcp4": True}]}
    file.write_text("cluster: prod\nprovider: aws\nreplica: 3\n")
    bad = CliRunner().invoke(build_program(), ["capi", "worker", "--inputs", str(file)])
    assert (bad.exit_code, "replica" in bad.stderr, str(file) in bad.stderr) == (2, True, True)
    assert CliRunner().invoke(build_program(), ["capi", "worker", "--cluster", "prod", "--provider", "oci"]).exit_code == 2
