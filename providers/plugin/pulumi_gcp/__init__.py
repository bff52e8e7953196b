"""A stand-in for Google Cloud's Pulumi plugin, for a rehearsal's managed network:
see `servicer`.
"""
