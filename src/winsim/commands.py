"""The commands that cmd.exe has in itself and that only touch variables and files."""

import re
from collections.abc import Callable

from winsim.arithmetic import evaluate
from winsim.filesystem import READ, Entry, FileError, Junction, SimulatedDirectory, SimulatedFile, list_entries
from winsim.shell import ShellState

_WORD = re.compile(r'(?:"[^"]*"?|[^\s,;="/])+|/[^\s,;="/]*')


def _split_arguments(rest: str) -> tuple[list[str], set[str]]:
    """Return the arguments, and the switches in lower case without their slash."""
    words = _WORD.findall(rest)
    return [w for w in words if not w.startswith("/")], {w[1:].casefold() for w in words if w.startswith("/")}


def _run_echo(shell: ShellState, rest: str) -> int:
    word = rest.strip().casefold()
    if word in ("on", "off") and rest[:1].isspace():
        return 0
    if not word and (not rest or rest[:1].isspace()):
        shell.write("ECHO is off.\r\n")
    else:
        shell.write(rest[1:] + "\r\n")
    return 0


def _run_set(shell: ShellState, rest: str) -> int:
    text = rest.strip()
    switch = text[:2].casefold()
    if switch == "/a":
        return _set_number(shell, text[2:])
    if switch == "/p":
        return _prompt(shell, text[2:].strip())
    if text.startswith('"'):
        end = text.rfind('"')
        text = text[1:end] if end > 0 else text[1:]
    else:
        text = rest.lstrip(" \t,;=")
    name, equals, value = text.partition("=")
    if equals:
        if not name:
            shell.write_error("The syntax of the command is incorrect.")
            return 1
        missing = not value and shell.variables.get(name) is None
        shell.variables.set(name, value)
        return int(missing)
    lines = [
        f"{present}={value}"
        for present, value in shell.variables.iter_items()
        if present.upper().startswith(name.strip().upper())
    ]
    if not lines:
        shell.write_error(f"Environment variable {name.strip()} not defined")
        return 1
    shell.write("".join(line + "\r\n" for line in lines))
    return 0


def _set_number(shell: ShellState, text: str) -> int:
    try:
        evaluate(text.replace('"', ""), shell.lookup, shell.variables.set)
    except ZeroDivisionError:
        shell.write_error("Divide by zero error.")
        return 1073750993
    except ValueError:
        shell.write_error("Missing operand.")
        return 1073750989
    return 0


def _prompt(shell: ShellState, text: str) -> int:
    name, _, prompt = text.strip('"').partition("=")
    shell.write(prompt.strip('"'))
    line, _, rest = shell.streams.input.partition(b"\n")
    shell.streams.input = rest
    answer = line.decode("cp437").removesuffix("\r")
    if answer:
        shell.variables.set(name, answer)
    return int(not answer)


def _make_directory(shell: ShellState, rest: str) -> int:
    words, _ = _split_arguments(rest)
    code = 0
    for word in words:
        path = shell.resolve_path(word)
        if shell.host.files.exists(path):
            shell.write_error(f"A subdirectory or file {word.replace(chr(34), '')} already exists.")
            code = 1
        else:
            shell.host.files.make_directories(path)
    return code


def _remove_directory(shell: ShellState, rest: str) -> int:
    words, switches = _split_arguments(rest)
    files = shell.host.files
    for word in words:
        entry = files.find_entry(shell.resolve_path(word))
        if entry is None:
            raise FileError(2)
        if isinstance(entry, SimulatedFile):
            raise FileError(267)
        if "s" not in switches:
            files.remove(entry)
            continue
        # whether a link that is named itself is followed depends on who is asked: the worse of the two
        tree = files.find(shell.resolve_path(word)) if isinstance(entry, Junction) else entry
        if isinstance(tree, SimulatedDirectory):
            files.remove_tree(tree)
        if entry.parent is not None:
            files.remove(entry)
    return 0


def _delete(shell: ShellState, rest: str) -> int:
    words, _ = _split_arguments(rest)
    files = shell.host.files
    for word in words:
        path = shell.resolve_path(word)
        entries = files.list_matching(path)
        if len(entries) == 1 and isinstance(entries[0][1], SimulatedDirectory):
            entries = [(f"{path}\\{node.name}", node) for node in list_entries(entries[0][1])]
        if not entries:
            shell.write_error(f"Could Not Find {path}")
        for place, node in entries:
            if isinstance(node, SimulatedFile):
                try:
                    files.remove(node)
                except FileError as failure:
                    shell.write_error(f"{place}\r\n{failure}")
    return 0


def _move(shell: ShellState, rest: str) -> int:
    words, switches = _split_arguments(rest)
    files = shell.host.files
    if len(words) != 2:
        shell.write_error("The syntax of the command is incorrect.")
        return 1
    source, target = shell.resolve_path(words[0]), shell.resolve_path(words[1])
    node = files.find_entry(source)
    if node is None:
        raise FileError(2)
    existing = files.find(target)
    if isinstance(existing, SimulatedDirectory) and existing is not node:
        target = f"{target}\\{node.name}"
        existing = files.find(target)
    if existing is not None and existing is not node and "y" not in switches and not shell.is_in_batch_file:
        raise FileError(183)
    try:
        files.rename(node, target, replace=True)
    except FileError as failure:
        raise FileError(5) if failure.code == 183 else failure from None
    kind = "file" if isinstance(node, SimulatedFile) else "dir"
    shell.write(f"        1 {kind}(s) moved.\r\n")
    return 0


