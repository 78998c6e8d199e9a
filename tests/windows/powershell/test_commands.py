"""Every cmdlet and parameter that a script of ours calls is one that Windows Server has, by its page."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from lab.powershell import find_syntax_errors, list_calls, list_functions
from tests.windows.powershell.scripts import PACKAGE, texts


class Cmdlet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    page: str
    parameters: frozenset[str]


CMDLETS = msgspec.yaml.decode(Path(__file__).with_name("cmdlets.yaml").read_bytes(), type=dict[str, Cmdlet])
# about_CommonParameters, and those that a cmdlet has from the provider of its path: about_WSMan_Provider
COMMON = frozenset({"Debug", "ErrorAction", "ErrorVariable", "OutBuffer", "OutVariable", "PipelineVariable", "Verbose"})
COMMON |= {"WarningAction", "WarningVariable", "InformationAction", "InformationVariable"}
OF_PROVIDERS = {"New-Item": frozenset({"Address", "Transport", "CertificateThumbPrint"})}
TEXTS = texts()
OWN = frozenset[str]().union(*map(list_functions, TEXTS.values()))


def wrong(script: str) -> Iterator[str]:
    """What a script calls that Windows does not have: a name, or a name and a parameter."""
    for call in list_calls(script):
        cmdlet = CMDLETS.get(call.name)
        if call.name in OWN:
            continue
        if cmdlet is None:
            yield call.name
            continue
        known = cmdlet.parameters | COMMON | OF_PROVIDERS.get(call.name, frozenset())
        yield from (f"{call.name} -{parameter}" for parameter in call.parameters if parameter not in known)


def test_every_cmdlet_and_parameter_is_one_that_windows_has() -> None:
    assert len(TEXTS) > 30
    found = {f"{place}: {item}" for place, text in TEXTS.items() for item in wrong(text)}
    assert found == set()


@pytest.mark.parametrize("place", TEXTS)
def test_every_text_is_powershell(place: str) -> None:
    assert find_syntax_errors(TEXTS[place]) == []


def test_every_cmdlet_of_the_list_has_its_page_and_is_one() -> None:
    for name, cmdlet in CMDLETS.items():
        assert re.fullmatch(r"[A-Z][A-Za-z]+-[A-Z][A-Za-z]+", name)
        page = rf"https://learn\.microsoft\.com/powershell/module/[a-z.]+/{name.lower()}\?view=(powershell-5\.1|windowsserver20\d\d-ps)"
        assert re.fullmatch(page, cmdlet.page), name


def test_defender_is_asked_for_nothing_where_it_is_not() -> None:
    """Its module is part of the feature, which may be uninstalled: then its cmdlets are none, and a script ends there."""
    asked = [call for text in TEXTS.values() for call in list_calls(text) if call.name.endswith("-MpPreference")]
    assert len(asked) == 3
    assert [call for call in asked if not any("MsMpEng" in condition for condition in call.conditions)] == []


def test_nothing_is_handed_to_powershell_that_is_not_looked_at() -> None:
    lines = [line for file in PACKAGE.rglob("*.cmd") for line in file.read_text("utf-8").splitlines() if "%POWERSHELL%" in line]
    assert len([line for line in lines if '-Command "' in line]) == len([place for place in TEXTS if ".cmd " in place])
    assert [line for line in lines if "-Command" not in line and " -File " not in line] == []


# each is as near to something real as a slip is
MADE_UP = [
    ("New-HnsEndpoint -NetworkId $id", ["New-HnsEndpoint"]),
    ("get-process", ["get-process"]),
    ("Add-MpPreference -ExclusionProces 'a'", ["Add-MpPreference -ExclusionProces"]),
    ("Rename-Computer -Name 'a'", ["Rename-Computer -Name"]),
    ("if ($x) { Get-Acl -Path 'a' | Set-ACL }", ["Set-ACL"]),
    ("$t = @{ Name = 'a'; Potr = 1 }; New-NetFirewallRule @t", ["New-NetFirewallRule -Potr"]),
    ("$t = @{}; $t['Uri'] = 'a'; $t['Proxi'] = 'b'; Invoke-WebRequest @t", ["Invoke-WebRequest -Proxi"]),
    ("(Get-FileHash -Algorithm SHA256 -Path a).Hash; where $x", ["where"]),
]


@pytest.mark.parametrize(("script", "found"), MADE_UP)
def test_a_slip_is_found(script: str, found: list[str]) -> None:
    assert list(wrong(script)) == found
