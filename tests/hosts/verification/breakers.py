"""For each check of `transom verify host` a bench that breaks just its rule."""

import re
from collections.abc import Callable, Sequence

import msgspec
import pytest

from transom.hosts.steps.change_checks import NAME, OWN
from transom.windows.host.queries import BOOT, BOOT_MARK, ENVIRONMENT, LEDGER, SERVICES
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, SetValue
from transom.windows.registry.values import build_sz
from winsim import Host, access, commands, loops, server, services, sftp
from winsim.access import KeyAccess
from winsim.computer import Invocation
from winsim.filesystem import READ, FileSystem, Handle, SimulatedFile
from winsim.interpreter import Shell
from winsim.programs import powershell_sessions, registry, security, setup, system
from winsim.programs import services as service_programs
from winsim.tasks import TaskScheduler

Patch = pytest.MonkeyPatch


class Breaker(msgspec.Struct, frozen=True):
    """What breaks the rule, and which other checks see that as well, since they rest on it."""

    breaks: Callable[[Host, Patch], object]
    also: tuple[str, ...] = ()


def _owner(host: Host, patch: Patch) -> None:
    host.files.set_access(host.files.get_directory(r"C:\Program Files"), owner="S-1-5-21-1-2-3-1001")


def _open_windows(host: Host, patch: Patch) -> None:
    windows = host.files.get_directory(r"C:\Windows")
    host.files.set_access(windows, acl=(*windows.acl, access.parse_grant("*S-1-5-32-545:(CI)(AD)")))


def _old(host: Host, patch: Patch) -> None:
    host.edition = msgspec.structs.replace(host.edition, build="14393.7428")


def _no_connection(host: Host, patch: Patch) -> None:
    patch.setattr(server.ServerConnection, "_build_variables", lambda self: self.host.build_variables())


def _texts_alone(host: Host, patch: Patch) -> None:
    patch.setattr(service_programs, "_render_status", lambda _, service: f"\n{service.name}: {service.state.name}\n")


def _scheduler_stopped(host: Host, patch: Patch) -> None:
    host.add_service("Schedule")


def _reads_no_input(host: Host, patch: Patch) -> None:
    async def ends(call: Invocation) -> int:
        return 0

    patch.setattr(system, "_prompt", ends)


def _short_lines(host: Host, patch: Patch) -> None:
    split = loops._split
    patch.setattr(loops, "_split", lambda lines, *rest: split(_short(lines), *rest))


def _short(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if len(line) < 8192]


def _copy_ends_at_nothing(host: Host, patch: Patch) -> None:
    copy = commands.COMMANDS["copy"]
    patch.setitem(commands.COMMANDS, "copy", lambda shell, rest: copy(shell, re.sub(r"\+none\.txt.*? ", " ", rest)))


def _open_ledger(host: Host, patch: Patch) -> None:
    host.edit([CreateKey(LEDGER)])


def _other_profile(host: Host, patch: Patch) -> None:
    patch.setattr(powershell_sessions, "PROFILE", r"C:\Windows\SysWOW64\WindowsPowerShell\v1.0\profile.ps1")


def _other_policy(host: Host, patch: Patch) -> None:
    listed = powershell_sessions.list_policies
    patch.setattr(powershell_sessions, "list_policies", lambda host: listed(host) | {"LocalMachine": "Unrestricted"})


def _compares_hosts(host: Host, patch: Patch) -> None:
    compare = powershell_sessions.WebProxy.is_bypassed
    patch.setattr(
        powershell_sessions.WebProxy, "is_bypassed", lambda proxy, url: compare(proxy, url.rpartition("//")[2]) if url else True
    )


def _error_in_constrained_mode(host: Host, patch: Patch) -> None:
    run = system.run_session_command

    def answer(call: Invocation, text: str) -> int | None:
        if "= 'ConstrainedLanguage'" not in text:
            return run(call, text)
        call.write_output("mode ConstrainedLanguage\nerrors 1\n")
        return 0

    patch.setattr(system, "run_session_command", answer)


