import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["**/dist/", "**/build/", "**/schema.d.ts", "tests/node/ecosystem/"] },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/prefer-nullish-coalescing": ["error", { ignorePrimitives: { string: true } }],
      "@typescript-eslint/consistent-type-definitions": "off", // an alias and an interface say different things
    },
  },
  {
    files: ["**/*.test.ts"],
    // node:test runs what `test` and `describe` promise by itself.
    rules: { "@typescript-eslint/no-floating-promises": ["error", { allowForKnownSafeCalls: [{ from: "package", name: ["test", "describe", "it"], package: "node:test" }] }] },
  },
);
