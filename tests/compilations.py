"""Count the programs that XLA compiles."""

import functools

import jax.monitoring


@functools.cache
def _events() -> list[str]:
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: events.append(event))
    return events


def compilations() -> int:
    """Number of programs compiled in this process since the first call."""
    return _events().count("/jax/core/compile/backend_compile_duration")
