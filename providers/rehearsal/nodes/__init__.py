"""Rehearsal machines that really run: a container each, which boots the start-up script that the
cloud was given.
"""