def _list_of_directory(host: Host, patch: Patch) -> None:
    copy = commands.COMMANDS["copy"]

    def copy_anew(shell: Shell, rest: str) -> object:
        code = copy(shell, rest)
        if "kept.txt" in rest:
            host.files.set_access(host.files.get_file(rf"{OWN}\kept.txt"), acl=(), protected=False)
        return code

    patch.setitem(commands.COMMANDS, "copy", copy_anew)


def _no_times(host: Host, patch: Patch) -> None:
    patch.setattr(sftp, "_set_time", lambda *_: None)


def _nothing_held(host: Host, patch: Patch) -> None:
    remove = FileSystem.remove

    def forced(files: FileSystem, node: object) -> None:
        if isinstance(node, SimulatedFile) and node.name == "held.txt":
            node.holds = 0
        remove(files, node)  # type: ignore[arg-type]

    patch.setattr(FileSystem, "remove", forced)


def _renames_over(host: Host, patch: Patch) -> None:
    rename = FileSystem.rename

    def renamed(files: FileSystem, node: object, path: str, *, replace: bool = False) -> None:
        there = files.find(path)
        if there is not None and path.endswith("second"):
            files.remove(there)
        rename(files, node, path, replace=replace)  # type: ignore[arg-type]

    patch.setattr(FileSystem, "rename", renamed)


def _icacls_without(host: Host, patch: Patch, left_out: str, where: str) -> None:
    edit = security._edit

    def edited(call: Invocation, entry: object, words: list[str]) -> None:
        ours = entry.name == where  # type: ignore[attr-defined]
        edit(call, entry, [word for word in words if not (ours and word == left_out)])  # type: ignore[arg-type]

    patch.setattr(security, "_edit", edited)


def _damaged_is_refused(host: Host, patch: Patch) -> None:
    imported = registry._import

    def whole(call: Invocation, text: str, options: list[str]) -> int:
        return 1 if b"z\0z\0" in call.host.files.read(call.resolve_path(text)) else imported(call, text, options)

    patch.setattr(registry, "_import", whole)


def _quotes_lost(host: Host, patch: Patch) -> None:
    create = services.ServiceManager.create

    def made(self: services.ServiceManager, name: str, image: str, **options: object) -> object:
        return create(self, name, image.replace('"', ""), **options)  # type: ignore[arg-type]

    patch.setattr(services.ServiceManager, "create", made)


def _task_never_runs(host: Host, patch: Patch) -> None:
    runs = TaskScheduler.run
    patch.setattr(TaskScheduler, "run", lambda tasks, task: None if task.name == NAME else runs(tasks, task))


def _own_variables_ignored(host: Host, patch: Patch) -> None:
    patch.setattr(services.ServiceManager, "build_environment", lambda self, name: dict(self._host.booted_environment))


def _not_trusted(host: Host, patch: Patch) -> None:
    patch.setattr(setup, "_print_certificate", lambda call, sha1: call.write_output("CertUtil: Object was not found.\n") or 1)


def _users_may_all(host: Host, patch: Patch) -> None:
    host.files.enforced = False