def _rename(shell: ShellState, rest: str) -> int:
    words, _ = _split_arguments(rest)
    if len(words) != 2 or any(letter in words[1] for letter in "\\/:*?"):
        shell.write_error("The syntax of the command is incorrect.")
        return 1
    path = shell.resolve_path(words[0])
    node = shell.host.files.find_entry(path)
    if node is None:
        raise FileError(2)
    target = f"{path.rpartition(chr(92))[0]}\\{words[1].replace(chr(34), '')}"
    try:
        shell.host.files.rename(node, target)
    except FileError as failure:
        if failure.code != 183:
            raise
        shell.write_error("A duplicate file name exists, or the file\r\ncannot be found.")
        return 1
    return 0


def _copy(shell: ShellState, rest: str) -> int:
    words, switches = _split_arguments(re.sub(r"\s*\+\s*", "+", rest))
    if not 1 <= len(words) <= 2:
        shell.write_error("The syntax of the command is incorrect.")
        return 1
    files = shell.host.files
    sources = [shell.resolve_path(word) for word in re.findall(r'(?:"[^"]*"|[^+"])+', words[0])]
    entries: list[Entry] = [node for source in sources for _, node in files.list_matching(source)]
    present = [node for node in entries if isinstance(node, SimulatedFile)]
    if not present:
        raise FileError(2)
    target = shell.resolve_path(words[1]) if len(words) == 2 else shell.resolve_path(present[0].name)
    if len(sources) == 1:
        for file in present:
            place = f"{target}\\{file.name}" if isinstance(files.find(target), SimulatedDirectory) else target
            _write(shell, place, bytes(file.data))
        shell.write(f"        {len(present)} file(s) copied.\r\n")
        return 0
    if "b" in switches:
        data = b"".join(bytes(file.data) for file in present)
    else:
        # joined as text, files end at Ctrl-Z and so does the whole
        data = b"".join(bytes(file.data).split(b"\x1a")[0] for file in present) + b"\x1a"
    _write(shell, target, data)
    shell.write("        1 file(s) copied.\r\n")
    return 0


def _write(shell: ShellState, path: str, data: bytes) -> None:
    handle = shell.host.files.open(path, truncate=True, share=READ)
    try:
        handle.write(data)
    finally:
        handle.close()


def _run_type(shell: ShellState, rest: str) -> int:
    words, _ = _split_arguments(rest)
    for word in words:
        data = shell.host.files.read(shell.resolve_path(word))
        if data.startswith(b"\xff\xfe"):
            data = data[2 : len(data) & ~1].decode("utf-16-le", "replace").encode("cp437", "replace")
        shell.streams.out.write(data)
    return 0


def _change_directory(shell: ShellState, rest: str) -> int:
    path = re.sub(r"^\s*/d\b", "", rest, flags=re.IGNORECASE).strip().replace('"', "")
    if not path:
        shell.write(shell.cwd + "\r\n")
        return 0
    try:
        shell.change_directory(shell.resolve_path(path))
    except FileError as failure:
        raise FileError(3) if failure.code == 2 else failure from None
    return 0


def _list(shell: ShellState, rest: str) -> int:
    words, switches = _split_arguments(rest)
    if "b" not in switches:
        shell.write_error("dir without /b is not simulated.")
        return 1
    path = shell.resolve_path(words[0]) if words else shell.cwd
    node = shell.host.files.find(path)
    entries = (
        list_entries(node)
        if isinstance(node, SimulatedDirectory)
        else [present for _, present in shell.host.files.list_matching(path)]
    )
    if "ad" in switches:
        entries = [present for present in entries if isinstance(present, SimulatedDirectory)]
    if "a-d" in switches:
        entries = [present for present in entries if isinstance(present, SimulatedFile)]
    if not entries:
        raise FileError(2)
    shell.write("".join(present.name + "\r\n" for present in entries))
    return 0


def _run_ver(shell: ShellState, rest: str) -> int:
    shell.write(f"\r\nMicrosoft Windows [Version 10.0.{shell.host.edition.build}]\r\n")
    return 0


def _ignore_command(shell: ShellState, rest: str) -> int:
    return 0


COMMANDS: dict[str, Callable[[ShellState, str], int]] = {
    "echo": _run_echo,
    "set": _run_set,
    "md": _make_directory,
    "mkdir": _make_directory,
    "rd": _remove_directory,
    "rmdir": _remove_directory,
    "del": _delete,
    "erase": _delete,
    "move": _move,
    "ren": _rename,
    "rename": _rename,
    "copy": _copy,
    "type": _run_type,
    "cd": _change_directory,
    "chdir": _change_directory,
    "dir": _list,
    "rem": _ignore_command,
    "title": _ignore_command,
    "ver": _run_ver,
}

# which commands set ERRORLEVEL to 0 when they succeed, in a .cmd file, and which leave it alone when they fail
# (Dave Benham, "Which cmd.exe internal commands clear the ERRORLEVEL to 0 upon success?", Stack Overflow 34968009)
CLEARING = frozenset(
    ["set", "md", "mkdir", "del", "erase", "move", "ren", "rename", "copy", "type", "cd", "chdir", "dir", "ver"]
)
SILENT = frozenset(["rd", "rmdir", "del", "erase"])
