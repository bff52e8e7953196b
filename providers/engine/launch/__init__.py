"""Launch: a plan is walked until one place has capacity; nothing is ordered twice."""
