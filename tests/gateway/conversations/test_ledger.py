"""The audit ledger and the steps of conversations in a database: SQLite, and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text

from ragstore_gateway.conversations import ledger as ledger_module
from ragstore_gateway.conversations.chain import ChainCheck, Head
from ragstore_gateway.conversations.ledger import ALL_ENTRIES, EntryFilter, Ledger, LedgerDamaged
from ragstore_gateway.conversations.repository import ConversationRepository, Feedback
from ragstore_gateway.database.database import Database
from tests.gateway.conversations.factories import CONTEXT, step
from tests.soak.audit import WRITER


@dataclass
class State:
    """A database with a ledger."""

    database: Database
    ledger: Ledger
    repository: ConversationRepository

    async def sql(self, statement: str, **parameters: Any) -> None:
        """Change the database behind the back of the gateway."""
        async with self.database.session() as session:
            await session.execute(text(statement), parameters)

    async def messages(self, expected: Head | None = None) -> list[str]:
        """The problems that a check of the chain finds."""
        return [each.message for each in (await self.ledger.verify(expected)).problems]

    async def head(self) -> Head:
        """The head."""
        head = await self.ledger.head()
        assert head is not None
        return head


@pytest.fixture
async def state(database_url: str) -> AsyncIterator[State]:
    """An empty ledger."""
    database = Database(make_url(database_url))
    ledger = Ledger(database)
    repository = ConversationRepository(database, ledger, keep_contexts=True, retention=timedelta(days=1))
    async with database.running():
        yield State(database, ledger, repository)


async def test_steps_and_their_entries_are_written_together_and_once(state: State) -> None:
    first, unnamed = step(1), step(2, conversation="")
    await state.repository.write([first, unnamed])
    # The commit of the first time was not acknowledged.
    await state.repository.write([first, step(3)])
    found = await state.repository.read("c-1", None, offset=0, limit=10)
    assert [each.request_id for each in found] == ["r1", "r3"]
    assert found[0].data["rag:context:answer"] == CONTEXT
    assert found[0].data["rag:httpcall:trace:answer"] == {"httpCall": "search-api", "contextLength": 12}
    assert found[0].data["rag:trace:answer"] == [
        {
            "kb": "docs",
            "id": "b1",
            "version": 2,
            "provider": "local",
            "storeType": "ragstore",
            "maxResults": 5,
            "minScore": 0.6,
            "retrievedCount": 1,
            "passages": [{"id": "p1", "score": 0.7312, "fate": "context", "documentId": "d1", "number": 1}],
        },
        {"kb": "faq", "error": "timeout"},
    ]
    assert [json.loads(each.body)["requestId"] for each in (await state.ledger.read()).entries] == ["r1", "r2", "r3"]
    assert await state.messages() == []


async def test_an_entry_has_the_traces_and_no_content(state: State) -> None:
    await state.repository.write([step(1)])
    entry = (await state.ledger.read()).entries[0]
    assert "rag:trace:answer" in entry.body
    assert "CANARY" not in entry.body


async def test_entries_are_found_by_their_fields(state: State) -> None:
    old = datetime.now(UTC) - timedelta(days=2)
    quoted = 'b"o,b'
    await state.repository.write(
        [
            step(1, created_on=old),
            step(2, "c-2", key=quoted, assistant='"key":"ann","kind":'),
            step(3, key="", assistant="Support"),
        ]
    )
    await state.repository.delete("c-2", None, caller="ann", request_id="r4")

    async def found(chosen: EntryFilter = ALL_ENTRIES, **page: Any) -> list[int]:
        return [each.sequence for each in (await state.ledger.read(chosen, **page)).entries]

    later = old + timedelta(seconds=1)
    assert await found(EntryFilter(conversation="c-1")) == [1, 3]
    assert await found(EntryFilter(since=later)) == [2, 3, 4]
    assert await found(EntryFilter(until=later)) == [1]
    assert await found(EntryFilter(conversation="c-1", since=later)) == [3]
    assert await found(EntryFilter(kind="deletion")) == [4]
    assert await found(EntryFilter(key="ann")) == [1, 4]
    assert await found(EntryFilter(key=quoted)) == [2]
    assert await found(EntryFilter(key="")) == [3]
    assert await found(EntryFilter(assistant="support")) == [1]
    assert await found(EntryFilter(assistant="Support", key="")) == [3]
    assert await found(EntryFilter(assistant="%")) == []
    assert await found(after=1, limit=1) == [2]
    assert await found(newest=True, limit=2) == [4, 3]
    assert await found(newest=True, after=3) == [2, 1]


@pytest.mark.parametrize("newest", [False, True])
async def test_a_search_without_an_index_reads_a_limited_number_of_entries_for_a_page(
    state: State, monkeypatch: pytest.MonkeyPatch, newest: bool
) -> None:
    monkeypatch.setattr(ledger_module, "SCANNED", 3)
    keys = ["ann", "bob", "ann", "bob", "bob", "bob", "bob", "ann"]
    await state.repository.write([step(number, key=key) for number, key in enumerate(keys)])
    pages, after = [], 0
    while True:
        page = await state.ledger.read(EntryFilter(key="ann"), after=after, limit=10, newest=newest)
        pages.append([each.sequence for each in page.entries])
        if page.next is None:
            break
        after = page.next
    assert pages == ([[8], [3], [1]] if newest else [[1, 3], [], [8]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE audit_entry SET body = replace(body, 'docs', 'dogs') WHERE sequence = 2", "it was changed"),
        ("UPDATE audit_entry SET conversation = 'c-9' WHERE sequence = 2", "its column for conversation differs"),
        (
            "UPDATE audit_entry SET created_on = '2001-01-01 00:00:00' WHERE sequence = 2",
            "column for createdOn differs",
        ),
        ("DELETE FROM audit_entry WHERE sequence = 2", "entry 2 is missing"),
        ("DELETE FROM audit_entry WHERE sequence > 2", "those after this one were removed"),
        ("DELETE FROM audit_entry", "those after this one were removed"),
        ("UPDATE audit_entry SET sequence = 9 WHERE sequence = 2", "entry 2 is missing"),
        (
            "INSERT INTO audit_entry SELECT 5, 'extra', conversation, created_on, body, hash FROM audit_entry "
            "WHERE sequence = 4",
            "another number",
        ),
        ("UPDATE audit_head SET count = 3", "those after it were inserted"),
        ("DELETE FROM audit_head", "the head of the ledger is missing"),
    ],
)
async def test_a_change_in_the_database_is_noticed(sqlite_state: State, change: str, message: str) -> None:
    await sqlite_state.repository.write([step(number) for number in range(4)])
    assert await sqlite_state.messages() == []
    await sqlite_state.sql(change)
    assert any(message in each for each in await sqlite_state.messages())


@pytest.fixture
async def sqlite_state(tmp_path: Path) -> AsyncIterator[State]:
    """An empty ledger in SQLite."""
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    ledger = Ledger(database)
    repository = ConversationRepository(database, ledger, keep_contexts=True, retention=timedelta(days=1))
    async with database.running():
        yield State(database, ledger, repository)


async def test_a_change_is_noticed_on_either_database(state: State) -> None:
    await state.repository.write([step(number) for number in range(3)])
    earlier = await state.head()
    await state.sql("UPDATE audit_entry SET body = replace(body, 'docs', 'dogs') WHERE sequence = 2")
    assert any("it was changed" in each for each in await state.messages(earlier))


async def test_an_end_that_was_removed_with_its_head_is_noticed_by_an_earlier_head(sqlite_state: State) -> None:
    await sqlite_state.repository.write([step(1), step(2)])
    two = await sqlite_state.head()
    await sqlite_state.repository.write([step(3)])
    three = await sqlite_state.head()
    await sqlite_state.sql("DELETE FROM audit_entry WHERE sequence = 3")
    await sqlite_state.sql("UPDATE audit_head SET count = 2, hash = :hash", hash=two.hash)
    assert await sqlite_state.messages() == []
    assert await sqlite_state.messages(two) == []
    assert await sqlite_state.messages(three) == [
        "the ledger had this entry, and has it no longer: its end was removed"
    ]


async def test_nothing_is_appended_to_a_ledger_without_head(sqlite_state: State) -> None:
    await sqlite_state.sql("DELETE FROM audit_head")
    with pytest.raises(LedgerDamaged):
        await sqlite_state.repository.write([step(1)])
    assert await sqlite_state.repository.read("c-1", None, offset=0, limit=10) == []


async def test_concurrent_writers_of_one_process_keep_one_chain(state: State) -> None:
    await asyncio.gather(*(state.repository.write([step(n), step(100 + n)]) for n in range(10)))
    check = await state.ledger.verify()
    assert (check.head.count, check.problems) == (20, [])


@pytest.mark.process
async def test_two_processes_that_append_concurrently_keep_one_chain(state: State, database_url: str) -> None:
    command = [sys.executable, "-c", WRITER, database_url, "15", "0"]
    pipe = asyncio.subprocess.PIPE
    writers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(2)]
    for each in writers:
        assert each.stdout is not None
        assert await each.stdout.readline() == b"ready\n"
    results = await asyncio.gather(*(each.communicate(b"start\n") for each in writers))
    assert [each.returncode for each in writers] == [0, 0], results
    check: ChainCheck = await state.ledger.verify()
    assert (check.head.count, check.problems) == (30, [])
    keys = [json.loads(each.body)["key"] for each in (await state.ledger.read()).entries]
    assert len({*keys}) == 2


async def test_a_deleted_conversation_has_no_steps_and_its_entries_stay(state: State) -> None:
    await state.repository.write([step(1), step(2, key="bob"), step(3, "c-2")])
    assert await state.repository.delete("c-1", "ann", caller="ann", request_id="r9") == 1
    assert [each.key for each in await state.repository.read("c-1", None, offset=0, limit=9)] == ["bob"]
    assert await state.repository.delete("c-1", None, caller="root", request_id="r9") == 1
    assert await state.repository.delete("c-1", None, caller="root", request_id="r9") == 0
    assert await state.repository.read("c-1", None, offset=0, limit=9) == []
    entries = [json.loads(each.body) for each in (await state.ledger.read()).entries]
    assert [(each["kind"], each["key"], each["conversation"]) for each in entries] == [
        ("retrieval", "ann", "c-1"),
        ("retrieval", "bob", "c-1"),
        ("retrieval", "ann", "c-2"),
        ("deletion", "ann", "c-1"),
        ("deletion", "root", "c-1"),
    ]
    assert entries[3]["data"] == {"steps": 1}
    assert await state.messages() == []


async def test_old_contexts_are_not_shown_and_then_purged(state: State) -> None:
    old = datetime.now(UTC) - timedelta(days=2)
    await state.repository.write([step(1, created_on=old), step(2)])
    steps = await state.repository.read("c-1", None, offset=0, limit=9)
    assert ["rag:context:answer" in each.data for each in steps] == [False, True]
    assert [await state.repository.purge(), await state.repository.purge()] == [1, 0]
    assert len(await state.repository.read("c-1", None, offset=0, limit=9)) == 2


async def test_without_the_setting_no_context_is_kept_and_earlier_ones_are_purged(state: State) -> None:
    await state.repository.write([step(1)])
    other = ConversationRepository(state.database, state.ledger, keep_contexts=False, retention=timedelta(days=1))
    await other.write([step(2)])
    assert [set(each.data) for each in await other.read("c-1", None, offset=0, limit=9)] == [
        {"rag:trace:answer", "rag:httpcall:trace:answer"}
    ] * 2
    assert await other.purge() == 1


async def test_the_text_of_a_deleted_or_purged_context_is_overwritten_in_sqlites_file(
    sqlite_state: State, tmp_path: Path
) -> None:
    old = datetime.now(UTC) - timedelta(days=2)
    await sqlite_state.repository.write([step(1), step(2, "c-2", created_on=old)])
    await sqlite_state.repository.delete("c-1", None, caller="", request_id="")
    await sqlite_state.repository.purge()
    await sqlite_state.database.checkpoint()
    files = await asyncio.to_thread(lambda: {file.name: file.read_bytes() for file in tmp_path.iterdir()})
    assert [name for name, content in files.items() if b"CANARY" in content] == []


async def test_conversations_are_listed_by_their_last_steps(state: State) -> None:
    written = [step(1, "c-1"), step(2, "c-2", key="bob"), step(3, "c-3"), step(4, "c-1", key="bob", assistant="other")]
    await state.repository.write([*written, step(5, "")])

    async def found(key: str | None, after: int = 0, limit: int = 10) -> tuple[list[tuple[str, int, str]], int | None]:
        given, following = await state.repository.summaries(key, after=after, limit=limit)
        return [(each.conversation_id, each.steps, each.key) for each in given], following

    assert await found(None) == ([("c-1", 2, "bob"), ("c-3", 1, "ann"), ("c-2", 1, "bob")], None)
    assert await found("ann") == ([("c-3", 1, "ann"), ("c-1", 1, "ann")], None)
    assert await found("eve") == ([], None)
    first, after = await found(None, limit=2)
    assert [each[0] for each in first] == ["c-1", "c-3"]
    assert after is not None
    assert await found(None, after) == ([("c-2", 1, "bob")], None)
    (newest, *_), _ = await state.repository.summaries(None, after=0, limit=1)
    assert (newest.first_step_on, newest.last_step_on) == (written[0].created_on, written[3].created_on)
    assert newest.assistant == "other"


async def test_feedback_is_stored_with_its_step_and_as_an_entry_without_its_comment(state: State) -> None:
    first, again = step(1), step(1)
    await state.repository.write([first, again, step(2)])

    async def given(key: str | None, helpful: bool, comment: str = "") -> str | None:
        feedback = Feedback("r1", helpful, comment, "r9")
        return await state.repository.give_feedback("c-1", key, feedback, caller="ann")

    assert await given("bob", True) is None
    # The last one of two steps with the same id of a request.
    assert await given("ann", True, f"{CONTEXT}, a comment") == again.id
    shown = [each.data for each in await state.repository.read("c-1", None, offset=0, limit=10)]
    assert [each.get("rag:feedback", {}).get("helpful") for each in shown] == [None, True, None]
    assert shown[1]["rag:feedback:comment"] == f"{CONTEXT}, a comment"
    assert shown[1]["rag:context:answer"] == CONTEXT
    assert await given(None, False) == again.id
    changed = (await state.repository.read("c-1", None, offset=1, limit=1))[0].data
    assert changed["rag:feedback"]["helpful"] is False
    assert "rag:feedback:comment" not in changed
    entries = (await state.ledger.read(EntryFilter(kind="feedback"))).entries
    assert [json.loads(each.body)["data"] for each in entries] == [
        {"step": again.id, "helpful": True},
        {"step": again.id, "helpful": False},
    ]
    assert "CANARY" not in "".join(each.body for each in entries)
    assert await state.messages() == []


async def test_without_contexts_the_comment_of_a_feedback_is_not_kept(state: State) -> None:
    repository = ConversationRepository(state.database, state.ledger, keep_contexts=False, retention=timedelta(days=1))
    await repository.write([step(1)])
    await repository.give_feedback("c-1", None, Feedback("r1", True, CONTEXT, "r2"), caller="")
    assert (await state.repository.read("c-1", None, offset=0, limit=1))[0].data["rag:feedback"]["helpful"] is True
    async with state.database.reading() as session:
        assert not (await session.execute(text("SELECT text FROM conversation_context"))).all()


async def test_an_export_has_all_entries_and_then_the_head(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "PAGE", 2)
    await state.repository.write([step(number) for number in range(4)])
    parts = [part async for part in state.ledger.export()]
    assert [len(part) for part in parts] == [2, 2, 1]
    assert parts[-1] == [await state.head()]
    assert (await state.ledger.verify()).head == await state.head()
