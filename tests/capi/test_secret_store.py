"""The join token kept out of AWS user data: the provider's own multi-part document, read by cloudbase-init with our plugin."""

import base64
import gzip
import importlib.resources
import json
import sys
import threading
import uuid
from collections.abc import Iterator
from email.mime.multipart import MIMEMultipart
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import requests

from lab import cloudbase, golang, infrastructure
from transom.capi.check.worker_inputs import SecretStore

FILES = Path(str(importlib.resources.files("transom.capi") / "image" / "files"))
MODULE = "transom_boothook"
PLUGIN = {
    "cloudbaseinit.plugins.common.userdataplugins.cloudboothook.CloudBootHookPlugin": f"{MODULE}.BoothookPlugin",
}
TOKEN = "abcdef.hunter2hunter2xx"
DATA = f"""## template: jinja
#cloud-config

write_files:
-   path: /run/kubeadm/kubeadm-join-config.yaml
    permissions: '0640'
    content: |
      token: {TOKEN}
      name: '{{{{ v1.local_hostname }}}}'
      padding: {"".join(uuid.uuid4().hex for _ in range(400))}
runcmd:
  - "kubeadm join"
""".encode()
CREDENTIALS = {"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "hunter2", "Token": "hunter2-token"}


class Amazon(BaseHTTPRequestHandler):
    """Instance metadata, Secrets Manager and the parameter store, as far as the plugin asks them."""

    held: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[str]] = []
    refusals: ClassVar[int] = 0

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        self._answer("session")

    def do_GET(self) -> None:
        assert self.headers["X-aws-ec2-metadata-token"] == "session"
        self._answer("worker" if self.path.endswith("/") else json.dumps(CREDENTIALS))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        target = self.headers["X-Amz-Target"]
        assert self.headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
        assert self.headers["X-Amz-Security-Token"] == "hunter2-token"
        name = body.get("SecretId") or body["Name"]
        Amazon.asked.append(f"{target} {name}")
        if Amazon.refusals:
            Amazon.refusals -= 1
            self._answer("{}", 400)
        elif "Delete" in target:
            del Amazon.held[name]
            self._answer("{}")
        elif target == "secretsmanager.GetSecretValue":
            self._answer(json.dumps({"SecretBinary": base64.b64encode(Amazon.held[name]).decode()}))
        else:
            self._answer(json.dumps({"Parameter": {"Value": Amazon.held[name].decode()}}))

    def _answer(self, text: str, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def amazon() -> Iterator[str]:
    Amazon.held, Amazon.asked, Amazon.refusals = {}, [], 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Amazon) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def plugin(amazon: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FILES))
    module = __import__(MODULE)
    monkeypatch.setattr(module, "METADATA", amazon)
    monkeypatch.setattr(module, "PAUSE", 0)
    monkeypatch.setattr(module, "_read_endpoint", lambda _: amazon)
    monkeypatch.setattr(module.factory, "get_metadata_service", lambda: cloudbase.create_service(b"", cloudbase.HOST))
    yield module
    sys.modules.pop(MODULE)


def document(store: SecretStore, prefix: str, chunks: int) -> bytes:
    """What the provider makes (pkg/internal/mime of its module), of its own script."""
    directory = "secretsmanager" if store == "secrets-manager" else "ssm"
    source = (
        golang.fetch_module_source(Path(__file__).parent, infrastructure.MODULES["aws"][0])
        / "pkg"
        / "cloud"
        / "services"
        / directory
    )
    script = (source / "secret_fetch_script.go").read_text().partition("= `")[2].rpartition("`")[0]
    for name, value in (("Region", "eu-central-1"), ("SecretPrefix", prefix), ("Chunks", str(chunks)), ("Endpoint", "")):
        script = script.replace("{{." + name + "}}", value)
    assert "{{" not in script
    boundary = uuid.uuid4().hex
    parts = [("text/cloud-boothook", script), ("text/x-include-url", "file:///etc/secret-userdata.txt\n")]
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n\n\n'
    body = "".join(f"--{boundary}\r\nContent-Type: {kind}\r\n\r\n{text}\r\n" for kind, text in parts)
    return f"{head}{body}--{boundary}--\r\n".encode()


