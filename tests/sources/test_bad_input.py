"""Bad input is refused with a clear error, within a second and 200 MB; nothing raises."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sources.bad_input import BAD, HEAD, LIMITED
from tests.support.bundles import NOW, certificate, egress_proxy, write
from tests.support.command import run

from transom.proxy import no_proxy, no_proxy_findings, proxy_url, trust
from transom.proxy.finding import Place
from transom.sources.examination import examine_objects
from transom.sources.objects import ObjectReader
from transom.sources.yaml_text import InvalidText, read_documents


@pytest.fixture
def needs_bundle() -> dict[str, Any]:
    return egress_proxy({"trustedCA": {"name": "ca"}})


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str, tmp_path: Path, needs_bundle: dict[str, Any]) -> None:
    data, says = BAD[name]
    (tmp_path / "bad.yaml").write_bytes(data)
    if "certificate" in name:
        write(tmp_path, needs_bundle)
    ran = run("validate", "-f", str(tmp_path), "-o", "json")
    assert ran.code == 2
    assert {finding["file"] for finding in ran.json if says in finding["message"]} == {str(tmp_path / "bad.yaml")}, ran.json


def test_200_megabytes_are_enough_for_each(tmp_path: Path, needs_bundle: dict[str, Any]) -> None:
    """One process reads them all; its peak only grows."""
    directories = []
    for number, (data, _) in enumerate(BAD.values()):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "bad.yaml").write_bytes(data)
        directories.append(write(directory, needs_bundle))
    result = subprocess.run([sys.executable, "-c", LIMITED, *directories], capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    for (name, (_, says)), (kilobytes, messages) in zip(BAD.items(), answers, strict=True):
        assert any(says in message for message in messages), (name, messages)
        assert kilobytes < 200 << 10, name


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    ran = run("validate", "-f", str(tmp_path / "nobody.yaml"), "-o", "json")
    assert ran.code == 2
    assert "cannot be read" in ran.json[0]["message"]


def test_an_empty_directory(tmp_path: Path) -> None:
    ran = run("validate", "-f", str(tmp_path), "-o", "json")
    assert ran.code == 2
    assert "contains no" in ran.json[0]["message"]


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root reads every directory."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_directory_below_that_cannot_be_read() -> None:
    """What is in it may be what keeps a proxy on hosts."""
    # pytest's own directories are closed to others
    with tempfile.TemporaryDirectory() as place:
        top, below = Path(place), Path(place, "settings")
        top.chmod(0o755)
        write(top, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
        below.mkdir(mode=0o700)
        write(below, egress_proxy({"httpProxy": "http://p.x:1"}))
        assert run("validate", "-f", str(top), "-o", "json").code == 0
        below.chmod(0 if os.geteuid() else 0o700)
        with as_nobody():
            ran = run("validate", "-f", str(top), "-o", "json")
        below.chmod(0o700)
    assert ran.code == 2
    assert [(item["file"], item["message"]) for item in ran.json] == [(str(below), "cannot be read: Permission denied")]


def test_documents_before_the_fault_are_read(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(HEAD + "  noProxy: '*.x'\n---\na: [\n")
    messages = [finding["message"] for finding in run("validate", "-f", str(tmp_path), "-o", "json").json]
    assert any("`*.x`" in message for message in messages)
    assert any("this is not YAML" in message for message in messages)


FIELDS = re.findall(
    r"\S+",
    "apiVersion kind metadata name namespace labels spec status data stringData items httpProxy httpsProxy noProxy trustedCA "
    "credentialsSecret networks platform windows services clusterSelector matchExpressions clusterNetwork controlPlaneEndpoint "
    "cidrBlocks ca-bundle.crt keySecret hostKey address",
)
TEXT = st.text(st.characters(), max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
KINDS = st.sampled_from(
    [
        ("transom.dev/v1alpha1", "EgressProxy"),
        ("transom.dev/v1alpha1", "WindowsInstance"),
        ("config.openshift.io/v1", "Proxy"),
        ("config.openshift.io/v1", "Network"),
        ("config.openshift.io/v1", "Infrastructure"),
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("networking.k8s.io/v1", "ServiceCIDR"),
        ("cluster.x-k8s.io/v1beta2", "Cluster"),
        ("v1", "List"),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5)), min_size=1, max_size=3))
def test_no_object_raises(drawn: list[tuple[tuple[str, str], dict[str, Any]]]) -> None:
    reader = ObjectReader()
    for (api_version, kind), body in drawn:
        value = {"metadata": {"name": "cluster"}, **body, "apiVersion": api_version, "kind": kind}
        reader.add(value, "drawn", lambda _: (1, 1))
    for finding in examine_objects(reader.build_objects(), NOW).findings:
        json.dumps([finding.severity, finding.object, finding.field, finding.message], ensure_ascii=False).encode("utf-8")


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_text_raises_but_invalid_text(data: bytes) -> None:
    try:
        for document in read_documents(data):
            document.locate(("spec", "noProxy", 3))
    except InvalidText as error:
        assert error.reason


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=80) | st.from_regex(r"https?://[^/]{0,20}@?[a-z\[\]:%0-9.]{0,20}"))
def test_no_url_raises(text: str) -> None:
    assert isinstance(proxy_url.list_url_faults(text, ("http", "https")), list)


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=80) | st.from_regex(r"([*.a-z0-9/:\[\]-]{0,12},?){0,8}", fullmatch=True))
def test_no_list_raises_and_suggestions_are_valid(text: str) -> None:
    for finding in no_proxy_findings.examine_no_proxy(text, Place("f", "o"), ("spec", "noProxy")):
        assert finding.message
    for item in no_proxy.split(text):
        instead = no_proxy.suggest_item(item)
        if instead is not None:
            assert not list(no_proxy_findings.examine_no_proxy(instead, Place("f", "o"), ("spec", "noProxy")))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_bundle_raises(data: st.DataObject) -> None:
    text = certificate("Root") + "# comment\n" + certificate("Root 2")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + data.draw(st.sampled_from(["", "\n", "-", "-----END CERTIFICATE-----\n", "A", "é", "\0"]))
            + text[at + data.draw(st.integers(0, 9)) :]
        )
    bundle = trust.parse_bundle(text)
    for held in bundle.certificates:
        assert held.sha256
        assert repr(held)
    list(trust.iter_certificate_warnings(bundle.certificates, NOW))
