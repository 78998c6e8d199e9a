"""Checks of `transom verify host --change`: what they make is named TransomVerify and goes again.

Their scripts lie in `hosts/scripts/trials`. `clear` removes all their traces, also those of a killed run.
"""

import hashlib
from collections.abc import AsyncIterator, Sequence

from transom.common.check_results import Verdict
from transom.hosts.scripts.template import BASE, fill_template
from transom.hosts.ssh.transport import Transport
from transom.hosts.steps.powershell_checks import MARK, POWERSHELL_START
from transom.hosts.steps.verification_check import HostCheck, Judge
from transom.windows.host.queries import SERVICES
from transom.windows.parts.certificates import ROOT, build_blob, get_store_path
from transom.windows.parts.powershell import PROFILE
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_multi_sz, build_sz

NAME = "TransomVerify"
"""Of the service, the task, the user, and what else is made."""
KEY = rf"HKEY_LOCAL_MACHINE\SOFTWARE\{NAME}"
OWN = rf"C:\{NAME}"
"""The directory in which users and payloads are tried."""
_TIME = 1_600_000_000
"""Seconds since 1970 that a file is given; 2020-09-13."""
_COMMAND = r'"C:\Windows\System32\cmd.exe" /d /c exit 100%d a^b&c'
"""A command line with what cmd reads itself: quotes, `%`, `^`, `&`."""


