"""The source address of kube-proxy in Flannel's network: no moment at which the script is ended loses it."""

from pathlib import Path

from lab.powershell import list_calls, list_statements

import transom

SCRIPT = (Path(transom.__file__).parent / "payloads/kubeadm/source-vip-flannel.ps1").read_text("utf-8")


def test_the_script_keeps_nothing_that_host_local_does_not_keep() -> None:
    """host-local refuses a second address for one ID: what the script wrote after the first was lost when it was ended."""
    names = {call.name for call in list_calls(SCRIPT)}
    assert names & {"Set-Content", "Add-Content", "Out-File", "New-Item"} == set()
    assert "kube-proxy-address" not in SCRIPT


def test_the_note_of_host_local_is_read_before_it_is_asked() -> None:
    texts = list(list_statements(SCRIPT))
    reads = next(at for at, text in enumerate(texts) if "Get-ChildItem" in text)
    asks = next(at for at, text in enumerate(texts) if "host-local.exe'" in text)
    assert reads < asks
