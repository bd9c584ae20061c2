"""Real agents that the README, the eval sets and the tests run; none of them knows of the package that evaluates it."""
