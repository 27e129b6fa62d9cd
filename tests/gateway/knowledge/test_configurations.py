"""The calls of section "Configuration Management", for knowledge bases and for assistants, on both databases."""

from __future__ import annotations

from datetime import datetime

import httpx
import pytest

from tests.gateway.knowledge.conftest import body_of, create, versioned
from tests.support.gateways import FAST_MODEL
from tests.support.problems import assert_problem

pytestmark = pytest.mark.process


def test_a_new_configuration_is_version_1_and_its_path_is_in_two_headers(
    http: httpx.Client, kind: str, name: str
) -> None:
    response = http.post(f"/ragstore/{kind}", json=body_of(kind, name))
    assert response.status_code == 201
    location = response.headers["Location"]
    assert location.startswith(f"/ragstore/{kind}/")
    assert location.endswith("?version=1")
    assert response.headers["X-Resource-URI"] == location
    assert http.get(location).json() == response.json()


def test_the_shortest_knowledge_base_has_a_name_only_and_is_stored_with_its_defaults(
    http: httpx.Client, name: str
) -> None:
    path = create(http, "rags", name)
    assert http.get(path).json() == {
        "name": name,
        "description": "",
        "embeddingProvider": "local",
        "embeddingParameters": {"model": FAST_MODEL},
        "storeType": "ragstore",
        "storeParameters": {},
        "engine": "",
        "chunkStrategy": "recursive",
        "chunkSize": 512,
        "chunkOverlap": 64,
        "chunkUnit": "characters",
        "maxResults": 5,
        "minScore": 0.0,
        "retrieval": "hybrid",
        "embedHeadings": True,
        "keywordWeight": 0.3,
        "where": {},
        "sources": [],
    }


@pytest.mark.parametrize("query", ["", "?version=0", "?version=2"])
def test_an_absent_version_and_0_are_the_current_one(http: httpx.Client, kind: str, name: str, query: str) -> None:
    path = create(http, kind, name)
    http.put(versioned(path, 1), json=body_of(kind, name, description="second")).raise_for_status()
    response = http.get(path + query)
    assert response.status_code == 200
    assert response.json()["description"] == "second"
    assert response.headers["X-Resource-URI"] == versioned(path, 2)


@pytest.mark.parametrize(
    "id_", ["550e8400-e29b-41d4-a716-446655440000", "x", "%00", "a%2Fb", "x" * 500, "%F0%9F%8D%B5"]
)
def test_an_unknown_id_is_404_for_each_method(http: httpx.Client, kind: str, name: str, id_: str) -> None:
    path = f"/ragstore/{kind}/{id_}"
    assert http.get(path).status_code == 404
    assert http.put(versioned(path, 1), json=body_of(kind, name)).status_code == 404
    assert http.delete(path).status_code == 404
    assert http.delete(path, params={"permanent": True}).status_code == 404
    if "%2F" not in id_:  # other methods of such a path do not exist
        assert http.post(path).status_code == 404


def test_an_id_of_the_other_kind_is_404(http: httpx.Client, name: str) -> None:
    path = create(http, "rags", name)
    assert_problem(http.get(path.replace("/rags/", "/assistants/")), 404, "configuration_not_found")


def test_an_unknown_version_is_404(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name)
    assert_problem(http.get(versioned(path, 2)), 404, "configuration_not_found")
    assert_problem(http.post(versioned(path, 2)), 404, "configuration_not_found")


@pytest.mark.parametrize("version", ["-1", "x", "1.5", str(2**31), str(10**30)])
def test_a_version_that_is_no_number_in_range_is_400(http: httpx.Client, kind: str, name: str, version: str) -> None:
    path = create(http, kind, name)
    for response in (
        http.get(f"{path}?version={version}"),
        http.post(f"{path}?version={version}"),
        http.put(f"{path}?version={version}", json=body_of(kind, name)),
        http.delete(f"{path}?version={version}"),
    ):
        assert_problem(response, 400, "invalid_request")
    assert http.get(path).status_code == 200


