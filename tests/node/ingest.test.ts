/** Ingestion: exactly the documents that cannot be stored fail, against scripted services. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import {
  BadRequest,
  Client,
  IngestionFailed,
  InvalidInput,
  type NewDocument,
  type Outcome,
  ProblemError,
  toFloat32,
  Base64,
  Unavailable,
} from "@ragstore/client";

import { collect, document, documents, idsOf, rejection, reply, sendProblem, withServer } from "./support.js";

const WRITTEN = { status: "upserted", collection: "abc", count: 0, ids: [] };

interface SentDocument {
  id: string;
  text: string;
  embedding: string;
}

interface Fault {
  path: string;
  message: string;
}

/** A service with one collection, which stores all documents of a request or none. */
class StrictService {
  dimension: number | undefined;
  readonly stored = new Set<string>();
  requests = 0;

  /**
   * @param faults the faults of a request's documents; each document has its index and its dimension.
   * @param maxListed maximum number of faults that a response lists.
   */
  constructor(
    readonly faults: (service: StrictService, sent: readonly SentDocument[]) => Fault[],
    readonly maxListed = 100,
    readonly saysOmitted = true,
  ) {}

  async run<T>(use: (client: Client) => Promise<T>): Promise<T> {
    return await withServer(
      (request, response) => {
        this.requests += 1;
        const { documents: sent } = JSON.parse(request.body) as { documents: SentDocument[] };
        const faults = this.faults(this, sent);
        if (faults.length > 0) {
          const omitted = Math.max(0, faults.length - this.maxListed);
          const members = {
            code: "dimension_mismatch",
            errors: faults.slice(0, this.maxListed),
            ...(this.saysOmitted && omitted > 0 && { errors_omitted: omitted }),
          };
          sendProblem(response, 400, {}, members);
          return;
        }
        this.dimension ??= dimensionOf(sent[0]);
        for (const { id } of sent) {
          this.stored.add(id);
        }
        reply(response, 200, WRITTEN);
      },
      (url) => use(new Client(url)),
    );
  }
}

function dimensionOf(sent: SentDocument | undefined): number {
  return toFloat32(new Base64(sent?.embedding ?? "")).length;
}

/** All documents whose dimension is not the collection's, or in a new collection not that of the majority. */
function judgedByMajority(service: StrictService, sent: readonly SentDocument[]): Fault[] {
  const counts = new Map<number, number>();
  for (const one of sent) {
    counts.set(dimensionOf(one), (counts.get(dimensionOf(one)) ?? 0) + 1);
  }
  const [majority] = [...counts].sort(([, one], [, other]) => other - one)[0] ?? [0];
  return sent.flatMap((one, index) =>
    dimensionOf(one) === (service.dimension ?? majority) && one.text !== "bad"
      ? []
      : [{ path: `$.documents[${index}].embedding`, message: `fault of ${one.id}` }],
  );
}

/** The first document that differs from the one before it: a service before 0.2 blames 1 for a bad 0. */
function judgedByTheFirst(service: StrictService, sent: readonly SentDocument[]): Fault[] {
  const dimension = service.dimension ?? dimensionOf(sent[0]);
  const index = sent.findIndex((one) => dimensionOf(one) !== dimension || one.text === "bad");
  return index < 0 ? [] : [{ path: `$.documents[${index}].embedding`, message: `fault of ${sent[index]?.id ?? ""}` }];
}

function withBad(count: number, bad: ReadonlySet<number>, spoil: (number: number) => Partial<NewDocument>): NewDocument[] {
  return Array.from({ length: count }, (_, number) => ({
    ...document(number, 8),
    ...(bad.has(number) && spoil(number)),
  }));
}

const wrongDimension = (): Partial<NewDocument> => ({ embedding: [1, 2, 3] });
const wrongText = (): Partial<NewDocument> => ({ text: "bad" });

