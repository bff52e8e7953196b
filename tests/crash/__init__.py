"""The crash matrix: kill the tool anywhere, break any reply, recover as documented, then count what
is really running.

`point` has the records and the counting. `kills` is part A (the real command line and the plugin,
killed), `replies` part B (the plugin under recorded engine sequences, each reply of the cloud
broken), `own` part C (as A, on machines of one's own: real ssh servers and processes).
`python -m tests.crash` runs points; `make crash` runs all of them.
"""
