"""The Pulumi resource provider (server side)."""
