"""The name of a Node by platform, as the Windows Machine Config Operator derives it: a table."""

import pytest

from transom.windows.nodes.platform_names import choose_node_name, find_name_script

LONG = "win-" + "a" * 40
AWS_NAME = "ip-10-0-1-2.eu-central-1.compute.internal"


@pytest.mark.parametrize(
    ("platform", "computer", "domain", "metadata", "wanted"),
    [
        ("AWS", "EC2AMAZ-1AB2C3D", "", AWS_NAME, AWS_NAME),
        ("AWS", "EC2AMAZ-1AB2C3D", "corp.example", "IP-10-0-1-2.ec2.internal", "ip-10-0-1-2.ec2.internal"),
        ("AWS", "EC2AMAZ-1AB2C3D", "", "", ""),
        ("GCP", "WIN-1", "", "win-1.c.project.internal", "win-1.c.project.internal"),
        # the rule of gcp-get-hostname.ps1 from 64 characters on
        ("GCP", "WIN-1", "", f"{LONG}.c.project-of-a-team.internal", LONG),
        ("GCP", "WIN-1", "", "a" * 63, "a" * 63),
        ("GCP", "WIN-1", "", "a" * 64, "a" * 63),
        ("GCP", "WIN-1", "", "a" * 64 + ".internal", "a" * 63),
        ("GCP", "WIN-1", "", "", ""),
        ("VSphere", "WIN-PROD-EU-CENTRAL-01", "corp.example", "", "win-prod-eu-central-01.corp.example"),
        ("vSphere", "WIN-1", "Corp.Example", "", "win-1.corp.example"),
        ("VSphere", "WIN-1", "", "", "win-1"),
        ("VSphere", "win-1.corp.example", "corp.example", "", "win-1.corp.example"),
        ("Azure", "WIN-1", "corp.example", "", "win-1"),
        ("Nutanix", "WIN-1", "corp.example", "", "win-1"),
        ("None", "WIN-1", "corp.example", "", "win-1"),
        ("", "WIN-1", "corp.example", AWS_NAME, "win-1"),
    ],
)
def test_the_name_of_a_host(platform: str, computer: str, domain: str, metadata: str, wanted: str) -> None:
    found = choose_node_name(platform, recorded="", computer_name=computer, dns_domain=domain, metadata_name=metadata)
    assert found == wanted
    # the next pass has it recorded, and the metadata service is not asked again
    again = choose_node_name(platform, recorded=found, computer_name=computer, dns_domain=domain, metadata_name="")
    assert again == wanted


@pytest.mark.parametrize("platform", ["AWS", "GCP", "VSphere", "Azure", ""])
def test_a_host_that_is_a_node_keeps_its_name(platform: str) -> None:
    """Of an earlier version, which took the computer's name everywhere."""
    name = choose_node_name(
        platform, recorded="win-1", computer_name="WIN-1", dns_domain="corp.example", metadata_name=AWS_NAME
    )
    assert name == "win-1"


def test_another_machine_in_the_place_of_a_node_is_noticed_where_the_host_has_the_name() -> None:
    name = choose_node_name("VSphere", recorded="win-1", computer_name="WIN-2", dns_domain="corp.example", metadata_name="")
    assert name == "win-2.corp.example"


@pytest.mark.parametrize(
    ("platform", "asks"), [("AWS", True), ("GCP", True), ("VSphere", False), ("Azure", False), ("", False)]
)
def test_where_the_metadata_service_is_asked(platform: str, asks: bool) -> None:
    assert (find_name_script(platform) is not None) == asks
