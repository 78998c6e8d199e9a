"""What puts a host back when a version that was installed does not run: its steps, the other way round. Pure.

The egress settings that came with it stay: an item of a service's environment is put back where it is the payload's.
"""

from collections.abc import Iterator, Sequence

from transom.windows.host.state import ObservedState
from transom.windows.parts import service
from transom.windows.parts.installation import Install, Reversal
from transom.windows.parts.service import ENVIRONMENT, Configuration
from transom.windows.registry.names import FoldedDict
from transom.windows.registry.registry import DeleteKey, DeleteValue, Edit, Key, Registry, SetValue, Value


def reversal(install: Install, former: str, version: str, found: ObservedState, registry: Registry) -> Reversal:
    """What undoes `install` on a host that was as `found`; `registry` is what it will be. The ledger's lines are not in it."""
    configure, edits = list[Configuration](), list[Edit]()
    for made in install.configure:
        present = found.registry.key(made.path)
        if present is not None:
            configure.append(service.of_key(made.name, present))
            edits += _values(made, present, registry.value(made.path, ENVIRONMENT))
    return Reversal(former, version, tuple(configure), tuple(edits))


def ran(stop: Sequence[str], start: Sequence[str]) -> tuple[str, ...]:
    """The services that run before a change and have to run after it, in the order of their start."""
    stopped = FoldedDict.of(stop)
    return tuple(name for name in start if name in stopped)


def after(actual: ObservedState, edits: Sequence[Edit], install: Install) -> ObservedState:
    """What a gather should find once `install` was carried out and taken back; `edits` are what was imported before it."""
    if install.reversal is None:
        return actual
    registry = actual.registry.apply(edits).apply(install.reversal.edits).apply(install.reversal.lines)
    return ObservedState(
        registry.apply(DeleteKey(made.path) for made in install.create),
        actual.services,
        actual.files,
        actual.directories,
        boot=actual.boot,
        dependencies=actual.dependencies,
        computer_name=actual.computer_name,
    )


def _values(made: Configuration, present: Key, environment: Value | None) -> Iterator[Edit]:
    for name in made.values():
        value = present.get(name)
        if name == ENVIRONMENT:
            value = service.former_items(made, value, environment)
        yield SetValue(made.path, name, value) if value is not None else DeleteValue(made.path, name)
