"""reg.exe: query, export, import, add, delete (Microsoft: "reg"). Key paths are those of the 64-bit view."""

from collections.abc import Iterable

from transom.windows.registry import Key
from transom.windows.registry import reg as reg_format
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import same
from transom.windows.registry.reg import RegSyntaxError
from transom.windows.registry.values import Value, ValueType, binary, dword, expand_sz, multi_sz, sz, type_name
from winsim.access import ADMINISTRATORS
from winsim.filesystem import READ, FileError
from winsim.processes import Invocation

_ROOTS = {
    "HKLM": "HKEY_LOCAL_MACHINE",
    "HKCU": "HKEY_CURRENT_USER",
    "HKU": "HKEY_USERS",
    "HKCR": "HKEY_CLASSES_ROOT",
    "HKCC": "HKEY_CURRENT_CONFIG",
}
_MISSING = "ERROR: The system was unable to find the specified registry key or value.\n"
_DENIED = "ERROR: Access is denied.\n"
_DONE = "The operation completed successfully.\n"


async def reg(call: Invocation) -> int:
    """`reg OPERATION …`: 0, or 1 for whatever went wrong."""
    words = [word for word in call.arguments if word.casefold() not in ("/reg:64", "/reg:32")]
    operation = words[0].casefold() if words else ""
    handler = {"query": _query, "export": _export, "import": _import, "add": _add, "delete": _delete}.get(operation)
    if handler is None or len(words) < 2:
        call.error('ERROR: Invalid syntax.\nType "REG /?" for usage.\n')
        return 1
    await call.host.faults.disk()
    return handler(call, words[1], words[2:])


def _path(text: str) -> str:
    root, slash, rest = text.rstrip("\\").partition("\\")
    return _ROOTS.get(root.upper(), root.upper()) + slash + rest


def _option(options: list[str], name: str) -> str | None:
    folded = [option.casefold() for option in options]
    place = folded.index(name) + 1 if name in folded else len(options)
    return options[place] if place < len(options) else None


def _has(options: list[str], name: str) -> bool:
    return name in (option.casefold() for option in options)


def _found(call: Invocation, text: str) -> Key | None:
    """The key that is named; None, and a word about it, where it is missing or denied."""
    path = _path(text)
    files = call.host.files
    ordinary = files.actor != ADMINISTRATORS and files.enforced
    if call.host.faults.denies(path) or (ordinary and not call.host.keys.allows(path, files.sids)):
        call.error(_DENIED)
        return None
    key = call.host.registry.key(path)
    if key is None:
        call.error(_MISSING)
    return key


def _tree(call: Invocation, key: Key) -> list[Key]:
    """A key and those below it as `reg` walks them: by name, what is denied left out."""
    below = (found for found in call.host.registry.below(key.path) if not call.host.faults.denies(found.path))
    return [key, *sorted(below, key=lambda found: found.path.upper().split("\\"))]


def _query(call: Invocation, text: str, options: list[str]) -> int:
    key = _found(call, text)
    if key is None:
        return 1
    name = "" if _has(options, "/ve") else _option(options, "/v")
    keys = _tree(call, key) if _has(options, "/s") else [key]
    matches = 0
    for found in keys:
        values = [present for present in (found.values or {}).values() if name is None or same(present.name, name)]
        matches += len(values)
        if values or (name is None and len(keys) > 1):
            lines = "".join(f"    {present.name or '(Default)'}    {_shown(present.value)}\n" for present in values)
            call.out(f"\n{found.path}\n{lines}")
            if name is not None or len(keys) > 1:
                continue
    if name is not None and _has(options, "/s"):
        call.out(f"\nEnd of search: {matches} match(es) found.\n")
        return 0 if matches else 1
    if name is not None:
        if not matches:
            call.error(_MISSING)
            return 1
        call.out("\n")
        return 0
    if not _has(options, "/s"):
        children = sorted(call.host.registry.children(key.path), key=str.upper)
        call.out("\n" + "".join(f"{key.path}\\{child}\n" for child in children))
    return 0


