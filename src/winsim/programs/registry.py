"""reg.exe: query, export, import, add, delete (Microsoft: "reg"). Key paths are those of the 64-bit view."""

from collections.abc import Iterable

from transom.windows.registry import reg as reg_format
from transom.windows.registry.edits import CreateKey, DeleteKey, DeleteValue, Edit, SetValue
from transom.windows.registry.names import is_same
from transom.windows.registry.reg import RegSyntaxError
from transom.windows.registry.registry import Key
from transom.windows.registry.values import (
    Value,
    ValueType,
    build_binary,
    build_dword,
    build_expand_sz,
    build_multi_sz,
    build_sz,
    format_type_name,
)
from winsim.access import ADMINISTRATORS
from winsim.computer import Invocation
from winsim.filesystem import READ, FileError

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


async def run_reg(call: Invocation) -> int:
    """Run `reg OPERATION …`; return 0, or 1 on any error."""
    words = [word for word in call.arguments if word.casefold() not in ("/reg:64", "/reg:32")]
    operation = words[0].casefold() if words else ""
    handler = {"query": _query, "export": _export, "import": _import, "add": _add, "delete": _delete}.get(operation)
    if handler is None or len(words) < 2:
        call.write_error('ERROR: Invalid syntax.\nType "REG /?" for usage.\n')
        return 1
    await call.host.faults.wait_for_disk()
    return handler(call, words[1], words[2:])


def _resolve_key_path(text: str) -> str:
    root, slash, rest = text.rstrip("\\").partition("\\")
    return _ROOTS.get(root.upper(), root.upper()) + slash + rest


def _get_option(options: list[str], name: str) -> str | None:
    folded = [option.casefold() for option in options]
    place = folded.index(name) + 1 if name in folded else len(options)
    return options[place] if place < len(options) else None


def _has(options: list[str], name: str) -> bool:
    return name in (option.casefold() for option in options)


def _find_key(call: Invocation, text: str) -> Key | None:
    """Return the named key, or print an error and return None if it is missing or access is denied."""
    path = _resolve_key_path(text)
    files = call.host.files
    ordinary = files.actor != ADMINISTRATORS and files.enforced
    if call.host.faults.is_denied(path) or (ordinary and not call.host.keys.allows(path, files.sids)):
        call.write_error(_DENIED)
        return None
    key = call.host.registry.find_key(path)
    if key is None:
        call.write_error(_MISSING)
    return key


def _list_tree(call: Invocation, key: Key) -> list[Key]:
    """Return a key and the keys below it in the order of `reg`: by name, without denied keys."""
    below = (item for item in call.host.registry.list_keys_below(key.path) if not call.host.faults.is_denied(item.path))
    return [key, *sorted(below, key=lambda item: item.path.upper().split("\\"))]


def _query(call: Invocation, text: str, options: list[str]) -> int:
    key = _find_key(call, text)
    if key is None:
        return 1
    name = "" if _has(options, "/ve") else _get_option(options, "/v")
    keys = _list_tree(call, key) if _has(options, "/s") else [key]
    matches = 0
    for item in keys:
        values = [present for present in (item.values or {}).values() if name is None or is_same(present.name, name)]
        matches += len(values)
        if values or (name is None and len(keys) > 1):
            lines = "".join(f"    {present.name or '(Default)'}    {_format_value(present.value)}\n" for present in values)
            call.write_output(f"\n{item.path}\n{lines}")
            if name is not None or len(keys) > 1:
                continue
    if name is not None and _has(options, "/s"):
        call.write_output(f"\nEnd of search: {matches} match(es) found.\n")
        return 0 if matches else 1
    if name is not None:
        if not matches:
            call.write_error(_MISSING)
            return 1
        call.write_output("\n")
        return 0
    if not _has(options, "/s"):
        children = sorted(call.host.registry.list_children(key.path), key=str.upper)
        call.write_output("\n" + "".join(f"{key.path}\\{child}\n" for child in children))
    return 0


def _format_value(value: Value) -> str:
    match value.type:
        case ValueType.SZ | ValueType.EXPAND_SZ | ValueType.LINK:
            data = value.decode_text()
        case ValueType.MULTI_SZ:
            data = r"\0".join(value.to_texts())
        case ValueType.DWORD | ValueType.QWORD:
            data = f"{value.to_number():#x}"
        case _:
            data = value.data.hex().upper()
    name = format_type_name(value.type)
    return f"{name if name.startswith('REG_') else 'REG_NONE'}    {data}"


