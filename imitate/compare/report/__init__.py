"""The report of a comparison or a suite: its page, tables and figures."""
