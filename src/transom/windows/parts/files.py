"""The files and directories of a payload, as a part of an installation.

A file of somebody else's is kept beside ours and comes back. What is about to be put there stands in the ledger before; what is
removed leaves it after it was seen to be gone.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from transom.windows.host import CHANGED, Step
from transom.windows.parts.installed import Installed, OwnFile, describe
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.names import FoldedDict, each_once, within_one, without

_GONE: Final = "it is gone"
_DRIFT: Final = "drift: somebody else changed it"
_TAKEN: Final = "taken over from another operator"
DRIFT: Final = (_GONE, _DRIFT)
"""How the reasons of steps begin where nobody had asked for a change."""


class FilePlace(msgspec.Struct, frozen=True):
    """A file to be put at `path`. `recorded` is the digest that the ledger holds for it, from which its time follows.

    `aside`: what was there at first is somebody else's and is kept beside it, once.
    """

    path: str
    sha256: str
    size: int
    recorded: str
    aside: bool = False

    @property
    def staged(self) -> str:
        """A name of its own until it has its place: files of one content are moved each by itself."""
        return f"s-{hashlib.sha256(f'{self.path.casefold()} {self.sha256}'.encode()).hexdigest()}"


class FileRemoval(msgspec.Struct, frozen=True):
    """A file to be removed; `back`: the file that was kept beside it gets its name again."""

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
    gone: tuple[str, ...]
    """Files that the ledger no longer speaks of afterwards."""

    def begun(self, recorded: Installed, owned: Iterable[str]) -> Installed:
        """What the ledger says while it is done; directories of `owned` are made to go with all that is in them."""
        known = FoldedDict.of(owned)
        return msgspec.structs.replace(
            recorded,
            files=self.lines,
            directories=each_once((*recorded.directories, *self.make)),
            owned=each_once((*recorded.owned, *(path for path in self.make if path in known))),
        )

    def done(self, begun: Installed) -> Installed:
        """What it says afterwards."""
        gone = FoldedDict.of(self.gone)
        return msgspec.structs.replace(
            begun,
            files={path: own.settled(own.digest) for path, own in begun.files.items() if path not in gone},
            directories=remaining(begun.directories, self.leave, self.clear),
            owned=remaining(begun.owned, self.leave, self.clear),
        )


def plan_files(recorded: Installed, draft: PlanBuilder) -> FileChanges:
    """What has to be made, put and removed; each with its step."""
    make = without(draft.desired.directories, draft.found.directories)
    draft.steps += [Step("directory", path, "add", "part of the payload") for path in make]
    lines = FoldedDict(recorded.files)
    place = _placed(recorded, lines, draft)
    clear = _cleared(recorded, draft)
    remove, gone = _removed(recorded, clear, draft)
    return FileChanges(make, place, clear, remove, _left(recorded, clear, draft), dict(lines), gone)


def _placed(recorded: Installed, lines: FoldedDict[OwnFile], draft: PlanBuilder) -> tuple[FilePlace, ...]:
    """The files that are not there as they should be; `lines` gets what the ledger says of each file."""
    desired, present, found = draft.desired, FoldedDict(draft.found.files), []
    for path, sha256 in desired.files.items():
        there, own = present.get(path), lines.get(path)
        recorded_digest = draft.digest("File", sha256)
        settled = own.settled(there) if own else None
        if there in (recorded_digest, sha256):
            if settled is not None:
                lines[path] = settled
            continue
        # what belongs to a service that was taken over is ours to replace
        found_sha256 = draft.found.found.get(path, "") if own is None and desired.takes else ""
        aside = own.aside if own else there is not None and not found_sha256
        size = desired.sizes.get(path, 0)
        found.append(FilePlace(path, sha256, size, recorded_digest, aside=aside))
        former = settled if settled and settled.digest == there else None
        as_found = own.found if own else found_sha256 and draft.digest("File", found_sha256)
        lines[path] = OwnFile(
            recorded_digest, size, aside, former.digest if former else "", former.size if former else 0, as_found
        )
        shown = own.describe(there) if own else there and "a file that is not Transom's"
        reason = _TAKEN if found_sha256 else _reason(own, there, recorded_digest)
        draft.steps.append(Step("file", path, "replace" if there else "add", reason, shown, describe(recorded_digest, size)))
        for name in desired.readers.get(path, ()):
            draft.restarts.setdefault(name, f"{path} changes")
    return tuple(found)


def _reason(own: OwnFile | None, there: str | None, present: str) -> str:
    if own is None:
        return "in the place of a file that was there before; it is kept beside" if there else "part of the payload"
    if there is None:
        return _GONE
    drift = there != own.former and (own.digest == present or there == CHANGED)
    return _DRIFT if drift else "the payload changed"


def _cleared(recorded: Installed, draft: PlanBuilder) -> tuple[str, ...]:
    """The payload's own directories, those alone that lie in no other of them, where nothing of it is to be there any more.

    Programs have written there: logs, certificates, images.
    """
    if draft.desired.payload:
        return ()
    found = FoldedDict.of(())
    for path in sorted(recorded.owned, key=len):
        if not within_one(path, found):
            found[path] = None
            draft.steps.append(Step("directory", path, "remove", "Transom made it, and it goes with all that is in it"))
    return tuple(found)


def _removed(
    recorded: Installed, clear: tuple[str, ...], draft: PlanBuilder
) -> tuple[tuple[FileRemoval, ...], tuple[str, ...]]:
    """What is taken away of what the payload no longer has; and all of that, which the ledger speaks of no longer."""
    found, present, cleared = [], FoldedDict(draft.found.files), FoldedDict.of(clear)
    gone = without(recorded.files, draft.desired.files)
    for path in gone:
        own, there = recorded.files[path], present.get(path)
        if within_one(path, cleared):
            draft.steps.append(Step("file", path, "remove", "goes with its directory", own.describe(there)))
        elif there is not None and there in (own.digest, own.former):
            found.append(FileRemoval(path, own.aside))
            draft.steps.append(Step("file", path, "remove", "no longer in the payload", own.describe(there)))
        elif there is not None:
            draft.warnings.append(f"{path} was changed since it was sent: it is left")
            draft.steps.append(Step("ledger", path, "remove", "changed by somebody else since it was sent: left as it is"))
        else:
            draft.steps.append(Step("ledger", path, "remove", "no longer in the payload, and not there"))
    return tuple(found), gone


def _left(recorded: Installed, clear: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """Directories that we made and that nothing of the payload needs: removed where they are empty, and forgotten."""
    cleared = FoldedDict.of(clear)
    unneeded = without(sorted(recorded.directories, key=len, reverse=True), draft.desired.directories)
    return tuple(path for path in unneeded if not within_one(path, cleared))


def programs_of(recorded: Installed, clear: tuple[str, ...]) -> tuple[str, ...]:
    """The directories of files that were sent, but for those that go as a whole."""
    cleared = FoldedDict.of(clear)
    return tuple(dict.fromkeys(path.rpartition("\\")[0] for path in recorded.files if not within_one(path, cleared)))


def found_directories(recorded: Installed, make: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """Those of the payload that are there, and that somebody else may have made.

    Who made what lies in a directory of ours is known; the ledger speaks also of one that somebody else was first to make.
    """
    known = FoldedDict.of(recorded.directories)
    there = without(draft.desired.directories, make)
    return tuple(path for path in there if path not in known or path.rpartition("\\")[0] not in known)


def remaining(directories: tuple[str, ...], leave: tuple[str, ...], clear: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are neither left nor cleared."""
    left, cleared = set(leave), FoldedDict.of(clear)
    return tuple(path for path in directories if path not in left and not within_one(path, cleared))
