"""A comparison or a suite as it is planned: learners, jobs, budgets."""