def _shown(value: Value) -> str:
    match value.type:
        case ValueType.SZ | ValueType.EXPAND_SZ | ValueType.LINK:
            data = value.text()
        case ValueType.MULTI_SZ:
            data = r"\0".join(value.texts())
        case ValueType.DWORD | ValueType.QWORD:
            data = f"{value.number():#x}"
        case _:
            data = value.data.hex().upper()
    name = type_name(value.type)
    return f"{name if name.startswith('REG_') else 'REG_NONE'}    {data}"


def _export(call: Invocation, text: str, options: list[str]) -> int:
    key = _found(call, text)
    if key is None or not options:
        return 1
    path = call.absolute(options[0])
    if call.host.files.exists(path) and not _has(options, "/y"):
        call.error("ERROR: the file exists already.\n")
        return 1
    handle = call.host.files.open(path, truncate=True, share=READ)
    try:
        handle.write(reg_format.render(_edits(_tree(call, key))))
    except FileError:
        call.error("ERROR: There is not enough space on the disk.\n")
        return 1
    finally:
        handle.close()
    call.out(_DONE)
    return 0


def _edits(keys: list[Key]) -> Iterable[Edit]:
    for key in keys:
        if not key.values:
            yield CreateKey(key.path)
        for named in (key.values or {}).values():
            yield SetValue(key.path, named.name, named.value)


def _import(call: Invocation, text: str, options: list[str]) -> int:
    try:
        data = call.host.files.read(call.absolute(text))
    except FileError:
        call.error("ERROR: Error opening the file. There may be a disk or file system error.\n")
        return 1
    edits: list[Edit] = []
    refused = False
    try:
        for edit in reg_format.edits(data):
            if call.host.faults.denies(edit.path):
                refused = True
            else:
                edits.append(edit)
    except RegSyntaxError as damage:
        # what stands before the damage is imported all the same, and the exit code does not tell
        if damage.line == 1:
            call.error("ERROR: The specified file is not a registry script.\n")
            return 1
    call.host.registry = call.host.registry.apply(edits)
    call.error("ERROR: Error accessing the registry.\n" if refused else _DONE)
    return int(refused)


def _add(call: Invocation, text: str, options: list[str]) -> int:
    path = _path(text)
    if call.host.faults.denies(path):
        call.error(_DENIED)
        return 1
    name = "" if _has(options, "/ve") else _option(options, "/v")
    if name is None:
        call.host.registry = call.host.registry.apply([CreateKey(path)])
        call.out(_DONE)
        return 0
    if call.host.registry.value(path, name) is not None and not _has(options, "/f"):
        call.error("ERROR: the value exists already.\n")
        return 1
    try:
        value = _value(_option(options, "/t") or "REG_SZ", _option(options, "/d") or "", _option(options, "/s") or r"\0")
    except ValueError:
        call.error('ERROR: Invalid syntax.\nType "REG ADD /?" for usage.\n')
        return 1
    call.host.registry = call.host.registry.apply([SetValue(path, name, value)])
    call.out(_DONE)
    return 0


def _value(type_: str, text: str, separator: str) -> Value:
    match type_.upper():
        case "REG_SZ":
            return sz(text)
        case "REG_EXPAND_SZ":
            return expand_sz(text)
        case "REG_MULTI_SZ":
            return multi_sz(item for item in text.split(separator) if item)
        case "REG_DWORD":
            return dword(int(text or "0", 0))
        case "REG_BINARY":
            return binary(bytes.fromhex(text))
        case _:
            raise ValueError("a type that is not simulated")


def _delete(call: Invocation, text: str, options: list[str]) -> int:
    key = _found(call, text)
    if key is None:
        return 1
    if not _has(options, "/f"):
        call.error("ERROR: deleting asks first; give /f.\n")
        return 1
    name = "" if _has(options, "/ve") else _option(options, "/v")
    edits: list[Edit]
    if _has(options, "/va"):
        edits = [DeleteValue(key.path, named.name) for named in (key.values or {}).values()]
    elif name is None:
        edits = [DeleteKey(key.path)]
    elif key.get(name) is None:
        call.error(_MISSING)
        return 1
    else:
        edits = [DeleteValue(key.path, name)]
    call.host.registry = call.host.registry.apply(edits)
    call.out(_DONE)
    return 0