def build_change_checks(name: str, authority: bytes) -> tuple[HostCheck, ...]:
    """Build the checks, in order, for a directory of that name.

    `authority` is a certificate (DER) whose key is unknown.
    """
    sha1 = hashlib.sha1(authority, usedforsecurity=False).hexdigest().upper()
    return (
        HostCheck(
            "file-times",
            "a file's time that is set by its path, after the file was closed, lasts",
            "[MS-FSA] 2.1.4.17; PowerShell/openssh-portable, sftp-server.c (process_setstat); Win32-OpenSSH#461",
            "payload files cannot be delivered: `FileRefused`",
            "ver >nul",
            _build_exact_judge(f"time-{_TIME}"),
            "with --change",
            ask=_measure_file_time,
        ),
        HostCheck(
            "held-file",
            "a file that cmd opened by > for a call cannot be deleted meanwhile, and its directory not be renamed",
            "Microsoft Learn, CreateFileW (dwShareMode)",
            "a pass takes the lock of one that still runs for a left-over",
            _render_lines("held-file"),
            _build_exact_judge("file-kept", "directory-kept"),
            "with --change",
        ),
        HostCheck(
            "rename-taken",
            "ren of a directory fails where the new name is taken",
            "Microsoft Learn, MoveFileExW",
            "two passes take one host at once",
            _render_lines("rename-taken"),
            _build_exact_judge("kept", "renamed"),
            "with --change",
        ),
        HostCheck(
            "directory-closed",
            "icacls /inheritance:r /grant:r leaves SYSTEM and Administrators alone, also below",
            "Microsoft Learn, icacls; [MS-DTYP] 2.5.1",
            "ordinary users read keys and tokens",
            _render_lines("directory-closed"),
            _build_exact_judge("closed"),
            "with --change",
        ),
        HostCheck(
            "directory-open",
            "what is made below a directory that lets Users read can be read by Users",
            "Microsoft Learn, icacls; kubernetes.io, Projected Volumes",
            "pods that do not run as administrators cannot read their volumes",
            _render_lines("directory-open"),
            _build_exact_judge("readable"),
            "with --change",
        ),
        HostCheck(
            "copy-kept",
            "copy over an existing file keeps its access list",
            "Microsoft Learn, CopyFile",
            "after a change of the profile of Windows PowerShell, other users can read or write it",
            _render_lines("copy-kept"),
            _build_exact_judge("after", "kept"),
            "with --change",
        ),
        HostCheck(
            "registry-import",
            "reg import keeps the spelling of a name, takes REG_SZ as hex(1), and of a damaged file what stands before",
            "seen in Wine; Microsoft, how to use a .reg file",
            "variables are not what was asked for: `NotConverged`",
            _render_lines("import"),
            _build_exact_judge("no_proxy REG_SZ after", "Text REG_SZ hello", r"List REG_MULTI_SZ a\0b", "Cut REG_SZ there"),
            "with --change",
            _build_import_files(),
        ),
        HostCheck(
            "key-closed",
            "Set-Acl closes a key of the registry to Users, with the keys below it",
            "Microsoft Learn, Set-Acl, Automatic Propagation of Inheritable ACEs",
            "ordinary users read the ledger",
            _render_lines("key-closed"),
            _build_exact_judge("closed"),
            "with --change",
        ),
        HostCheck(
            "regini",
            "regini.exe closes a key, where PowerShell may not",
            "Microsoft, Q237607, How to Use Regini.exe to Set Permissions on Registry Keys",
            "in Constrained Language Mode nothing is changed: `ImportFailed`",
            _render_lines("regini"),
            _build_exact_judge("closed"),
            "with --change",
            (("regini.txt", f"\\Registry\\Machine\\SOFTWARE\\{NAME}\\Regini [1 17]\r\n".encode("utf-16")),),
        ),
        HostCheck(
            "service-command",
            "sc create takes a command line with quotes, %, ^ and & from a line of a file; sc delete removes the service",
            "Microsoft Learn, sc.exe create, Parsing C command-line arguments, for",
            "services are made with another command line: `NotConverged`",
            _render_lines("service-command"),
            _build_exact_judge(f'"{_COMMAND}"'),
            "with --change",
            (("image.txt", _COMMAND.replace('"', r"\"").encode() + b"\r\n"),),
        ),
        HostCheck(
            "task",
            "schtasks accepts a task without triggers, runs it at once as SYSTEM, and deletes it without ending its program",
            "Microsoft Learn, schtasks create, schtasks run, schtasks delete",
            "restarts are handed to a service, which leaves errors 7009 and 7000 in the System log",
            _render_lines("task"),
            _build_optional_judge(
                "not-taken",
                _build_exact_judge("ran", "deleted"),
                "the Task Scheduler takes none: restarts are handed to a service",
            ),
            "with --change",
            (
                ("task.xml", fill_template("task.xml", {"PASS": name}).replace("\n", "\r\n").encode("utf-16")),
                ("change.cmd", _build_script(rf"cd /d {BASE}\{name}", ">begun.txt echo begun", _WAIT, ">ran.txt echo ran")),
            ),
        ),
        HostCheck(
            "firewall",
            "netsh makes a rule of the firewall, and deletes it by its name",
            "Microsoft Learn, netsh advfirewall firewall",
            "the kubelet's port stays closed: `unprepared port`",
            _render_lines("firewall"),
            _build_exact_judge("added", "deleted", "gone"),
            "with --change",
        ),
        HostCheck(
            "service-environment",
            "a service starts with the variables of its Environment, and what it starts outlives its refusal (1053)",
            "Microsoft Learn, Services registry tree, Service Entry Point; rancher#45045",
            "services do not see the proxy; where no task is taken, nothing restarts: `RestartsFailed`",
            _render_lines("service-environment"),
            _build_exact_judge("TRANSOM_VERIFY=seen"),
            "unused",
            (("result.cmd", _build_script(rf"cd /d {BASE}\{name}", _TELL, "ren result.new result.txt")),),
        ),
        HostCheck(
            "certificate",
            "a blob of the properties 3 and 32 makes a certificate one of LocalMachine's ROOT",
            "wincrypt.h, CERT_SHA1_HASH_PROP_ID, CERT_CERT_PROP_ID; seen in Wine",
            "CAs of the bundle are not trusted: `EgressWorks=False`",
            fill_template("trials/certificate.cmd", {"THUMBPRINT": sha1, "STORE": get_store_path(ROOT)}),
            _build_hash_judge(sha1),
            "unused",
            (("certificate.reg", _render_certificate(sha1, authority)),),
        ),
        POWERSHELL_START,
        HostCheck(
            "user",
            "an ordinary user reads and writes volumes, reads no key and no ledger, and makes no base directory",
            "Microsoft Learn, File Security and Access Rights; DISA, Windows Server 2022 STIG, WN22-00-000140, WN22-00-000160",
            "a pod's user or a local user gets what he must not, or a pod cannot read its volumes",
            _render_lines("user"),
            _build_optional_judge(
                "not-to-be-had",
                _build_exact_judge("reads-volumes", "writes-volumes", "no-rename", "no-keys", "no-ledger", "no-base"),
                "no ordinary user can be made, or run a task (a policy, or a domain controller)",
            ),
            "unused",
            (("try.cmd", fill_template("trials/try.cmd", {}).replace("\n", "\r\n").encode()),),
        ),
    )


