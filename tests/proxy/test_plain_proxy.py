"""Proxies that a new machine, or WinHTTP, cannot use: `validate` warns about them where they matter."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.bundles import NOW, egress_proxy, openshift_proxy, write

from transom.proxy.finding import Finding
from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects

PLAIN, SECRET, TLS = "http://proxy.example:3128", "http://u:hunter2@proxy.example:3128", "https://proxy.example:3129"


def infrastructure(platform: str) -> dict[str, Any]:
    status = {
        "platform": platform,
        "platformStatus": {"type": platform},
        "apiServerInternalURI": "https://api-int.c.example:6443",
    }
    return {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "status": status}


def given(**fields: str) -> dict[str, Any]:
    return {name: text for name, text in fields.items() if text}


def warnings(directory: Path, *objects: dict[str, Any]) -> list[Finding]:
    found = examine_objects(load_objects([write(directory, *objects)]), NOW)
    assert "hunter2" not in repr(found.findings)
    return [finding for finding in found.findings if "OpenSSH" in finding.message or "WinHTTP" in finding.message]


@pytest.mark.parametrize(
    ("platform", "http_proxy", "https_proxy", "no_proxy", "field"),
    [
        ("VSphere", SECRET, SECRET, "", "spec.httpsProxy"),
        ("VSphere", "", TLS, "", "spec.httpsProxy"),
        ("AWS", PLAIN, PLAIN, "", ""),
        ("AWS", PLAIN, TLS, "", ""),
        ("AWS", SECRET, TLS, "github.com", ""),
        ("None", SECRET, SECRET, "", ""),
    ],
)
def test_the_first_boot_of_machines(
    tmp_path: Path, platform: str, http_proxy: str, https_proxy: str, no_proxy: str, field: str
) -> None:
    proxy = openshift_proxy(given(httpProxy=http_proxy, httpsProxy=https_proxy, noProxy=no_proxy))
    found = warnings(tmp_path, proxy, infrastructure(platform))
    assert [item.field for item in found] == ([field] if field else [])
    assert all(item.severity == "warning" for item in found)


@pytest.mark.parametrize(
    ("win_http", "http_proxy", "https_proxy", "fields"),
    [
        (True, "", TLS, ["spec.httpsProxy"]),
        (True, PLAIN, TLS, ["spec.httpsProxy"]),
        (True, PLAIN, PLAIN, []),
        (False, PLAIN, TLS, []),
    ],
)
def test_winhttp(tmp_path: Path, win_http: bool, http_proxy: str, https_proxy: str, fields: list[str]) -> None:
    spec = given(httpProxy=http_proxy, httpsProxy=https_proxy) | {"windows": {"winHTTP": win_http}}
    assert [warning.field for warning in warnings(tmp_path, egress_proxy(spec))] == fields


@pytest.mark.parametrize(
    ("power_shell", "spec", "field", "word"),
    [
        (True, {"httpProxy": PLAIN, "httpsProxy": PLAIN}, "", ""),
        (True, {"httpProxy": PLAIN, "httpsProxy": TLS}, "spec.httpsProxy", "TLS"),
        (True, {"httpProxy": "http://other.example:3128", "httpsProxy": PLAIN}, "spec.httpProxy", "another proxy"),
        (True, {"httpsProxy": SECRET}, "spec.httpsProxy", "password"),
        (True, {"httpsProxy": PLAIN, "noProxy": "a.example,64:ff9b::/96"}, "spec.noProxy", "64:ff9b::/96"),
        (False, {"httpsProxy": SECRET, "noProxy": "64:ff9b::/96"}, "", ""),
    ],
)
def test_windows_powershell(tmp_path: Path, power_shell: bool, spec: dict[str, str], field: str, word: str) -> None:
    found = examine_objects(load_objects([write(tmp_path, egress_proxy(spec | {"windows": {"powerShell": power_shell}}))]), NOW)
    result = [finding for finding in found.findings if "Windows PowerShell" in finding.message]
    assert [(item.severity, item.field, word in item.message) for item in result] == (
        [("warning", field, True)] if field else []
    )
    assert "hunter2" not in repr(found.findings)
