"""How an image is called, by who builds it and by who looks for it."""


def image_name(windows: str, version: str) -> str:
    """`transom-windows-2022-v1.36.3`; a build adds its time."""
    return f"transom-windows-{windows}-{version}"
