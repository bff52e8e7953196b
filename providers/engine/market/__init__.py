"""Market: what is for sale now, and the plan that is made of it."""
