"""RFC 6902 as far as Transom uses it: the tests' own reading of a patch, beside the API server's."""

import copy
from typing import Any

from transom.pods.patch import Operation


def applied(document: dict[str, Any], operations: tuple[Operation, ...]) -> dict[str, Any]:
    document = copy.deepcopy(document)
    for operation in operations:
        *path, last = (part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:])
        parent: Any = document
        for part in path:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        match operation.op:
            case "remove" if isinstance(parent, list):
                del parent[int(last)]
            case "add" if isinstance(parent, list):
                index = len(parent) if last == "-" else int(last)
                assert index <= len(parent)
                parent.insert(index, copy.deepcopy(operation.value))
            case "add":
                parent[last] = copy.deepcopy(operation.value)
            case _:
                raise AssertionError(operation)
    return document
