"""cmd.exe: carries out what `batch` parsed. Echo is always off; what is not known here is an error, never passed over."""

import asyncio
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

from winsim import batch, commands, conditions, expansion, loops
from winsim.batch import BatchSyntaxError, Block, Chain, Command, For, If, Incomplete
from winsim.expansion import BatchVariables
from winsim.filesystem import FileError, SimulatedDirectory, SimulatedFile, parts
from winsim.processes import Invocation, Job
from winsim.streams import NUL, Buffer, Streams, redirected

if TYPE_CHECKING:
    from winsim.host import Host

_NAME = re.compile(r'([A-Za-z]+)(?=[\s,;=./:\\+\["(]|$)')
_ARGUMENT = re.compile(r'(?:"[^"]*"?|[^\s,;="])+')
_PROGRAM = re.compile(r'[\s,;=]*((?:"[^"]*"?|[^\s,;="/])+)')
_STATEMENTS_PER_TURN = 64


class _Goto(Exception):
    """Leaves the statements that are being carried out for a label of the same script."""


class _Return(Exception):
    """`exit /b`, `goto :eof`: the end of a script or a subroutine."""


class _Exit(Exception):
    """`exit`: the end of the process."""


class Frame:
    """A batch file, or a subroutine of it, that is being run."""

    __slots__ = ("_version", "arguments", "at", "file", "saved", "script")

    def __init__(self, file: SimulatedFile, script: batch.BatchScript, arguments: list[str], at: int = 0) -> None:
        self.file, self.script, self.arguments, self.at = file, script, arguments, at
        self._version = file.version
        self.saved: list[tuple[BatchVariables, str, bool]] = []

    def lines(self) -> tuple[str, ...]:
        """The lines as they are now: cmd reads a script line by line."""
        if self.file.version != self._version:
            self.script, self._version = batch.script(bytes(self.file.data)), self.file.version
        return self.script.lines


