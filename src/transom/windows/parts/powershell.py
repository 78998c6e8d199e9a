r"""The proxy of Windows PowerShell 5.1: Transom's block in the profile of all users and all hosts. A part of a host.

Windows PowerShell reads neither the environment nor WinHTTP's proxy, but `[System.Net.WebRequest]::DefaultWebProxy`, which .NET
Framework takes from the internet options of the user. A profile sets it for each session.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from transom.proxy.settings import Egress
from transom.windows.host import ledger_entries
from transom.windows.host.host_state import Action, DesiredState, FileWrite, Step
from transom.windows.host.queries import FILE_LIMIT, LEDGER, Queries
from transom.windows.parts import execution_policy
from transom.windows.parts.part import About, Assumption
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.powershell_block import TARGET, build_block, format_block
from transom.windows.parts.profile_text import ProfileText, UnusableProfile, normalize_block, parse_profile
from transom.windows.registry.edits import Edit, SetValue
from transom.windows.registry.registry import Registry

PROFILE: Final = r"C:\Windows\System32\WindowsPowerShell\v1.0\profile.ps1"
"""$PROFILE.AllUsersAllHosts: profile.ps1 in $PSHOME (Microsoft Learn, about_Profiles)."""
LINE: Final = "PowerShell"
"""The value of the ledger's own key that is the entry."""
ABOUT: Final = About(
    "the profile of Windows PowerShell 5.1, `profile.ps1` in `$PSHOME`",
    "a proxy without credentials",
    "every local user",
    (
        Assumption(
            "Windows PowerShell 5.1 uses `[System.Net.WebRequest]::DefaultWebProxy`, not `HTTPS_PROXY` or WinHTTP's proxy",
            'Microsoft Learn, "Use the Azure PowerShell module with a proxy"; microsoft/referencesource, WebRequest.cs',
            "`[System.Net.WebRequest]::DefaultWebProxy.GetProxy('https://example.com/')` in powershell.exe, with and without "
            "`-NoProfile`",
        ),
        Assumption(
            "`$PROFILE.AllUsersAllHosts` of 64-bit Windows PowerShell is the file that Transom writes",
            "Microsoft Learn, about_Profiles",
            "`transom verify host`, check `powershell-profile`",
        ),
        Assumption(
            "cmd's `copy` keeps the access list of an existing file; a new one has that of its directory: Users may read it",
            "Microsoft Learn, CopyFile",
            "`transom verify host --change`, checks `copy-kept` and `powershell-start`",
        ),
        Assumption(
            "WebProxy compares its bypass list, regular expressions, with `scheme://host[:port]`",
            "microsoft/referencesource ec9fa9ae, webproxy.cs, IsMatchInBypassList",
            "`transom verify host`, check `powershell-proxy`",
        ),
        Assumption(
            "WebProxy compares an IPv6 address as in RFC 5952, or as eight groups of four digits",
            "microsoft/referencesource ec9fa9ae, _IPv6Address.cs, CreateCanonicalName",
            "`transom verify host`, check `powershell-proxy`",
        ),
        Assumption(
            "In Constrained Language Mode the block does nothing, without an error",
            "Microsoft Learn, about_Language_Modes",
            "`transom verify host`, check `powershell-constrained`",
        ),
        Assumption(
            "The execution policy is in the registry: group policy's `EnableScripts` and `ExecutionPolicy`, and the machine's",
            "Microsoft Learn, about_Execution_Policies; PowerShellExecutionPolicy.admx",
            "`transom verify host`, check `powershell-policy`",
        ),
    ),
)
_FIELD: Final = "spec.windows.powerShell"


class OwnBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ledger's entry: the keyed digest of the block that was written.

    `former` is that of our block at the time of the change: an interrupted pass leaves it. `was` is the block that the
    file had before, `created` whether the file did not exist, `joined` whether a line end was added before the block.
    """

    set: str
    former: str = ""
    was: str | None = None
    created: bool = False
    joined: bool = False


def iter_desired_edits(egress: Egress) -> Iterator[Edit]:  # as each part
    """Yield nothing: the desired block is `DesiredState.profile`."""
    yield from ()


def build_desired_block(egress: Egress) -> str:
    """Build the desired block; empty if the settings do not enable it, or Windows PowerShell can use none of their proxies."""
    return build_block(egress) if egress.windows.power_shell else ""


def build_initial_queries(desired: DesiredState, *, change_expected: bool) -> Queries:
    """Query the profile and the execution policies if a block is desired."""
    return Queries(files=(PROFILE,), keys=execution_policy.KEYS) if desired.profile else Queries()


def build_follow_up_queries(entry: OwnBlock | None, draft: PlanBuilder) -> Queries:
    """Query the profile if it has a block that Transom wrote, and the execution policies if a block is desired."""
    return Queries(files=(PROFILE,) if entry is not None else (), keys=execution_policy.KEYS if draft.desired.profile else ())


def describe_unloaded(desired: DesiredState, registry: Registry) -> str:
    """Describe why Windows PowerShell does not load a desired block; empty if it does, or the registry was not read."""
    policy = execution_policy.find_unloading_policy(registry) if desired.profile else ""
    return (
        f"the execution policy {policy} of the host does not load {PROFILE}, so Windows PowerShell has no proxy"
        if policy
        else ""
    )


def read(registry: Registry) -> OwnBlock | None:
    """Read the ledger's entry. Raises LedgerError."""
    key = registry.find_key(LEDGER)
    return ledger_entries.read_entry(key, LINE, OwnBlock) if key is not None and key.get(LINE) is not None else None


