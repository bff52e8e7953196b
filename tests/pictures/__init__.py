"""The pictures of docs/pictures and the prices of the cookbook, made from real runs on the rehearsal
clouds. `make pictures`.
"""
