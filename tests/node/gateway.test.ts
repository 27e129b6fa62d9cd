/** The client of a gateway, against the gateway of `RAGSTORE_TEST_GATEWAY_URL`, and against scripted ones. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";

import { BadRequest, Conflict, InvalidInput, NotFound, UnexpectedResponse } from "@ragstore/client";
import {
  DocumentFailed,
  type DocumentProgress,
  GatewayClient,
  type KnowledgeBase,
  MEDIA_TYPES,
  type SourceRun,
  type Stored,
} from "@ragstore/client/gateway";

import { collect, rejection, reply, sendProblem, serviceUrl, withServer } from "./support.js";

const LIFT = "The lift is tested every year.";

const client = new GatewayClient(serviceUrl("RAGSTORE_TEST_GATEWAY_URL"));

async function withBase(use: (base: Stored<KnowledgeBase>) => Promise<void>, fields: Partial<KnowledgeBase> = {}): Promise<void> {
  const name = `node-${randomUUID()}`;
  const base = await client.bases.create({ name, chunkStrategy: "markdown", ...fields });
  try {
    await use(base);
  } finally {
    if (await client.bases.exists(base.id)) {
      await client.bases.delete(base, { permanent: true });
    }
  }
}

/** A base with a source of uploaded files. */
function withFiles(use: (base: Stored<KnowledgeBase>) => Promise<void>): Promise<void> {
  return withBase(use, { sources: [{ name: "files", type: "upload" }] });
}

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "gateway-"));
  try {
    await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe("knowledge bases", () => {
  test("a created base is found by name and by id, with all fields", () =>
    withBase(async (base) => {
      const { name, chunkStrategy, chunkSize } = base.configuration;
      assert.deepEqual([base.version, chunkStrategy, chunkSize], [1, "markdown", 512]);
      assert.deepEqual(await client.bases.find(name), base);
      assert.deepEqual(await client.bases.find(base.id), base);
      assert.deepEqual(await client.bases.get(base), base);
    }));

  test("bases are listed by pages and by a part of their name, newest first", () =>
    withBase((first) =>
      withBase(
        async (second) => {
          const part = first.configuration.name;
          const listed = await collect(client.bases.iter({ part, pageSize: 1 }));
          assert.deepEqual(
            listed.map(({ id, version }) => [id, version]),
            [
              [second.id, 1],
              [first.id, 1],
            ],
          );
          const page = await client.bases.page({ part, index: 1, limit: 1 });
          assert.deepEqual(page.map(({ name }) => name), [part]);
        },
        { name: `${first.configuration.name}-again` },
      ),
    ));

  test("an update changes the given fields, and leaves the others", () =>
    withBase(async (base) => {
      const changed = await client.bases.update(base, { maxResults: 7 });
      assert.deepEqual([changed.version, changed.configuration.maxResults], [2, 7]);
      assert.equal(changed.configuration.chunkStrategy, "markdown");
      const again = await client.bases.update(base.id, { description: "lifts" });
      assert.deepEqual([again.version, again.configuration.maxResults], [3, 7]);
      assert.deepEqual(await client.bases.get(base, { version: 1 }), base);
      const { versions } = await client.bases.versions(base);
      assert.deepEqual(versions.map(({ version }) => version), [3, 2, 1]);
    }));

  test("an update of an old version is a version conflict", () =>
    withBase(async (base) => {
      await client.bases.update(base, { maxResults: 7 });
      assert.equal((await rejection(client.bases.update(base, { maxResults: 8 }), Conflict)).code, "version_conflict");
    }));

  test("a taken name and an invalid field have codes and paths", () =>
    withBase(async ({ configuration: { name } }) => {
      assert.equal((await rejection(client.bases.create({ name }), Conflict)).code, "name_taken");
      const { code, errors } = await rejection(client.bases.create({ name: "wrong", chunkSize: 0 }), BadRequest);
      assert.deepEqual([code, errors.map(({ path }) => path)], ["invalid_request", ["$.chunkSize"]]);
    }));

  test("a deleted base does not exist", () =>
    withBase(async (base) => {
      assert.ok(await client.bases.exists(base.configuration.name));
      await client.bases.delete(base);
      assert.ok(!(await client.bases.exists(base.id)));
      assert.equal((await rejection(client.bases.find(base.configuration.name), NotFound)).code, "configuration_not_found");
    }));

  test("an assistant is created, found, changed, copied and deleted", async () => {
    const created = await client.assistants.create({ name: `node-${randomUUID()}`, workflow: ["memory"], tasks: [{ enableWorkflowRag: true }] });
    const changed = await client.assistants.update(created, { systemMessage: "Be brief." });
    assert.deepEqual(await client.assistants.find(created.configuration.name), changed);
    const copy = await client.assistants.duplicate(changed);
    assert.deepEqual([copy.version, copy.configuration.systemMessage], [1, "Be brief."]);
    for (const each of [created, copy]) {
      await client.assistants.delete(each, { permanent: true });
    }
  });
});

describe("documents", () => {
  test("an ingested text is found and read", () =>
    withBase(async (base) => {
      const done = await client.ingestText(base, "lift.txt", LIFT, { metadata: { floor: 3 } });
      assert.deepEqual(done, { name: "lift.txt", ok: true, chunks: 1, unchanged: false, error: "", code: "" });
      const [hit] = await client.search(base, "How often is the lift tested?", { maxResults: 1 });
      assert.ok(hit && hit.score > 0 && hit.score <= 1);
      assert.deepEqual([hit.text, hit.source, hit.metadata.floor], [LIFT, "lift.txt", 3]);
      assert.equal(await client.readPassage(base, hit.id), `lift.txt\n\n${LIFT}`);
      const { text, type, metadata } = await client.documentText(base, "lift.txt");
      assert.deepEqual([text, type, metadata], [LIFT, "text/plain", { floor: 3 }]);
      assert.deepEqual(await client.search(base, "lift", { where: { floor: 4 } }), []);
      assert.equal((await client.ingestText(base, "lift.txt", LIFT, { metadata: { floor: 3 } })).unchanged, true);
    }));

  test("a folder is ingested with the paths of its documents", () =>
    withBase((base) =>
      withFolder(async (folder) => {
        await mkdir(join(folder, "sub"));
        await writeFile(join(folder, "kettle.md"), "# Kettle\n\nDescale it every month.");
        await writeFile(join(folder, "sub", "lift & stairs.txt"), LIFT);
        await writeFile(join(folder, "program.bin"), "no document");
        const report = await client.ingestFolder(base, folder);
        report.raiseForFailures();
        assert.deepEqual(report.documents.map(({ name }) => name), ["kettle.md", "sub/lift & stairs.txt"]);
        const { documents, total } = await client.listDocuments(base);
        assert.equal(total, 2);
        assert.deepEqual(documents.map(({ type }) => type), ["text/markdown", "text/plain"]);
        assert.ok((await client.getDocument(base, "sub/lift & stairs.txt")).searchable);
        await client.deleteDocument(base, "sub/lift & stairs.txt");
        const rest = await collect(client.iterDocuments(base, { status: "completed", pageSize: 1 }));
        assert.deepEqual(rest.map(({ name }) => name), ["kettle.md"]);
        assert.ok((await client.ingestFile(base, join(folder, "kettle.md"))).unchanged);
      }),
    ));

  test("outcomes have the order of the documents, and a failure does not end the others", () =>
    withBase(async (base) => {
      async function* documents() {
        yield await Promise.resolve({ name: "a.txt", text: "The first text." });
        yield { path: "/absent/missing.txt" };
        yield { name: "large.txt", content: new TextEncoder().encode("A long text. ".repeat(22_000)) };
        yield { name: "blank.txt", text: "   " };
        yield { content: new File(["The last text."], "z.txt") };
      }
      const report = await client.ingestAll(base, documents(), { concurrency: 2 });
      assert.deepEqual(
        report.documents.map(({ name, ok }) => `${name} ${ok}`),
        ["a.txt true", "missing.txt false", "large.txt true", "blank.txt false", "z.txt true"],
      );
      assert.match(report.failures[0]?.error ?? "", /ENOENT/);
      assert.throws(
        () => {
          report.raiseForFailures();
        },
        (error) => error instanceof DocumentFailed && error.failures.length === 2 && error.message.startsWith("missing.txt: ENOENT"),
      );
    }, { chunkSize: 10_000 }));

  test("progress reports the end of each document once", () =>
    withBase(async (base) => {
      const steps: DocumentProgress[] = [];
      const documents = Array.from({ length: 70 }, (_, number) => ({ name: `${number}.txt`, text: `Text ${number}.` }));
      const report = await client.ingestAll(base, documents, { onProgress: (step) => steps.push(step) });
      report.raiseForFailures();
      const ended = steps.filter((step) => step.ended).map(({ name }) => name);
      assert.deepEqual(ended.sort(), documents.map(({ name }) => name).sort());
    }));

  test("a page that cannot be read is a failure with the reason", () =>
    withBase(async (base) => {
      const { message, failures } = await rejection(client.ingestPage(base, "http://127.0.0.1:9/page"), DocumentFailed);
      assert.match(message, /^http:\/\/127\.0\.0\.1:9\/page: /);
      assert.equal(failures.length, 1);
    }));

  test("a missing document, a missing base and a wrong filter have their codes", () =>
    withBase(async (base) => {
      assert.equal((await rejection(client.getDocument(base, "nothing.txt"), NotFound)).code, "document_not_found");
      assert.equal((await rejection(client.search("nothing", "lift"), NotFound)).code, "configuration_not_found");
      const wrong = client.search(base, "lift", { where: { floor: { $near: 3 } as never } });
      assert.equal((await rejection(wrong, BadRequest)).code, "invalid_filter");
    }));

  test("the state of an ingestion can be read", () =>
    withBase(async (base) => {
      await client.ingestText(base, "lift.txt", LIFT);
      const { ingestionId } = await client.getDocument(base, "lift.txt");
      assert.equal((await client.ingestionStatus(base, ingestionId)).status, "completed");
      const { ingestions, waiting } = await client.ingestionProgress(base, [ingestionId]);
      assert.deepEqual([ingestions.map(({ status }) => status), waiting], [["completed"], 0]);
      assert.ok((await rejection(client.cancelIngestion(base, ingestionId), Conflict)).code);
    }));
});

describe("sources", () => {
  test("uploaded files are found after a run of their source", () =>
    withFiles(async (base) => {
      const name = 'a "new" lift.txt';
      assert.equal((await client.uploadFile(base, "files", { name, text: LIFT })).name, name);
      const states: SourceRun[] = [];
      const run = await client.runSource(base, "files", { onProgress: (state) => states.push(state) });
      assert.deepEqual([run.status, run.added, run.failed], ["completed", 1, 0]);
      assert.deepEqual(states.at(-1), run);
      assert.deepEqual((await client.search(base, "lift")).map(({ text }) => text), [LIFT]);
      assert.deepEqual((await collect(client.iterFiles(base, "files"))).map(({ status }) => status), ["indexed"]);
      assert.deepEqual(await collect(client.iterRuns(base, "files", { pageSize: 1 })), [run]);
      assert.deepEqual(await client.getRun(base, "files", run.runId), run);
      await client.purgeSource(base, "files");
      assert.deepEqual(await client.search(base, "lift"), []);
      await client.deleteFile(base, "files", name);
      assert.deepEqual(await collect(client.iterFiles(base, "files")), []);
    }));

  test("an empty file and a missing source have their codes", () =>
    withFiles(async (base) => {
      await rejection(client.uploadFile(base, "files", { name: "empty.txt", text: "" }), BadRequest);
      assert.equal((await rejection(client.runSource(base, "absent"), NotFound)).code, "source_not_found");
    }));
});

describe("question sets", () => {
  test("a run measures the questions of a set, and is compared with the run before", () =>
    withBase(async (base) => {
      await client.ingestText(base, "lift.txt", LIFT);
      const questions = [
        { text: "When is the lift tested?", passages: [{ documentName: "lift.txt", start: 0, end: LIFT.length }] },
        { text: "Who tests it?", passages: [{ documentName: "absent.txt" }] },
      ];
      const created = await client.questionSets.create({ name: "lifts", base: base.id, questions });
      assert.equal((await client.questionSets.get(created)).configuration.base, base.id);
      const states: string[] = [];
      const first = await client.runQuestionSet(created, { onProgress: ({ status }) => states.push(status) });
      assert.deepEqual([states.at(-1), first.searched], ["completed", 2]);
      const ended = await rejection(client.cancelQuestionRun(created, first.runId), Conflict);
      assert.equal(ended.code, "question_run_ended");
      const second = await client.runQuestionSet(created);
      assert.deepEqual([first.status, first.figures?.cutoffs[0]?.recall], ["completed", 0.5]);
      assert.equal(second.comparedWith, first.runId);
      assert.deepEqual(second.outcomes.map(({ rank, change }) => [rank ?? null, change]), [[1, "equal"], [null, "equal"]]);
      const listed = await collect(client.iterQuestionRuns(created, { pageSize: 1 }));
      assert.deepEqual(listed.map(({ runId }) => runId), [second.runId, first.runId]);
      assert.deepEqual(await client.getQuestionRun(created, first.runId), first);
    }));

  test("a set without expected passages is not run", () =>
    withBase(async (base) => {
      const created = await client.questionSets.create({ name: "empty", base: base.id, questions: [{ text: "Why?" }] });
      assert.equal((await rejection(client.runQuestionSet(created), Conflict)).code, "nothing_expected");
    }));
});

describe("the gateway", () => {
  test("its formats are the formats of the client", async () => {
    const { formats, keysRequired } = await client.access();
    assert.deepEqual(formats.map((each) => `.${each.replace(/^\./, "")}`).sort(), Object.keys(MEDIA_TYPES).sort());
    assert.equal(keysRequired, false);
  });

  test("its media types are the media types of the Python client", () => {
    assert.deepEqual(MEDIA_TYPES, JSON.parse(process.env.RAGSTORE_TEST_MEDIA_TYPES ?? ""));
  });

  test("a call without a method is sent with request", async () => {
    assert.deepEqual(await client.request<object>("GET", "/health/live"), { status: "alive" });
    await rejection(client.request("GET", "/nothing"), NotFound);
  });

  test("the audit ledger is read by pages", async () => {
    assert.deepEqual(await collect(client.iterAuditEntries({ conversation: "absent" })), []);
    await withServer(
      (_, response, number) => {
        reply(response, 200, { entries: [{ sequence: number }], head: null, ...(number === 1 && { next: 1 }) });
      },
      async (url, received) => {
        const chosen = { conversation: "c", kind: "feedback", key: "", pageSize: 1 } as const;
        const entries = await collect(new GatewayClient(url).iterAuditEntries(chosen));
        assert.deepEqual(entries.map(({ sequence }) => sequence), [1, 2]);
        assert.deepEqual(received.map((request) => request.url), [
          "/audit?conversation=c&kind=feedback&key=&limit=1",
          "/audit?conversation=c&kind=feedback&key=&after=1&limit=1",
        ]);
      },
    );
  });

  test("feedback on a reply is sent with its comment", async () => {
    const error = await rejection(client.giveFeedback("absent", "r", true), NotFound);
    assert.equal(error.code, "step_not_found");
    await withServer(
      (_, response) => {
        reply(response, 200, { step: "s", helpful: false, commentKept: true });
      },
      async (url, received) => {
        const stored = await new GatewayClient(url).giveFeedback("c", "r", false, { comment: "five years" });
        assert.deepEqual(stored, { step: "s", helpful: false, commentKept: true });
        const [request] = received;
        assert.equal(request?.url, "/conversations/c/feedback");
        assert.deepEqual(JSON.parse(request.body), { requestId: "r", helpful: false, comment: "five years" });
      },
    );
  });
});

describe("requests", () => {
  const accepted = { documents: [{ documentName: "a", status: "pending", ingestionId: "i" }] };
  const state = (status: string): object => ({
    waiting: 0,
    processing: 0,
    waitingFor: { queue: 1 },
    documentsPerSecond: 0,
    ingestions: [{ ingestionId: "i", status, chunks: 1, progress: 1, unchanged: false }],
  });

  test("documents are sent again to a busy gateway, and a reason of the queue is not reported", async () => {
    const steps: DocumentProgress[] = [];
    await withServer(
      (request, response, number) => {
        if (number === 1) {
          sendProblem(response, 429, { "retry-after": "0" });
        } else if (request.method === "POST") {
          reply(response, 202, { kbId: "k", documents: [...accepted.documents, { documentName: "b", status: "rejected", code: "name" }] });
        } else {
          reply(response, 200, state(number === 3 ? "processing" : "completed"));
        }
      },
      async (url, received) => {
        const documents = ["a", "b"].map((name) => ({ name, text: "ä", metadata: { floor: 3 } }));
        const options = { retries: 0, onProgress: (step: DocumentProgress) => steps.push(step) };
        const { documents: outcomes } = await new GatewayClient(url).ingestAll("base/1", documents, options);
        assert.deepEqual(outcomes.map(({ ok, code }) => `${ok} ${code}`), ["true ", "false name"]);
        assert.deepEqual(received.map(({ method, url: path }) => `${method} ${path}`), [
          "POST /ragstore/rags/base%2F1/ingest/batch",
          "POST /ragstore/rags/base%2F1/ingest/batch",
          "GET /ragstore/rags/base%2F1/ingestions?ingestionId=i",
          "GET /ragstore/rags/base%2F1/ingestions?ingestionId=i",
        ]);
        assert.deepEqual(JSON.parse(received[0]?.body.split("\n")[0] ?? ""), {
          documentName: "a",
          contentType: "text/plain",
          content: "w6Q=",
          metadata: { floor: 3 },
        });
      },
    );
    assert.ok(steps.every(({ waitingFor }) => waitingFor === ""));
  });

  test("an aborted ingestion rejects with the reason", async () => {
    await withServer(
      () => undefined,
      async (url) => {
        const controller = new AbortController();
        const ingestion = new GatewayClient(url).ingestAll("b", [{ name: "a", text: "b" }], { signal: controller.signal });
        controller.abort(new Error("enough"));
        assert.equal((await rejection(ingestion, Error)).message, "enough");
      },
    );
  });

  test("a new version is sent once, and a deletion whose response was lost is done", async () => {
    await withServer(
      (request, response, number) => {
        sendProblem(response, request.method === "DELETE" && number > 2 ? 404 : 503);
      },
      async (url, received) => {
        const busy = new GatewayClient(url, { retries: { baseMs: 1 } });
        await rejection(busy.bases.create({ name: "a" }), Error);
        assert.equal(received.length, 1);
        await busy.bases.delete("a");
        assert.equal(received.length, 3);
      },
    );
  });

  test("the key and the options are sent, and withOptions keeps the key", async () => {
    await withServer(
      (_, response) => {
        reply(response, 200, {});
      },
      async (url, received) => {
        await new GatewayClient(url, { apiKey: "secret" }).withOptions({ retries: 0 }).access({ requestId: "r1" });
        const { authorization, "x-request-id": requestId } = received[0]?.headers ?? {};
        assert.deepEqual([authorization, requestId], ["Bearer secret", "r1"]);
      },
    );
  });

  test("names that no path can have, and documents without a name, are refused", async () => {
    const unsent = new GatewayClient("http://127.0.0.1:9");
    for (const wrong of ["", "..", "a/../b"]) {
      await rejection(unsent.getDocument("b", wrong), InvalidInput);
    }
    await rejection(unsent.bases.get(".."), InvalidInput);
    await rejection(unsent.runSource("b", ""), InvalidInput);
    const outcomes = await unsent.ingestAll("b", [{ content: new Blob(["a"]) }, null as never]);
    assert.deepEqual(outcomes.documents.map(({ ok }) => ok), [false, false]);
    await rejection(unsent.ingestAll("b", "text" as never), InvalidInput);
  });

  test("what is no gateway is an unexpected response", async () => {
    await withServer(
      (_, response) => {
        response.end("<html>");
      },
      async (url) => {
        await rejection(new GatewayClient(url, { retries: 0 }).access(), UnexpectedResponse);
      },
    );
  });
});
