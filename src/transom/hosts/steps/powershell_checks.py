"""Checks of `transom verify host` about Windows PowerShell: the profile, the execution policy, and the proxy that a block sets.

A machine on which PowerShell prints nothing answers none of them: Wine's powershell.exe does nothing and exits with 0.
"""

from collections.abc import Sequence
from typing import Final

from transom.common.check_results import Verdict
from transom.hosts.scripts.template import fill_template
from transom.hosts.steps.verification_check import HostCheck, Judge
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.parts import execution_policy
from transom.windows.parts.powershell import PROFILE
from transom.windows.parts.powershell_block import build_block

MARK: Final = "TransomVerify writes this profile"
"""In the profile that a check writes: `clear` deletes a profile with it."""
_PROXY: Final = "http://proxy.corp.example:3128"
_BLOCK: Final = build_block(
    Egress(http_proxy=Secret(_PROXY), https_proxy=Secret(_PROXY), no_proxy="10.0.0.0/8,.corp.example,2001:db8::1")
)
_BLOCK_FILE: Final = ("block.txt", _BLOCK.replace("\n", "\r\n").encode("ascii"))
_PROFILE_FILE: Final = ("profile.txt", f"# {MARK}\n{_BLOCK}".replace("\n", "\r\n").encode("ascii"))
_BYPASSED: Final = (
    "bypassed True http://10.1.2.3/",
    "bypassed True https://a.corp.example:8443/",
    "bypassed True http://[2001:db8::1]/",
    "bypassed False http://11.1.2.3/",
    "bypassed False https://corp.example.org/",
)
_SILENT: Final = "powershell.exe printed nothing: it runs no commands here"
_SCOPES: Final = ("MachinePolicy", "LocalMachine")


def render_lines(name: str) -> str:
    """Render the lines of a check of PowerShell."""
    keys = {"POLICY": execution_policy.POLICY, "MACHINE": execution_policy.MACHINE}
    return fill_template(f"trials/{name}.cmd", {"PROFILE": PROFILE, **keys})


def _find_words(lines: Sequence[str], name: str) -> str | None:
    """Return what follows a name at the beginning of a line; None: no line has it."""
    return next((line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")), None)


def _build_judge(name: str, judge: Judge, wanted: str = "") -> Judge:
    """Build a judge that is not applicable without a line that begins with `name`, or with other words behind it."""

    def judge_lines(lines: Sequence[str]) -> tuple[Verdict, str]:
        words = _find_words(lines, name)
        if words is None:
            return "not applicable", _SILENT
        return judge(lines) if not wanted or words == wanted else ("not applicable", f"{name} {words}")

    return judge_lines


def _judge_profile(lines: Sequence[str]) -> tuple[Verdict, str]:
    path = _find_words(lines, "path") or ""
    return ("pass" if path.casefold() == PROFILE.casefold() else "fail"), path


def _judge_policies(lines: Sequence[str]) -> tuple[Verdict, str]:
    """Compare what PowerShell lists for two scopes with the values that `reg query` shows."""
    listed = {words[1]: words[2] for words in map(str.split, lines) if len(words) == 3 and words[0] == "scope"}
    values: dict[tuple[str, str], str] = {}
    key = ""
    for line in lines:
        words = line.split()
        if words[:1] == ["values"]:
            key = line.removeprefix("values ")
        elif key and len(words) == 3 and words[1].startswith("REG_"):
            values.setdefault((key, words[0].casefold()), words[2])
    enabled = values.get((execution_policy.POLICY, "enablescripts"))
    of_group = values.get((execution_policy.POLICY, "executionpolicy"), "") if enabled == "0x1" else ""
    expected = (
        "Restricted" if enabled == "0x0" else of_group or "Undefined",
        values.get((execution_policy.MACHINE, "executionpolicy"), "Undefined"),
    )
    shown = [listed.get(scope, "nothing") for scope in _SCOPES]
    seen = ", ".join(f"{scope} {policy}" for scope, policy in zip(_SCOPES, shown, strict=True))
    is_same = [policy.casefold() for policy in shown] == [policy.casefold() for policy in expected]
    return ("pass" if is_same else "fail"), seen if is_same else f"{seen}; the registry has {', '.join(expected)}"


def _judge_proxy(lines: Sequence[str]) -> tuple[Verdict, str]:
    wanted = (f"proxy {_PROXY}/", *_BYPASSED)
    missing = [f"not {line}" for line in wanted if line not in lines]
    return ("fail" if missing else "pass"), "; ".join(missing) or f"{wanted[0]}; {len(_BYPASSED)} URLs"


def _judge_constrained(lines: Sequence[str]) -> tuple[Verdict, str]:
    return ("pass" if list(lines) == ["mode ConstrainedLanguage", "errors 0"] else "fail"), "; ".join(lines)


def _judge_start(lines: Sequence[str]) -> tuple[Verdict, str]:
    if "taken" in lines:
        return "not applicable", "the host has a profile of all users"
    policy, with_profile, without_profile = (_find_words(lines, name) or "" for name in ("policy", "with", "without"))
    is_loaded = not execution_policy.is_unloading(policy)
    right = (with_profile == f"{_PROXY}/") == is_loaded and without_profile not in ("", f"{_PROXY}/") and "readable" in lines
    return ("pass" if right and policy else "fail"), "; ".join(lines)


POWERSHELL_CHECKS: Final = (
    HostCheck(
        "powershell-profile",
        "`$PROFILE.AllUsersAllHosts` of Windows PowerShell is the file in which Transom sets its proxy",
        "Microsoft Learn, about_Profiles",
        "with `spec.windows.powerShell`, Windows PowerShell does not get the proxy",
        render_lines("powershell-profile"),
        _build_judge("path", _judge_profile),
    ),
    HostCheck(
        "powershell-policy",
        "the execution policies of the machine and of group policy are the values of the registry that Transom reads",
        "Microsoft Learn, about_Execution_Policies; PowerShellExecutionPolicy.admx",
        "`ProfileNotLoaded` is missing, or reported by mistake",
        render_lines("powershell-policy"),
        _build_judge("scope", _judge_policies),
    ),
    HostCheck(
        "powershell-proxy",
        "WebProxy compares the regular expressions of its bypass list with `scheme://host[:port]`, IPv6 as in RFC 5952",
        "microsoft/referencesource ec9fa9ae, webproxy.cs, IsMatchInBypassList; _IPv6Address.cs, CreateCanonicalName",
        "Windows PowerShell uses the proxy for hosts of NO_PROXY, or no proxy",
        render_lines("powershell-proxy"),
        _build_judge("mode", _judge_proxy, "FullLanguage"),
        files=(_BLOCK_FILE,),
    ),
    HostCheck(
        "powershell-constrained",
        "in Constrained Language Mode the block does nothing, without an error",
        "Microsoft Learn, about_Language_Modes",
        "with `spec.windows.powerShell`, each session in this mode begins with an error",
        render_lines("powershell-constrained"),
        _build_judge("mode", _judge_constrained),
        files=(_BLOCK_FILE,),
    ),
)
"""Of those that only read."""
POWERSHELL_START: Final = HostCheck(
    "powershell-start",
    "a session loads the profile unless it has -NoProfile or the execution policy forbids it, and Users can read the file",
    "Microsoft Learn, about_Profiles, about_Execution_Policies, about_PowerShell_exe; CopyFile",
    "with `spec.windows.powerShell`, Windows PowerShell does not get the proxy",
    render_lines("powershell-start"),
    _build_judge("mode", _judge_start, "FullLanguage"),
    "unused",
    files=(_PROFILE_FILE,),
)