def test_an_update_writes_the_next_version(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name)
    for version in (1, 2, 3):
        response = http.put(versioned(path, version), json=body_of(kind, name, description=f"after {version}"))
        assert response.status_code == 200
        assert response.headers["Location"] == versioned(path, version + 1)
        assert response.headers["X-Resource-URI"] == versioned(path, version + 1)
    assert http.get(path).json()["description"] == "after 3"


def test_a_version_never_changes(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name, description="first")
    before = http.get(versioned(path, 1)).content
    http.put(versioned(path, 1), json=body_of(kind, f"{name}-renamed", description="second")).raise_for_status()
    http.delete(path).raise_for_status()
    assert http.get(versioned(path, 1)).content == before


@pytest.mark.parametrize("stale", [1, 3])
def test_an_update_of_another_version_is_409_and_names_the_current_one(
    http: httpx.Client, kind: str, name: str, stale: int
) -> None:
    path = create(http, kind, name)
    http.put(versioned(path, 1), json=body_of(kind, name, description="current")).raise_for_status()
    response = http.put(versioned(path, stale), json=body_of(kind, name, description="lost"))
    assert "is 2" in assert_problem(response, 409, "version_conflict")["detail"]
    assert response.headers["X-Resource-URI"] == versioned(path, 2)
    assert http.get(path).json()["description"] == "current"


@pytest.mark.parametrize("query", ["", "?version=0"])
def test_an_update_needs_the_version_that_it_is_based_on(http: httpx.Client, kind: str, name: str, query: str) -> None:
    path = create(http, kind, name)
    assert_problem(http.put(path + query, json=body_of(kind, name)), 400, "invalid_request")


def test_a_name_is_unique_among_configurations_of_a_kind(http: httpx.Client, kind: str, name: str) -> None:
    create(http, kind, name)
    other = create(http, kind, f"{name}-other")
    response = http.post(f"/ragstore/{kind}", json=body_of(kind, name))
    assert name in assert_problem(response, 409, "name_taken")["detail"]
    assert_problem(http.put(versioned(other, 1), json=body_of(kind, name)), 409, "name_taken")
    assert http.get(other).json()["name"] == f"{name}-other"
    assert http.get(other).headers["X-Resource-URI"] == versioned(other, 1)


def test_a_knowledge_base_and_an_assistant_may_have_one_name(http: httpx.Client, name: str) -> None:
    create(http, "rags", name)
    create(http, "assistants", name)


def test_a_name_is_free_after_a_deletion_or_a_renaming(http: httpx.Client, kind: str, name: str) -> None:
    first = create(http, kind, name)
    http.delete(first).raise_for_status()
    second = create(http, kind, name)
    http.put(versioned(second, 1), json=body_of(kind, f"{name}-2")).raise_for_status()
    create(http, kind, name)


def test_the_versions_are_listed_newest_first_with_their_times(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name)
    for version in (1, 2):
        http.put(versioned(path, version), json=body_of(kind, name, description=str(version))).raise_for_status()
    listed = http.get(f"{path}/versions").json()
    assert ([each["version"] for each in listed["versions"]], listed["total"]) == ([3, 2, 1], 3)
    times = [datetime.fromisoformat(each["createdOn"]) for each in listed["versions"]]
    assert times == sorted(times, reverse=True)
    page = http.get(f"{path}/versions", params={"limit": 2, "index": 1}).json()
    assert page == {"versions": listed["versions"][2:], "total": 3}


def test_the_versions_of_a_deleted_configuration_and_of_an_unknown_one_are_404(
    http: httpx.Client, kind: str, name: str
) -> None:
    path = create(http, kind, name)
    http.delete(path).raise_for_status()
    for each in (path, f"/ragstore/{kind}/nowhere", f"/ragstore/{kind}/%00"):
        assert_problem(http.get(f"{each}/versions"), 404, "configuration_not_found")