class Shell:
    """A cmd.exe process: variables, current directory, error level, and what it runs."""

    def __init__(self, host: "Host", variables: BatchVariables, cwd: str, streams: Streams, job: Job) -> None:
        self.host, self.variables, self.streams, self.job = host, variables, streams, job
        self.errorlevel = 0
        self.frame: Frame | None = None
        self.delayed = False
        self.loops: dict[str, str] = {}
        self._statements = 0
        self._directory: SimulatedDirectory | None = None
        self.cwd = cwd
        self.change_directory(cwd)

    # --- a process

    async def run(self, line: str) -> int:
        """Carries out a line as `cmd /c` does, and gives the exit code."""
        try:
            node = batch.parse(expansion.percent(line, self.lookup, None, self.host.files, self.cwd))
            if node is not None:
                await self._run(node)
        except (_Exit, _Return, _Goto):
            pass
        except (BatchSyntaxError, Incomplete) as error:
            self.error(str(error))
            self.errorlevel = 255
        finally:
            if self._directory is not None:
                self._directory.holds -= 1
        return self.errorlevel

    def change_directory(self, path: str) -> None:
        """Makes a directory the current one, and keeps it from being removed. Raises FileError."""
        found = self.host.files.directory(path)
        found.holds += 1
        if self._directory is not None:
            self._directory.holds -= 1
        self._directory, self.cwd = found, "C:\\" + "\\".join(parts(path))

    def path(self, text: str) -> str:
        """A path of a command line in full, without its quotes."""
        return expansion.absolute(text.replace('"', ""), self.cwd)

    def lookup(self, name: str) -> str | None:
        """A variable, those that cmd.exe makes up included."""
        present = self.variables.get(name)
        if present is None:
            match name.upper():
                case "ERRORLEVEL":
                    return str(self.errorlevel)
                case "CD":
                    return self.cwd
                case "RANDOM":
                    return str(self.host.random.randrange(32768))
        return present

    def write(self, text: str) -> None:
        """Writes to standard output, in the OEM code page."""
        self.streams.out.write(text.encode("cp437", "replace"))

    def error(self, text: str) -> None:
        """Writes a line to standard error."""
        self.streams.err.write(self.host.edition.said(text + "\r\n"))

    # --- batch files

    async def batch_file(self, file: SimulatedFile, arguments: list[str]) -> None:
        """Runs a batch file to its end."""
        await self._frame(Frame(file, batch.script(bytes(file.data)), arguments))

    async def _frame(self, frame: Frame) -> None:
        outer, self.frame = self.frame, frame
        around, self.loops = self.loops, {}
        try:
            await self._lines(frame)
        except _Return:
            pass
        finally:
            if frame.saved:
                self.variables, cwd, self.delayed = frame.saved[0]
                self.change_directory(cwd)
            self.frame, self.loops = outer, around

    async def _lines(self, frame: Frame) -> None:
        while True:
            self.host.step()
            lines = frame.lines()
            if frame.at >= len(lines):
                break
            if frame.file.parent is None:
                self.error("The batch file cannot be found.")
                self.errorlevel = 1
                raise _Exit
            text = self._expanded(frame)
            if text is None:
                continue
            while True:
                try:
                    node = batch.parse(text)
                    break
                except Incomplete:
                    if frame.at >= len(lines):
                        raise BatchSyntaxError("The syntax of the command is incorrect.") from None
                    text += "\n" + (self._expanded(frame) or "")
            if node is None:
                continue
            try:
                await self._run(node)
            except _Goto as jump:
                place = frame.script.find(str(jump), frame.at)
                if place is None:
                    self.error(f"The system cannot find the batch label specified - {jump}")
                    self.errorlevel = 1
                    raise _Exit from None
                frame.at = place

    def _expanded(self, frame: Frame) -> str | None:
        """The next line with its variables; None for an empty one and for a label."""
        line = frame.script.lines[frame.at]
        frame.at += 1
        start = line.lstrip(" \t,;=")
        if not start or start[0] == ":":
            return None
        return expansion.percent(line, self.lookup, frame.arguments, self.host.files, self.cwd) if "%" in line else line

    # --- statements

    async def _run(self, node: batch.Node) -> int:
        """Carries out a statement; what comes back decides on `&&` and `||`."""
        self._statements += 1
        if self._statements % _STATEMENTS_PER_TURN == 0:
            await asyncio.sleep(0)
        match node:
            case Command():
                if not node.redirections:
                    return await self._command(node.text)
                return await self._redirected(node)
            case Block():
                if node.redirections:
                    return await self._redirected(node)
                code = 0
                for statement in node.statements:
                    code = await self._run(statement)
                return code
            case If():
                if conditions.holds(self, node):
                    return await self._run(node.then)
                return await self._run(node.otherwise) if node.otherwise is not None else 0
            case Chain():
                return await self._chain(node)
            case For():
                return await self._for(node)

    async def _chain(self, node: Chain) -> int:
        if node.operator == "|":
            between = Buffer()
            await self.child(node.left, Streams(between, self.streams.err, self.streams.input))
            self.errorlevel = await self.child(node.right, Streams(self.streams.out, self.streams.err, bytes(between.data)))
            return self.errorlevel
        code = await self._run(node.left)
        return await self._run(node.right) if (code == 0) == (node.operator == "&&") else code

    async def child(self, node: batch.Node, streams: Streams) -> int:
        """Carries out a statement in a process of its own, as pipes and `for /f` do."""
        child = Shell(self.host, self.variables.copy(), self.cwd, streams, self.job)
        child.frame, child.loops, child.delayed, child.errorlevel = self.frame, dict(self.loops), self.delayed, self.errorlevel
        try:
            await child._run(node)
        except (_Exit, _Return, _Goto):
            pass
        finally:
            if child._directory is not None:
                child._directory.holds -= 1
        return child.errorlevel

    async def _redirected(self, node: Command | Block) -> int:
        await self.host.faults.disk()
        with ExitStack() as stack:
            try:
                stack.enter_context(redirected(self, node.redirections))
            except FileError as failure:
                self.error(str(failure))
                self.errorlevel = 1
                return 1
            return await (self._command(node.text) if isinstance(node, Command) else self._run(Block(node.statements)))

    def late(self, text: str) -> str:
        """A text of the tree with the loops' variables and, where enabled, `!x!`."""
        if self.loops and "%" in text:
            text = expansion.loop(text, self.loops, self.host.files, self.cwd)
        return expansion.delayed(text, self.lookup) if self.delayed else text

    async def _for(self, node: For) -> int:
        outer = self.loops
        code = 0
        try:
            async for values in loops.rounds(self, node):
                self.loops = outer | values
                code = await self._run(node.body)
        finally:
            self.loops = outer
        return code

    # --- commands

    async def _command(self, text: str, *, called: bool = False) -> int:
        text = self.late(text).lstrip(" \t,;=@")
        name = _NAME.match(text)
        word = name[1].casefold() if name else ""
        match word:
            case "call":
                return await self._call(text[4:])
            case "goto":
                label = text[4:].strip(" \t,;=")
                if label.casefold() == ":eof":
                    raise _Return
                raise _Goto(label.removeprefix(":").split(" ")[0])
            case "exit":
                self._exit(text[4:])
            case "start":
                return self._start(text[5:])
            case "setlocal" | "endlocal":
                return self._locals(word, text[8:])
        builtin = commands.COMMANDS.get(word)
        if builtin is None:
            return await self.external(text, called=called)
        try:
            code = builtin(self, text[len(word) :])
        except FileError as failure:
            self.error(str(failure))
            code = 1
        if code:
            if word not in commands.SILENT:
                self.errorlevel = code
        elif called or word in commands.CLEARING:
            self.errorlevel = 0
        return code

    def _exit(self, rest: str) -> None:
        words = rest.split()
        inner = bool(words) and words[0].casefold() == "/b"
        if words[inner:]:
            self.errorlevel = conditions.number(words[inner]) or 0
        raise _Return if inner else _Exit

    def _locals(self, word: str, rest: str) -> int:
        self.errorlevel = 0 if word == "setlocal" else self.errorlevel
        if self.frame is None:
            return 0
        if word == "endlocal":
            if self.frame.saved:
                self.variables, cwd, self.delayed = self.frame.saved.pop()
                self.change_directory(cwd)
            return 0
        self.frame.saved.append((self.variables, self.cwd, self.delayed))
        self.variables = self.variables.copy()
        for option in rest.casefold().split():
            if option in ("enabledelayedexpansion", "disabledelayedexpansion"):
                self.delayed = option.startswith("enable")
        return 0

    async def _call(self, rest: str) -> int:
        arguments = self.frame.arguments if self.frame else None
        text = expansion.percent(rest, self.lookup, arguments, self.host.files, self.cwd).lstrip(" \t,;=")
        if not text.startswith(":"):
            return await self._command(text, called=True)
        words = _ARGUMENT.findall(text)
        if self.frame is None:
            self.error("Invalid attempt to call batch label outside of batch script.")
            self.errorlevel = 1
            return 1
        if words[0].casefold() == ":eof":
            return self.errorlevel
        place = self.frame.script.find(words[0][1:], self.frame.at)
        if place is None:
            self.error(f"The system cannot find the batch label specified - {words[0][1:]}")
            self.errorlevel = 1
            return 1
        await self._frame(Frame(self.frame.file, self.frame.script, [self.frame.arguments[0], *words[1:]], place))
        return self.errorlevel

    def _start(self, rest: str) -> int:
        words = rest.strip()
        if words.startswith('"'):
            words = words[batch.closing(words, 0) :].lstrip()
        while found := re.match(r"/(b|wait|min|max|low|normal|high)\b\s*", words, re.IGNORECASE):
            words = words[found.end() :]
            if found[1].casefold() == "wait":
                raise BatchSyntaxError("start /wait is not simulated.")
        child = Shell(self.host, self.variables.copy(), self.cwd, Streams(NUL, NUL), self.job)
        self.job.start(child.run(words))
        return 0

    async def external(self, text: str, *, called: bool = False) -> int:
        """Runs a program or a batch file; without `called` a batch file takes the place of the one that names it."""
        found = _PROGRAM.match(text)
        if found is None:
            return 0
        name, rest = found[1].replace('"', ""), text[found.end() :]
        node, place = self.program(name)
        if node is None:
            return self._unknown(name)
        if place.casefold().endswith((".cmd", ".bat")):
            await self.batch_file(node, [found[1], *_ARGUMENT.findall(rest)])
            if self.frame is not None and not called:
                raise _Return
            return self.errorlevel
        invocation = Invocation(self.host, place, rest, self.streams, self.variables, self.cwd, self.job)
        try:
            self.errorlevel = await self.host.run(invocation, node)
        except FileError as failure:
            self.error(str(failure))
            self.errorlevel = 1
        return self.errorlevel

    def program(self, name: str) -> tuple[SimulatedFile | None, str]:
        """The file that a command's name means, and its path; None and the name where there is none."""
        if any(letter in name for letter in "\\/:"):
            places = [self.path(name)]
        else:
            places = [f"{directory}\\{name}" for directory in (self.cwd, *(self.variables.get("PATH") or "").split(";"))]
        for place in places:
            for suffix in ("", ".exe", ".bat", ".cmd"):
                node = self.host.files.find(place + suffix)
                if isinstance(node, SimulatedFile) and (place + suffix).casefold().endswith((".exe", ".bat", ".cmd", ".com")):
                    return node, place + suffix
        return None, name

    def _unknown(self, name: str) -> int:
        self.host.unknown.append(name)
        if "\\" in name and self.host.files.find(self.path(name).rpartition("\\")[0]) is None:
            self.error("The system cannot find the path specified.")
            self.errorlevel = 3
        else:
            self.error(f"'{name}' is not recognized as an internal or external command,\r\noperable program or batch file.")
            self.errorlevel = 9009
        return self.errorlevel
