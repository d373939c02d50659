"""The plan of a comparison or a suite: learners, jobs and budgets."""
