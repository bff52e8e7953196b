"""GPUs without Pulumi: got, used and given back within one `with`. Imported on first use; imports
the engine, never the plugin.
"""