describe("exactly the bad documents fail", () => {
  const COUNT = 450;
  const LISTING = "a service that lists 100 faults";
  const every = (step: number): Set<number> => new Set(Array.from({ length: Math.floor(COUNT / step) }, (_, number) => number * step));
  const cases: [string, ReadonlySet<number>, () => Partial<NewDocument>][] = [
    ["a wrong dimension at index 0", new Set([0]), wrongDimension],
    ["wrong dimensions at the start of each batch", new Set([0, 150, 300]), wrongDimension],
    ["a wrong dimension at the end", new Set([COUNT - 1]), wrongDimension],
    ["more than 32 in each batch", every(4), wrongText],
    ["100 in a row", new Set(Array.from({ length: 100 }, (_, number) => number + 150)), wrongText],
    ["every third document", every(3), wrongDimension],
    ["all documents, more than a response lists", every(1), wrongText],
  ];
  const services: [string, () => StrictService][] = [
    [LISTING, () => new StrictService(judgedByMajority)],
    ["a service before 0.2", () => new StrictService(judgedByTheFirst, 1, false)],
  ];
  for (const [what, service] of services) {
    for (const [which, bad, spoil] of cases) {
      if (what !== LISTING && bad.size === COUNT) {
        continue; // a request for each document: slow, and nothing that the other cases do not show
      }
      test(`${which}, with ${what}`, async () => {
        const strict = service();
        const outcomes = await strict.run((client) =>
          collect(client.ingest("abc", withBad(COUNT, bad, spoil), { concurrency: 1, batchDocuments: 150 })),
        );
        assert.deepEqual(
          outcomes.filter(({ stored }) => !stored).map(({ index }) => index),
          [...bad].sort((one, other) => one - other),
        );
        assert.equal(strict.stored.size, COUNT - bad.size);
        for (const { index, id, error } of outcomes) {
          if (error) {
            assert.equal(error.message, `document ${index} ('${id ?? ""}'): fault of ${id ?? ""}: $.documents[${index}].embedding`);
          }
        }
      });
    }
  }

  test("a service that lists all faults gets one request more for each list", async () => {
    const strict = new StrictService(judgedByMajority);
    const bad = new Set(Array.from({ length: 250 }, (_, number) => number * 4));
    await strict.run((client) => client.ingestAll("abc", withBad(1000, bad, wrongText)));
    // Rejections that list 100, 100 and 50, and one that is stored.
    assert.equal(strict.requests, 4);
  });

  test("documents that cannot be encoded never reach the service", async () => {
    const good = document(0, 8);
    const hostile = Object.defineProperty({ id: "h", text: "x", embedding: [1] }, "metadata", {
      get: () => {
        throw new RangeError("a getter of another library");
      },
      enumerable: true,
    });
    const wrong: [unknown, RegExp][] = [
      [null, /^document 0: a document must be an object: \$\.documents\[0\]$/],
      ["text", /must be an object/],
      [{ id: "a", text: 5, embedding: [1] }, /^document 0 \('a'\): must be a string: \$\.documents\[0\]\.text$/],
      [{ id: 7, text: "x", embedding: [1] }, /must be a string: \$\.documents\[0\]\.id/],
      [{ id: "", text: "x", embedding: [1], metadata: { n: Number.NaN } }, /must be finite: \$\.documents\[0\]\.metadata\.n/],
      [{ id: "a", text: "x", embedding: [1], metadata: { d: new Date(0) } }, /must be a string, a number.*metadata\.d/],
      [{ id: "a", text: "x", embedding: [1], metadata: { v: new Float32Array(2) } }, /metadata\.v/],
      [{ id: "a", text: "x", embedding: [1], metadata: new Map([["n", 1]]) }, /metadata must be an object/],
      [{ id: "a", text: "x", embedding: [1], metadata: { list: [1, 2n] } }, /metadata\.list\[1\]/],
      [{ id: "a", text: "\ud800", embedding: [1] }, /unpaired surrogates: \$\.documents\[0\]\.text/],
      [{ id: "a", text: "x", embedding: "where is it" }, /embed the text first.*\$\.documents\[0\]\.embedding/],
      [{ id: "a", text: "x", embedding: [1e300] }, /finite float32/],
      [hostile, /a getter of another library/],
    ];
    for (const [bad, message] of wrong) {
      const strict = new StrictService(judgedByMajority);
      const source = [bad as NewDocument, good];
      const [first, second] = await strict.run((client) => collect(client.ingest("abc", source)));
      assert.ok(first?.error instanceof InvalidInput && second?.stored);
      assert.match(first.error.message, message);
      assert.deepEqual([...strict.stored], [good.id]);
    }
  });
});

test("the outcome of one document has its own fault, status and code", async () => {
  const strict = new StrictService(judgedByMajority);
  const outcomes = await strict.run((client) => collect(client.ingest("abc", withBad(9, new Set([3, 5]), wrongDimension))));
  const failed = outcomes.filter((outcome) => !outcome.stored);
  assert.deepEqual(
    failed.map(({ error }) => error instanceof BadRequest && [error.status, error.code, error.errors]),
    [3, 5].map((index) => [
      400,
      "dimension_mismatch",
      [{ path: `$.documents[${index}].embedding`, message: `fault of handbook:chunk:${index}` }],
    ]),
  );
});

