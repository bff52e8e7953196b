"""Reconcile: observe the nodes, classify their condition, take the steps that the declaration asks
for.
"""