def keep(store: SecretStore, prefix: str) -> int:
    """The data in the store, cut as the provider cuts it."""
    data, size, between = gzip.compress(DATA), 7_000, "-"
    if store == "ssm-parameter-store":
        data, size, between = base64.b64encode(data), 4_000, "/"
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    assert len(parts) > 1
    Amazon.held.update({f"{prefix}{between}{number}": part for number, part in enumerate(parts)})
    return len(parts)


@pytest.mark.lab
@pytest.mark.parametrize("store", ["secrets-manager", "ssm-parameter-store"])
def test_what_is_in_the_store_is_what_boots(store: SecretStore, plugin: ModuleType) -> None:
    prefix = "aws.cluster.x-k8s.io/0f5c"
    user_data = document(store, prefix, keep(store, prefix))
    assert TOKEN.encode() not in user_data
    Amazon.refusals = 2

    found = cloudbase.read(user_data, plugins=PLUGIN)
    assert found.events == cloudbase.read(DATA).events
    assert (found.complaints, Amazon.held) == ([], {})
    (join,) = found.files
    assert f"token: {TOKEN}\nname: 'win-1'" in join.content.decode()


@pytest.mark.lab
def test_the_store_is_reached_through_the_proxy(plugin: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own proxy is in what is fetched: the image has one for the store, and metadata are asked directly."""
    settings, asked = tmp_path / "transom_boothook.json", []
    settings.write_text(json.dumps({"proxy": "http://proxy.example.com:3128", "ca": "-----BEGIN CERTIFICATE-----\n"}))
    monkeypatch.setattr(plugin, "SETTINGS", settings)
    ask = requests.Session.request

    def request(session: requests.Session, method: str, url: str, **given: Any) -> requests.Response:
        asked.append((method.upper(), (given.get("proxies") or {}).get("https")))
        bundle = given.pop("verify", None)
        assert (method.upper() == "POST") == (bundle is not None)
        assert bundle is None or Path(bundle).read_text().endswith("-----BEGIN CERTIFICATE-----\n")
        return ask(session, method, url, **given | {"proxies": None})

    monkeypatch.setattr(requests.Session, "request", request)
    prefix = "aws.cluster.x-k8s.io/0f5c"
    found = cloudbase.read(document("secrets-manager", prefix, keep("secrets-manager", prefix)), plugins=PLUGIN)
    assert found.files != []
    assert set(asked) == {("POST", "http://proxy.example.com:3128"), ("PUT", None), ("GET", None)}


@pytest.mark.lab
def test_without_the_plugin_nothing_boots(amazon: str) -> None:
    """Why the image must have it: cloudbase-init ignores the part."""
    assert cloudbase.read(document("secrets-manager", "aws.cluster.x-k8s.io/0f5c", 1)).events == []


@pytest.mark.lab
def test_a_store_that_does_not_answer_is_said_without_a_secret(plugin: ModuleType) -> None:
    prefix = "aws.cluster.x-k8s.io/0f5c"
    user_data = document("secrets-manager", prefix, keep("secrets-manager", prefix))
    Amazon.refusals = 1_000
    found = cloudbase.read(user_data, plugins=PLUGIN)
    assert found.events == []
    assert any("could not be fetched" in text or "Exception during multipart" in text for text in found.complaints)
    assert len(Amazon.held) > 1
    assert not any("hunter2" in text for text in found.complaints)


def test_requests_are_signed_as_amazon_documents_it(plugin: ModuleType) -> None:
    """The published vector `get-vanilla` of the Signature Version 4 test suite."""
    headers = {"Host": "example.amazonaws.com", "X-Amz-Date": "20150830T123600Z"}
    credentials = {"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
    made = plugin.build_authorization("GET", "/", headers, b"", "us-east-1", "service", credentials)
    assert made.endswith("Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")


def test_another_boothook_is_refused(plugin: ModuleType) -> None:
    made = MIMEMultipart()
    made.attach(_part("text/cloud-boothook", "#!/bin/sh\necho hello\n"))
    found = cloudbase.read(made.as_bytes(), plugins=PLUGIN)
    assert found.events == []
    assert found.complaints != []


def _part(kind: str, text: str) -> Any:
    from email.message import Message

    part = Message()
    part["Content-Type"] = kind
    part.set_payload(text)
    return part
