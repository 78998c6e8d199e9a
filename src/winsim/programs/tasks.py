"""schtasks.exe (Microsoft Learn: "schtasks create", "schtasks run", "schtasks query", "schtasks delete")."""

from winsim.filesystem import FileError
from winsim.processes import Invocation
from winsim.tasks import TaskError

_REFUSED = "ERROR: The Task Scheduler service is not running.\n"
_MISSING = "ERROR: The system cannot find the file specified.\n"


async def schtasks(call: Invocation) -> int:
    """`schtasks /create /tn NAME /xml FILE /f`, `/query /tn NAME`, `/run /tn NAME`, `/delete /tn NAME /f`: 0 or 1."""
    words = [word.casefold() for word in call.arguments]
    tasks, name = call.host.tasks, _after(call, "/tn")
    if not tasks.runs:
        call.error(_REFUSED)
        return 1
    if not words or name is None:
        call.error("ERROR: Invalid syntax.\n")
        return 1
    if words[0] == "/create" and (file := _after(call, "/xml")) is not None and "/f" in words:
        try:
            tasks.create(name, call.host.files.read(call.absolute(file)))
        except (FileError, TaskError) as refused:
            call.error(f"ERROR: {refused}\n")
            return 1
        call.out(f'SUCCESS: The scheduled task "{name}" has successfully been created.\n')
        return 0
    task = tasks.find(name)
    if task is None:
        call.error(_MISSING)
        return 1
    match words[0]:
        case "/query":
            call.out(f"\nFolder: \\\nTaskName    Next Run Time    Status\n{task.name}    N/A    Ready\n")
        case "/run":
            tasks.run(task)
            call.out(f'SUCCESS: Attempted to run the scheduled task "{task.name}".\n')
        case "/delete" if "/f" in words:
            tasks.delete(name)
            call.out(f'SUCCESS: The scheduled task "{task.name}" was successfully deleted.\n')
        case _:
            call.error("ERROR: Invalid syntax.\n")
            return 1
    return 0


def _after(call: Invocation, option: str) -> str | None:
    words = call.arguments
    places = [place for place, word in enumerate(words[:-1]) if word.casefold() == option]
    return words[places[0] + 1] if places else None
