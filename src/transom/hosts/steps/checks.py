"""What `transom verify host` asks of a machine: claims about Windows that the tests of Transom cannot see, as data.

Each is a few lines of a cmd script that change nothing outside a directory of their own, and a judgement of what they print.
Those that make things and remove them again are `trials`.
"""

import re
from collections.abc import Sequence

from transom.common.check_results import Verdict
from transom.hosts.scripts import light_check
from transom.hosts.scripts.host_scripts import PROMPT
from transom.hosts.scripts.template import read_template
from transom.hosts.ssh.transport import Transport
from transom.hosts.steps.powershell_checks import POWERSHELL_CHECKS
from transom.hosts.steps.verification_check import HostCheck, Judge
from transom.windows.host.queries import BOOT, BOOT_MARK, LEDGER

_HASH = re.compile(r"[0-9A-Fa-f]{64}")
_OLDEST = 17763
"""The build of Windows Server 2019, the oldest that Kubernetes supports (kubernetes.io, "Windows containers in Kubernetes")."""


def build_prefix_judge(wanted: str) -> Judge:
    """Build a judge that passes if a line begins with the wanted words."""

    def judge(lines: Sequence[str]) -> tuple[Verdict, str]:
        matching_lines = [line for line in lines if line.casefold().startswith(wanted.casefold())]
        return ("pass" if matching_lines else "fail"), (matching_lines or [*lines, "nothing"])[0]

    return judge


def _judge_build(lines: Sequence[str]) -> tuple[Verdict, str]:
    build_match = re.search(r"\b10\.0\.(\d{4,6})(?:\.\d+)?", " ".join(lines))
    return ("pass" if build_match and int(build_match[1]) >= _OLDEST else "fail"), build_match[0] if build_match else " ".join(
        lines
    )


def _judge_ssh_connection_variable(lines: Sequence[str]) -> tuple[Verdict, str]:
    words = "".join(lines).strip('"').split()
    return ("pass" if len(words) == 4 else "fail"), f"{len(words)} words"


def _judge_hash(lines: Sequence[str]) -> tuple[Verdict, str]:
    """One line that is a hash and nothing else."""
    hash_lines = [line for line in lines if _HASH.fullmatch(line)]
    return ("pass" if len(hash_lines) == 1 else "fail"), (hash_lines or [*lines, "no hash"])[0]


def _judge_state(lines: Sequence[str]) -> tuple[Verdict, str]:
    """`sc query`: the third line with a colon has the state's number behind it, the fourth the exit code."""
    parts = [line.split(":", 1)[1].split() for line in lines if ":" in line]
    if not parts:
        return "not applicable", "none of the services that are asked for"
    right = len(parts) > 3 and all(part and part[0].isdigit() for part in parts[2:4]) and 1 <= int(parts[2][0]) <= 7
    return ("pass" if right else "fail"), " ".join(parts[2]) if len(parts) > 2 else lines[0]


def _judge_long_lines(lines: Sequence[str]) -> tuple[Verdict, str]:
    """Judge whether the first words of both lines are read; our scripts skip other pieces of the long line."""
    right = bool(lines) and lines[0] == "word-one" and "word-two" in lines
    return ("pass" if right else "fail"), " ".join(line[:20] for line in lines)


def _judge_scheduler(lines: Sequence[str]) -> tuple[Verdict, str]:
    verdict, seen = _judge_state(lines)
    if verdict != "pass":
        return "not applicable", "no service Schedule: restarts are handed to a service"
    return ("pass" if seen.startswith("4") else "fail"), seen


def _judge_closed(lines: Sequence[str]) -> tuple[Verdict, str]:
    if "absent" in lines:
        return "not applicable", "no ledger"
    return ("pass" if "closed" in lines else "fail"), (list(lines) or ["nothing"])[0]


def _judge_prompt(lines: Sequence[str]) -> tuple[Verdict, str]:
    file_lines = [line for line in lines if re.search(r"\d\S* .*\d C:\\Windows\\System32\\cmd\.exe$", line, re.IGNORECASE)]
    return ("pass" if file_lines else "fail"), (file_lines or [*lines, "nothing"])[0]


async def _run_at_prompt(transport: Transport, _: str) -> Sequence[str]:
    line = light_check.build_check_command((), (PROMPT,))
    shown = light_check.parse_check_output(await transport.run_at_prompt(line)) if line is not None else None
    return [text.strip() for text in (shown or b"").decode("ascii", "replace").splitlines() if text.strip()]


_EXIT = "if errorlevel 1 echo refused\nif not errorlevel 1 echo answered"
_KEY_ACCESS = next(line for line in read_template("close.cmd").splitlines() if "-notmatch" in line)
_OWNER = read_template("owner.cmd").strip().replace("%~1", r"C:\Program Files")
_ANY = "EventLog RpcSs kubelet containerd recorder-a"

