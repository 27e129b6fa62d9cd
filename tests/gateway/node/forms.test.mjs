// react-jsonschema-form generates forms from the schemas of knowledge bases and assistants. GATEWAY_URL is the gateway.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import rjsf from "@rjsf/core";
import { createSchemaUtils } from "@rjsf/utils";
import { customizeValidator } from "@rjsf/validator-ajv8";
import Ajv2020 from "ajv/dist/2020.js";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";

const Form = rjsf.default ?? rjsf;
const validator = customizeValidator({ AjvClass: Ajv2020.default ?? Ajv2020 });
const url = process.env.GATEWAY_URL;

async function schemaOf(kind) {
  const response = await fetch(`${url}/ragstore/${kind}/jsonSchema`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type"), /^application\/json/);
  return response.json();
}

function htmlOf(schema, formData) {
  return renderToStaticMarkup(createElement(Form, { schema, validator, formData }));
}

function filledIn(schema, formData) {
  return createSchemaUtils(validator, schema).getDefaultFormState(schema, formData);
}

function faultsOf(schema, formData) {
  // An error of the root says only that a condition is not met; the fields that it needs have errors of their own.
  const properties = validator.validateFormData(formData, schema).errors.map((error) => error.property);
  return properties.filter((property) => property !== "");
}

async function create(kind, body) {
  return fetch(`${url}/ragstore/${kind}`, { method: "POST", body: JSON.stringify(body) });
}

test("the form of a knowledge base has a field for each property, with its default", async () => {
  const schema = await schemaOf("rags");
  const html = htmlOf(schema, {});
  for (const name of Object.keys(schema.properties)) {
    assert.match(html, new RegExp(`id="root_${name}`), name);
  }
  assert.match(html, /id="root_chunkSize"[^>]*value="512"/);
  assert.match(html, /<select id="root_storeType"/);
});

test("a form that is filled in with its defaults is accepted by the validator and by the gateway", async () => {
  const schema = await schemaOf("rags");
  const body = filledIn(schema, { name: `form-${randomUUID()}` });
  assert.deepEqual(faultsOf(schema, body), []);
  const response = await create("rags", body);
  const stored = await response.json();
  assert.equal(response.status, 201, JSON.stringify(stored));
  // A new base that names nothing has the headings, and no named engine.
  const expected = { ...body, embedHeadings: true, engine: "" };
  assert.deepEqual(Object.fromEntries(Object.keys(body).map((key) => [key, stored[key]])), expected);
});

test("the form shows the parameters of the provider and of the store that are chosen", async () => {
  const schema = await schemaOf("rags");
  const chosen = { name: `form-${randomUUID()}`, embeddingProvider: "openai", storeType: "pgvector" };
  const html = htmlOf(schema, chosen);
  assert.match(html, /id="root_embeddingParameters_apiKey"/);
  assert.match(html, /id="root_storeParameters_password"/);
  assert.doesNotMatch(html, /id="root_embeddingParameters_endpoint"/);
  assert.deepEqual(faultsOf(schema, filledIn(schema, chosen)).sort(), [
    ".embeddingParameters.apiKey",
    ".storeParameters.password",
  ]);
  const body = filledIn(schema, {
    ...chosen,
    embeddingParameters: { apiKey: "${env:OPENAI_API_KEY}" },
    storeParameters: { password: "${env:PGPASSWORD}" },
  });
  assert.deepEqual(faultsOf(schema, body), []);
  const response = await create("rags", body);
  assert.equal(response.status, 201, await response.text());
});

test("the form of a source shows the fields of its type, and its data is accepted", async () => {
  const schema = await schemaOf("rags");
  const sources = [
    { name: "site", type: "web", web: { startUrl: "https://docs.example/" } },
    { name: "files", type: "upload" },
  ];
  const chosen = { name: `form-${randomUUID()}`, sources };
  const html = htmlOf(schema, chosen);
  assert.match(html, /id="root_sources_0_web_startUrl"/);
  assert.match(html, /id="root_sources_0_web_maxPages"[^>]*value="200"/);
  assert.match(html, /id="root_sources_1_settings_timeBudgetMinutes"[^>]*value="10"/);
  const body = filledIn(schema, chosen);
  assert.deepEqual(faultsOf(schema, body), []);
  const response = await create("rags", body);
  assert.equal(response.status, 201, await response.text());
  assert.ok(faultsOf(schema, { name: "x", sources: [{ name: "site" }] }).includes(".sources.0.web"));
});

test("the validator of the form rejects what the gateway rejects", async () => {
  const schema = await schemaOf("rags");
  const wrong = { name: "x", chunkSize: 0, minScore: 2, storeType: "milvus", chunksize: 5 };
  const found = faultsOf(schema, wrong);
  for (const name of [".chunkSize", ".minScore", ".storeType"]) {
    assert.ok(found.includes(name), `${name} is not in ${found}`);
  }
  const response = await create("rags", wrong);
  assert.equal(response.status, 400);
});

test("the form of an assistant has a field for each property, and its data is accepted", async () => {
  const schema = await schemaOf("assistants");
  const base = `form-${randomUUID()}`;
  assert.equal((await create("rags", { name: base })).status, 201);
  const body = filledIn(schema, {
    name: `form-${randomUUID()}`,
    workflow: [base],
    tasks: [{ id: "answer", enableWorkflowRag: true }],
  });
  const html = htmlOf(schema, body);
  for (const name of ["name", "model", "systemMessage", "workflow", "httpCalls", "tasks"]) {
    assert.match(html, new RegExp(`id="root_${name}`), name);
  }
  assert.match(html, /id="root_tasks_0_maxRagContextChars"[^>]*value="20000"/);
  assert.deepEqual(faultsOf(schema, body), []);
  const response = await create("assistants", body);
  assert.equal(response.status, 201, await response.text());
});