CLEAR = HostCheck(
    "cleared",
    "nothing of what was made is left",
    "hosts/scripts/trials/clear.cmd",
    "something named TransomVerify has to be removed by hand",
    fill_template("trials/clear.cmd", {"KEY": KEY, "STORE": get_store_path(ROOT), "MARK": MARK, "PROFILE": PROFILE}),
    lambda lines: ("pass" if list(lines) == ["cleared"] else "fail", " ".join(lines)),
    "with --change",
)

_WAIT = r"%SystemRoot%\System32\ping.exe -n 3 127.0.0.1 >nul"
_TELL = ">result.new echo TRANSOM_VERIFY=%TRANSOM_VERIFY%"


def _render_lines(name: str) -> str:
    return fill_template(f"trials/{name}.cmd", {"KEY": KEY, "SERVICES": SERVICES})


def _build_script(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in ("@echo off", *lines)).encode()


def _build_exact_judge(*wanted: str) -> Judge:
    """Build a judge that passes if exactly these lines are printed, and otherwise shows the difference."""

    def judge(lines: Sequence[str]) -> tuple[Verdict, str]:
        missing = [f"not {line}" for line in wanted if line not in lines]
        others = [line for line in lines if line not in wanted]
        return ("fail" if missing or others else "pass"), "; ".join(missing + others or wanted)

    return judge


def _build_optional_judge(word: str, judge: Judge, why: str) -> Judge:
    """Build a judge that is not applicable if the host prints `word`."""

    def judge_lines(lines: Sequence[str]) -> tuple[Verdict, str]:
        return ("not applicable", why) if word in lines else judge(lines)

    return judge_lines


def _build_hash_judge(sha1: str) -> Judge:
    """Build a judge that passes if the hash is printed, with or without spaces, and nothing was refused.

    certutil's versions differ in the spaces.
    """

    def judge(lines: Sequence[str]) -> tuple[Verdict, str]:
        shown = any(sha1 in line.upper().replace(" ", "") for line in lines)
        right = shown and "refused" not in lines
        return ("pass" if right else "fail"), sha1 if right else (list(lines) or ["nothing"])[0]

    return judge


def _build_import_files() -> tuple[tuple[str, bytes], ...]:
    key = rf"{KEY}\Import"
    text = ",".join(f"{byte:02x}" for byte in "hello\0".encode("utf-16-le"))
    whole = _render_appendable_reg(
        SetValue(key, "NO_PROXY", build_sz("after")), SetValue(key, "List", build_multi_sz(["a", "b"]))
    )
    cut = _render_appendable_reg(SetValue(key, "Cut", build_sz("there")))
    return (
        ("whole.reg", f'{whole}"Text"=hex(1):{text}\r\n'.encode("utf-16")),
        ("cut.reg", f'{cut}"Broken"=hex(7):41,00,zz'.encode("utf-16")),
    )


def _render_appendable_reg(*edits: SetValue) -> str:
    """Render a .reg file without the empty line at its end, so that more lines can follow."""
    return reg.render(edits).decode("utf-16").rstrip() + "\r\n"


def _render_certificate(sha1: str, authority: bytes) -> bytes:
    """Render the import of a certificate, after the value that tells `clear` its name."""
    path = rf"{get_store_path(ROOT)}\{sha1}"
    return reg.render([SetValue(KEY, "Certificate", build_sz(sha1)), SetValue(path, "Blob", build_blob(authority, sha1))])


async def _measure_file_time(transport: Transport, directory: str) -> Sequence[str]:
    async def iter_content() -> AsyncIterator[bytes]:
        yield b"timed"

    path = f"{directory}/timed.txt"
    await transport.send(path, iter_content(), 0, _TIME)
    status = await transport.read_status(path)
    return [f"time-{status.modified if status else 'none'}"]
