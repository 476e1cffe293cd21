"""Signal mathematics: pure functions on arrays, each with a slow, obvious twin in the tests."""
