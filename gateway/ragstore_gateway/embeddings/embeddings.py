"""`Embeddings`: from a provider's name and parameters to an embedder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.extras import MissingExtra
from ragstore.kit.fair_queue import FairSemaphore
from ragstore.kit.time_slices import TimeSlices
from ragstore_gateway.embeddings import builtin
from ragstore_gateway.embeddings.builtin import BuiltinEmbedder, builtin_name
from ragstore_gateway.embeddings.cache import CachingEmbedder, VectorCache
from ragstore_gateway.embeddings.caller_limit import CallerLimit
from ragstore_gateway.embeddings.embedder import Embedder
from ragstore_gateway.embeddings.folder_embedder import display_name, load_folder, plan_of
from ragstore_gateway.embeddings.lazy_model import LazyModel
from ragstore_gateway.embeddings.local import LocalEmbedder, require_local_models
from ragstore_gateway.embeddings.model_files import ModelDamaged
from ragstore_gateway.embeddings.model_folders import PREFIX, ModelFolders, ModelFolderUnusable
from ragstore_gateway.embeddings.prefixes import prefixes_of
from ragstore_gateway.embeddings.provider_embedder import ProviderEmbedder
from ragstore_gateway.embeddings.providers.declared import PROVIDERS
from ragstore_gateway.embeddings.providers.local import LOCAL, LocalParameters
from ragstore_gateway.embeddings.providers.provider import Parameters
from ragstore_gateway.embeddings.wordllama import TruncatedEmbedder, WordLlamaEmbedder
from ragstore_gateway.errors import ModelUnavailable
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.secrets.parameters import convert_parameters
from ragstore_gateway.secrets.secret_references import SecretReferences

MAX_EMBEDDERS: Final = 256
"""Maximum number of embedders that are kept. The least recently used one is made again when it is used."""

_OF_A_MODEL: Final = frozenset(
    {"model", "dimensions", "outputDimensionality", "queryPrefix", "documentPrefix", "taskType"}
)
"""Parameters that choose a model or a kind of vector, and not a server or an account."""


@dataclass(frozen=True)
class EmbeddingLimits:
    """Limits of all embedders.

    Attributes:
        concurrency: maximum number of requests in flight to one provider.
        timeout_seconds: time limit of one call.
        cache_bytes: maximum size of the cache.
        max_waiting: maximum number of calls of each key, or of all callers without keys, that compute vectors or wait.
    """

    concurrency: int = 4
    timeout_seconds: float = 20.0
    cache_bytes: int = 64 * 1024 * 1024
    max_waiting: int = 256


def validate(provider: str, parameters: Mapping[str, object], secrets: SecretReferences, path: str = "$") -> Parameters:
    """Check a configuration's `embeddingProvider` and `embeddingParameters`. Nothing is sent.

    Args:
        secrets: checks references to secrets.
        path: JSON path of the configuration, for errors.

    Returns:
        The parameters.

    Raises:
        InvalidRequest: the provider is unknown, or some parameters are; the error names each path.
    """
    if provider not in PROVIDERS:
        raise InvalidRequest.at(f"{path}.embeddingProvider", f"Must be one of {', '.join(PROVIDERS)}")
    below = f"{path}.embeddingParameters"
    converted: Parameters = convert_parameters(PROVIDERS[provider].parameters, parameters, below, secrets)
    if isinstance(converted, LocalParameters) and converted.dimensions is not None:
        known = builtin.MODELS[converted.model].dimensions if converted.model in builtin.MODELS else ()
        if converted.dimensions not in known:
            allowed = ", ".join(map(str, known)) or "absent for this model"
            raise InvalidRequest.at(f"{below}.dimensions", f"Must be {allowed}")
    if isinstance(converted, LocalParameters) and converted.sha256 and not converted.model.startswith(PREFIX):
        raise InvalidRequest.at(f"{below}.sha256", f"Must be absent for a model other than {PREFIX}FOLDER")
    return converted


class Embeddings:
    """Makes embedders, which share connections and one cache.

    Args:
        secrets: checks and resolves references to secrets.
        connections: the pool.
        folders: the folders of models of an administrator.

    Attributes:
        secrets: checks and resolves references to secrets.
        folders: the folders of models of an administrator.
        slices: runs the work on large responses, so that other requests do not wait for it.
    """

    def __init__(
        self,
        secrets: SecretReferences,
        connections: Connections,
        limits: EmbeddingLimits,
        folders: ModelFolders | None = None,
    ) -> None:
        self.secrets = secrets
        self.folders = folders or ModelFolders("")
        self._connections = connections
        self._limits = limits
        self._cache = VectorCache(limits.cache_bytes)
        self.slices = TimeSlices()
        self._embedders: dict[bytes, Embedder] = {}
        self._limit = CallerLimit(limits.max_waiting)
        self._slots: WeakValueDictionary[bytes, FairSemaphore] = WeakValueDictionary()
        self._builtin: dict[str, BuiltinEmbedder] = {}
        self._loading = Lock()
        self._default: tuple[str, Parameters] = (LOCAL.name, LocalParameters())
        self._of_new_bases = builtin.OF_NEW_BASES

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Close the connections at the end."""
        async with self._connections:
            yield

    def validate(self, provider: str, parameters: Mapping[str, object], path: str = "$") -> Parameters:
        """Check a configuration; see `validate`."""
        return validate(provider, parameters, self.secrets, path)

    def check(self, provider: str, parameters: Mapping[str, object], path: str = "$") -> None:
        """Check a configuration that is written: also what a later installation or another environment may change.

        Args:
            path: JSON path of the configuration, for errors.

        Raises:
            InvalidRequest: it cannot be used; see `validate`. Or it needs an extra that is not installed, or a secret
                that this process can never read.
        """
        converted = self.validate(provider, parameters, path)
        try:
            if isinstance(converted, LocalParameters):
                self._check_local(converted, path)
            else:
                PROVIDERS[provider].require_extra()
        except (MissingExtra, ModelFolderUnusable) as error:
            field = "embeddingParameters.model" if provider == LOCAL.name else "embeddingProvider"
            raise InvalidRequest.at(f"{path}.{field}", str(error)) from None
        self.secrets.check_readable(parameters, f"{path}.embeddingParameters")

    def _check_local(self, parameters: LocalParameters, path: str) -> None:
        if parameters.model in builtin.MODELS:
            builtin.MODELS[parameters.model].require_extra()
        elif parameters.model.startswith(PREFIX):
            folder = self.folders.find(parameters.model)
            plan_of(folder, parameters.query_prefix, parameters.document_prefix)
            if parameters.sha256 not in (UNSET, self.folders.sha256(folder)):
                message = "The files of the model have another hash. Leave it out to use them"
                raise InvalidRequest.at(f"{path}.embeddingParameters.sha256", message)
        else:
            require_local_models(parameters.model)

    def of(self, provider: str, parameters: Mapping[str, object]) -> Embedder:
        """The embedder of a configuration: the same one for the same configuration.

        Raises:
            InvalidRequest: they are not valid.
            ModelUnavailable: the built-in model's files cannot be used.
        """
        return self._embedder(provider, self.validate(provider, parameters))

    def set_default(self, provider: str, parameters: Mapping[str, object]) -> Embedder:
        """Choose the embedder of texts without a configuration of their own. A local model is loaded now.

        A built-in model that is named here is also the model of new knowledge bases that name none.

        Raises:
            InvalidRequest: they are not valid.
            ModelDamaged: the built-in model's files cannot be used.
            ModelUnavailable: another local model cannot be loaded, or an extra is not installed.
        """
        converted = self.validate(provider, parameters)
        if isinstance(converted, LocalParameters) and converted.model.startswith(PREFIX):
            self.check(provider, parameters)
            converted = self.validate(provider, self._with_hash(parameters))
        self._default = (provider, converted)
        if isinstance(converted, LocalParameters) and "model" in parameters and converted.model in builtin.MODELS:
            self._of_new_bases = converted.model
        if isinstance(converted, LocalParameters):
            if converted.model in builtin.MODELS:
                self._load_builtin(converted.model)
            else:
                local = self._local(converted)
                local.loaded()
                self._keep(provider, converted, local)
        return self.default

    def with_model(
        self, provider: str, parameters: Mapping[str, object], before: Mapping[str, object] | None
    ) -> Mapping[str, object]:
        """The parameters of a knowledge base that is written, with the model that it has from now on.

        Args:
            provider: the provider of the base.
            parameters: the parameters, which may name no model.
            before: the parameters of the version before, with the same provider; None for none.

        Raises:
            InvalidRequest: the folder of the model cannot be used any more.
        """
        if provider != LOCAL.name:
            return parameters
        if "model" in parameters:
            return self._with_hash(parameters)
        if before is not None:
            # Before models were stored with bases, there was one.
            return {**{name: before[name] for name in ("model", "sha256") if name in before}, **parameters}
        model = builtin.DEFAULT if "dimensions" in parameters else self._of_new_bases
        return {"model": model, **parameters}

    def dimension_of(self, provider: str, parameters: Mapping[str, object]) -> int | None:
        """The number of components of vectors, as far as it is known without a request.

        Args:
            parameters: of the provider, with the model.

        Raises:
            InvalidRequest: they are not valid.
        """
        converted = self.validate(provider, parameters)
        if isinstance(converted, LocalParameters) and converted.model in builtin.MODELS:
            return converted.dimensions or builtin.MODELS[converted.model].dimension
        given = msgspec.to_builtins(converted)
        found = given.get("dimensions") or given.get("outputDimensionality")
        return found if isinstance(found, int) else None

    def _with_hash(self, parameters: Mapping[str, object]) -> Mapping[str, object]:
        """The parameters of a local model. A folder of files has the hash that its files have now."""
        model = str(parameters.get("model", ""))
        if not model.startswith(PREFIX) or parameters.get("sha256"):
            return parameters
        try:
            return {**parameters, "sha256": self.folders.sha256(self.folders.find(model))}
        except ModelFolderUnusable as error:
            raise InvalidRequest.at("$.embeddingParameters.model", str(error)) from None

    @property
    def of_new_base(self) -> tuple[str, Mapping[str, object]]:
        """The provider of texts of a new base that names none, and its parameters."""
        provider, parameters = self._default
        if provider == LOCAL.name:
            return provider, {"model": self._of_new_bases}
        return provider, msgspec.to_builtins(parameters)

    def configuration_of(self, model: str) -> tuple[str, Mapping[str, object]] | None:
        """The provider of a model that a collection names, and its parameters.

        Args:
            model: the name; empty for the default's model.

        Returns:
            Both; None for a model that this gateway does not have.
        """
        if model in ("", self.default.name):
            provider, parameters = self._default
            return provider, msgspec.to_builtins(parameters)
        own = builtin_name(model)
        return None if own is None else (LOCAL.name, {"model": own})

    @property
    def default(self) -> Embedder:
        """The embedder of texts without a configuration of their own."""
        return self._embedder(*self._default)

    def named(self, model: str, dimensions: int | None = None) -> Embedder | None:
        """The embedder of a model that a request names.

        Args:
            model: the default's model, with or without its provider, or a built-in one; empty for the default.
            dimensions: the requested dimension; None for the model's own.

        Returns:
            The embedder; None for a model that this gateway does not have.

        Raises:
            InvalidRequest: the model has no such dimension.
        """
        default = self.default
        names = {"", default.name, default.name.partition("/")[2]}
        if model in names:
            provider, parameters = self._default
        elif (own := builtin_name(model)) is not None:
            provider, parameters = LOCAL.name, LocalParameters(model=own)
        else:
            return None
        if dimensions is None:
            return self._embedder(provider, parameters)
        return self._embedder(provider, _with_dimensions(provider, parameters, dimensions, self.secrets))

    def _embedder(self, provider: str, parameters: Parameters) -> Embedder:
        identity = _identity(provider, parameters)
        kept = self._embedders.pop(identity, None)
        if kept is None:
            return self._keep(provider, parameters, self._create(provider, parameters))
        self._embedders[identity] = kept
        return kept

    def _keep(self, provider: str, parameters: Parameters, embedder: Embedder) -> Embedder:
        identity = _identity(provider, parameters)
        # A request can name dimensions, so these come and go; the default one may be a model that takes long to load.
        default = _identity(*self._default)
        while len(self._embedders) >= MAX_EMBEDDERS:
            del self._embedders[next(each for each in self._embedders if each != default)]
        kept = self._embedders[identity] = CachingEmbedder(
            embedder,
            self._cache,
            identity,
            timeout_seconds=self._limits.timeout_seconds,
            limit=self._limit,
            slices=self.slices,
        )
        return kept

    def _load_builtin(self, model: str) -> BuiltinEmbedder:
        """A built-in model, loaded now if it is not loaded.

        Raises:
            ModelDamaged: its files cannot be used.
            ModelUnavailable: its extra is not installed.
        """
        # Threads load models for several embedders.
        with self._loading:
            if model not in self._builtin:
                try:
                    builtin.MODELS[model].require_extra()
                except MissingExtra as error:
                    raise ModelUnavailable(str(error)) from None
                self._builtin[model] = builtin.MODELS[model].create()
            return self._builtin[model]

    def _local(self, parameters: LocalParameters) -> LazyModel | LocalEmbedder:
        """A model that is not built in. It is loaded when it is first used."""
        model, query, document = parameters.model, parameters.query_prefix, parameters.document_prefix
        if not model.startswith(PREFIX):
            return LocalEmbedder(model, prefixes_of(model, query, document))
        sha256 = parameters.sha256 or ""
        return LazyModel(
            display_name(model, sha256), partial(load_folder, self.folders, model, sha256, query, document)
        )

    def _slots_of(self, provider: str, parameters: Parameters) -> FairSemaphore:
        """The slots for requests in flight to a provider: one set for all models and dimensions of an account."""
        given = msgspec.to_builtins(parameters)
        account = msgspec.json.encode([provider, {name: given[name] for name in given if name not in _OF_A_MODEL}])
        slots = self._slots.get(account)
        if slots is None:
            slots = self._slots[account] = FairSemaphore(self._limits.concurrency)
        return slots

    def _create(self, provider: str, parameters: Parameters) -> Embedder:
        if isinstance(parameters, LocalParameters):
            if parameters.model not in builtin.MODELS:
                return self._local(parameters)
            known = builtin.MODELS[parameters.model]
            if parameters.model != builtin.DEFAULT:
                return LazyModel(known.name, partial(self._load_builtin, known.name), known.dimension)
            try:
                embedder = self._load_builtin(parameters.model)
            except ModelDamaged as error:
                raise ModelUnavailable(str(error)) from None
            if isinstance(embedder, WordLlamaEmbedder) and parameters.dimensions not in (None, embedder.dimension):
                return TruncatedEmbedder(embedder, parameters.dimensions or embedder.dimension)
            return embedder
        create = PROVIDERS[provider].create
        assert create is not None  # noqa: S101  # only `local` has none
        return ProviderEmbedder(
            provider,
            create(parameters, self.secrets),
            self._connections,
            self._slots_of(provider, parameters),
            concurrency=self._limits.concurrency,
            timeout_seconds=self._limits.timeout_seconds,
        )


def _identity(provider: str, parameters: Parameters) -> bytes:
    """The identity of a configuration's vectors. References to secrets are part of it, secrets are not."""
    return provider.encode() + b"\0" + msgspec.json.encode(parameters)


def _with_dimensions(provider: str, parameters: Parameters, dimensions: int, secrets: SecretReferences) -> Parameters:
    """The parameters with another dimension.

    Raises:
        InvalidRequest: the provider has no choice of dimensions, or not this one.
    """
    given = msgspec.to_builtins(parameters)
    fields = {field.encode_name for field in msgspec.structs.fields(type(parameters))}
    name = "outputDimensionality" if "outputDimensionality" in fields else "dimensions"
    try:
        return validate(provider, {**given, name: dimensions}, secrets)
    except InvalidRequest as error:
        raise InvalidRequest.at("$.dimensions", error.field_errors[0].message) from None
