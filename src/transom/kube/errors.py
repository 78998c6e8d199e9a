"""The API side: one connection, and what Transom asks of an API server.

What can go wrong is an `ApiError`. None of the messages holds a secret: they are the server's own words.
"""


class ConfigurationError(Exception):
    """The kubeconfig or the service account cannot be used; the message names the file and what is wrong with it."""


class ApiError(Exception):
    """The server did not do what was asked: it said no, or it could not be reached."""

    retry_after: float | None = None
    """Seconds that the server asks to wait, from `Retry-After`."""


class ConnectionFailed(ApiError):
    """No answer, or none that could be read to its end: refused, cut off, timed out, wrong certificate."""


class ResponseTooLarge(ApiError):
    """An answer of more bytes than are taken at once."""


class UnreadableObject(ApiError):
    """The request succeeded, but the returned object is invalid; the message names the field."""


class NameInvalid(ApiError):
    """A request for an object whose name cannot be part of a path: it is not sent."""


class StatusError(ApiError):
    """An answer other than success. `code` is HTTP's, `reason` and the message are those of the metav1.Status."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message or reason or f"HTTP {code}")
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class NotFound(StatusError):
    """404: no such object, or no such kind."""


class Conflict(StatusError):
    """409: the object already exists, has another version, or a field belongs to another manager."""


class Gone(StatusError):
    """410: the resource version is too old to watch or to continue from."""


_BY_CODE: dict[int, type[StatusError]] = {404: NotFound, 409: Conflict, 410: Gone}


def build_status_error(code: int, reason: str, message: str, retry_after: float | None = None) -> StatusError:
    """Build the error for an HTTP `code` from the server's `reason`, `message` and `retry_after` (seconds)."""
    return _BY_CODE.get(code, StatusError)(code, reason, message, retry_after)
