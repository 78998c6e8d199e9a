"""What a change script says about preparing Windows, placing files and making services, as sentences."""

from transom.hosts.errors import DirectoryNotOurs, HashMismatch, HostError, InstallFailed, PutBack
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.scripts.results import ResultWord
from transom.hosts.scripts.service_result import LIMIT_OPTION, ServiceTrouble, Values
from transom.windows.parts.installation import Reversal
from transom.windows.planning.planner import Plan

_FEATURE = "dism could not enable the feature Containers; see C:\\Windows\\Logs\\DISM\\dism.log on the host"
_NAME = "the host did not take its new name; the user must be an administrator, and the name not be in use"
_SAYINGS = {
    ResultWord.NO_DIRECTORY: "the directory {} could not be made",
    ResultWord.UNPLACED: "{} could not be put in its place: another program uses it, or the disk is full",
    ResultWord.UNREMOVED: "{} could not be removed: another program uses it",
    ResultWord.UNCREATED: "the service {} could not be made: the service control manager refused it",
    ResultWord.UNDELETED: (
        "the service {} could not be removed: a program has it open; close services.msc and the like on the host"
    ),
}


def build_reversal_error(first: Values, then: Values, plan: Plan, reversal: Reversal, patience: ServiceTimeouts) -> HostError:
    """Why an installation was taken back, and how that went: what was said until then, and afterwards."""
    why = find_install_error(first, plan)
    lost = [text.split(" ", 2) for text in first(ResultWord.LOST)]
    down = map(ServiceTrouble.parse, then(ResultWord.UNSTARTED))
    left = [f"{path} could not be restored: another program uses it" for path in then(ResultWord.UNRESTORED)]
    left += [
        f"{item.name} {'is still starting with it' if item.is_starting else f'does not run with it either{item.cause}'}"
        for item in down
    ]
    before = f"payload {reversal.former}" if reversal.former != reversal.version else "the previous state"
    outcome = f"{before} was restored, and {'; '.join(left) or 'its services run'}"
    if why is not None:
        return InstallFailed(f"{why}; {outcome}")
    refused = {item.name: item for item in map(ServiceTrouble.parse, first(ResultWord.UNSTARTED))}
    causes = ", ".join(_describe_lost_service(name, state, code, refused.get(name), patience) for state, code, name in lost)
    text = f"payload {reversal.version} does not run on the host ({causes}): {outcome}"
    return PutBack(text, tuple(name for _, _, name in lost), reversal.version, reversal.former)


def _describe_lost_service(name: str, state: str, code: str, refused: ServiceTrouble | None, patience: ServiceTimeouts) -> str:
    """`sc query` gives state and exit code; a minus sign ends each, for there may be neither."""
    if state == "2-":
        return (
            f"{name} was still starting {patience.get_start_seconds(name, needed=True)} s after its start (limit: "
            f"{LIMIT_OPTION})"
        )
    if state != "1-":
        return f"{name} did not get to run"
    if refused is not None and refused.cause:
        return f"{name} did not start{refused.cause}"
    return f"{name} ended" + (f" with exit code {code[:-1]}" if code[:-1] not in ("", "0") else "")


def find_install_error(values: Values, plan: Plan) -> HostError | None:
    """Return the first error in the results, or None."""
    if hashes := (*values(ResultWord.MISMATCH), *values(ResultWord.UNSENT)):
        paths = [place.path for place in plan.install.place if place.sha256 in hashes]
        return HashMismatch(
            f"{', '.join(paths)}: the content on the host does not match the payload's hash; nothing was changed, "
            "and the next pass sends it again"
        )
    if values(ResultWord.UNHASHED):
        return InstallFailed(
            "the host cannot say what hash the files have that were sent: it lets neither certutil.exe nor PowerShell's "
            "Get-FileHash run. Allow one of them; nothing was changed, and what was sent is not sent again"
        )
    if foreign := values(ResultWord.FOREIGN):
        return DirectoryNotOurs(f"{foreign[0]} is not owned by an administrator; find out who created it, and remove it")
    if unprepared := values(ResultWord.UNPREPARED):
        return InstallFailed(_describe_preparation_failure(unprepared[0]))
    problems = [saying.format(text) for word, saying in _SAYINGS.items() for text in values(word)]
    if problems:
        return InstallFailed("; ".join(problems) + ". The next pass tries again")
    return None


def _describe_preparation_failure(what: str) -> str:
    if what == "containers":
        return _FEATURE
    return _NAME if what == "name" else f"netsh could not open {what} in the firewall; the user must be an administrator"
