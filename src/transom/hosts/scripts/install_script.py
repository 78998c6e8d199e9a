"""The parts of a change script that prepare Windows, place files and make services: names and paths, and no values."""

import re
from collections.abc import Iterator

from transom.hosts.errors import NotExpressible
from transom.hosts.scripts.template import Script, fill_template, read_template
from transom.windows.host.host_state import Preparation
from transom.windows.host.queries import SERVICES
from transom.windows.parts.installation import Install
from transom.windows.parts.service import Configuration
from transom.windows.planning.planner import Plan
from transom.windows.registry import reg
from transom.windows.registry.names import FoldedDict, is_within_any

NAME = re.compile(r"[A-Za-z0-9_.-]+")
PATH = re.compile(r"C:(?:\\[][A-Za-z0-9_.(){}#~ +=@,-]+)+")
_BEFORE_QUOTE = re.compile(r'(?<!\\)(\\*+)"')
_AT_END = re.compile(r"(?<!\\)(\\++)\Z")


def build_work_blocks(plan: Plan) -> dict[str, str]:
    """Build the blocks that run while the script holds the host and before services stop."""
    checks = "\n".join(f"call :verify {place.staged} {place.sha256}" for place in plan.install.place)
    owners = "\n".join(f"call :administrators {_quote_path(path)}" for path in plan.install.found)
    return {
        "VERIFY": fill_template("verify.cmd", {"CHECKS": checks, "OWNERS": owners}) if checks or owners else "",
        "VERIFYING": fill_template("verifying.cmd", {"OWNER": read_template("owner.cmd")}) if checks or owners else "",
        "PREPARE": fill_template("prepare.cmd", {"STEPS": "\n".join(_iter_preparation_steps(plan.prepare))})
        if plan.prepare
        else "",
        "PREPARING": fill_template("preparing.cmd", {"OWNER": read_template("owner.cmd")}) if plan.prepare else "",
    }


def build_job_blocks(plan: Plan, pass_id: str) -> dict[str, str]:
    """Build the blocks between the stops and the starts, and after the starts. Raises NotExpressible."""
    if not plan.install:
        return {"INSTALL": "", "INSTALLING": ""}
    values = {
        "STEPS": "\n".join(_iter_install_steps(plan.install)),
        "FINISH": "\n".join(_iter_final_steps(plan.install)),
        "ID": pass_id,
        "SERVICES": SERVICES,
        "OWNER": read_template("owner.cmd"),
    }
    removing = read_template("removing.cmd") if plan.install.networks or plan.install.clear or plan.install.ports else ""
    after = "if defined UNWELL goto undone" if plan.install.reversal is not None else "call :finish"
    return {
        "INSTALL": fill_template("install.cmd", {"AFTER": after}),
        "INSTALLING": fill_template("installing.cmd", values) + removing,
    }


def iter_reversal_steps(install: Install) -> Iterator[str]:
    """Yield the steps that undo an installation after its started services were stopped. Raises NotExpressible."""
    for made in install.create:
        yield f'call :delete "{_require_valid_name(made.name)}"'
    for number, place in enumerate(install.place):
        yield f"call :unplace {number} {_quote_path(place.path)}"
    if install.reversal is not None:
        first = len(install.create) + len(install.configure)
        for number, configuration in enumerate(install.reversal.configure, first):
            yield from _iter_service_steps("configure", number, configuration)
    for path in reversed(install.directories):
        yield f"rmdir {_quote_path(path)} 2>nul"


def iter_script_files(plan: Plan) -> Iterator[Script]:
    """Yield the files that the script reads: the values that it must not hold itself."""
    install, reversal = plan.install, plan.install.reversal
    for number, made in enumerate((*install.create, *install.configure, *(reversal.configure if reversal else ()))):
        if not made.image.isascii():
            # another program may have set it, and its value is restored
            raise NotExpressible(f"the command line of service {made.name} cannot be written for sc.exe: it is not all ASCII")
        yield Script(f"image-{number}.txt", (_quote_argument(made.image) + "\r\n").encode("ascii"))
    if install.edits:
        yield Script("install.reg", reg.render(install.edits))
    if install.lines:
        yield Script("ledger.reg", reg.render(install.lines))
    if reversal is not None and reversal.lines:
        yield Script("former-ledger.reg", reg.render(reversal.lines))
    if reversal is not None and reversal.edits:
        yield Script("former.reg", reg.render(reversal.edits))
    if plan.prepare:
        yield Script("prepared.reg", reg.render(plan.prepared))
        yield Script("pending.reg", reg.render(plan.pending))


