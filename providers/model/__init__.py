"""What is wanted and what is offered: frozen records, no I/O. See `spec` for the typed face, `ask`
for the compiled one.
"""
