"""Values that another tool should have replaced: told from passwords, and named with what to do."""

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.bundles import certificate, config_map, egress_proxy, private_key, secret, write
from tests.support.command import run

from transom.proxy.placeholders import find_placeholder

PLACEHOLDERS = {
    "SOPS": "ENC[AES256_GCM,data:p673w==,iv:YY=,tag:UQ==,type:str]",
    "Flux": "${PROXY_PASSWORD}",
    "Flux, with a default": "${proxy_password:=hunter2}",
    "envsubst": "$PROXY_PASSWORD",
    "one word": "$PASSWORD",
    "Terraform": "${var.proxy_password}",
    "GitHub Actions": "${{ secrets.PROXY_PASSWORD }}",
    "Azure Pipelines": "$(PROXY_PASSWORD)",
    "tokens": "#{PROXY_PASSWORD}#",
    "Helm": "{{ .Values.proxy.password }}",
    "Helm, trimmed": "{{- .Values.proxy.password | quote -}}",
    "Jinja": "{{ proxy_password }}",
    "Argo CD Vault Plugin": "<path:secret/data/proxy#password>",
    "its version": "<path:secret/data/proxy#password#3 | base64encode>",
    "its short form": "<proxy-password>",
    "another plugin": "<secret:/store/data/path~key>",
    "a blank to fill in": "<your password>",
    "1Password": "op://infra/egress proxy/password",
    "vals": "ref+vault://secret/proxy#/password",
    "vals, secret": "secretref+awsssm://proxy/password",
    "Bank-Vaults": "vault:secret/data/proxy#password",
}
PASSWORDS = (
    *(
        "pa$$word",
        "a${b}c",
        "$ecret1!",
        "${",
        "}$",
        "$",
        "$$",
        "$1",
        "$UMMER2024",
        "$ummer",
        "$a_b",
        "US$100",
        "x$PASSWORD",
        "${}",
    ),
    *("<3hunter", "a<b>c", "<>", "<b", "b>", "<a<b>>", "{{", "}}", "{{x", "x}}", "p{{x}}q", "{x}", "{{}", "%{x}", "%PASSWORD%"),
    *(
        "ENC[",
        "ENC[AES256]",
        "enc[AES256_GCM,x]",
        "ref+",
        "ref+x",
        "op:/x",
        "op://",
        "https://x/y",
        "vault:",
        "vault:x",
        "#{x}",
        "#x#",
    ),
    *(
        "sha256:abc#1",
        "!@#$%^&*()",
        "correct horse battery staple",
        "päss",
        "",
        " ",
        "\n",
        "-----BEGIN",
        "$2a$12$6twAYNqxU3Pz3Pq",
    ),
)


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_a_placeholder_is_one_in_a_secret_and_elsewhere(name: str) -> None:
    text = PLACEHOLDERS[name]
    for value in (text, f" {text}\n"):
        message = find_placeholder(value, secret=True)
        assert message
        assert "hunter2" not in message
        assert find_placeholder(value, secret=False)


@pytest.mark.parametrize("text", PASSWORDS)
def test_a_password_is_none(text: str) -> None:
    assert find_placeholder(text, secret=True) is None


@given(st.sampled_from(sorted(PLACEHOLDERS.values())), st.text("abcXYZ019", max_size=3), st.text("abcXYZ019", max_size=3))
def test_a_password_with_a_placeholder_in_it_is_none(text: str, before: str, after: str) -> None:
    """What begins like SOPS or a reference is one to its end: there only letters before it make it another thing."""
    open_ended = text.startswith(("ENC[", "op://", "ref+", "secretref+", "vault:", "$P"))
    if before or (after and not open_ended):
        assert find_placeholder(f"{before}{text}{after}", secret=True) is None


@given(st.text("abcdefXYZ0123456789!$%&*_-.,;:?+=~^ ", min_size=1))
def test_passwords_of_letters_and_signs_are_none(text: str) -> None:
    alone = text.strip().lstrip("$").replace("_", "")
    if not (text.strip().startswith("$") and alone.isupper()) and not text.strip().startswith(("ref+", "vault:")):
        assert find_placeholder(text, secret=True) is None


