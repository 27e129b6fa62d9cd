"""Tenants of keys, with two gateways over one PostgreSQL: what callers see of limits, and the metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from openai import OpenAI, PermissionDeniedError

from ragstore_client import Forbidden, TooManyRequests
from ragstore_client.gateway import GatewayClient
from tests.support.fake_upstream import FakeUpstream, fake_upstream, replying
from tests.support.gateways import start_gateway, write_scoped_keys
from tests.support.ingestion import until
from tests.support.postgres import Postgres
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

pytestmark = pytest.mark.process

LIMITS = {
    "acme": {"maxBases": 2, "maxDocuments": 2, "maxBytes": 100},
    "busy": {"requestsPerMinute": 5},
    "chatty": {"tokensPerDay": 1000},
}
USAGE = {"prompt_tokens": 400, "completion_tokens": 500, "total_tokens": 900}


class TenantGateways:
    """Two gateways over one database.

    Attributes:
        gateways: the processes.
        keys: the plain keys by name: an admin of each tenant, another one of `acme`, and one without a tenant.
    """

    def __init__(self, gateways: list[Served], keys: dict[str, str]) -> None:
        self.gateways = gateways
        self.keys = keys

    def client(self, index: int, name: str) -> httpx.Client:
        """A plain client of one of them."""
        headers = {"Authorization": f"Bearer {self.keys[name]}"}
        return httpx.Client(base_url=self.gateways[index].url, headers=headers, timeout=30)

    def metric(self, index: int, start: str) -> float | None:
        """The value of a metric; None if there is none."""
        with self.client(index, "free") as client:
            lines = client.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(start)), None)


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    """A model server."""
    with fake_upstream() as server:
        yield server


@pytest.fixture(scope="module")
@starts_process
def tenants(
    gateway: Served, upstream: FakeUpstream, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TenantGateways]:
    """Two gateways with limits of tenants. The shared gateway is their store."""
    folder = tmp_path_factory.mktemp("tenants")
    of_tenants = {"acme": "acme", "acme-2": "acme", "busy": "busy", "busy-2": "busy", "chatty": "chatty"}
    scopes = {name: {"gateway": {"role": "admin", "tenant": tenant}} for name, tenant in of_tenants.items()}
    keys = write_scoped_keys(folder / "keys", {**scopes, "free": {"gateway": {"role": "admin"}}})
    url = postgres.create_database()
    environ = {
        "RAGSTORE_URL": gateway.url,
        "RAGSTORE_GATEWAY_DATABASE_URL": url,
        "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
        "RAGSTORE_GATEWAY_TENANTS": json.dumps(LIMITS),
        "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
    }
    with ExitStack() as stack:
        found = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            found.append(stack.enter_context(running(start_gateway(folder / name, environ))))
        yield TenantGateways(found, keys)
    postgres.drop_database(url)


def ingest(client: httpx.Client, path: str, name: str, content: bytes) -> httpx.Response:
    """Send a document."""
    return client.post(path, params={"documentName": name}, content=content, headers={"Content-Type": "text/plain"})


def test_bases_and_documents_of_a_tenant_are_limited_over_both_gateways(tenants: TenantGateways) -> None:
    with tenants.client(0, "acme") as first, tenants.client(1, "acme-2") as second:
        assert first.post("/ragstore/rags", json={"name": "tea"}).status_code == 201
        created = second.post("/v1/vector_stores", json={"name": "coffee"})
        assert created.status_code == 200
        refused = first.post("/ragstore/rags", json={"name": "milk"})
        assert (refused.status_code, refused.json()["code"]) == (403, "tenant_bases_exceeded")
        assert refused.json()["detail"].startswith("The tenant 'acme' may have at most 2 knowledge bases (maxBases)")

        store = created.json()["id"]
        path = f"/ragstore/rags/{store}/ingest"
        assert ingest(second, path, "a.txt", b"a" * 60).status_code == 202
        too_large = ingest(first, path, "b.txt", b"b" * 60)
        assert (too_large.status_code, too_large.json()["code"]) == (403, "tenant_bytes_exceeded")
        # The base belongs to the tenant, also when the key of a request does not.
        with tenants.client(0, "free") as free:
            assert ingest(free, path, "b.txt", b"b" * 60).json()["code"] == "tenant_bytes_exceeded"
            assert free.post("/ragstore/rags", json={"name": "milk"}).status_code == 201

        def files(text: bytes) -> dict[str, object]:
            return {"data": {"purpose": "assistants"}, "files": {"file": ("c.txt", text)}}

        refused = second.post("/v1/files", **files(b"c" * 50))  # type: ignore[arg-type]
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "tenant_bytes_exceeded")
        # The file belongs to the tenant of its key, and a document to the tenant of its base.
        with tenants.client(0, "free") as free:
            ids = [free.post("/v1/files", **files(text)).json()["id"] for text in (b"c" * 50, b"d" * 30)]  # type: ignore[arg-type]
        openai = OpenAI(base_url=str(first.base_url) + "/v1", api_key=tenants.keys["acme"])
        with pytest.raises(PermissionDeniedError) as caught:
            openai.vector_stores.files.create(store, file_id=ids[0])
        assert (caught.value.code, caught.value.type) == ("tenant_bytes_exceeded", "permission_error")
        batch = openai.vector_stores.file_batches.create_and_poll(store, file_ids=ids)
        assert (batch.file_counts.completed, batch.file_counts.failed) == (1, 1)

        assert second.delete(f"/ragstore/rags/{store}?permanent=true").status_code == 200
        again = first.post("/ragstore/rags", json={"name": "milk-2"})
        assert again.status_code == 201
        base = again.headers["Location"].partition("?")[0]
        assert ingest(first, f"{base}/ingest", "b.txt", b"b" * 90).status_code == 202


def test_the_requests_of_a_minute_are_limited_over_both_gateways_and_both_keys(tenants: TenantGateways) -> None:
    with tenants.client(0, "busy") as first, tenants.client(1, "busy-2") as second:
        # More than two limits, so that the end of a minute in between makes no difference.
        responses = [client.get("/v1/vector_stores") for _ in range(6) for client in (first, second)]
        refused = [each for each in responses if each.status_code == 429]
        assert 12 - 2 * 5 <= len(refused) <= 12 - 5
        for each in refused:
            assert 1 <= int(each.headers["Retry-After"]) <= 60
            error = each.json()["error"]
            assert (error["code"], error["type"]) == ("tenant_requests_exceeded", "rate_limit_error")
            assert error["message"] == "The tenant 'busy' has used its 5 requests of this minute (requestsPerMinute)"
        # Probes and keys without a tenant are not limited.
        assert first.get("/health/live").status_code == 200
    with tenants.client(0, "free") as free:
        assert [free.get("/v1/vector_stores").status_code for _ in range(6)] == [200] * 6
    counted = [
        tenants.metric(index, 'ragstore_gateway_tenant_rejections_total{limit="requestsPerMinute",tenant="busy"}')
        for index in range(2)
    ]
    assert sum(each or 0 for each in counted) >= len(refused)


async def test_the_tokens_of_a_day_are_limited_over_both_gateways(
    tenants: TenantGateways, upstream: FakeUpstream
) -> None:
    upstream.on("m", replying("Tea.", usage=USAGE))
    chat = {"model": "m", "messages": [{"role": "user", "content": "tea " * 150}]}
    with tenants.client(0, "chatty") as first, tenants.client(1, "chatty") as second:
        assert first.post("/v1/chat/completions", json=chat).status_code == 200
        start = 'ragstore_gateway_tenant_usage{limit="tokensPerDay",tenant="chatty"}'
        await until(lambda: (tenants.metric(1, start) or 0) >= 900, seconds=40)
        refused = second.post("/v1/chat/completions", json=chat)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "tenant_tokens_exceeded"
        assert 1 <= int(refused.headers["Retry-After"]) <= 86_400
        # Other requests cost no tokens.
        assert second.get("/v1/models").status_code == 200
    assert tenants.metric(1, 'ragstore_gateway_tenant_limit{limit="tokensPerDay",tenant="chatty"}') == 1000


def test_clients_raise_typed_errors(tenants: TenantGateways) -> None:
    url = tenants.gateways[0].url

    def create_many(client: GatewayClient) -> None:
        for number in range(3):
            client.bases.create({"name": f"typed-{number}"})

    def list_often(client: GatewayClient) -> None:
        for _ in range(12):
            client.bases.page()

    with (
        GatewayClient(url, api_key=tenants.keys["acme"]) as client,
        pytest.raises(Forbidden) as caught,
    ):
        create_many(client)
    assert caught.value.code == "tenant_bases_exceeded"
    with GatewayClient(url, api_key=tenants.keys["busy"], retries=0) as client, pytest.raises(TooManyRequests) as busy:
        list_often(client)
    assert busy.value.code == "tenant_requests_exceeded"
    assert 0 < (busy.value.retry_after or 0) <= 60
