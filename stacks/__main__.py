"""Declares what this stack's configuration says: see Pulumi.<stack>.yaml."""

from providers.resources import declare

declare()
