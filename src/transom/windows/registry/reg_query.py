r"""What `reg query` prints (Microsoft: "reg query").

The text is in the console's OEM code page, and its last line is in the language of the host, so only ASCII is looked at:
key paths, value names, `REG_…` and the data. A letter outside ASCII comes back as U+FFFD.
"""

import re


def subkeys(output: bytes, path: str) -> tuple[str, ...]:
    r"""The names of the keys right below `path` (`HKEY_LOCAL_MACHINE\…`, in full) in the output of `reg query PATH`."""
    return tuple(name for name in (_child(line, path) for line in _lines(output)) if name)


def number(output: bytes, name: str) -> int | None:
    """The REG_DWORD or REG_QWORD `name` in the output of `reg query KEY /v NAME`; None where it is not there."""
    wanted = re.compile(rf"[ \t]+{re.escape(name)}[ \t]+REG_[DQ]WORD[ \t]+0x([0-9a-f]{{1,16}})[ \t]*", re.IGNORECASE)
    found = next(filter(None, map(wanted.fullmatch, _lines(output))), None)
    return int(found[1], 16) if found else None


def dependencies(output: bytes, path: str) -> dict[str, tuple[str, ...]]:
    r"""What each service depends on, by its name, from `reg query PATH /s /v DependOnService`, PATH being `…\Services`.

    A service without the value is not listed; keys deeper than a service are left out. `reg query` joins the items of a
    REG_MULTI_SZ with `\0` in letters.
    """
    found: dict[str, tuple[str, ...]] = {}
    service: str | None = None
    for line in _lines(output):
        if line[:1] not in (" ", "\t", ""):
            service = _child(line, path)
        elif service and (value := _DEPENDENCIES.match(line)):
            found[service] = tuple(item for item in line[value.end() :].strip(" \t").split(r"\0") if item)
    return found


_DEPENDENCIES = re.compile(r"[ \t]+DependOnService[ \t]+REG_MULTI_SZ(?![^ \t])", re.IGNORECASE)


def _child(line: str, path: str) -> str | None:
    """The last part of a key's path that is right below `path`."""
    prefix = path + "\\"
    if line[: len(prefix)].casefold() != prefix.casefold():
        return None
    name = line[len(prefix) :]
    return name if name and "\\" not in name else None


def _lines(output: bytes) -> list[str]:
    return [line.removesuffix("\r") for line in output.decode("ascii", "replace").split("\n")]
