"""What `reg import` does to a registry: each edit is a line or a section of `.reg` text."""

import msgspec

from transom.windows.registry.values import Value


class SetValue(msgspec.Struct, frozen=True):
    """`"name"=…` under `[path]`: the key is created if it does not exist."""

    path: str
    name: str
    value: Value


class DeleteValue(msgspec.Struct, frozen=True):
    """`"name"=-` under `[path]`."""

    path: str
    name: str


class CreateKey(msgspec.Struct, frozen=True):
    """`[path]` alone."""

    path: str


class DeleteKey(msgspec.Struct, frozen=True):
    """`[-path]`: the key with everything below it."""

    path: str


Edit = SetValue | DeleteValue | CreateKey | DeleteKey
