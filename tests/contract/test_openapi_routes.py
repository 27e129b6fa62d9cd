"""The OpenAPI document takes roles and errors from the options of the routes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from ragstore.api.openapi.document import document
from ragstore.app import create_litestar
from ragstore.kit.auth.roles import IDENTIFIES, ROLE
from ragstore.kit.openapi import ERRORS
from ragstore.settings import Settings

APP = create_litestar(Settings())
OPERATIONS: dict[str, dict[str, Any]] = {
    operation["operationId"]: operation
    for item in json.loads(document(APP))["paths"].values()
    for operation in item.values()
}
ROUTES: dict[str, HTTPRouteHandler] = {
    handler.operation_id: handler
    for route in APP.routes
    if isinstance(route, HTTPRoute)
    for handler in route.route_handlers
    if isinstance(handler.operation_id, str)
}


def test_every_route_with_an_operation_id_is_in_the_document() -> None:
    assert ROUTES.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_only_a_public_route_is_documented_without_a_key(name: str) -> None:
    is_public = ROUTES[name].opt[ROLE] is None
    rejects_wrong_keys = not is_public or IDENTIFIES in ROUTES[name].opt

    assert ("security" in OPERATIONS[name]) == is_public
    assert ("401" in OPERATIONS[name]["responses"]) == rejects_wrong_keys


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_an_error_of_a_route_is_documented_with_its_status(name: str) -> None:
    errors = ROUTES[name].opt.get(ERRORS, ())

    assert {str(error.status) for error in errors} <= OPERATIONS[name]["responses"].keys()


def test_a_conflict_is_documented_only_where_a_route_creates_or_rebuilds_something() -> None:
    conflicting = {name for name, operation in OPERATIONS.items() if "409" in operation["responses"]}

    assert conflicting == {"createCollection", "addDocuments", "streamDocuments", "startRebuild"}


def test_a_new_collection_is_documented_with_its_location() -> None:
    created = OPERATIONS["createCollection"]["responses"]

    assert created["201"]["headers"].keys() == {"Location"}
    assert created["200"]["content"] == created["201"]["content"]


@pytest.mark.parametrize("name", ["getHealth", "getReadiness"])
def test_503_of_a_health_route_is_documented_with_its_own_body(name: str) -> None:
    responses = OPERATIONS[name]["responses"]

    assert responses["503"]["content"] == responses["200"]["content"]
