"""The subcommands, a module each. Reports go to standard output, everything else to standard error."""
