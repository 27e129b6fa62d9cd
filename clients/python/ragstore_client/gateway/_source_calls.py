"""Calls of sources, of the audit ledger and of feedback, as values; see `_calls`."""

from __future__ import annotations

from uuid import uuid4

from ragstore_client._call import Call, path_segment, query_params
from ragstore_client._json import encode
from ragstore_client._responses import json_decoder
from ragstore_client.gateway import _sources as models
from ragstore_client.gateway._calls import BASES

_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def run_source(base: str, source: str) -> Call[models.AcceptedRun]:
    """`POST …/sources/{source}/run`."""
    return Call("POST", f"{_source(base, source)}/run", json_decoder(models.AcceptedRun), idempotent=False)


def list_runs(base: str, source: str, *, index: int | None, limit: int | None) -> Call[models.SourceRunList]:
    """`GET …/sources/{source}/runs`."""
    params = query_params(index=index, limit=limit)
    return Call("GET", f"{_source(base, source)}/runs", json_decoder(models.SourceRunList), params=params)


def get_run(base: str, source: str, run_id: str) -> Call[models.SourceRun]:
    """`GET …/sources/{source}/runs/{run_id}`."""
    return Call("GET", f"{_source(base, source)}/runs/{path_segment(run_id)}", json_decoder(models.SourceRun))


def cancel_run(base: str, source: str, run_id: str) -> Call[bool]:
    """`DELETE …/sources/{source}/runs/{run_id}`."""
    return _delete(f"{_source(base, source)}/runs/{path_segment(run_id)}")


def purge_source(base: str, source: str) -> Call[bool]:
    """`DELETE …/sources/{source}/documents`."""
    return _delete(f"{_source(base, source)}/documents")


def list_files(base: str, source: str, *, index: int | None, limit: int | None) -> Call[models.SourceFileList]:
    """`GET …/sources/{source}/files`."""
    params = query_params(index=index, limit=limit)
    return Call("GET", f"{_source(base, source)}/files", json_decoder(models.SourceFileList), params=params)


def upload_file(base: str, source: str, name: str, media_type: str, content: bytes) -> Call[models.StoredFiles]:
    """`POST …/sources/{source}/files`, with one file."""
    boundary = uuid4().hex
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="files"; filename="{name.translate(_ESCAPES)}"\r\n'
        f"Content-Type: {media_type}\r\n\r\n"
    )
    return Call(
        "POST",
        f"{_source(base, source)}/files",
        json_decoder(models.StoredFiles),
        body=b"".join((head.encode(), content, f"\r\n--{boundary}--\r\n".encode())),
        content_type=f"multipart/form-data; boundary={boundary}",
    )


def delete_file(base: str, source: str, name: str) -> Call[bool]:
    """`DELETE …/sources/{source}/files/{name}`."""
    return _delete(f"{_source(base, source)}/files/{path_segment(name)}")


def list_audit_entries(
    *,
    conversation: str,
    since: str,
    until: str,
    kind: str,
    key: str | None,
    assistant: str,
    after: int | None,
    limit: int | None,
) -> Call[models.AuditPage]:
    """`GET /audit`."""
    params = query_params(
        conversation=conversation or None,
        since=since or None,
        until=until or None,
        kind=kind or None,
        key=key,
        assistant=assistant or None,
        after=after,
        limit=limit,
    )
    return Call("GET", "/audit", json_decoder(models.AuditPage), params=params)


def give_feedback(conversation: str, request_id: str, *, helpful: bool, comment: str) -> Call[models.StoredFeedback]:
    """`POST /conversations/{conversation}/feedback`."""
    body = encode({"requestId": request_id, "helpful": helpful, "comment": comment})
    path = f"/conversations/{path_segment(conversation)}/feedback"
    return Call("POST", path, json_decoder(models.StoredFeedback), body=body)


def _source(base: str, source: str) -> str:
    return f"{BASES.path}/{path_segment(base)}/sources/{path_segment(source)}"


def _delete(path: str) -> Call[bool]:
    return Call("DELETE", path, lambda _: True, result_if_gone=True)
