"""The command line `gpus`: one module a verb."""