CHECKS: tuple[HostCheck, ...] = (
    HostCheck(
        "build",
        "Windows Server 2019 or later",
        "kubernetes.io, Windows containers in Kubernetes",
        "kubelet and containerd do not support the machine",
        "ver",
        _judge_build,
    ),
    HostCheck(
        "ssh-connection",
        "a session has SSH_CONNECTION: two addresses with their ports",
        "PowerShell/openssh-portable, w32-doexec.c, setup_session_env",
        "NODE_IP is unknown: `NodeAddressUnknown`",
        'echo "%SSH_CONNECTION%"',
        _judge_ssh_connection_variable,
    ),
    HostCheck(
        "boot-count",
        "BootId counts boots",
        "forensic literature; no page of Microsoft",
        "a mark below HARDWARE identifies the boot instead",
        f'"%REG%" query "{BOOT}" /v BootId /reg:64 >boot.txt 2>nul\n'
        'for /f "usebackq tokens=1-3" %%a in (boot.txt) do echo %%a %%b %%c',
        build_prefix_judge("BootId REG_DWORD 0x"),
    ),
    HostCheck(
        "boot-mark",
        "the registry key of the mark exists",
        "Microsoft Learn, Registry Hives",
        "without BootId a lock from before a boot is not void",
        f'"%REG%" query "{BOOT_MARK}" /reg:64 >nul 2>nul\n{_EXIT}',
        build_prefix_judge("answered"),
    ),
    HostCheck(
        "certutil",
        "certutil -hashfile prints the hash alone on a line",
        "Microsoft Learn, certutil",
        "files are hashed by Get-FileHash, which takes longer",
        r'"%SystemRoot%\System32\certutil.exe" -hashfile "%REG%" SHA256',
        _judge_hash,
    ),
    HostCheck(
        "get-file-hash",
        "where it may not run, Get-FileHash prints the hash",
        "Microsoft Learn, Get-FileHash",
        "where certutil is blocked no file of a payload can be checked: `FileRefused`",
        '"%POWERSHELL%" -NoProfile -NonInteractive -Command "(Get-FileHash -LiteralPath \'%REG%\' -Algorithm SHA256).Hash"',
        _judge_hash,
    ),
    HostCheck(
        "owner",
        r"C:\Program Files is TrustedInstaller's or an administrator's, and PowerShell reports it",
        "Microsoft Learn, Get-Acl; [MS-DTYP] 2.5.1",
        r"a payload below C:\Program Files is refused: `foreign`",
        f"{_OWNER}\n{_EXIT}",
        build_prefix_judge("answered"),
    ),
    HostCheck(
        "service-state",
        "sc query has the state's number on its third line with a colon, the exit code on its fourth",
        "seen in English and German output",
        "the state of no service is known: `Unreadable`",
        f"for %%s in ({_ANY}) do call :state %%s\nexit /b 0\n"
        ':state\n"%SC%" query "%~1" >state.txt 2>nul\nif not errorlevel 1 type state.txt',
        lambda lines: _judge_state(lines[:8]),
    ),
    HostCheck(
        "service-missing",
        "sc query of a service that does not exist is an error",
        "Microsoft Learn, System Error Codes, 1060",
        "services that do not exist are treated as stopped",
        f'"%SC%" query "TransomNone" >nul 2>nul\n{_EXIT}',
        build_prefix_judge("refused"),
    ),
    HostCheck(
        "task-scheduler",
        "the Task Scheduler runs, which the restarts are handed to",
        "Microsoft Learn, schtasks run",
        "restarts are handed to a service, which leaves errors 7009 and 7000 in the System log",
        '"%SC%" query "Schedule" >state.txt 2>nul\nif not errorlevel 1 type state.txt',
        _judge_scheduler,
    ),
    HostCheck(
        "long-lines",
        "for /f reads lines longer than 8,191 characters",
        "Microsoft Learn, for (names no limit); Wine 8 does not",
        "listing the certificate stores misses some, so each store is read by name",
        'for /f "usebackq tokens=1" %%a in (long.txt) do echo word-%%a',
        _judge_long_lines,
    ),
    HostCheck(
        "join",
        "copy /b joins files byte for byte, an empty one too, and %~z is a file's size",
        "Microsoft Learn, copy, for",
        "what was gathered cannot be read: `Unreadable`",
        ">one.txt echo 12\ntype nul >none.txt\n>two.txt echo 34\ncopy /y /b one.txt+none.txt+two.txt joined >nul\n"
        "for %%f in (joined) do echo size-%%~zf",
        build_prefix_judge("size-8"),
    ),
    HostCheck(
        "prompt",
        "cmd.exe carries out a line of standard input, whatever default shell has started it, and shows a file's time and size",
        "Microsoft Learn, for (%~t); ansible/ansible#47732: what is run comes on standard input, by either default shell",
        "a node is read every ten minutes, where a look by one channel would do",
        "",
        _judge_prompt,
        ask=_run_at_prompt,
    ),
    HostCheck(
        "ledger-closed",
        "the ledger is for SYSTEM and Administrators alone",
        "Microsoft Learn, Set-Acl, Automatic Propagation of Inheritable ACEs",
        "ordinary users read what variables were before, passwords included",
        f'"%REG%" query "{LEDGER}" /reg:64 >nul 2>nul\nif errorlevel 1 goto absent\n{_KEY_ACCESS}\n'
        "if errorlevel 1 echo open\nif not errorlevel 1 echo closed\nexit /b 0\n:absent\necho absent",
        _judge_closed,
    ),
    HostCheck(
        "base-closed",
        "ordinary users can make nothing in the Windows directory, where the base directory lies",
        "DISA, Windows Server 2022 STIG, WN22-00-000160",
        "`DirectoryNotOurs`, or an ordinary user puts scripts where SYSTEM runs them",
        f"{read_template('trials/windows-closed.cmd').strip()}\n{_EXIT}",
        build_prefix_judge("answered"),
    ),
    *POWERSHELL_CHECKS,
)
LONG_LINE = b"one " + b"x" * 20_000 + b"\r\ntwo x\r\n"
"""What `long.txt` holds."""
