"""The calls of a kind of configuration: knowledge bases, assistants, or question sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, Unpack

from ragstore_client._async.base import CallSender
from ragstore_client._call import Call
from ragstore_client._exceptions import NotFound
from ragstore_client._options import CallOptions
from ragstore_client.gateway import _calls as calls
from ragstore_client.gateway._async.runs import iter_pages
from ragstore_client.gateway._calls import ConfigurationT, Kind, id_of
from ragstore_client.gateway._configurations import Descriptor, Stored, VersionList


class AsyncConfigurations(Generic[ConfigurationT]):
    """The configurations of one kind: `client.bases`, `client.assistants` and `client.question_sets`.

    Args:
        sender: sends the calls.
    """

    def __init__(self, sender: CallSender, kind: Kind[ConfigurationT]) -> None:
        self._sender = sender
        self._kind: Kind[ConfigurationT] = kind

    async def page(
        self, part: str = "", *, index: int | None = None, limit: int | None = None, **options: Unpack[CallOptions]
    ) -> list[Descriptor]:
        """One page of the configurations, newest first.

        Args:
            part: part of their names or descriptions, in any case.
            index: number of the page, from 0.
            limit: maximum number of configurations on the page.
            **options: see `CallOptions`.
        """
        call = calls.list_descriptors(self._kind, part=part, index=index, limit=limit)
        return await self._sender._send(call, options)

    def iter(
        self, part: str = "", *, page_size: int = 200, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Descriptor]:
        """Iterate over the configurations, newest first.

        Args:
            part: part of their names or descriptions, in any case.
            page_size: number of configurations per request.
            **options: see `CallOptions`.

        Returns:
            An iterator. Configurations that are created or deleted during the iteration may shift the pages.
        """

        def call(index: int) -> Call[list[Descriptor]]:
            return calls.list_descriptors(self._kind, part=part, index=index, limit=page_size)

        return iter_pages(self._sender, call, lambda page: page, page_size, options)

    async def find(
        self, name: str, *, version: int | None = None, **options: Unpack[CallOptions]
    ) -> Stored[ConfigurationT]:
        """Find a configuration by its name, or by its id.

        Args:
            name: the name, or the id.
            version: a version; the current one when None.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        async for descriptor in self.iter(name, **options):
            if descriptor.name == name:
                return await self.get(descriptor, version=version, **options)
        return await self.get(name, version=version, **options)

    async def exists(self, name: str, **options: Unpack[CallOptions]) -> bool:
        """Whether there is a configuration of a name or an id, and the key may see it.

        Args:
            name: the name, or the id.
            **options: see `CallOptions`.

        Raises:
            NotFound: what responded is no gateway.
        """
        try:
            await self.find(name, **options)
        except NotFound as error:
            if error.code == "configuration_not_found":
                return False
            raise
        return True

    async def get(
        self,
        configuration: str | Stored[ConfigurationT] | Descriptor,
        *,
        version: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Stored[ConfigurationT]:
        """Read a configuration.

        Args:
            configuration: the id, or what another call returned.
            version: a version; the current one when None. A deleted configuration can be read by a version only.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        call = calls.get_configuration(self._kind, id_of(configuration), version=version)
        return await self._sender._send(call, options)

    async def create(
        self, configuration: ConfigurationT | Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> Stored[ConfigurationT]:
        """Create a configuration, as version 1.

        Args:
            configuration: the fields, as a struct, or as a mapping with the names of the contract, such as `chunkSize`.
            **options: see `CallOptions`.

        Raises:
            BadRequest: a field is invalid; `errors` has its path.
            Conflict: the name is taken.
        """
        call = calls.create_configuration(self._kind, calls.fields_of(configuration))
        return await self._sender._send(call, options)

    async def update(
        self,
        configuration: str | Stored[ConfigurationT] | Descriptor,
        changes: ConfigurationT | Mapping[str, Any],
        **options: Unpack[CallOptions],
    ) -> Stored[ConfigurationT]:
        """Write a new version, with some fields changed.

        The change is based on the version that `find`, `get`, `create` or `update` returned, or on the current version
        if the argument is an id or comes from a list.

        Args:
            configuration: the id, or what another call returned.
            changes: the fields to change, as for `create`. All other fields stay as they are.
            **options: see `CallOptions`.

        Returns:
            The new version.

        Raises:
            Conflict: another version was written since, with the code `version_conflict`; or the name is taken.
            BadRequest: a field is invalid.
            NotFound: there is no such configuration.
        """
        fields = calls.fields_of(changes)
        current = configuration if isinstance(configuration, Stored) else await self.get(configuration, **options)
        call = calls.update_configuration(self._kind, current.id, {**current.fields, **fields}, version=current.version)
        return await self._sender._send(call, options)

    async def duplicate(
        self,
        configuration: str | Stored[ConfigurationT] | Descriptor,
        *,
        version: int | None = None,
        documents: bool = False,
        **options: Unpack[CallOptions],
    ) -> Stored[ConfigurationT]:
        """Copy a configuration. The name of the copy has a suffix.

        Args:
            configuration: the id, or what another call returned.
            version: the version to copy; the current one when None.
            documents: whether the documents of a knowledge base are copied, too; they are embedded again.
            **options: see `CallOptions`.

        Returns:
            The copy.
        """
        call = calls.duplicate_configuration(self._kind, id_of(configuration), version=version, documents=documents)
        return await self._sender._send(call, options)

    async def delete(
        self,
        configuration: str | Stored[ConfigurationT] | Descriptor,
        *,
        version: int | None = None,
        permanent: bool = False,
        **options: Unpack[CallOptions],
    ) -> None:
        """Delete a configuration.

        Args:
            configuration: the id, or what another call returned.
            version: the current version, as the caller knows it; None deletes whichever is the current one.
            permanent: whether to remove all versions, and all that belongs to them, such as documents. Otherwise the
                configuration is marked as deleted, and can be read by a version.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
            Conflict: another version is the current one.
        """
        call = calls.delete_configuration(self._kind, id_of(configuration), version=version, permanent=permanent)
        await self._sender._send(call, options)

    async def versions(
        self,
        configuration: str | Stored[ConfigurationT] | Descriptor,
        *,
        index: int | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> VersionList:
        """One page of the versions of a configuration, newest first.

        Args:
            configuration: the id, or what another call returned.
            index: number of the page, from 0.
            limit: maximum number of versions on the page.
            **options: see `CallOptions`.
        """
        call = calls.list_versions(self._kind, id_of(configuration), index=index, limit=limit)
        return await self._sender._send(call, options)
