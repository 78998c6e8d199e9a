"""A value that must not be shown: every way of printing it gives `***`."""

import re
from typing import Final, NoReturn

REDACTED: Final = "***"
_USERINFO = re.compile(r"(?<=://).*@", re.DOTALL)


def redact_userinfo(text: str) -> str:
    """`text` with the userinfo of a URL in it as `***`: everything up to the last `@`, since a password may hold any letter."""
    return _USERINFO.sub(f"{REDACTED}@", text)


def redact_variable(name: str, value: str) -> str:
    """Return the value of an environment variable with its userinfo as `***`, even without a scheme."""
    if name.upper().endswith("_PROXY") and name.upper() != "NO_PROXY" and "://" not in value and "@" in value:
        return f"{REDACTED}@{value.rpartition('@')[2]}"
    return redact_userinfo(value)


class Secret:
    """Text that only `reveal()` gives away.

    `repr`, `str`, format strings, exceptions and logs show `***`; equality and hash work on the value, so that secrets can
    be compared without being revealed; pickling and JSON encoding refuse it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value: Final = value

    def reveal(self) -> str:
        """Return the value itself, for the consumer that needs it and for nothing else."""
        return self._value

    def __repr__(self) -> str:
        return REDACTED

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied into another format")
