"""Long runs: a ledger to resume from, a cache of results, executors, progress."""
