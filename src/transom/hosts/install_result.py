"""What a change script says about preparing Windows, placing files and making services, as sentences."""

from collections.abc import Callable

from transom.hosts.errors import DirectoryNotOurs, HashMismatch, HostError, InstallFailed
from transom.windows.plan import Plan

_FEATURE = "dism could not enable the feature Containers; see C:\\Windows\\Logs\\DISM\\dism.log on the host"
_NAME = "the host did not take its new name; the user must be an administrator, and the name not be in use"
_SAYINGS = {
    "nodirectory": "the directory {} could not be made",
    "unplaced": "{} could not be put in its place: another program uses it, or the disk is full",
    "unremoved": "{} could not be removed: another program uses it",
    "uncreated": "the service {} could not be made: the service control manager refused it",
    "undeleted": "the service {} could not be removed: a program has it open; close services.msc and the like on the host",
}


def trouble(values: Callable[[str], tuple[str, ...]], plan: Plan) -> HostError | None:
    """The first thing that went wrong; `values` gives what stands behind a word of the result."""
    if hashes := (*values("mismatch"), *values("unsent")):
        paths = [place.path for place in plan.install.place if place.sha256 in hashes]
        return HashMismatch(
            f"{', '.join(paths)}: what is on the host does not have the payload's hash; nothing was changed, "
            "and the next pass sends it again"
        )
    if foreign := values("foreign"):
        return DirectoryNotOurs(f"{foreign[0]} belongs to somebody who is no administrator; look who made it, and remove it")
    if unprepared := values("unprepared"):
        return InstallFailed(_unprepared(unprepared[0]))
    problems = [saying.format(text) for word, saying in _SAYINGS.items() for text in values(word)]
    if problems:
        return InstallFailed("; ".join(problems) + ". The next pass tries again")
    return None


def _unprepared(what: str) -> str:
    if what == "containers":
        return _FEATURE
    return _NAME if what == "name" else f"netsh could not open {what} in the firewall; the user must be an administrator"
