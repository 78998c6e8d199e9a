"""The lifecycle of Windows nodes: join, upgrade, removal."""
