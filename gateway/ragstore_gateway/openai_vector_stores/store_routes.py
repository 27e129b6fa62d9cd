"""The routes of vector stores."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from litestar import Request, delete, get, post
from litestar.types import ControllerRouterHandler

from ragstore.kit.auth.roles import READS
from ragstore.kit.byte_budget import reserved
from ragstore.kit.context import record_write
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.openapi import body_of
from ragstore_gateway.configurations.where_template import variables_of
from ragstore_gateway.errors import NameTaken, QueueFull, VersionConflict
from ragstore_gateway.keys import ADMIN, READER, key_name_of, tenant_of, visible_bases
from ragstore_gateway.openai_vector_stores.pages import (
    AfterParameter,
    BeforeParameter,
    LimitParameter,
    OrderParameter,
    PageQuery,
    ends,
)
from ragstore_gateway.openai_vector_stores.route_parts import (
    FILE_ERRORS,
    SEARCH_ERRORS,
    STORE_ERRORS,
    Api,
    StoreId,
    read_body,
    visible_files,
)
from ragstore_gateway.openai_vector_stores.schemas import (
    NewVectorStore,
    VectorStoreDeleted,
    VectorStoreList,
    VectorStoreObject,
    VectorStoreSearch,
    VectorStoreSearchPage,
    VectorStoreUpdate,
)
from ragstore_gateway.tenants.errors import TENANT_LIMITS

PATH: Final = "/v1/vector_stores"
TAGS: Final = ["vector stores"]


@post(
    PATH,
    status_code=200,
    opt={**ADMIN, ERRORS: (*FILE_ERRORS, NameTaken, QueueFull, *TENANT_LIMITS), **body_of(NewVectorStore)},
    operation_id="createVectorStore",
    summary="Create a vector store",
    tags=TAGS,
)
async def create_vector_store(request: Request[Any, Any, Any], vector_stores_api: Api) -> VectorStoreObject:
    """Create a knowledge base, and attach files to it."""
    body = await read_body(request, NewVectorStore)
    await vector_stores_api.files.check_visible(body.file_ids or (), await visible_files(request, vector_stores_api))
    attach = partial(vector_stores_api.batches.attach_to_new, file_ids=body.file_ids) if body.file_ids else None
    # Of many files, one is in memory. No transaction waits for its room.
    sizes = await vector_stores_api.files.sizes(body.file_ids or ())
    async with reserved(max(sizes.values(), default=0)):
        stored = await vector_stores_api.stores.create(
            body, key_name_of(request.scope), attach, visible_bases(request.scope), tenant_of(request.scope)
        )
    record_write(f"v1/vector_stores/{stored.id}")
    return await vector_stores_api.stores.read(stored.id)


@get(
    PATH,
    opt={**READER, ERRORS: STORE_ERRORS},
    operation_id="listVectorStores",
    summary="List vector stores",
    tags=TAGS,
)
async def list_vector_stores(
    request: Request[Any, Any, Any],
    vector_stores_api: Api,
    limit: LimitParameter = 20,
    order: OrderParameter = "desc",
    after: AfterParameter = "",
    before: BeforeParameter = "",
) -> VectorStoreList:
    """A page of the knowledge bases, as vector stores."""
    page = PageQuery(limit, order, after, before)
    found, has_more = await vector_stores_api.stores.page(page, visible_bases(request.scope))
    return VectorStoreList(found, *ends(found), has_more)


@get(
    f"{PATH}/{{store_id:str}}",
    opt={**READER, ERRORS: STORE_ERRORS},
    operation_id="getVectorStore",
    summary="Read a vector store",
    tags=TAGS,
)
async def get_vector_store(store_id: StoreId, vector_stores_api: Api) -> VectorStoreObject:
    """A knowledge base, as a vector store."""
    return await vector_stores_api.stores.read(store_id)


@post(
    f"{PATH}/{{store_id:str}}",
    status_code=200,
    opt={**ADMIN, ERRORS: (*STORE_ERRORS, NameTaken, VersionConflict), **body_of(VectorStoreUpdate)},
    operation_id="updateVectorStore",
    summary="Change a vector store",
    tags=TAGS,
)
async def update_vector_store(
    request: Request[Any, Any, Any], store_id: StoreId, vector_stores_api: Api
) -> VectorStoreObject:
    """Change the name, the metadata or the expiry. A new name is a new version of the knowledge base."""
    body = await read_body(request, VectorStoreUpdate)
    await vector_stores_api.stores.update(store_id, body, key_name_of(request.scope), visible_bases(request.scope))
    return await vector_stores_api.stores.read(store_id)


@delete(
    f"{PATH}/{{store_id:str}}",
    status_code=200,
    opt={**ADMIN, ERRORS: (*STORE_ERRORS, VersionConflict)},
    operation_id="deleteVectorStore",
    summary="Delete a vector store",
    tags=TAGS,
)
async def delete_vector_store(store_id: StoreId, vector_stores_api: Api) -> VectorStoreDeleted:
    """Delete a knowledge base permanently: all versions, documents and vectors. Uploaded files stay."""
    await vector_stores_api.bases.delete(store_id, permanent=True)
    return VectorStoreDeleted(store_id)


@post(
    f"{PATH}/{{store_id:str}}/search",
    status_code=200,
    opt={**READER, **READS, ERRORS: SEARCH_ERRORS, **body_of(VectorStoreSearch)},
    operation_id="searchVectorStore",
    summary="Search a vector store",
    tags=TAGS,
)
async def search_vector_store(
    request: Request[Any, Any, Any], store_id: StoreId, vector_stores_api: Api
) -> VectorStoreSearchPage:
    """Find the passages that are nearest to a question, best first. `score` is their relevance, (1 + cosine) / 2."""
    body = await read_body(request, VectorStoreSearch)
    variables = variables_of(request.scope, vector_stores_api.session_from)
    return await vector_stores_api.search.search(store_id, body, variables)


ROUTES: Final[list[ControllerRouterHandler]] = [
    create_vector_store,
    list_vector_stores,
    get_vector_store,
    update_vector_store,
    delete_vector_store,
    search_vector_store,
]
"""The routes of vector stores."""
