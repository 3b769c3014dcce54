"""The synchronous client. All modules but `os` are made from those of `_async`."""
