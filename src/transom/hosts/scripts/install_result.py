"""What a change script says about preparing Windows, placing files and making services, as sentences."""

from collections.abc import Callable

from transom.hosts.errors import DirectoryNotOurs, HashMismatch, HostError, InstallFailed, PutBack
from transom.hosts.scripts.results import Word
from transom.windows.planning import Plan

_FEATURE = "dism could not enable the feature Containers; see C:\\Windows\\Logs\\DISM\\dism.log on the host"
_NAME = "the host did not take its new name; the user must be an administrator, and the name not be in use"
_SAYINGS = {
    Word.NO_DIRECTORY: "the directory {} could not be made",
    Word.UNPLACED: "{} could not be put in its place: another program uses it, or the disk is full",
    Word.UNREMOVED: "{} could not be removed: another program uses it",
    Word.UNCREATED: "the service {} could not be made: the service control manager refused it",
    Word.UNDELETED: "the service {} could not be removed: a program has it open; close services.msc and the like on the host",
}


Values = Callable[[Word], tuple[str, ...]]
"""What stands behind a word of the result, in each line that begins with it."""


def put_back(first: Values, then: Values, plan: Plan) -> HostError:
    """Why an installation was taken back, and how that went: what was said until then, and afterwards."""
    reversal = plan.install.reversal
    assert reversal is not None
    why = trouble(first, plan)
    lost = [text.split(" ", 2) for text in first(Word.LOST)]
    down = [text.split(" ", 1)[1] for text in then(Word.UNSTARTED)]
    left = [f"{path} could not be put back: another program uses it" for path in then(Word.UNRESTORED)]
    left += [f"{name} does not run with it either" for name in down]
    before = f"payload {reversal.former}" if reversal.former != reversal.version else "what was there before"
    outcome = f"{before} was put back, and {'; '.join(left) or 'its services run'}"
    if why is not None:
        return InstallFailed(f"{why}; {outcome}")
    causes = ", ".join(_lost(name, state, code) for state, code, name in lost)
    text = f"payload {reversal.version} does not run on the host ({causes}): {outcome}"
    return PutBack(text, tuple(name for _, _, name in lost), reversal.version, reversal.former)


def _lost(name: str, state: str, code: str) -> str:
    """`sc query` gives state and exit code; a minus sign ends each, for there may be neither."""
    if state != "1-":
        return f"{name} did not get to run"
    return f"{name} ended" + (f" with exit code {code[:-1]}" if code[:-1] not in ("", "0") else "")


def trouble(values: Values, plan: Plan) -> HostError | None:
    """The first thing that went wrong."""
    if hashes := (*values(Word.MISMATCH), *values(Word.UNSENT)):
        paths = [place.path for place in plan.install.place if place.sha256 in hashes]
        return HashMismatch(
            f"{', '.join(paths)}: what is on the host does not have the payload's hash; nothing was changed, "
            "and the next pass sends it again"
        )
    if values(Word.UNHASHED):
        return InstallFailed(
            "the host cannot say what hash the files have that were sent: it lets neither certutil.exe nor PowerShell's "
            "Get-FileHash run. Allow one of them; nothing was changed, and what was sent is not sent again"
        )
    if foreign := values(Word.FOREIGN):
        return DirectoryNotOurs(f"{foreign[0]} belongs to somebody who is no administrator; look who made it, and remove it")
    if unprepared := values(Word.UNPREPARED):
        return InstallFailed(_unprepared(unprepared[0]))
    problems = [saying.format(text) for word, saying in _SAYINGS.items() for text in values(word)]
    if problems:
        return InstallFailed("; ".join(problems) + ". The next pass tries again")
    return None


def _unprepared(what: str) -> str:
    if what == "containers":
        return _FEATURE
    return _NAME if what == "name" else f"netsh could not open {what} in the firewall; the user must be an administrator"