def iter_ledger_values(entry: OwnBlock | None) -> Iterator[SetValue]:
    """Yield the entry as a value."""
    if entry is not None:
        yield ledger_entries.build_ledger_value(LEDGER, LINE, entry)


def plan(entry: OwnBlock | None, draft: PlanBuilder) -> OwnBlock | None:
    """Write the block, or restore the former text. The entry of a removed block stays until the file was written."""
    if not draft.desired.profile and entry is None:
        return None
    if fault := describe_unloaded(draft.desired, draft.observed.registry):
        draft.warnings.append(fault)
    data = draft.observed.contents.get(PROFILE, b"")
    is_present = PROFILE in draft.observed.contents
    try:
        if data is None:
            raise UnusableProfile("could not be read, or is larger than Transom reads")
        return _ProfileMerge(entry, draft, data if is_present else None).plan()
    except UnusableProfile as error:
        draft.profile_fault = (
            f"{PROFILE} {error}: it was left unchanged, and the rest of the host is done. Correct the file, or set {_FIELD} to "
            "false where Transom has no block in it"
        )
        return entry


class _ProfileMerge:
    """The merge of the desired block into a profile, or out of it. Raises UnusableProfile."""

    def __init__(self, entry: OwnBlock | None, draft: PlanBuilder, data: bytes | None) -> None:
        self._entry, self._draft, self._data = entry, draft, data
        self._own = {entry.set, entry.former} - {""} if entry else set[str]()
        self._profile = parse_profile(data or b"", lambda block: self._compute_digest(block) in self._own)
        self._present = normalize_block(self._profile.block) if self._profile.block is not None else None
        self._is_ours = self._present is not None and self._compute_digest(self._present) in self._own

    def plan(self) -> OwnBlock | None:
        """Add the write and its step to the draft; return the ledger's entry."""
        return self._set_block(self._draft.desired.profile) if self._draft.desired.profile else self._restore_profile()

    def _set_block(self, wanted: str) -> OwnBlock:
        entry, now = self._entry, self._compute_digest(wanted)
        if self._present == wanted:
            # another program wrote it: it stays after a removal
            return msgspec.structs.replace(entry, set=now) if entry else OwnBlock(now, was=self._profile.block)
        former = self._compute_digest(self._present) if self._present is not None and self._is_ours else ""
        if self._present is None:
            entered = OwnBlock(now, created=self._data is None, joined=self._profile.is_incomplete_line)
        elif entry is None:
            entered = OwnBlock(now, was=self._profile.block)
        else:
            entered = msgspec.structs.replace(entry, set=now, former=former)
        reason = _FIELD if entry is None or self._is_ours else "drift: changed after Transom set it"
        self._plan_write(self._profile.with_block(wanted), "replace" if self._present is not None else "add", reason, wanted)
        return entered

    def _restore_profile(self) -> OwnBlock | None:
        entry = self._entry
        if entry is None:
            return None
        if not self._is_ours:
            self._draft.steps.append(Step("ledger", TARGET, "remove", "changed after Transom set it: left unchanged"))
            return None
        reason = f"{_FIELD} is not set"
        if entry.was is not None:
            former = msgspec.structs.replace(self._profile, block=entry.was)
            self._plan_write(former, "replace", reason, normalize_block(entry.was), forgets=True)
        else:
            self._plan_write(self._profile.without_block(joined=entry.joined), "remove", reason, None, forgets=True)
        return entry

    def _plan_write(
        self, profile: ProfileText, action: Action, reason: str, after: str | None, *, forgets: bool = False
    ) -> None:
        is_gone = forgets and after is None and self._entry is not None and self._entry.created and profile.is_empty
        size = len(self._data) if self._data is not None else None
        content = None if is_gone else profile.to_bytes()
        if content is not None and len(content) > FILE_LIMIT:
            raise UnusableProfile("would be larger than Transom reads")
        self._draft.writes.append(FileWrite(PROFILE, content, size, LINE if forgets else ""))
        shown = [format_block(text) if text is not None else None for text in (self._present, after)]
        self._draft.steps.append(Step("windows", TARGET, action, reason, *shown))

    def _compute_digest(self, block: str) -> str:
        return self._draft.compute_digest("PowerShell", block)