def _export(call: Invocation, text: str, options: list[str]) -> int:
    key = _find_key(call, text)
    if key is None or not options:
        return 1
    path = call.resolve_path(options[0])
    if call.host.files.exists(path) and not _has(options, "/y"):
        call.write_error("ERROR: the file exists already.\n")
        return 1
    handle = call.host.files.open(path, truncate=True, share=READ)
    try:
        handle.write(reg_format.render(_iter_edits(_list_tree(call, key))))
    except FileError:
        call.write_error("ERROR: There is not enough space on the disk.\n")
        return 1
    finally:
        handle.close()
    call.write_output(_DONE)
    return 0


def _iter_edits(keys: list[Key]) -> Iterable[Edit]:
    for key in keys:
        if not key.values:
            yield CreateKey(key.path)
        for named in (key.values or {}).values():
            yield SetValue(key.path, named.name, named.value)


def _import(call: Invocation, text: str, options: list[str]) -> int:
    try:
        data = call.host.files.read(call.resolve_path(text))
    except FileError:
        call.write_error("ERROR: Error opening the file. There may be a disk or file system error.\n")
        return 1
    edits: list[Edit] = []
    refused = False
    try:
        for edit in reg_format.iter_edits(data):
            if call.host.faults.is_denied(edit.path):
                refused = True
            else:
                edits.append(edit)
    except RegSyntaxError as damage:
        # what stands before the damage is imported all the same, and the exit code does not tell
        if damage.line == 1:
            call.write_error("ERROR: The specified file is not a registry script.\n")
            return 1
    call.host.registry = call.host.registry.apply_edits(edits)
    call.write_error("ERROR: Error accessing the registry.\n" if refused else _DONE)
    return int(refused)


def _add(call: Invocation, text: str, options: list[str]) -> int:
    path = _resolve_key_path(text)
    if call.host.faults.is_denied(path):
        call.write_error(_DENIED)
        return 1
    name = "" if _has(options, "/ve") else _get_option(options, "/v")
    if name is None:
        call.host.registry = call.host.registry.apply_edits([CreateKey(path)])
        call.write_output(_DONE)
        return 0
    if call.host.registry.find_value(path, name) is not None and not _has(options, "/f"):
        call.write_error("ERROR: the value exists already.\n")
        return 1
    try:
        value = _parse_value(
            _get_option(options, "/t") or "REG_SZ", _get_option(options, "/d") or "", _get_option(options, "/s") or r"\0"
        )
    except ValueError:
        call.write_error('ERROR: Invalid syntax.\nType "REG ADD /?" for usage.\n')
        return 1
    call.host.registry = call.host.registry.apply_edits([SetValue(path, name, value)])
    call.write_output(_DONE)
    return 0


def _parse_value(type_: str, text: str, separator: str) -> Value:
    match type_.upper():
        case "REG_SZ":
            return build_sz(text)
        case "REG_EXPAND_SZ":
            return build_expand_sz(text)
        case "REG_MULTI_SZ":
            return build_multi_sz(item for item in text.split(separator) if item)
        case "REG_DWORD":
            return build_dword(int(text or "0", 0))
        case "REG_BINARY":
            return build_binary(bytes.fromhex(text))
        case _:
            raise ValueError("a type that is not simulated")


def _delete(call: Invocation, text: str, options: list[str]) -> int:
    key = _find_key(call, text)
    if key is None:
        return 1
    if not _has(options, "/f"):
        call.write_error("ERROR: deleting asks first; give /f.\n")
        return 1
    name = "" if _has(options, "/ve") else _get_option(options, "/v")
    edits: list[Edit]
    if _has(options, "/va"):
        edits = [DeleteValue(key.path, named.name) for named in (key.values or {}).values()]
    elif name is None:
        edits = [DeleteKey(key.path)]
    elif key.get(name) is None:
        call.write_error(_MISSING)
        return 1
    else:
        edits = [DeleteValue(key.path, name)]
    call.host.registry = call.host.registry.apply_edits(edits)
    call.write_output(_DONE)
    return 0