VALID = (
    *("http://proxy.corp.example:3128", "http://bob:pa$$w0rd@p.x:1", "http://b$o:p$PASSWORD@p.x:1", "http://[fd00::1]:3128"),
    *(
        ".corp.example,10.0.0.0/8,fd00::/8",
        "*",
        "Administrator",
        r"CORP\Administrator",
        "bob@corp.example",
        "win-1",
        "SHA256:x",
    ),
    *("https://registry.example/v2/#fragment", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me@here", "svc$"),
)


@pytest.mark.parametrize("text", VALID)
def test_values_of_settings_are_none(text: str) -> None:
    assert find_placeholder(text, secret=False) is None


WITHIN = (
    *("http://${PROXY_HOST}:3128", "http://$PROXY_HOST:3128", "http://{{ .Values.host }}:3128", "http://<proxy-host>:3128"),
    *(".corp.example,${NO_PROXY}", "http://bob:ENC[AES256_GCM,data:x]@p.x:1", "http://bob:<path:secret/data/p#x>@p.x:1"),
)


@pytest.mark.parametrize("text", WITHIN)
def test_a_placeholder_within_a_setting_is_one(text: str) -> None:
    assert find_placeholder(text, secret=False)


PROXY = {"httpProxy": "http://p.x:1", "httpsProxy": "http://p.x:1"}
NAMED = egress_proxy({**PROXY, "credentialsSecret": {"name": "c"}})
HOST = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "WindowsInstance",
    "metadata": {"name": "win-1", "namespace": "transom-system"},
    "spec": {"address": "10.0.0.7", "username": "Administrator"},
}


def errors(tmp_path: Path, *objects: dict[str, Any]) -> list[tuple[str, str]]:
    """The errors as object and field; `diff` refuses the same files, and nothing of a value is in what either says."""
    file = write(tmp_path, *objects)
    ran = run("validate", "-f", file, "-o", "json")
    refused = run("diff", "-f", file)
    assert refused.code == (2 if ran.code else refused.code)
    assert "hunter2" not in ran.out + refused.err
    assert {item["file"] for item in ran.json} <= {f"{file}/manifests.yaml"}
    assert all(item["line"] for item in ran.json)
    return [(item["object"], item["field"]) for item in ran.json if item["severity"] == "error"]


@pytest.mark.parametrize("field", ["data", "stringData", "data, encoded"])
@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_the_value_of_a_secret(name: str, field: str, tmp_path: Path) -> None:
    text = PLACEHOLDERS[name]
    value = base64.b64encode(text.encode()).decode() if field == "data, encoded" else text
    kind, encoded = field.partition(",")[0], base64.b64encode(b"bob").decode()
    credentials = secret("c", **{kind: {"username": encoded if kind == "data" else "bob", "password": value}})
    assert errors(tmp_path, NAMED, credentials) == [("Secret/transom-system/c", "data.password")]


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_the_fields_of_settings_and_hosts(name: str, tmp_path: Path) -> None:
    """One error for each field: what else its placeholder breaks is not said."""
    text = PLACEHOLDERS[name]
    key = secret("cloud-private-key", stringData={"private-key.pem": private_key()})
    settings = egress_proxy({"httpProxy": text, "httpsProxy": "http://p.x:1", "noProxy": text})
    host = {**HOST, "spec": {"address": text, "username": "Administrator"}}
    assert errors(tmp_path, settings, host, key) == [
        ("EgressProxy/cluster", "spec.httpProxy"),
        ("EgressProxy/cluster", "spec.noProxy"),
        ("WindowsInstance/transom-system/win-1", "spec.address"),
    ]


def test_keys_and_cas(tmp_path: Path) -> None:
    key = secret("cloud-private-key", stringData={"private-key.pem": "{{ .Values.key }}"})
    bundle = config_map("ca", {"ca-bundle.crt": "${CA_BUNDLE}"})
    settings = egress_proxy({**PROXY, "trustedCA": {"name": "ca"}})
    assert errors(tmp_path, settings, HOST, key, bundle) == [
        ("Secret/transom-system/cloud-private-key", "data[private-key.pem]"),
        ("ConfigMap/transom-system/ca", "data[ca-bundle.crt]"),
    ]


META = {"sops": {"mac": "ENC[AES256_GCM,data:x]", "version": "3.9.0", "age": []}}
CIPHER = PLACEHOLDERS["SOPS"]


