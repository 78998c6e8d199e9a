"""Checks of `transom verify host --change`: what they make is named TransomVerify and goes again.

Their scripts lie in `hosts/scripts/trials`. `clear` removes whatever of it is there, also what one that was killed has left.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence

from transom.checked import Verdict
from transom.hosts.scripts.template import BASE, filled
from transom.hosts.ssh.transport import Transport
from transom.hosts.steps.checks import HostCheck, Judge
from transom.windows.host.queries import SERVICES
from transom.windows.parts.certificates import ROOT, blob, store
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import multi_sz, sz

NAME = "TransomVerify"
"""Of the service, the task, the user, and what else is made."""
KEY = rf"HKEY_LOCAL_MACHINE\SOFTWARE\{NAME}"
OWN = rf"C:\{NAME}"
"""The directory in which users and payloads are tried."""
_TIME = 1_600_000_000
"""Seconds since 1970 that a file is given; 2020-09-13."""
_COMMAND = r'"C:\Windows\System32\cmd.exe" /d /c exit 100%d a^b&c'
"""A command line with what cmd reads itself: quotes, `%`, `^`, `&`."""


def trials(name: str, authority: bytes) -> tuple[HostCheck, ...]:
    """The checks, for a directory of that name; `authority` is a certificate (DER) whose key nobody has. In this order."""
    sha1 = hashlib.sha1(authority, usedforsecurity=False).hexdigest().upper()
    return (
        HostCheck(
            "file-times",
            "a file's time that is set by its path, after the file was closed, lasts",
            "[MS-FSA] 2.1.4.17; PowerShell/openssh-portable, sftp-server.c (process_setstat); Win32-OpenSSH#461",
            "no file of a payload can be delivered: `FileRefused`",
            "ver >nul",
            _is(f"time-{_TIME}"),
            "with --change",
            ask=_times,
        ),
        HostCheck(
            "held-file",
            "a file that cmd opened by > for a call cannot be deleted meanwhile, and its directory not be renamed",
            "Microsoft Learn, CreateFileW (dwShareMode)",
            "a pass takes the lock of one that still runs for a left-over",
            _lines("held-file"),
            _is("file-kept", "directory-kept"),
            "with --change",
        ),
        HostCheck(
            "rename-taken",
            "ren of a directory fails where the new name is taken",
            "Microsoft Learn, MoveFileExW",
            "two passes take one host at once",
            _lines("rename-taken"),
            _is("kept", "renamed"),
            "with --change",
        ),
        HostCheck(
            "directory-closed",
            "icacls /inheritance:r /grant:r leaves SYSTEM and Administrators alone, also below",
            "Microsoft Learn, icacls; [MS-DTYP] 2.5.1",
            "ordinary users read keys and tokens",
            _lines("directory-closed"),
            _is("closed"),
            "with --change",
        ),
        HostCheck(
            "directory-open",
            "what is made below a directory that lets Users read can be read by Users",
            "Microsoft Learn, icacls; kubernetes.io, Projected Volumes",
            "pods that are no administrators cannot read their volumes",
            _lines("directory-open"),
            _is("readable"),
            "with --change",
        ),
        HostCheck(
            "registry-import",
            "reg import keeps the spelling of a name, takes REG_SZ as hex(1), and of a damaged file what stands before",
            "seen in Wine; Microsoft, how to use a .reg file",
            "variables are not what was asked for: `NotConverged`",
            _lines("import"),
            _is("no_proxy REG_SZ after", "Text REG_SZ hello", r"List REG_MULTI_SZ a\0b", "Cut REG_SZ there"),
            "with --change",
            _import_files(),
        ),
        HostCheck(
            "key-closed",
            "Set-Acl closes a key of the registry to Users, with the keys below it",
            "Microsoft Learn, Set-Acl, Automatic Propagation of Inheritable ACEs",
            "ordinary users read the ledger",
            _lines("key-closed"),
            _is("closed"),
            "with --change",
        ),
        HostCheck(
            "regini",
            "regini.exe closes a key, where PowerShell may not",
            "Microsoft, Q237607, How to Use Regini.exe to Set Permissions on Registry Keys",
            "in Constrained Language Mode nothing is changed: `ImportFailed`",
            _lines("regini"),
            _is("closed"),
            "with --change",
            (("regini.txt", f"\\Registry\\Machine\\SOFTWARE\\{NAME}\\Regini [1 17]\r\n".encode("utf-16")),),
        ),
        HostCheck(
            "service-command",
            "sc create takes a command line with quotes, %, ^ and & from a line of a file; sc delete removes the service",
            "Microsoft Learn, sc.exe create, Parsing C command-line arguments, for",
            "services are made with another command line: `NotConverged`",
            _lines("service-command"),
            _is(f'"{_COMMAND}"'),
            "with --change",
            (("image.txt", _COMMAND.replace('"', r"\"").encode() + b"\r\n"),),
        ),
        HostCheck(
            "task",
            "schtasks takes a task without triggers, runs it at once as SYSTEM, and deletes it without ending what it runs",
            "Microsoft Learn, schtasks create, schtasks run, schtasks delete",
            "restarts are handed to a service, which leaves errors 7009 and 7000 in the System log",
            _lines("task"),
            _or_not("not-taken", _is("ran", "deleted"), "the Task Scheduler takes none: restarts are handed to a service"),
            "with --change",
            (
                ("task.xml", filled("task.xml", {"PASS": name}).replace("\n", "\r\n").encode("utf-16")),
                ("change.cmd", _script(rf"cd /d {BASE}\{name}", ">begun.txt echo begun", _WAIT, ">ran.txt echo ran")),
            ),
        ),
        HostCheck(
            "firewall",
            "netsh makes a rule of the firewall, and deletes it by its name",
            "Microsoft Learn, netsh advfirewall firewall",
            "the kubelet's port stays closed: `unprepared port`",
            _lines("firewall"),
            _is("added", "deleted", "gone"),
            "with --change",
        ),
        HostCheck(
            "service-environment",
            "a service starts with the variables of its Environment, and what it starts outlives its refusal (1053)",
            "Microsoft Learn, Services registry tree, Service Entry Point; rancher#45045",
            "services do not see the proxy; where no task is taken, nothing restarts: `RestartsFailed`",
            _lines("service-environment"),
            _is("TRANSOM_VERIFY=seen"),
            "unused",
            (("told.cmd", _script(rf"cd /d {BASE}\{name}", _TELL, "ren told.new told.txt")),),
        ),
        HostCheck(
            "certificate",
            "a blob of the properties 3 and 32 makes a certificate one of LocalMachine's ROOT",
            "wincrypt.h, CERT_SHA1_HASH_PROP_ID, CERT_CERT_PROP_ID; seen in Wine",
            "CAs of the bundle are not trusted: `EgressWorks=False`",
            filled("trials/certificate.cmd", {"THUMBPRINT": sha1, "STORE": store(ROOT)}),
            _holds(sha1),
            "unused",
            (("certificate.reg", _certificate(sha1, authority)),),
        ),
        HostCheck(
            "user",
            "an ordinary user reads and writes volumes, reads no key and no ledger, and makes no base directory",
            "Microsoft Learn, File Security and Access Rights; DISA, Windows Server 2022 STIG, WN22-00-000140, WN22-00-000160",
            "a pod's user or a local user gets what he must not, or a pod cannot read its volumes",
            _lines("user"),
            _or_not(
                "not-to-be-had",
                _is("reads-volumes", "writes-volumes", "no-rename", "no-keys", "no-ledger", "no-base"),
                "no ordinary user can be made, or run a task (a policy, or a domain controller)",
            ),
            "unused",
            (("try.cmd", filled("trials/try.cmd", {}).replace("\n", "\r\n").encode()),),
        ),
    )


CLEAR = HostCheck(
    "cleared",
    "nothing of what was made is left",
    "hosts/scripts/trials/clear.cmd",
    "something named TransomVerify has to be removed by hand",
    filled("trials/clear.cmd", {"KEY": KEY, "STORE": store(ROOT)}),
    lambda lines: ("pass" if list(lines) == ["cleared"] else "fail", " ".join(lines)),
    "with --change",
)

_WAIT = r"%SystemRoot%\System32\ping.exe -n 3 127.0.0.1 >nul"
_TELL = ">told.new echo TRANSOM_VERIFY=%TRANSOM_VERIFY%"


def _lines(name: str) -> str:
    return filled(f"trials/{name}.cmd", {"KEY": KEY, "SERVICES": SERVICES})


def _script(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in ("@echo off", *lines)).encode()


def _is(*wanted: str) -> Judge:
    """Whether these lines are there, and no others; what is missing or too much is what was seen."""

    def judge(lines: Sequence[str]) -> tuple[Verdict, str]:
        missing = [f"not {line}" for line in wanted if line not in lines]
        others = [line for line in lines if line not in wanted]
        return ("fail" if missing or others else "pass"), "; ".join(missing + others or wanted)

    return judge


def _or_not(word: str, judge: Judge, why: str) -> Judge:
    """The judgement, where the host does not say that it cannot be tried there."""

    def judged(lines: Sequence[str]) -> tuple[Verdict, str]:
        return ("not applicable", why) if word in lines else judge(lines)

    return judged


def _holds(sha1: str) -> Judge:
    """Whether the hash is printed, with or without blanks (certutil's versions differ), and nothing was refused."""

    def judge(lines: Sequence[str]) -> tuple[Verdict, str]:
        shown = any(sha1 in line.upper().replace(" ", "") for line in lines)
        right = shown and "refused" not in lines
        return ("pass" if right else "fail"), sha1 if right else (list(lines) or ["nothing"])[0]

    return judge


def _import_files() -> tuple[tuple[str, bytes], ...]:
    key = rf"{KEY}\Import"
    text = ",".join(f"{byte:02x}" for byte in "hello\0".encode("utf-16-le"))
    whole = _reg(SetValue(key, "NO_PROXY", sz("after")), SetValue(key, "List", multi_sz(["a", "b"])))
    cut = _reg(SetValue(key, "Cut", sz("there")))
    return (
        ("whole.reg", f'{whole}"Text"=hex(1):{text}\r\n'.encode("utf-16")),
        ("cut.reg", f'{cut}"Broken"=hex(7):41,00,zz'.encode("utf-16")),
    )


def _reg(*edits: SetValue) -> str:
    """A file without the empty line at its end, for more to follow."""
    return reg.render(edits).decode("utf-16").rstrip() + "\r\n"


def _certificate(sha1: str, authority: bytes) -> bytes:
    """The import of a certificate, after its name where `clear` finds it."""
    path = rf"{store(ROOT)}\{sha1}"
    return reg.render([SetValue(KEY, "Certificate", sz(sha1)), SetValue(path, "Blob", blob(authority, sha1))])


async def _times(transport: Transport, directory: str) -> Sequence[str]:
    async def content() -> AsyncIterator[bytes]:
        yield b"timed"

    path = f"{directory}/timed.txt"
    await transport.send(path, content(), 0, _TIME)
    found = await transport.look(path)
    return [f"time-{found.modified if found else 'none'}"]
