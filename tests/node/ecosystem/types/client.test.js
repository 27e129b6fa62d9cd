// Jest's own module loader, with CommonJS.
const { Client, InvalidConfiguration } = require("@ragstore/client");
const { registry } = require("@ragstore/client/rag");
require("@ragstore/client/rag/chroma");

test("the client is loaded", () => {
  expect(new Client("http://127.0.0.1:8080/").baseUrl).toBe("http://127.0.0.1:8080");
  expect(() => new Client("ftp://a")).toThrow(InvalidConfiguration);
  expect(registry.discover()).toHaveLength(2);
});