def test_objects_that_sops_encrypted(tmp_path: Path) -> None:
    """Its own data is enough, whatever of the object is encrypted: each such object is named once."""
    credentials = secret("c", stringData={"username": CIPHER, "password": CIPHER}) | META
    assert errors(tmp_path, NAMED, credentials) == [("Secret/transom-system/c", "sops")]
    settings = egress_proxy({"httpProxy": CIPHER, "noProxy": CIPHER}) | META
    assert errors(tmp_path, settings) == [("EgressProxy/cluster", "sops")]
    bundle = config_map("ca", {"ca-bundle.crt": CIPHER}) | META
    assert errors(tmp_path, egress_proxy({**PROXY, "trustedCA": {"name": "ca"}}), bundle) == [
        ("ConfigMap/transom-system/ca", "sops")
    ]
    # nothing was left plain, not even the kind
    whole = {"apiVersion": CIPHER, "kind": CIPHER, "metadata": {"name": CIPHER}, "stringData": {"password": CIPHER}} | META
    assert errors(tmp_path, egress_proxy(PROXY), whole) == [("", "sops")]
    assert errors(tmp_path, egress_proxy(PROXY), {"data": CIPHER} | META) == [("", "sops")]


def test_what_others_encrypted_is_no_fault_of_the_settings(tmp_path: Path) -> None:
    theirs = {**secret("db", stringData={"password": CIPHER}), "metadata": {"name": "db", "namespace": "shop"}} | META
    template = {**secret("db2", stringData={"password": "${DB}"}), "metadata": {"name": "db2", "namespace": "shop"}}
    assert errors(tmp_path, egress_proxy(PROXY), theirs, template) == []


MAKERS = {
    "SealedSecret": ("bitnami.com/v1alpha1", {"encryptedData": {"password": "AgBy"}, "template": {"metadata": {"name": "c"}}}),
    "ExternalSecret": ("external-secrets.io/v1", {"target": {"name": "c"}}),
    "VaultStaticSecret": ("secrets.hashicorp.com/v1beta1", {"destination": {"name": "c", "create": True}}),
    "OnePasswordItem": ("onepassword.com/v1", {"itemPath": "vaults/a/items/b"}),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_what_makes_a_secret_in_a_cluster_is_named(kind: str, tmp_path: Path) -> None:
    version, spec = MAKERS[kind]
    name = "c" if kind == "OnePasswordItem" else "maker"
    maker = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "transom-system"}, "spec": spec}
    assert errors(tmp_path, NAMED, maker) == [("EgressProxy/cluster", "spec.credentialsSecret.name")]
    told = run("validate", "-f", write(tmp_path, NAMED, maker)).out
    assert f"{kind}/transom-system/{name} makes it" in told


def test_trust_manager_makes_a_config_map(tmp_path: Path) -> None:
    maker = {"apiVersion": "trust.cert-manager.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "ca"}, "spec": {}}
    settings = egress_proxy({**PROXY, "trustedCA": {"name": "ca"}})
    assert errors(tmp_path, settings, maker) == [("EgressProxy/cluster", "spec.trustedCA.name")]
    assert "Bundle/ca makes it" in run("validate", "-f", write(tmp_path, settings, maker)).out


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: transom.dev/v1alpha1\nkind: EgressProxy\nmetadata: {name: a}\nspec:\n  httpProxy: {{ .Values.proxy }}\n",
        "{{- if .Values.proxy }}\napiVersion: v1\n{{- end }}\n",
        "apiVersion: v1\nkind: Secret\n{% if x %}\nmetadata: {name: a}\n{% endif %}\n",
    ],
)
def test_a_chart_is_not_yaml(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    ran = run("validate", "-f", str(tmp_path))
    assert ran.code == 2
    assert "helm template" in ran.out


def test_a_bundle_that_is_valid_stays_so(tmp_path: Path) -> None:
    bundle = config_map("ca", {"ca-bundle.crt": f"# {{{{ made by ansible }}}} $CA <corp>\n{certificate('Root')}"})
    assert errors(tmp_path, egress_proxy({**PROXY, "trustedCA": {"name": "ca"}}), bundle) == []
