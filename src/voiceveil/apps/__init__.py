"""Web pages and services: studio, listening tests, leaderboards, live anonymization."""
