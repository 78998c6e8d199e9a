"""What a rendered MachineConfig says of credential providers, and what of it a Windows kubelet can start with."""

import base64
import gc
import gzip
import json
import weakref
from typing import Any, cast
from urllib.parse import quote

import pytest

from transom.controllers.join.credential_providers import CredentialProviders, build_configuration, list_provider_files
from transom.kube.client import Client
from transom.windows.payload.payload import CREDENTIAL_PROVIDERS, Payload, PayloadFile
from transom.windows.payload.worker import Facts

PAYLOAD = Payload(files=(PayloadFile(r"C:\k\ecr-credential-provider.exe"), PayloadFile(r"C:\k\Quay-Provider.exe")))
TEXT = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"


def contents(text: str) -> dict[str, str]:
    return {"source": f"data:,{quote(text)}"}


def packed(text: str) -> dict[str, str]:
    return {"source": f"data:;base64,{base64.b64encode(gzip.compress(text.encode())).decode()}", "compression": "gzip"}


def machine_config(*files: dict[str, Any], path: str = "/etc/kubernetes/credential-providers/x.yaml") -> dict[str, Any]:
    listed = [{"path": path, "contents": file} for file in files]
    return {"spec": {"config": {"storage": {"files": listed}}}}


@pytest.mark.parametrize("write", [contents, packed])
@pytest.mark.parametrize(
    ("providers", "names"),
    [
        ("- name: ecr-credential-provider\n- name: crio-credential-provider\n", ["ecr-credential-provider.exe"]),
        ("- name: quay-provider\n", ["quay-provider.exe"]),
        ("- name: ecr-credential-provider.exe\n", ["ecr-credential-provider.exe"]),
    ],
)
def test_providers_whose_program_is_there(write: Any, providers: str, names: list[str]) -> None:
    text = build_configuration(list_provider_files(machine_config(write(TEXT + providers))), PAYLOAD)
    assert text is not None
    read = json.loads(text)
    assert [provider["name"] for provider in read["providers"]] == names
    assert (read["kind"], read["apiVersion"]) == ("CredentialProviderConfig", "kubelet.config.k8s.io/v1")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"spec": {"config": {"storage": {"files": [None, 3, {"path": 3}]}}}},
        machine_config(contents(TEXT + "- name: gcr-credential-provider\n")),
        machine_config(contents(TEXT + "- name: ecr-credential-provider\n"), path="/etc/other.yaml"),
        machine_config(contents("a: [")),
        machine_config(contents("providers: 3")),
        machine_config({"source": "data:;base64,?"}, {"source": "data:;base64,AAAA", "compression": "gzip"}, {}),
        machine_config({"source": "https://elsewhere.example/x"}),
    ],
)
def test_what_is_none_leaves_the_payloads_own(config: dict[str, Any]) -> None:
    assert build_configuration(list_provider_files(config), PAYLOAD) is None


class Rendered(dict[str, Any]):
    """A MachineConfig, which a weak reference may be had of."""


class Workers:
    """An API server that knows one pool, and what was last rendered for it."""

    def __init__(self) -> None:
        self.asked: list[weakref.ref[Rendered]] = []

    async def get_json(self, path: str) -> Any:
        if path.endswith("/machineconfigpools/worker"):
            return {"spec": {"configuration": {"name": "rendered-worker-1"}}}
        assert path.endswith("/machineconfigs/rendered-worker-1")
        found = Rendered(machine_config(contents(TEXT + "- name: ecr-credential-provider\n")))
        self.asked.append(weakref.ref(found))
        return found


async def test_of_a_machine_config_the_files_of_providers_are_kept() -> None:
    providers, workers = CredentialProviders(), Workers()
    payload = Payload(files=(*PAYLOAD.files, PayloadFile(r"C:\k\providers.yaml", provided=CREDENTIAL_PROVIDERS)))
    for _ in range(2):
        facts = await providers.add_configuration(Facts(), payload, cast(Client, workers))
        text = facts.provided[CREDENTIAL_PROVIDERS]
        assert text is not None
        assert "ecr-credential-provider.exe" in text.reveal()
    (asked,) = workers.asked
    gc.collect()
    assert asked() is None