def _iter_preparation_steps(preparation: Preparation) -> Iterator[str]:
    for directory in preparation.directories:
        yield f"call :owned {_quote_path(directory)}\nif defined FAILED exit /b 0"
    for port in preparation.ports:
        yield f"call :port {port}\nif defined FAILED exit /b 0"
    yield "call :routes"
    if preparation.containers:
        yield "call :containers\nif defined FAILED exit /b 0"
    if preparation.name:
        yield f"call :name {_require_valid_name(preparation.name)}\nif defined FAILED exit /b 0"


def _iter_install_steps(install: Install) -> Iterator[str]:
    for path in install.sweep:
        yield f"call :sweep {_quote_path(path)}"
    checked_parents = FoldedDict.from_names((*install.found, "C:"))
    for path in install.directories:
        above = path.rpartition("\\")[0]
        check = "check" if above in checked_parents else "-"
        access = _select_directory_access(path, install)
        yield f"call :directory {_quote_path(path)} {access} {check}\nif defined FOREIGN exit /b 0"
    for number, place in enumerate(install.place):
        yield f"call :place {number} {place.staged} {_quote_path(place.path)} {'aside' if place.aside else '-'}"
    for number, configuration in enumerate((*install.create, *install.configure)):
        yield from _iter_service_steps("service" if number < len(install.create) else "configure", number, configuration)


def _select_directory_access(path: str, install: Install) -> str:
    """Select the access of a directory: what is below a closed one inherits it."""
    closed = FoldedDict.from_names(install.closed)
    if is_within_any(path.rpartition("\\")[0], closed):
        return "inherit"
    return "closed" if path in closed else "open"


def _iter_final_steps(install: Install) -> Iterator[str]:
    for path in dict.fromkeys(place.path.rpartition("\\")[0] for place in install.place):
        yield f"call :sweep {_quote_path(path)}"
    for place in install.place:
        if _is_unpacking_program(place.path):
            yield f"call :exclude {_quote_path(place.path)}"
    for removal in install.remove:
        if _is_unpacking_program(removal.path):
            yield f"call :include {_quote_path(removal.path)}"
    for name in install.delete:
        yield f'call :delete "{_require_valid_name(name)}"'
    for path in install.clear:
        yield f"call :end {_quote_path(path)}"
    for network in install.networks:
        yield f'call :network "{_require_valid_name(network)}"'
    for removal in install.remove:
        yield f"call :remove {_quote_path(removal.path)} {'back' if removal.back else '-'}"
    for path in install.clear:
        yield f"call :clear {_quote_path(path)}"
    for path in install.leave:
        yield f"rmdir {_quote_path(path)} 2>nul"
    for port in install.ports:
        yield f"call :close {port}"


def _is_unpacking_program(path: str) -> bool:
    """Return True if a program unpacks image layers, whose files a virus scanner would open one after the other."""
    return path.casefold().endswith("\\containerd.exe")


def _iter_service_steps(step: str, number: int, configuration: Configuration) -> Iterator[str]:
    yield f"call :{step} {number} {_format_arguments(configuration)}"
    if configuration.restart_seconds is not None:
        yield f'call :failure "{configuration.name}" {configuration.restart_seconds * 1000}'


def _format_arguments(configuration: Configuration) -> str:
    depends = "/".join(map(_require_valid_name, configuration.depends)) or "/"
    return f'"{_require_valid_name(configuration.name)}" {"auto" if configuration.automatic else "demand"} "{depends}"'


def _quote_argument(image: str) -> str:
    """Quote a command line as one argument (Microsoft: "Parsing C command-line arguments")."""
    return _AT_END.sub(r"\1\1", _BEFORE_QUOTE.sub(r'\1\1\\"', image))


def _require_valid_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise NotExpressible(f"the name {name!r} cannot be written into a script")
    return name


def _quote_path(path: str) -> str:
    if not PATH.fullmatch(path):
        raise NotExpressible(f"the path {path!r} cannot be written into a script")
    return f'"{path}"'
