// What a reader trips over, and what parses markup: labels are data.
import js from "@eslint/js";
import globals from "globals";

const noMarkup = ["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property, message: "Text only ever becomes text: use dom.js." }));

export default [
  js.configs.recommended,
  {
    files: ["**/*.js", "**/*.mjs"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: { ...globals.browser, ...globals.node } },
    rules: {
      "no-restricted-properties": ["error", ...noMarkup], "no-eval": "error", "no-implied-eval": "error", eqeqeq: ["error", "always", { null: "ignore" }],
      "no-var": "error", "prefer-const": "error", "max-depth": ["error", 4], "max-lines": ["error", 300], "no-unused-expressions": "off",
    },
  },
];
