"""Which versions are refused or warned of, and that the page has the same table."""

import pytest
from tests.support.repository import DOCS

from transom.windows.nodes.support import (
    find_skew_refusal,
    find_skew_warning,
    iter_outdated_programs,
    iter_windows_problems,
    render_support_table,
)


@pytest.mark.parametrize(
    ("version", "platform", "port", "says"),
    [
        ("10.0.20348.2485", "AWS", "4789", []),
        ("10.0.20348.681", "vSphere", "9898", []),
        ("10.0.20348.680", "AWS", "", ["lacks KB5012637 (build 20348.681)"]),
        ("10.0.20348", "AWS", "", []),
        ("10.0.26100.1", "GCP", "9898", []),
        ("10.0.17763.5", "AWS", "4789", []),
        ("10.0.17763.5", "", "", []),
        ("10.0.17763.5", "GCP", "4789", ["is not supported on GCP"]),
        ("10.0.17763.5", "vSphere", "9898", ["is not supported on vSphere", "the cluster's is 9898"]),
        ("10.0.14393.1", "AWS", "", ["Windows build 14393 is none of those"]),
        ("10.0.99999.1", "", "", ["Windows build 99999 is none of those"]),
        ("", "AWS", "", []),
        ("6.3.9600", "AWS", "", []),
    ],
)
def test_what_is_not_known_to_work_is_named(version: str, platform: str, port: str, says: list[str]) -> None:
    found = list(iter_windows_problems(version, platform=platform, vxlan_port=port))
    assert len(found) == len(says)
    assert all(part in text for part, text in zip(says, found, strict=True))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ssh_server": "SSH-2.0-OpenSSH_for_Windows_7.7"}, ""),
        ({"ssh_server": "SSH-2.0-OpenSSH_for_Windows_10.0p2"}, ""),
        ({"ssh_server": "SSH-2.0-OpenSSH_for_Windows_7.6"}, "OpenSSH for Windows 7.6 is older"),
        ({"ssh_server": "SSH-2.0-dropbear_2022.83"}, ""),
        ({"runtime": "containerd://2.3.4"}, ""),
        ({"runtime": "containerd://1.6.31"}, "containerd 1.6 is older than what is known to work (1.7 and 2): use a payload"),
        ({"runtime": "docker://24.0.9"}, ""),
        ({"openshift": "v1.27.0"}, ""),
        ({"openshift": "v1.26.9+abc"}, "use OpenShift 4.14 or later"),
        ({}, ""),
    ],
)
def test_programs_that_are_too_old_are_named(given: dict[str, str], says: str) -> None:
    found = list(iter_outdated_programs(**given))
    assert len(found) == bool(says)
    assert all(says in text for text in found)


def test_the_page_has_the_table() -> None:
    assert render_support_table() in (DOCS / "support.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("kubelet", "server", "said"),
    [
        ("v1.36.3", "v1.36.3", None),
        ("v1.36.9", "v1.36.3", None),
        ("v1.33.0", "v1.36.3", None),
        ("v1.32.9", "v1.36.3", "older"),
        ("v1.37.0", "v1.36.3", "newer"),
        ("v1.36.3", "v1.36.3+k3s1", None),
        ("nonsense", "v1.36.3", "cannot be read"),
        ("v1.36.3", "nonsense", None),
    ],
)
def test_skew(kubelet: str, server: str, said: str | None) -> None:
    found = find_skew_refusal(kubelet, server)
    assert (found is None) == (said is None)
    assert said is None or said in (found or "")


def test_another_minor_version_than_the_linux_nodes_is_a_skew_warning() -> None:
    assert find_skew_warning("v1.36.3", set()) is None
    assert find_skew_warning("v1.36.3", {"v1.36.1", "v1.35.0"}) is None
    assert "1.34, 1.35" in (find_skew_warning("v1.36.3", {"v1.34.1", "v1.35.0"}) or "")
