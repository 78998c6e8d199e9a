"""Registry keys that Transom made: they go with the last thing in them, and with nothing of somebody else's."""

import pytest
from tests.windows.authorities import authorities, der, sha1

from transom.windows.host.host_state import DesiredState, ObservedState
from transom.windows.host.queries import STORES
from transom.windows.parts import certificates, keys
from transom.windows.planning.planner import plan, predict_state
from transom.windows.registry.edits import CreateKey, Edit, SetValue
from transom.windows.registry.registry import Key, Registry
from transom.windows.registry.values import build_sz

SALT = b"0123456789abcdef"
STORE = rf"{STORES}\CA"
PLACE = certificates.get_store_path("CA")
NOTHING = DesiredState(Registry())
_, _, issuing = authorities()
TRUSTED = SetValue(rf"{PLACE}\{sha1(issuing)}", "Blob", certificates.build_blob(der(issuing), sha1(issuing)))


def trusting() -> ObservedState:
    """A host without the store, which has a certificate in it now."""
    bare = ObservedState(Registry().apply_edits([CreateKey(STORES)]))
    return predict_state(bare, plan(DesiredState(Registry().apply_edits([TRUSTED])), bare, SALT))


def changed(host: ObservedState, *edits: Edit) -> ObservedState:
    return ObservedState(host.registry.apply_edits(edits))


def removed(host: ObservedState) -> ObservedState:
    return predict_state(host, plan(NOTHING, host, SALT))


def test_an_empty_key_goes() -> None:
    assert keys.read(trusting().registry) == (STORE, PLACE)
    assert removed(trusting()).registry == Registry().apply_edits([CreateKey(STORES)])


@pytest.mark.parametrize("path", [STORE, PLACE])
def test_a_value_that_somebody_put_into_one_stays(path: str) -> None:
    host = removed(changed(trusting(), SetValue(path, "Theirs", build_sz("1"))))
    assert host.registry.find_value(path, "Theirs") == build_sz("1")


def test_one_of_which_only_the_names_below_it_are_known_stays() -> None:
    listed = Registry(Key(item.path, None) if item.path in (STORE, PLACE) else item for item in trusting().registry)
    left = removed(ObservedState(listed))
    assert left.registry.find_key(STORE) is not None
    # what is asked for then is all that is in them
    assert set(plan(NOTHING, ObservedState(listed), SALT).reads.keys) == {STORE, PLACE}