def test_an_assistant_is_duplicated_without_documents(http: httpx.Client, name: str) -> None:
    path = create(http, "assistants", name)
    response = http.post(path, params={"documents": True})
    assert [each["path"] for each in assert_problem(response, 400, "invalid_request")["errors"]] == ["$.documents"]


def test_a_duplicate_has_a_new_id_version_1_and_a_suffix(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name, description="about tea")
    http.put(versioned(path, 1), json=body_of(kind, name, description="about coffee")).raise_for_status()
    response = http.post(path)
    assert response.status_code == 201
    location = response.headers["Location"]
    assert location == response.headers["X-Resource-URI"]
    assert location.endswith("?version=1")
    assert not location.startswith(path)
    assert http.get(location).json() == {**http.get(path).json(), "name": f"{name}-copy"}


def test_an_older_version_can_be_duplicated_and_each_duplicate_has_a_name_of_its_own(
    http: httpx.Client, kind: str, name: str
) -> None:
    path = create(http, kind, name, description="about tea")
    http.put(versioned(path, 1), json=body_of(kind, name)).raise_for_status()
    names = []
    for _ in range(3):
        response = http.post(versioned(path, 1))
        assert response.json()["description"] == "about tea"
        names.append(response.json()["name"])
    assert names == [f"{name}-copy", f"{name}-copy-2", f"{name}-copy-3"]


def test_the_name_of_a_duplicate_is_cut_where_it_would_be_too_long(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name.ljust(128, "x"))
    copies = [http.post(path).json()["name"] for _ in range(2)]
    assert [len(each) for each in copies] == [128, 128]
    assert len(set(copies)) == 2


def test_a_deleted_configuration_is_404_and_not_listed_but_its_versions_stay(
    http: httpx.Client, kind: str, name: str
) -> None:
    path = create(http, kind, name)
    response = http.delete(versioned(path, 1))
    assert (response.status_code, response.content) == (200, b"")
    assert http.get(path).status_code == 404
    assert http.get(versioned(path, 1)).json()["name"] == name
    assert http.get(f"/ragstore/{kind}/descriptors", params={"filter": name}).json() == []
    assert http.put(versioned(path, 1), json=body_of(kind, name)).status_code == 404
    assert http.delete(path).status_code == 404


def test_a_permanent_deletion_removes_all_versions(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name)
    http.put(versioned(path, 1), json=body_of(kind, name)).raise_for_status()
    assert http.delete(f"{versioned(path, 2)}&permanent=true").status_code == 200
    assert [http.get(versioned(path, version)).status_code for version in (0, 1, 2)] == [404, 404, 404]
    create(http, kind, name)


def test_a_deleted_configuration_can_be_removed_permanently(http: httpx.Client, kind: str, name: str) -> None:
    path = create(http, kind, name)
    http.delete(path).raise_for_status()
    http.delete(path, params={"permanent": True}).raise_for_status()
    assert http.get(versioned(path, 1)).status_code == 404


@pytest.mark.parametrize("permanent", [False, True])
def test_a_deletion_of_another_version_is_409_and_deletes_nothing(
    http: httpx.Client, kind: str, name: str, permanent: bool
) -> None:
    path = create(http, kind, name)
    http.put(versioned(path, 1), json=body_of(kind, name)).raise_for_status()
    response = http.delete(f"{versioned(path, 1)}&permanent={permanent}")
    assert "is 2" in assert_problem(response, 409, "version_conflict")["detail"]
    assert http.get(path).status_code == 200


