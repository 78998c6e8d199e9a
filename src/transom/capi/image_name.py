"""How an image is called, by who builds it and by who looks for it."""


def image_name(windows: str, version: str) -> str:
    """`transom-windows-2022-v1.36.3`; a build may add its time. A vendor's `+` is in no provider's names."""
    return f"transom-windows-{windows}-{version.replace('+', '-')}"


def image_family(windows: str, version: str) -> str:
    """The same where no dot may be, as on Google's cloud: `transom-windows-2022-v1-36-3`."""
    return image_name(windows, version).replace(".", "-").lower()
