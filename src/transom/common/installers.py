"""Installers that Transom has Windows machines download: where each is, its hash, and whose signature it has."""

from typing import Final

OPENSSH_TAG: Final = "10.0.0.0p2-Preview"
OPENSSH_FILE: Final = "OpenSSH-Win64-v10.0.0.0.msi"
OPENSSH_SHA256: Final = "ddec9c53864280759cf9f74791cefd387100e3946aa849a1c138a4ed1b96b7d9"
"""Source of the three: aaronparker/apptracker 673b10d, json/Win32OpenSSH.json."""
OPENSSH_SIGNER: Final = "Microsoft Corporation"
OPENSSH_URL: Final = f"https://github.com/PowerShell/Win32-OpenSSH/releases/download/{OPENSSH_TAG}/{OPENSSH_FILE}"
EC2LAUNCH_URL: Final = "https://s3.amazonaws.com/amazon-ec2launch-v2/windows/amd64/latest/AmazonEC2Launch.msi"
"""AWS, "Install the latest version of EC2Launch v2". From 2.0.2107 on `add-routes` persists (WMCO, pkg/secrets/secrets.go)."""
EC2LAUNCH_SIGNER: Final = "Amazon"
"""The begin of the signer's name: "Amazon Web Services, Inc.", "Amazon.com Services LLC"."""