def test_descriptors_are_listed_newest_first(http: httpx.Client, kind: str, name: str) -> None:
    paths = [create(http, kind, f"{name}-{number}", description=f"the {number}") for number in range(3)]
    http.put(versioned(paths[0], 1), json=body_of(kind, f"{name}-0", description="changed")).raise_for_status()
    found = http.get(f"/ragstore/{kind}/descriptors", params={"filter": name}).json()
    assert [each["resource"] for each in found] == [
        versioned(paths[2], 1),
        versioned(paths[1], 1),
        versioned(paths[0], 2),
    ]
    oldest = found[2]
    assert oldest.keys() == {"resource", "name", "description", "createdOn", "lastModifiedOn"}
    assert (oldest["name"], oldest["description"]) == (f"{name}-0", "changed")
    created, modified = (datetime.fromisoformat(oldest[key]) for key in ("createdOn", "lastModifiedOn"))
    assert created < datetime.fromisoformat(found[1]["createdOn"]) < modified
    assert created.tzinfo is not None


def test_descriptors_are_paged(http: httpx.Client, kind: str, name: str) -> None:
    for number in range(5):
        create(http, kind, f"{name}-{number}")

    def page(index: int) -> list[str]:
        query: dict[str, str | int] = {"filter": name, "index": index, "limit": 2}
        found = http.get(f"/ragstore/{kind}/descriptors", params=query).json()
        return [each["name"].rpartition("-")[2] for each in found]

    assert [page(index) for index in range(4)] == [["4", "3"], ["2", "1"], ["0"], []]


def test_a_page_of_descriptors_has_20_by_default(http: httpx.Client, name: str) -> None:
    for number in range(21):
        create(http, "rags", f"{name}-{number}")
    assert len(http.get("/ragstore/rags/descriptors", params={"filter": name}).json()) == 20


def test_the_filter_is_part_of_a_name_or_of_a_description_in_any_case(http: httpx.Client, kind: str, name: str) -> None:
    create(http, kind, f"{name}-ÄPFEL")
    create(http, kind, f"{name}-pears", description=f"{name} in place of äpfel")
    create(http, kind, f"{name}-plums")
    found = http.get(f"/ragstore/{kind}/descriptors", params={"filter": "Äpfel", "limit": 1000}).json()
    mine = {each["name"] for each in found if each["name"].startswith(name)}
    assert mine == {f"{name}-ÄPFEL", f"{name}-pears"}


def test_signs_of_patterns_in_a_filter_have_no_meaning(http: httpx.Client, kind: str, name: str) -> None:
    create(http, kind, f"{name} 100%_")

    def found(text: str) -> int:
        return len(http.get(f"/ragstore/{kind}/descriptors", params={"filter": text}).json())

    assert found(f"{name} 100%_") == 1
    assert found(f"{name}%") == 0
    assert found(f"{name}_100") == 0
    assert found("\0") == 0


def test_a_text_with_a_nul_does_not_affect_the_search_of_other_descriptions(
    http: httpx.Client, kind: str, name: str
) -> None:
    create(http, kind, f"{name}-a", description=f"\\u0000 {name} last \0")
    create(http, kind, f"{name}-b", description=f"{name} last")
    found = http.get(f"/ragstore/{kind}/descriptors", params={"filter": "LAST", "limit": 1000}).json()
    assert [each["name"] for each in found if each["name"].startswith(name)] == [f"{name}-b", f"{name}-a"]
    assert found[1]["description"] == f"\\u0000 {name} last \0"


def test_an_ingestion_with_a_nul_in_its_id_does_not_exist(http: httpx.Client, name: str) -> None:
    path = create(http, "rags", name) + "/ingestion/a%00b"
    assert_problem(http.get(f"{path}/status"), 404, "ingestion_not_found")
    assert_problem(http.delete(path), 404, "ingestion_not_found")


@pytest.mark.parametrize("query", ["index=-1", "limit=0", "limit=1001", "limit=x", "index=99999999999999999999"])
def test_a_page_out_of_range_is_400(http: httpx.Client, kind: str, query: str) -> None:
    assert_problem(http.get(f"/ragstore/{kind}/descriptors?{query}"), 400, "invalid_request")
