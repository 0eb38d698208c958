"""Access by host, origin and token, and the headers of every response."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import servers
from servers import Running, http, running
from websockets.exceptions import InvalidStatus

from horst.errors import ConfigError
from horst.serving.app import check_binding, page_url
from horst.serving.guard import check_origin, is_local

TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("locked")
    with running(folder, token=TOKEN, origins=["https://example.org"]) as server:
        yield server


def status_of(server: Running, **options: object) -> int:
    with pytest.raises(InvalidStatus) as refused, server.socket(**options):  # type: ignore[arg-type]
        pass
    return refused.value.response.status_code


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("http://127.0.0.1:1", True),
        ("http://[::1]:1", True),
        ("https://example.org", False),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("null", False),
        ("file://", False),
        ("http://", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_origins(server: Running, origin: str, allowed: bool) -> None:
    response = http.get(f"{server.url}/api/info", headers={"Origin": origin})
    assert response.status_code == (200 if allowed else 403)
    assert response.headers.get("access-control-allow-origin") == (origin if allowed else None)
    if allowed:
        with server.socket({}, additional_headers={"Origin": origin}):
            pass
    else:
        assert response.json()["error"]["code"] == "origin"
        assert status_of(server, additional_headers={"Origin": origin}) == 403


def test_allowed_origin(locked: Running) -> None:
    headers = {"Origin": "https://example.org"}
    assert http.get(f"{locked.url}/api/info", headers=headers).status_code == 401
    asked = {**headers, "Access-Control-Request-Method": "POST"}
    before = http.options(f"{locked.url}/api/predict", headers=asked)
    assert before.status_code == 204
    assert "authorization" in before.headers["access-control-allow-headers"]
    headers["Authorization"] = f"Bearer {TOKEN}"
    assert http.get(f"{locked.url}/api/info", headers=headers).status_code == 200
    with locked.socket({}, additional_headers=headers):
        pass


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST:99", 200), ("[::1]:8000", 200), ("evil.example", 403), ("", 403)],
)
def test_host_names(server: Running, host: str, status: int) -> None:
    assert http.get(f"{server.url}/", headers={"Host": host}).status_code == status


def test_token(locked: Running) -> None:
    for path in ("/api/info", "/api/models", "/metrics", "/api/none", "/api/samples/sample-1.mp4"):
        response = http.get(locked.url + path)
        assert response.status_code == 401, path
        assert response.json()["error"]["code"] == "token"
        for wrong in ("Bearer wrong", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
            assert http.get(locked.url + path, headers={"Authorization": wrong}).status_code == 401
        for query in ("wrong", TOKEN if not path.startswith("/api/samples/") else "wrong"):
            assert http.get(f"{locked.url}{path}?token={query}").status_code == 401, path
        right = {"Authorization": f"Bearer {TOKEN}"}
        opened = http.get(f"{locked.url}{path.replace('sample-1', 'none')}", headers=right)
        assert opened.status_code == (404 if "none" in path or "sample" in path else 200), path
    for method, path in (("POST", "/api/predict"), ("POST", "/api/recordings/x"), ("DELETE", "/api/teach")):
        for query in ("", f"?token={TOKEN}"):
            assert http.request(method, f"{locked.url}{path}{query}", content=b"x").status_code == 401, path
    assert http.get(f"{locked.url}/api/samples?token={TOKEN}").status_code == 401
    assert http.get(f"{locked.url}/api/samples/none.mp4?token={TOKEN}").status_code == 404  # <video> cannot set headers
    assert http.get(f"{locked.url}/api/samples/none.mp4?token={TOKEN}x").status_code == 401
    for path in ("/healthz", "/docs", "/openapi.json"):
        assert http.get(locked.url + path).status_code == 200
    info = http.get(f"{locked.url}/api/info", headers={"Authorization": f"Bearer {TOKEN}"})
    assert info.json()["needs_token"] is True
    assert status_of(locked) == 401
    assert status_of(locked, additional_headers={"Authorization": "Bearer w\xf6rng"}) == 401
    with locked.socket({}, subprotocols=["horst", f"token.{TOKEN}"]) as client:
        assert client.subprotocol == "horst"
    with servers.connect(f"{locked.ws}?token={TOKEN}", compression=None) as client:
        servers.send(client, {"type": "start"})
        assert servers.receive(client)["type"] == "ready"


def test_headers(server: Running) -> None:
    for path in ("/docs", "/api/info", "/none", "/healthz"):
        headers = http.get(server.url + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert (headers.get("cache-control") == "no-store") == (path not in ("/docs", "/none"))


def test_binding() -> None:
    check_binding("127.0.0.1", None)
    check_binding("localhost", None)
    check_binding("0.0.0.0", TOKEN)
    for host in ("0.0.0.0", "::", "192.168.0.7", "example.org", "localhost.example.org"):
        assert not is_local(host)
        with pytest.raises(ConfigError, match="--token"):
            check_binding(host, None)
    for token in ("short", "with spaces in it", "unicode-tökens"):
        with pytest.raises(ConfigError, match="a token must have"):
            check_binding("0.0.0.0", token)
    with pytest.raises(ConfigError, match="looks like"):
        check_origin("example.org")
    assert page_url("::1", 80, None) == "http://[::1]:80/"
    assert page_url("0.0.0.0", 80, TOKEN) == f"http://127.0.0.1:80/#token={TOKEN}"


def test_only_files_of_the_page_are_served(server: Running) -> None:
    for path in ("/../pyproject.toml", "/%2e%2e/horst/__init__.py", "/..%2f..%2fplain.py", "/web/", "/__init__.py"):
        assert http.get(server.url + path).status_code == 404