CHECKS = {
    "build": Breaker(_old),
    "ssh-connection": Breaker(_no_connection),
    "boot-count": Breaker(lambda host, _: host.edit([DeleteValue(BOOT, "BootId")])),
    "boot-mark": Breaker(lambda host, _: host.edit([DeleteKey(BOOT_MARK)])),
    "certutil": Breaker(lambda host, _: host.blocked.add("certutil.exe")),
    "get-file-hash": Breaker(lambda host, _: host.blocked.add("Get-FileHash")),
    "owner": Breaker(_owner),
    "service-state": Breaker(_texts_alone),
    "service-missing": Breaker(lambda host, _: host.add_service("TransomNone")),
    "task-scheduler": Breaker(_scheduler_stopped),
    "long-lines": Breaker(_short_lines),
    "join": Breaker(_copy_ends_at_nothing),
    "prompt": Breaker(_reads_no_input),
    "ledger-closed": Breaker(_open_ledger),
    "base-closed": Breaker(_open_windows),
    "powershell-profile": Breaker(_other_profile),
    "powershell-policy": Breaker(_other_policy),
    "powershell-proxy": Breaker(_compares_hosts),
    "powershell-constrained": Breaker(_error_in_constrained_mode),
}
"""Of those that only read."""
_USERS = "*S-1-5-32-545:(OI)(CI)RX"
TRIALS = {
    "file-times": Breaker(_no_times),
    "held-file": Breaker(_nothing_held),
    "rename-taken": Breaker(_renames_over),
    "directory-closed": Breaker(lambda host, patch: _icacls_without(host, patch, "/inheritance:r", "closed"), ("user",)),
    "directory-open": Breaker(lambda host, patch: _icacls_without(host, patch, _USERS, "made"), ("user",)),
    "copy-kept": Breaker(_list_of_directory),
    "registry-import": Breaker(_damaged_is_refused),
    "key-closed": Breaker(lambda _, patch: patch.setattr(KeyAccess, "protect", lambda *_: None), ("user",)),
    "regini": Breaker(lambda _, patch: patch.setattr(KeyAccess, "replace", lambda *_: None)),
    "service-command": Breaker(_quotes_lost),
    "task": Breaker(_task_never_runs),
    "firewall": Breaker(lambda host, _: host.blocked.add("netsh.exe")),
    "service-environment": Breaker(_own_variables_ignored),
    "certificate": Breaker(_not_trusted),
    "powershell-start": Breaker(_other_profile),
    "user": Breaker(_users_may_all),
    "cleared": Breaker(lambda host, _: host.blocked.add("Remove-LocalUser")),
}
"""Of those that make things."""


def _at(host: Host, connection: int, act: Callable[[], object], undo: Callable[[], object] = lambda: None) -> None:
    """Something happens at the first step of a connection, and is undone at that of the next one."""
    left = [(connection, act), (connection + 1, undo)]

    def step() -> None:
        while left and host.traffic.connections >= left[0][0]:
            left.pop(0)[1]()

    host.interlopers.add(step)


_CONFIGURED, _UNCHANGED, _CHANGED, _PUT_BACK, _REMOVED, _AS_BEFORE = range(3, 9)
"""Which connection each step of the worker's life is, after two that read."""


def _drift(host: Host, patch: Patch) -> None:
    _at(host, _UNCHANGED, lambda: host.edit([DeleteValue(rf"{SERVICES}\{NAME}", "Environment")]))


def _nothing_restarts(host: Host, patch: Patch) -> None:
    def breaks() -> None:
        host.tasks.delays = None
        host.services.refused.add("transomrestart")

    def mends() -> None:
        host.tasks.delays = 0
        host.services.refused.clear()

    _at(host, _CHANGED, breaks, mends)


def _all_are_services(host: Host, patch: Patch) -> None:
    patch.setattr(services, "_TOOL", re.compile(b"none"))


def _in_use(host: Host, patch: Patch) -> None:
    _at(host, _REMOVED, lambda: Handle(host.files, host.files.get_file(rf"{OWN}\service.exe"), READ, READ))


def _variable_stays(host: Host, patch: Patch) -> None:
    _at(host, _AS_BEFORE, lambda: host.edit([SetValue(ENVIRONMENT, "HTTPS_PROXY", build_sz("http://proxy:3128"))]))


LIFE = {
    "configured": Breaker(lambda host, _: host.services.refused.add(NAME.casefold()), ("unchanged", "changed", "put-back")),
    "unchanged": Breaker(_drift),
    "changed": Breaker(_nothing_restarts),
    "put-back": Breaker(_all_are_services),
    "removed": Breaker(_in_use, ("as-before",)),
    "as-before": Breaker(_variable_stays),
}
"""Of the steps of the worker's life."""
