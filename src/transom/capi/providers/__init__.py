"""The infrastructure providers that Windows workers can be made for: a module here for each name of `ProviderName`."""

from importlib import import_module
from typing import get_args

from transom.capi.inputs import ProviderName
from transom.capi.providers.provider import Provider

PROVIDERS: dict[str, Provider] = {name: import_module(f"{__name__}.{name}").PROVIDER for name in get_args(ProviderName)}
"""By name. Each module says what it is as `PROVIDER`."""
