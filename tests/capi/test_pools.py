"""MachinePools: what is made for those of AWS and Azure, what is refused, and what `transom capi check` finds in others."""

import base64
import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
import yaml
from tests.capi.settings import EGRESS
from typer.testing import CliRunner

from transom.capi.check import upstream_pools as upstream
from transom.capi.check.template_check import SourceObject, check_templates
from transom.capi.check.worker_inputs import InputFile, ProviderName, WorkerInputs
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker.worker_objects import WorkerTemplate, build_worker, iter_obsolete_objects
from transom.cli.program import build_program
from transom.proxy.secret import Secret

PROXY_CMD = "C:/k/proxy.cmd"


def pool(provider: ProviderName = "aws", **fields: Any) -> WorkerTemplate:
    egress = fields.pop("egress", None)
    region = {"location": "westeurope"} if provider == "azure" else {}
    return build_worker(
        WorkerInputs(**{"cluster": "prod", "provider": provider, "machine_pool": True, **region, **fields}), egress
    )


def of_kind(worker: WorkerTemplate, kind: str) -> dict[str, Any]:
    (found,) = [item for item in worker.objects if item["kind"] == kind]
    return found


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_the_command_makes_a_pool(provider: ProviderName) -> None:
    flags = ["--machine-pool", "--replicas", "12", *(("--location", "westeurope") if provider == "azure" else ())]
    done = CliRunner().invoke(build_program(), ["capi", "worker", "--cluster", "prod", "--provider", provider, *flags])
    assert done.exit_code == 0, done.stderr
    configuration, machines, owner, *_ = yaml.safe_load_all(done.stdout)
    assert [configuration["kind"], owner["kind"], owner["spec"]["replicas"]] == ["KubeadmConfig", "MachinePool", 12]
    named = owner["spec"]["template"]["spec"]
    assert named["bootstrap"]["configRef"]["name"] == configuration["metadata"]["name"]
    assert (named["infrastructureRef"]["kind"], named["infrastructureRef"]["name"]) == (machines["kind"], "prod-win")
    if provider == "aws":
        assert (machines["spec"]["minSize"], machines["spec"]["maxSize"]) == (1, 12)
        assert machines["spec"]["awsLaunchTemplate"]["sshKeyName"] == ""
    else:
        assert (machines["spec"]["location"], machines["spec"]["template"]["osDisk"]["osType"]) == ("westeurope", "Windows")


REFUSED: list[tuple[ProviderName, dict[str, Any], str, str]] = [
    ("vsphere", {}, "machinePool", "vsphere makes no MachinePool here"),
    ("aws", {"secret_store": "secrets-manager"}, "secretStore", "has no store"),
    ("aws", {"machine_name_prefix": "win"}, "machineNamePrefix", "after their addresses"),
    ("aws", {"replicas": 3, "machine": {"maxSize": 2}}, "replicas", "minSize is 1 and maxSize 2"),
    ("azure", {"location": ""}, "location", "names its region"),
    ("azure", {"machine_name_prefix": "ten-letter"}, "machineNamePrefix", "called ten-letterxxxxxx, 16 characters"),
]


@pytest.mark.parametrize(("provider", "fields", "field", "said"), REFUSED, ids=[case[3] for case in REFUSED])
def test_refused(provider: ProviderName, fields: dict[str, Any], field: str, said: str) -> None:
    made = pool(provider, **fields)
    assert made.objects == ()
    found = [finding for finding in made.findings if finding.severity == "error"]
    assert [(item.field, said in item.message, item.object.partition("/")[0]) for item in found] == [
        (field, True, "MachinePool")
    ]


def test_a_name_that_capz_would_change_is_none() -> None:
    """A Node, a computer and a scale set that two pools of a cluster could share the name of, are never made."""
    names = [
        of_kind(pool("azure", name=name), "AzureMachinePool")["metadata"]["name"]
        for name in ("a-windows", "b-windows2", "c-windows2")
    ]
    assert names[0] == "a-windows"
    assert len(set(names)) == 3
    assert max(map(len, names)) <= int(upstream.AZURE_POOL_NAME.value)


def test_the_cloud_providers_file_is_the_pools() -> None:
    worker = pool("azure", name="a-long-name")
    (secret,) = [
        file["contentFrom"]["secret"]
        for file in of_kind(worker, "KubeadmConfig")["spec"]["files"]
        if file["path"] == "C:/k/azure.json"
    ]
    name = of_kind(worker, "AzureMachinePool")["metadata"]["name"]
    assert secret == {"name": f"{name}{upstream.AZURE_POOL_JSON.value}", "key": "worker-node-azure.json"}


def test_what_is_not_gzipped_as_a_whole_is_gzipped_by_file() -> None:
    """CAPA's launch template takes the bootstrap data raw: with a proxy and three CAs it would be too long for EC2."""
    files = of_kind(pool(egress=EGRESS), "KubeadmConfig")["spec"]["files"]
    (script,) = [file for file in files if file["path"] == PROXY_CMD]
    worker = build_worker(WorkerInputs(cluster="prod", provider="aws"), EGRESS)
    (plain,) = [
        file
        for file in of_kind(worker, "KubeadmConfigTemplate")["spec"]["template"]["spec"]["files"]
        if file["path"] == PROXY_CMD
    ]
    assert script["encoding"] == "gzip+base64"
    assert gzip.decompress(base64.b64decode(script["content"])) == base64.b64decode(plain["content"])
    assert len(script["content"]) * 2 < len(plain["content"])


