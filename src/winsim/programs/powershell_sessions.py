"""What a session of Windows PowerShell has at its start, and the commands of `transom verify host` that print it.

Sources: Microsoft Learn, about_Profiles, about_Execution_Policies, about_Language_Modes; microsoft/referencesource ec9fa9ae,
webproxy.cs. Of a script only the block of `spec.windows.powerShell` is simulated.
"""

import re
from typing import Final

from transom.windows.parts import execution_policy
from transom.windows.parts.powershell import PROFILE
from winsim.computer import Computer, Invocation
from winsim.filesystem import FileError

_SCOPES: Final = ("MachinePolicy", "UserPolicy", "Process", "CurrentUser", "LocalMachine")
_DEFAULT: Final = "RemoteSigned"
_BLOCK: Final = re.compile(
    r"if \(\$ExecutionContext\.SessionState\.LanguageMode -eq 'FullLanguage'\) \{\n"
    r" +\[System\.Net\.WebRequest\]::DefaultWebProxy = New-Object -TypeName System\.Net\.WebProxy -ArgumentList @\(\n"
    r" +'([^']+)',\n +\$false,\n +\[string\[\]\]@\(\n((?: +'[^']*',?\n)+) +\)\n +\)\n\}\n"
)
_QUOTED: Final = re.compile(r"'([^']*)'")
_PROFILE: Final = "'path ' + $PROFILE.AllUsersAllHosts"
_POLICIES: Final = "Get-ExecutionPolicy -List | ForEach-Object { 'scope ' + $_.Scope + ' ' + $_.ExecutionPolicy }"
_MODE: Final = r"'mode ' \+ \$ExecutionContext\.SessionState\.LanguageMode"
_PROXY: Final = re.compile(
    _MODE + r"; Invoke-Expression -Command \(Get-Content -LiteralPath '([^']+)' -Raw\); "
    r"\$proxy = \[System\.Net\.WebRequest\]::DefaultWebProxy; 'proxy ' \+ \$proxy\.GetProxy\('([^']+)'\)\.AbsoluteUri; "
    r"foreach \(\$url in ((?:'[^']+'(?:, )?)+)\) \{ 'bypassed ' \+ \$proxy\.IsBypassed\(\$url\) \+ ' ' \+ \$url \}"
)
_CONSTRAINED: Final = re.compile(
    r"\$block = Get-Content -LiteralPath '([^']+)' -Raw; "
    r"\$ExecutionContext\.SessionState\.LanguageMode = 'ConstrainedLanguage'; Invoke-Expression -Command \$block; "
    + _MODE
    + r"; 'errors ' \+ \$Error\.Count"
)
_START: Final = re.compile(
    r"('policy ' \+ \(Get-ExecutionPolicy\)|" + _MODE + r"); "
    r"'(with|without) ' \+ \[System\.Net\.WebRequest\]::DefaultWebProxy\.GetProxy\('([^']+)'\)\.AbsoluteUri"
)


class WebProxy:
    """The default proxy of a session: none, or what a block sets."""

    def __init__(self) -> None:
        self.address = ""
        self._expressions: list[str] = []

    def run_block(self, text: str) -> None:
        """Set the proxy as the block in a script does; a script without a block sets none."""
        if block := _BLOCK.search(text.replace("\r\n", "\n")):
            self.address, self._expressions = block[1], _QUOTED.findall(block[2])

    def is_bypassed(self, url: str) -> bool:
        """Return True if a URL, whose port is not the default of its scheme, is fetched directly."""
        text = url.removesuffix("/")
        return not self.address or any(re.search(item, text, re.IGNORECASE) for item in self._expressions)

    def select(self, url: str) -> str:
        """Return the URL of the proxy, or the URL itself if it is fetched directly."""
        return url if self.is_bypassed(url) else f"{self.address}/"


def list_policies(host: Computer) -> dict[str, str]:
    """Return the execution policy of each scope."""
    group = execution_policy.find_group_policy(host.registry)
    machine = execution_policy.find_machine_policy(host.registry)
    policies = dict.fromkeys(_SCOPES, "Undefined")
    return policies | {"MachinePolicy": group or "Undefined", "LocalMachine": machine or "Undefined"}


def find_policy(host: Computer) -> str:
    """Return the execution policy of a session: the first one that is defined."""
    return next((policy for policy in list_policies(host).values() if policy != "Undefined"), _DEFAULT)


def run_session_command(call: Invocation, text: str) -> int | None:
    """Run a command that prints what a session has; return None for any other command."""
    host = call.host
    mode = "ConstrainedLanguage" if host.constrained else "FullLanguage"
    proxy = WebProxy()
    is_loaded = "-NoProfile" not in call.rest and not execution_policy.is_unloading(find_policy(host))
    if is_loaded and not host.constrained and host.files.find(PROFILE) is not None:
        proxy.run_block(host.files.read(PROFILE).decode("latin-1"))
    if text == _PROFILE:
        call.write_output(f"path {PROFILE}\n")
        return 0
    if text == _POLICIES:
        call.write_output("".join(f"scope {scope} {policy}\n" for scope, policy in list_policies(host).items()))
        return 0
    if match := _PROXY.fullmatch(text):
        if not host.constrained:
            proxy.run_block(_read(call, match[1]))
        urls = _QUOTED.findall(match[3])
        call.write_output(f"mode {mode}\nproxy {proxy.select(match[2])}\n")
        call.write_output("".join(f"bypassed {proxy.is_bypassed(url)} {url}\n" for url in urls))
        return 0
    if match := _CONSTRAINED.fullmatch(text):
        # the block asks for the mode, else New-Object would be an error
        is_asked = "LanguageMode -eq 'FullLanguage'" in _read(call, match[1])
        call.write_output(f"mode ConstrainedLanguage\nerrors {int(not is_asked)}\n")
        return 0
    if match := _START.fullmatch(text):
        first = f"policy {find_policy(host)}" if "policy" in match[1] else f"mode {mode}"
        call.write_output(f"{first}\n{match[2]} {proxy.select(match[3])}\n")
        return 0
    return None


def _read(call: Invocation, path: str) -> str:
    try:
        return call.host.files.read(call.resolve_path(path)).decode("latin-1")
    except FileError:
        return ""
