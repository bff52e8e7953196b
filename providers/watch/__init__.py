"""`gpus watch`: refresh-and-up of one stack at an interval, with a cap on what it buys in an hour,
and a log.
"""