def test_too_much_for_a_launch_template_is_refused() -> None:
    even, noise = (
        InputFile(f"C:/k/{name}", content_base64=base64.b64encode(content).decode())
        for name, content in (("even", bytes(12_000)), ("noise", Random(1).randbytes(12_000)))
    )
    assert of_kind(pool(files=(even,)), "KubeadmConfig")
    (finding,) = [finding for finding in pool(files=(noise,)).findings if finding.severity == "error"]
    assert "CAPA gzips nothing of a pool (16,384). The largest file is C:/k/noise" in finding.message
    assert finding.message.endswith("or take a MachineDeployment, whose user data CAPA gzips")


def test_something_new_is_a_configuration_of_another_name_and_the_pool_stays() -> None:
    """CAPA replaces the machines then; an old configuration is named once the MachinePool does not use it."""
    proxy = msgspec.structs.replace(EGRESS, http_proxy=Secret("http://alice:hunter2@other.example.com:3128"))
    first, second = pool(egress=EGRESS), pool(egress=proxy)
    old, new = (of_kind(worker, "KubeadmConfig")["metadata"]["name"] for worker in (first, second))
    assert old != new
    assert of_kind(first, "AWSMachinePool") == of_kind(second, "AWSMachinePool")
    old_configuration = of_kind(first, "KubeadmConfig")
    (line,) = iter_obsolete_objects(second.objects, [old_configuration, *second.objects])
    assert line.startswith(f"KubeadmConfig default/{old} is an old one, and nothing uses it")
    (line,) = iter_obsolete_objects(second.objects, [old_configuration, of_kind(first, "MachinePool")])
    assert line.endswith("MachinePool prod-win still uses it: keep it")
    machines_own = {**of_kind(first, "KubeadmConfig")}
    machines_own["metadata"] = {**machines_own["metadata"], "ownerReferences": [{"kind": "Machine", "name": "m"}]}
    assert list(iter_obsolete_objects(second.objects, [machines_own])) == []


def test_key_pairs_of_pools() -> None:
    """Without a name there is none, and EC2Service of cloudbase-init reads no user data; Transom's own class does."""
    assert of_kind(pool(key_pair="ops"), "AWSMachinePool")["spec"]["awsLaunchTemplate"]["sshKeyName"] == "ops"
    assert [note for note in pool(image="ami-1").notes if "no keyPair is given" in note]
    assert [
        note for worker in (pool(), pool(image="ami-1", key_pair="ops")) for note in worker.notes if "keyPair" in note
    ] == []


def objects(provider: ProviderName, **fields: Any) -> list[dict[str, Any]]:
    made = pool(provider, egress=EGRESS, **fields).objects
    return [json.loads(json.dumps(item)) for item in made if item["kind"] in ("KubeadmConfig", "MachinePool", kind(provider))]


def kind(provider: ProviderName) -> str:
    made = PROVIDERS[provider].pool
    assert made is not None
    return made.kind


def found(given: list[dict[str, Any]]) -> list[str]:
    return [
        f"{entry.severity} {entry.object} {entry.field} {entry.message}"
        for entry in check_templates([SourceObject("a.yaml", item) for item in given], {})
    ]


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_in_what_transom_makes_no_fault_is_found(provider: ProviderName) -> None:
    assert found(objects(provider)) == []


def renamed(name: str) -> Callable[[list[dict[str, Any]]], object]:
    def change(given: list[dict[str, Any]]) -> None:
        given[1]["metadata"]["name"] = given[2]["spec"]["template"]["spec"]["infrastructureRef"]["name"] = name

    return change


def template(**fields: Any) -> Callable[[list[dict[str, Any]]], object]:
    return lambda item: item[1]["spec"]["awsLaunchTemplate"].update(fields)


def many_files(given: list[dict[str, Any]]) -> None:
    given[0]["spec"]["files"] += [{"path": f"C:/k/{number}", "content": "x" * 9_000} for number in range(2)]


FAULTS: list[tuple[ProviderName, Callable[[list[dict[str, Any]]], object], str]] = [
    ("aws", many_files, "error AWSMachinePool/prod-win spec.awsLaunchTemplate"),
    ("aws", template(imageLookupFormat="mine-*"), "error AWSMachinePool/prod-win spec.awsLaunchTemplate.sshKeyName"),
    ("aws", template(ami={"id": "ami-1"}, imageLookupFormat=""), "warning AWSMachinePool/prod-win spec.awsLaunchTemplate.ssh"),
    ("aws", template(instanceMetadataOptions={"httpTokens": "required"}), "without a session token"),
    (
        "aws",
        lambda item: item[2]["spec"].update(replicas=11),
        "error MachinePool/prod-win spec.replicas 11: CAPA makes no pool",
    ),
    ("azure", lambda item: item[1]["spec"]["template"]["osDisk"].update(osType="Linux"), "treats the pool as Linux"),
    (
        "azure",
        renamed("prod-mp-win"),
        "warning AzureMachinePool/prod-mp-win metadata.name CAPZ calls its scale set and computers win-p-win",
    ),
]


@pytest.mark.parametrize(("provider", "change", "said"), FAULTS, ids=[case[2] for case in FAULTS])
def test_a_fault_of_a_pool_is_found(provider: ProviderName, change: Callable[[Any], object], said: str) -> None:
    given = objects(provider)
    change(given)
    assert [message for message in found(given) if said in message], found(given)


def test_two_pools_with_one_name_at_azure_are_found() -> None:
    given = [*objects("azure", name="one"), *objects("azure", name="two")]
    renamed("first-windows")(given[:3])
    renamed("other-windows")(given[3:])
    assert (
        "error AzureMachinePool/other-windows metadata.name CAPZ calls its scale set win-ndows, and that of first-windows, too"
        in found(given)
    )
