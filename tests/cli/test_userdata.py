"""`transom userdata` over manifests."""

from pathlib import Path

import asyncssh
import pytest
import yaml
from tests.support.command import run

KINDS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")


def secret(text: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "cloud-private-key"},
            "stringData": {"private-key.pem": text},
        }
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["openssh", "pkcs8-pem"])
def test_the_public_key_of_the_secret(kind: str, form: str, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key(kind)
    (tmp_path / "key.yaml").write_text(secret(key.export_private_key(form).decode()))
    done = run("userdata", "-f", str(tmp_path))
    assert done.code == 0, done.err
    line = " ".join(key.export_public_key().decode().split()[:2])
    assert f"'{line} transom'" in done.out
    assert "PRIVATE KEY" not in done.out
    if kind == KINDS[0]:
        assert run("userdata", "-f", str(tmp_path), "-o", "json").json == {"text": done.out, "leftOut": [], "problems": []}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n", "is damaged"),
        (
            asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_private_key("pkcs8-pem", passphrase="hunter2").decode(),
            "has a passphrase",
        ),
        (None, "no Secret transom-system/"),
    ],
)
def test_a_key_that_cannot_be_used(text: str | None, said: str, tmp_path: Path) -> None:
    (tmp_path / "key.yaml").write_text(secret(text) if text else "{apiVersion: v1, kind: Secret, metadata: {name: other}}")
    done = run("userdata", "-f", str(tmp_path))
    assert done.code == 2
    assert said in done.err
    assert "hunter2" not in done.err
    assert done.out == ""
