"""The version of this package."""

__version__ = "0.1.0"
USER_AGENT = f"rejoin-python/{__version__}"
