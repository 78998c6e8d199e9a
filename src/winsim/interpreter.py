"""cmd.exe: carries out what `batch` parsed. Echo is always off; what is not known here is an error, never passed over."""

import asyncio
import re
from contextlib import ExitStack

from winsim import batch, commands, conditions, expansion, loops
from winsim.batch import BatchSyntaxError, Block, Chain, Command, For, If, Incomplete
from winsim.expansion import BatchVariables
from winsim.filesystem import FileError, SimulatedFile
from winsim.machine import Machine
from winsim.processes import Job, ProcessStart
from winsim.shell import ShellState, open_redirections
from winsim.streams import NUL, Buffer, Streams

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

    def read_lines(self) -> tuple[str, ...]:
        """Return the current lines of the file: cmd.exe reads a script line by line."""
        if self.file.version != self._version:
            self.script, self._version = batch.parse_script(bytes(self.file.data)), self.file.version
        return self.script.lines


class Shell(ShellState):
    """A cmd.exe process, and what it runs."""

    def __init__(self, host: Machine, variables: BatchVariables, cwd: str, streams: Streams, job: Job) -> None:
        super().__init__(host, variables, cwd, streams, job)
        self.frame: Frame | None = None
        self._statements = 0

    # --- a process

    async def run(self, line: str) -> int:
        """Carry out a line as `cmd /c` does, and gives the exit code."""
        try:
            node = batch.parse(expansion.expand_percent(line, self.lookup, None, self.host.files, self.cwd))
            if node is not None:
                await self._run(node)
        except (_Exit, _Return, _Goto):
            pass
        except (BatchSyntaxError, Incomplete) as error:
            self.write_error(str(error))
            self.errorlevel = 255
        finally:
            if self._directory is not None:
                self._directory.holds -= 1
        return self.errorlevel

    # --- batch files

    async def run_batch_file(self, file: SimulatedFile, arguments: list[str]) -> None:
        """Run a batch file to its end."""
        await self._run_frame(Frame(file, batch.parse_script(bytes(file.data)), arguments))

    async def _run_frame(self, frame: Frame) -> None:
        outer, self.frame = self.frame, frame
        around, self.loops = self.loops, {}
        try:
            await self._run_lines(frame)
        except _Return:
            pass
        finally:
            if frame.saved:
                self.variables, cwd, self.delayed = frame.saved[0]
                self.change_directory(cwd)
            self.frame, self.loops = outer, around

    async def _run_lines(self, frame: Frame) -> None:
        while True:
            self.host.run_interlopers()
            lines = frame.read_lines()
            if frame.at >= len(lines):
                break
            if frame.file.parent is None:
                self.write_error("The batch file cannot be found.")
                self.errorlevel = 1
                raise _Exit
            text = self._expand_next_line(frame)
            if text is None:
                continue
            while True:
                try:
                    node = batch.parse(text)
                    break
                except Incomplete:
                    if frame.at >= len(lines):
                        raise BatchSyntaxError("The syntax of the command is incorrect.") from None
                    text += "\n" + (self._expand_next_line(frame) or "")
            if node is None:
                continue
            try:
                await self._run(node)
            except _Goto as jump:
                place = frame.script.find(str(jump), frame.at)
                if place is None:
                    self.write_error(f"The system cannot find the batch label specified - {jump}")
                    self.errorlevel = 1
                    raise _Exit from None
                frame.at = place

    def _expand_next_line(self, frame: Frame) -> str | None:
        """Expand the variables of the next line; return None for an empty line or a label."""
        line = frame.script.lines[frame.at]
        frame.at += 1
        start = line.lstrip(" \t,;=")
        if not start or start[0] == ":":
            return None
        return expansion.expand_percent(line, self.lookup, frame.arguments, self.host.files, self.cwd) if "%" in line else line

    # --- statements

    async def _run(self, node: batch.Node) -> int:
        """Carry out a statement; what comes back decides on `&&` and `||`."""
        self._statements += 1
        if self._statements % _STATEMENTS_PER_TURN == 0:
            await asyncio.sleep(0)
        match node:
            case Command():
                if not node.redirections:
                    return await self._run_command(node.text)
                return await self._run_redirected(node)
            case Block():
                if node.redirections:
                    return await self._run_redirected(node)
                code = 0
                for statement in node.statements:
                    code = await self._run(statement)
                return code
            case If():
                if conditions.is_true(self, node):
                    return await self._run(node.then)
                return await self._run(node.otherwise) if node.otherwise is not None else 0
            case Chain():
                return await self._chain(node)
            case For():
                return await self._for(node)

    async def _chain(self, node: Chain) -> int:
        if node.operator == "|":
            between = Buffer()
            await self.run_child(node.left, Streams(between, self.streams.err, self.streams.input))
            self.errorlevel = await self.run_child(node.right, Streams(self.streams.out, self.streams.err, bytes(between.data)))
            return self.errorlevel
        code = await self._run(node.left)
        return await self._run(node.right) if (code == 0) == (node.operator == "&&") else code

    @property
    def is_in_batch_file(self) -> bool:
        """Whether a batch file runs."""
        return self.frame is not None

    async def run_child(self, node: batch.Node, streams: Streams) -> int:
        """Run a statement in a process of its own, as pipes and `for /f` do."""
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

    async def _run_redirected(self, node: Command | Block) -> int:
        await self.host.faults.wait_for_disk()
        with ExitStack() as stack:
            try:
                stack.enter_context(open_redirections(self, node.redirections))
            except FileError as failure:
                self.write_error(str(failure))
                self.errorlevel = 1
                return 1
            return await (self._run_command(node.text) if isinstance(node, Command) else self._run(Block(node.statements)))

    async def _for(self, node: For) -> int:
        outer = self.loops
        code = 0
        try:
            async for values in loops.iter_rounds(self, node):
                self.loops = outer | values
                code = await self._run(node.body)
        finally:
            self.loops = outer
        return code

    # --- commands

    async def _run_command(self, text: str, *, called: bool = False) -> int:
        text = self.expand_late(text).lstrip(" \t,;=@")
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
                return self._run_setlocal(word, text[8:])
        builtin = commands.COMMANDS.get(word)
        if builtin is None:
            return await self.run_external(text, called=called)
        try:
            code = builtin(self, text[len(word) :])
        except FileError as failure:
            self.write_error(str(failure))
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
            self.errorlevel = conditions.parse_number(words[inner]) or 0
        raise _Return if inner else _Exit

    def _run_setlocal(self, word: str, rest: str) -> int:
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
        text = expansion.expand_percent(rest, self.lookup, arguments, self.host.files, self.cwd).lstrip(" \t,;=")
        if not text.startswith(":"):
            return await self._run_command(text, called=True)
        words = _ARGUMENT.findall(text)
        if self.frame is None:
            self.write_error("Invalid attempt to call batch label outside of batch script.")
            self.errorlevel = 1
            return 1
        if words[0].casefold() == ":eof":
            return self.errorlevel
        place = self.frame.script.find(words[0][1:], self.frame.at)
        if place is None:
            self.write_error(f"The system cannot find the batch label specified - {words[0][1:]}")
            self.errorlevel = 1
            return 1
        await self._run_frame(Frame(self.frame.file, self.frame.script, [self.frame.arguments[0], *words[1:]], place))
        return self.errorlevel

    def _start(self, rest: str) -> int:
        words = rest.strip()
        if words.startswith('"'):
            words = words[batch.find_quote_end(words, 0) :].lstrip()
        while match := re.match(r"/(b|wait|min|max|low|normal|high)\b\s*", words, re.IGNORECASE):
            words = words[match.end() :]
            if match[1].casefold() == "wait":
                raise BatchSyntaxError("start /wait is not simulated.")
        child = Shell(self.host, self.variables.copy(), self.cwd, Streams(NUL, NUL), self.job)
        self.job.start(child.run(words))
        return 0

    async def run_external(self, text: str, *, called: bool = False) -> int:
        """Run a program or a batch file; without `called`, a batch file replaces its caller."""
        match = _PROGRAM.match(text)
        if match is None:
            return 0
        name, rest = match[1].replace('"', ""), text[match.end() :]
        node, place = self.find_program(name)
        if node is None:
            return self._report_unknown(name)
        if place.casefold().endswith((".cmd", ".bat")):
            await self.run_batch_file(node, [match[1], *_ARGUMENT.findall(rest)])
            if self.frame is not None and not called:
                raise _Return
            return self.errorlevel
        start = ProcessStart(place, rest, self.streams, self.variables, self.cwd, self.job)
        try:
            self.errorlevel = await self.host.run(start, node)
        except FileError as failure:
            self.write_error(str(failure))
            self.errorlevel = 1
        return self.errorlevel

    def find_program(self, name: str) -> tuple[SimulatedFile | None, str]:
        """Return the file and the path that a command name refers to, or None and the name."""
        if any(letter in name for letter in "\\/:"):
            places = [self.resolve_path(name)]
        else:
            places = [f"{directory}\\{name}" for directory in (self.cwd, *(self.variables.get("PATH") or "").split(";"))]
        for place in places:
            for suffix in ("", ".exe", ".bat", ".cmd"):
                node = self.host.files.find(place + suffix)
                if isinstance(node, SimulatedFile) and (place + suffix).casefold().endswith((".exe", ".bat", ".cmd", ".com")):
                    return node, place + suffix
        return None, name

    def _report_unknown(self, name: str) -> int:
        self.host.unknown.append(name)
        if "\\" in name and self.host.files.find(self.resolve_path(name).rpartition("\\")[0]) is None:
            self.write_error("The system cannot find the path specified.")
            self.errorlevel = 3
        else:
            self.write_error(
                f"'{name}' is not recognized as an internal or external command,\r\noperable program or batch file."
            )
            self.errorlevel = 9009
        return self.errorlevel
