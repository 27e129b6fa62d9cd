"""The errors of sources, of their files and of their runs."""

from __future__ import annotations

from ragstore.kit.errors import Conflict, NotFound, ServiceError


class SourceNotFound(NotFound):
    """The knowledge base has no source of this name."""


class SourceFileNotFound(NotFound):
    """The source has no file of this name."""


class NotAnUploadSource(Conflict):
    """Only a source of type `upload` has files."""


class SourceRunNotFound(NotFound):
    """The source has no run of this id, or its entry was removed with the oldest ones."""


class SourceDisabled(Conflict):
    """A source that is not enabled cannot be run."""


class SourceRunning(Conflict):
    """A run of the source has not ended.

    Args:
        detail: one sentence for the caller, with the id of the run.
        resource: path of the run.
    """

    def __init__(self, detail: str, resource: str) -> None:
        super().__init__(detail)
        self._resource = resource

    @property
    def headers(self) -> dict[str, str]:
        """Where the run is."""
        return {"Location": self._resource}


class SourceRunEnded(Conflict):
    """A run that has ended cannot be cancelled."""


class TooManyPreviews(ServiceError, status=503, title="Too many previews", retry_after=10):
    """The maximum number of previews is in progress."""
