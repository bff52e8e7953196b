"""Launch: the command line and the start-up script of a declared workload."""
