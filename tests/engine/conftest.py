from tests.engine.cases import lab  # noqa: F401
