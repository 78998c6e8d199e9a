"""The files and directories of a payload, as a part of an installation.

A file of another program is kept next to Transom's and restored later. The ledger lists files before they are sent; what is
removed leaves it after it was seen to be gone.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from transom.windows.host.host_state import CHANGED, Step
from transom.windows.parts.installed import InstalledPayload, OwnFile, describe_sent_file
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.names import FoldedDict, is_within_any, remove_duplicates, without_names

_GONE: Final = "it is gone"
_DRIFT: Final = "drift: changed after Transom sent it"
_TAKEN: Final = "taken over from another operator"
DRIFT: Final = (_GONE, _DRIFT)
"""The beginning of the reasons of steps that no change of settings requires."""


class FilePlace(msgspec.Struct, frozen=True):
    """A file to put at `path`. `recorded` is its digest in the ledger, which determines its modification time.

    `aside`: the original file is foreign and is kept next to it, once.
    """

    path: str
    sha256: str
    size: int
    recorded: str
    aside: bool = False

    @property
    def staged(self) -> str:
        """Return a unique temporary name, so that files with equal content are moved separately."""
        return f"s-{hashlib.sha256(f'{self.path.casefold()} {self.sha256}'.encode()).hexdigest()}"


class FileRemoval(msgspec.Struct, frozen=True):
    """A file to be removed; `back`: the file that was kept next to it gets its name again."""

    path: str
    back: bool = False


class FileChanges(msgspec.Struct, frozen=True):
    """What is done about directories and files, and the ledger's lines of files while it is done.

    `make` are made, parents first; those of `clear` go with all that is in them, those of `leave` where they are empty.
    """

    make: tuple[str, ...]
    place: tuple[FilePlace, ...]
    clear: tuple[str, ...]
    remove: tuple[FileRemoval, ...]
    leave: tuple[str, ...]
    lines: dict[str, OwnFile]
    forgotten: tuple[str, ...]
    """Files that the ledger no longer lists afterwards."""

    def build_interim_entry(self, recorded: InstalledPayload, owned: Iterable[str]) -> InstalledPayload:
        """Return the ledger's entry during the changes.

        Created directories in `owned` are later removed with their content.
        """
        known = FoldedDict.from_names(owned)
        return msgspec.structs.replace(
            recorded,
            files=self.lines,
            directories=remove_duplicates((*recorded.directories, *self.make)),
            owned=remove_duplicates((*recorded.owned, *(path for path in self.make if path in known))),
        )

    def build_final_entry(self, interim_entry: InstalledPayload) -> InstalledPayload:
        """Return the ledger's entry after the changes."""
        excluded = FoldedDict.from_names(self.forgotten)
        return msgspec.structs.replace(
            interim_entry,
            files={
                path: own.with_present_file(own.digest) for path, own in interim_entry.files.items() if path not in excluded
            },
            directories=list_remaining_directories(interim_entry.directories, self.leave, self.clear),
            owned=list_remaining_directories(interim_entry.owned, self.leave, self.clear),
        )


def plan_files(recorded: InstalledPayload, draft: PlanBuilder) -> FileChanges:
    """Plan the directories and files to create, replace and remove, each with its step."""
    make = without_names(draft.desired.directories, draft.observed.directories)
    draft.steps += [Step("directory", path, "add", "part of the payload") for path in make]
    lines = FoldedDict(recorded.files)
    place = _plan_placements(recorded, lines, draft)
    clear = _plan_cleared_directories(recorded, draft)
    remove, forgotten_paths = _plan_removals(recorded, clear, draft)
    return FileChanges(
        make, place, clear, remove, _list_unneeded_directories(recorded, clear, draft), dict(lines), forgotten_paths
    )