test("a report has the counts and the failures, and can raise them", async () => {
  const strict = new StrictService(judgedByMajority);
  const report = await strict.run((client) => client.ingestAll("abc", withBad(9, new Set([3, 5]), wrongDimension)));
  const { read, stored, failed, requests } = report;
  assert.deepEqual({ read, stored, failed, requests }, { read: 9, stored: 7, failed: 2, requests: 2 });
  assert.throws(
    () => {
      report.raiseForFailures();
    },
    (error) => error instanceof IngestionFailed && error.report === report && /^2 of 9 .* document 3 /.test(error.message),
  );
  const whole = await new StrictService(() => []).run((client) => client.ingestAll("abc", documents(3, 8)));
  whole.raiseForFailures();
});

test("a service that is away for longer than four attempts does not end the ingestion", async () => {
  await withServer(
    (_, response, number) => {
      if (number > 2 && number < 12) {
        response.destroy();
      } else {
        reply(response, 200, WRITTEN);
      }
    },
    async (url, received) => {
      const client = new Client(url, { retries: { baseMs: 1 } });
      const report = await client.ingestAll("abc", documents(40, 2), { batchDocuments: 10, concurrency: 1 });
      assert.deepEqual([report.stored, received.length], [40, 13]);
    },
  );
});

test("the time of retries is limited, and the error has a report", async () => {
  await withServer(
    (request, response) => {
      if (idsOf(request)[0] === "handbook:chunk:0") {
        reply(response, 200, WRITTEN);
      } else {
        sendProblem(response, 503);
      }
    },
    async (url, received) => {
      const client = new Client(url, { retries: { baseMs: 20, capMs: 20 } });
      const options = { batchDocuments: 10, concurrency: 1, retryMs: 200 };
      const error = await rejection(client.ingestAll("abc", documents(30, 2), options), Unavailable);
      assert.equal(error.report?.stored, 10);
      assert.ok(received.length > 3);
      const once = new Client(url, { retries: 0 });
      await rejection(once.ingestAll("abc", [document(1)]), Unavailable);
      assert.equal(received.filter((request) => idsOf(request).length === 1).length, 1);
    },
  );
});

test("documents come from arrays, generators, asynchronous generators and streams", async () => {
  async function* generated(): AsyncGenerator<NewDocument> {
    for (const made of documents(5, 2)) {
      await sleep(0);
      yield made;
    }
  }
  const stream = (): ReadableStream<NewDocument> =>
    new ReadableStream({
      start: (controller) => {
        for (const made of documents(5, 2)) {
          controller.enqueue(made);
        }
        controller.close();
      },
    });
  const plain = stream();
  // As in browsers that cannot iterate over a stream.
  const readerOnly = { getReader: () => plain.getReader() } as ReadableStream<NewDocument>;
  for (const source of [[...documents(5, 2)], documents(5, 2), generated(), stream(), readerOnly]) {
    const report = await new StrictService(() => []).run((client) => client.ingestAll("abc", source, { batchDocuments: 2 }));
    assert.equal(report.stored, 5);
  }
});

test("what cannot be iterated is refused when the ingestion is made", async () => {
  const client = new Client("http://127.0.0.1:9999");
  for (const wrong of [document(1), "text", null, undefined, 5] as unknown as NewDocument[][]) {
    assert.throws(() => client.ingest("abc", wrong), /iterable/);
    await rejection(client.ingestAll("abc", wrong), InvalidInput);
  }
});

test("a source is not read ahead of slow outcomes", async () => {
  let pulled = 0;
  async function* source(): AsyncGenerator<NewDocument> {
    for (const made of documents(100, 2)) {
      pulled += 1;
      yield await Promise.resolve(made);
    }
  }
  await new StrictService(() => []).run(async (client) => {
    const outcomes = client.ingest("abc", source(), { batchDocuments: 10, concurrency: 2 });
    await outcomes.next();
    await sleep(50);
    assert.ok(pulled <= 31, `${pulled} were read`);
    await outcomes.return();
  });
});

test("an ingestion that is never iterated warns", async () => {
  const collectGarbage = globalThis.gc;
  assert.ok(collectGarbage, "node --expose-gc");
  const warned = new Promise<string>((resolve) => {
    process.on("warning", ({ name, message }) => {
      if (name === "RagstoreWarning") {
        resolve(message);
      }
    });
  });
  new Client("http://127.0.0.1:9999").ingest("abc", documents(3));
  const collecting = setInterval(() => {
    collectGarbage();
  }, 10);
  assert.match(await warned, /nothing was stored/);
  clearInterval(collecting);
});

test("the type of an outcome says whether it has an error", async () => {
  const describeOutcome = ({ stored, error }: Outcome): string => (stored ? "stored" : error.message);
  const outcomes = await new StrictService(() => []).run((client) => collect(client.ingest("abc", documents(1, 2))));
  assert.deepEqual(outcomes.map(describeOutcome), ["stored"]);
  assert.ok(outcomes.every(({ error }) => !(error instanceof ProblemError)));
});
