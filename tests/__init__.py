"""A package, so that tests can share helpers: `from tests.browser.lab import ...`."""
