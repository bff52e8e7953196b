"""GPUs without Pulumi: acquired, used and released within one `with`. Imported on first use;
imports the engine, never the plugin.
"""
