"""The service overrides internals of uvicorn that no version promises to keep: these tests notice when they change."""

from __future__ import annotations

import asyncio
import inspect
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import uvicorn.server
from httptools import HttpParserCallbackError, HttpRequestParser
from uvicorn import Config, Server
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ragstore.kit.server.http_protocol import ProblemProtocol
from ragstore.kit.server.request_meter import RejectedRequest

OVERRIDDEN = {
    "_should_upgrade": [],
    "_start_asgi_task": ["cycle", "app"],
    "connection_lost": ["exc"],
    "connection_made": ["transport"],
    "data_received": ["data"],
    "on_header": ["name", "value"],
    "on_headers_complete": [],
    "on_message_complete": [],
    "on_response_complete": [],
    "pause_writing": [],
    "resume_writing": [],
    "shutdown": [],
}
"""Methods of uvicorn's protocol that the service's replaces, and their parameters."""

CALLED: dict[Callable[..., object], list[str]] = {
    HttpToolsProtocol._unset_keepalive_if_required: [],
    FlowControl.drain: [],
    FlowControl.pause_reading: [],
    FlowControl.resume_reading: [],
}
"""Further methods that the service calls, and their parameters."""


def parameters(function: Callable[..., object]) -> list[str]:
    """The names of a method's parameters."""
    return list(inspect.signature(function).parameters)[1:]


def unchanged_server() -> type[Server]:
    """Uvicorn's server. sse-starlette, which the SDK of MCP loads, replaces one of its methods by its own."""
    name = uvicorn.server.__name__
    spec = spec_from_file_location(name, uvicorn.server.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    server: type[Server] = module.Server
    return server


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_an_overridden_method_is_one_of_uvicorn_and_has_its_parameters(name: str) -> None:
    assert parameters(getattr(HttpToolsProtocol, name)) == OVERRIDDEN[name]
    assert parameters(getattr(ProblemProtocol, name)) == OVERRIDDEN[name]


def test_no_other_method_of_uvicorn_is_overridden_by_accident() -> None:
    own = {name for name, value in vars(ProblemProtocol).items() if inspect.isfunction(value)}

    assert {name for name in own if hasattr(HttpToolsProtocol, name)} == OVERRIDDEN.keys()


@pytest.mark.parametrize("method", CALLED, ids=lambda method: method.__qualname__)
def test_a_method_that_is_called_has_its_parameters(method: Callable[..., object]) -> None:
    assert parameters(method) == CALLED[method]


async def test_uvicorn_has_the_attributes_that_are_used() -> None:
    config = Config(lambda: None, http=ProblemProtocol, log_config=None, lifespan="off")
    config.load()
    loop = asyncio.get_running_loop()
    protocol = ProblemProtocol(config=config, server_state=ServerState(), app_state={}, _loop=loop)

    for name in ("app", "cycle", "flow", "headers", "logger", "loop", "parser", "pipeline", "transport"):
        assert hasattr(protocol, name), name
    assert not protocol.pipeline
    assert protocol.cycle is None


def test_a_cycle_has_the_attributes_that_are_used() -> None:
    code = RequestResponseCycle.__init__.__code__

    used = {"disconnected", "keep_alive", "message_event", "more_body", "response_complete", "response_started"}
    assert used | {"scope", "transport", "waiting_for_100_continue"} <= set(code.co_names)


def test_uvicorn_parses_with_httptools_and_hands_it_the_protocol() -> None:
    assert "httptools.HttpRequestParser(self)" in inspect.getsource(HttpToolsProtocol.__init__)


def test_httptools_reports_an_exception_of_a_callback_as_context() -> None:
    class Rejecting:
        def on_message_begin(self) -> None:
            pass

        def on_headers_complete(self) -> None:
            raise RejectedRequest("reason")

    with pytest.raises(HttpParserCallbackError) as raised:
        HttpRequestParser(Rejecting()).feed_data(b"GET / HTTP/1.1\r\n\r\n")

    assert isinstance(raised.value.__context__, RejectedRequest)


def test_uvicorn_is_capped_to_the_series_whose_internals_were_read() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (required,) = (one for one in project["dependencies"] if one.startswith("uvicorn"))
    major, minor = map(int, version("uvicorn").split(".")[:2])

    assert required == f"uvicorn>={major}.{minor},<{major}.{minor + 1}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("startup", ["sockets"]),
        ("shutdown", ["sockets"]),
        ("handle_exit", ["sig", "frame"]),
        ("on_tick", ["counter"]),
        ("capture_signals", []),
    ],
)
def test_the_steps_of_a_server_s_life_have_the_parameters_that_the_runner_expects(
    name: str, expected: list[str]
) -> None:
    assert parameters(getattr(unchanged_server(), name)) == expected
    assert Server(Config("unused"))._captured_signals == []