def _plan_placements(recorded: InstalledPayload, lines: FoldedDict[OwnFile], draft: PlanBuilder) -> tuple[FilePlace, ...]:
    """Plan the files that are missing or differ; update `lines` with the ledger's line of each file."""
    desired, present, placements = draft.desired, FoldedDict(draft.observed.files), []
    for path, sha256 in desired.files.items():
        present_digest, own = present.get(path), lines.get(path)
        recorded_digest = draft.compute_digest("File", sha256)
        settled = own.with_present_file(present_digest) if own else None
        if present_digest in (recorded_digest, sha256):
            if settled is not None:
                lines[path] = settled
            continue
        # what belongs to a service that was taken over is ours to replace
        found_sha256 = draft.observed.found.get(path, "") if own is None and desired.takes else ""
        aside = own.aside if own else present_digest is not None and not found_sha256
        size = desired.sizes.get(path, 0)
        placements.append(FilePlace(path, sha256, size, recorded_digest, aside=aside))
        former = settled if settled and settled.digest == present_digest else None
        as_found = own.found if own else found_sha256 and draft.compute_digest("File", found_sha256)
        lines[path] = OwnFile(
            recorded_digest, size, aside, former.digest if former else "", former.size if former else 0, as_found
        )
        shown = own.describe_present_file(present_digest) if own else present_digest and "a file that is not Transom's"
        reason = _TAKEN if found_sha256 else _describe_reason(own, present_digest, recorded_digest)
        draft.steps.append(
            Step("file", path, "replace" if present_digest else "add", reason, shown, describe_sent_file(recorded_digest, size))
        )
        for name in desired.readers.get(path, ()):
            draft.restarts.setdefault(name, f"{path} changes")
    return tuple(placements)


def _describe_reason(own: OwnFile | None, present_digest: str | None, present: str) -> str:
    if own is None:
        return "replaces an existing file, which is kept next to it" if present_digest else "part of the payload"
    if present_digest is None:
        return _GONE
    drift = present_digest != own.former and (own.digest == present or present_digest == CHANGED)
    return _DRIFT if drift else "the payload changed"


def _plan_cleared_directories(recorded: InstalledPayload, draft: PlanBuilder) -> tuple[str, ...]:
    """Plan to remove the outermost owned directories with their content if the payload is removed.

    Programs have written there: logs, certificates, images.
    """
    if draft.desired.payload:
        return ()
    result = FoldedDict.from_names(())
    for path in sorted(recorded.owned, key=len):
        if not is_within_any(path, result):
            result[path] = None
            draft.steps.append(Step("directory", path, "remove", "Transom made it, and it goes with all that is in it"))
    return tuple(result)


def _plan_removals(
    recorded: InstalledPayload, clear: tuple[str, ...], draft: PlanBuilder
) -> tuple[tuple[FileRemoval, ...], tuple[str, ...]]:
    """Plan the removal of files that the payload no longer has; return the removals and all paths to forget."""
    removals, present, cleared = [], FoldedDict(draft.observed.files), FoldedDict.from_names(clear)
    forgotten_paths = without_names(recorded.files, draft.desired.files)
    for path in forgotten_paths:
        own, present_digest = recorded.files[path], present.get(path)
        if is_within_any(path, cleared):
            draft.steps.append(
                Step("file", path, "remove", "goes with its directory", own.describe_present_file(present_digest))
            )
        elif present_digest is not None and present_digest in (own.digest, own.former):
            removals.append(FileRemoval(path, own.aside))
            draft.steps.append(
                Step("file", path, "remove", "no longer in the payload", own.describe_present_file(present_digest))
            )
        elif present_digest is not None:
            draft.warnings.append(f"{path} was changed since it was sent: it is left")
            draft.steps.append(Step("ledger", path, "remove", "changed after Transom sent it: left unchanged"))
        else:
            draft.steps.append(Step("ledger", path, "remove", "no longer in the payload, and not there"))
    return tuple(removals), forgotten_paths


def _list_unneeded_directories(recorded: InstalledPayload, clear: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """Directories that we made and that nothing of the payload needs: removed where they are empty, and forgotten."""
    cleared = FoldedDict.from_names(clear)
    unneeded = without_names(sorted(recorded.directories, key=len, reverse=True), draft.desired.directories)
    return tuple(path for path in unneeded if not is_within_any(path, cleared))


def list_program_directories(recorded: InstalledPayload, clear: tuple[str, ...]) -> tuple[str, ...]:
    """List the directories of files that were sent, except those that are removed with their content."""
    cleared = FoldedDict.from_names(clear)
    return tuple(dict.fromkeys(path.rpartition("\\")[0] for path in recorded.files if not is_within_any(path, cleared)))


def list_unverified_directories(recorded: InstalledPayload, make: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """List the payload's directories that exist and may have been created by another program.

    The origin of what is in an owned directory is known; the ledger also records a directory that another program created
    first.
    """
    known = FoldedDict.from_names(recorded.directories)
    existing = without_names(draft.desired.directories, make)
    return tuple(path for path in existing if path not in known or path.rpartition("\\")[0] not in known)


def list_remaining_directories(directories: tuple[str, ...], leave: tuple[str, ...], clear: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are neither left nor cleared."""
    left, cleared = set(leave), FoldedDict.from_names(clear)
    return tuple(path for path in directories if path not in left and not is_within_any(path, cleared))
