"""Who may not ask, and for what not? Every refusal of the server, without a browser and without a worker."""

from __future__ import annotations

import os
import re
import socket

import pytest
from bench import Page, connected, running

from dynident.workbench.folder import listed_files, within
from dynident.workbench.security import LARGEST_BODY
from dynident.workbench.server import FILES, palette, static_file

PATHS = ["/", "/app.js", "/palette.css", "/vendor/uPlot.iife.min.js", "/api/state", "/api/events", "/api/files", "/nowhere",
         "/report/x"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("open")
    (folder / "secret.txt").write_text("1 2\n")
    (folder / "inside").mkdir()
    (folder.parent / "outside.csv").write_text("t,y\n0,1\n")
    (folder / "leads-out.csv").symlink_to(folder.parent / "outside.csv")
    with running(folder) as server:
        yield server


@pytest.fixture
def page(server):
    return connected(server)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""])
def test_a_foreign_host_is_refused_on_every_path(page, server, path, host):
    status, content, _ = page.send("GET", path, Host=host.format(port=server.port))
    assert status == 403
    assert b"<html" not in content


def test_localhost_is_the_same_machine(page, server):
    assert page.send("GET", "/", Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", "https://127.0.0.1:{port}"])
def test_a_foreign_origin_is_refused_even_with_the_key(page, server, origin):
    assert page.send("GET", "/api/files", Origin=origin.format(port=server.port))[0] == 403
    assert page.send("POST", "/api/save", {}, Origin=origin.format(port=server.port))[0] == 403


def test_another_site_may_follow_a_link_to_the_page_but_fetch_nothing(page):
    assert page.send("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    assert page.send("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert page.send("GET", "/app.js", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert page.send("GET", "/api/files", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="navigate")[0] == 403


def test_no_answer_allows_other_origins(page, server):
    for path in PATHS:
        if path != "/api/events":
            _, _, headers = page.send("GET", path, Origin=f"http://127.0.0.1:{server.port}")
            assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("path", ["/api/state", "/api/files", "/api/templates", "/api/events"])
@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic {key}", "{key}", "Bearer"])
def test_without_the_key_nothing_is_told(server, page, path, authorization):
    given = {} if authorization is None else {"Authorization": authorization.format(key=page.key)}
    assert Page(server).send("GET", path, **given)[0] == 401


def test_a_token_opens_once(server):
    token = server.keys.new_token()
    assert Page(server).call("POST", "/api/session", {"token": token})[0] == 200
    status, answer = Page(server).call("POST", "/api/session", {"token": token})
    assert status == 403
    assert "used already" in answer["says"]


@pytest.mark.parametrize("token", ["wrong", "", None, 5, ["a"], {"a": 1}, "ü"])
def test_a_wrong_token_opens_nothing(server, token):
    assert Page(server).call("POST", "/api/session", {"token": token})[0] == 403


def test_the_token_stands_behind_the_hash(server):
    link = server.link("secret")
    assert link.endswith("/#token=secret")
    assert link.startswith(f"http://127.0.0.1:{server.port}/")


def test_only_this_machine_is_listened_to(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/../server.py", "/static/app.js", "/..%2f..%2fetc/passwd", "/vendor/../app.js",
                                  "//etc/passwd", "/index.html", "/worker.py", "/vendor/style.css"])
def test_only_listed_files_are_served(page, path):
    assert page.send("GET", path)[0] == 404


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_pipes_and_links_in_a_circle_are_not_listed(tmp_path):
    """Reading a pipe would wait forever."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "circle.csv").symlink_to("circle.csv")
    (tmp_path / "record.csv").write_text("t,y\n0,1\n")
    assert listed_files(tmp_path) == ["record.csv"]
    for name in ("circle.csv", "a\0b", "a" * 5000):
        assert not os.path.isfile(within(tmp_path, name))


@pytest.mark.parametrize("name", ["../outside.csv", "inside/../../outside.csv", "leads-out.csv", "/etc/passwd", "nowhere.csv",
                                  "", "inside", ".", "secret.txt\0", "C:\\x.csv"])
def test_only_listed_records_are_opened(page, name):
    for path in ("/api/open", "/api/preview"):
        status, answer = page.call("POST", path, {"file": name})
        assert status == 404
        assert "no file" in answer["says"]


def test_files_that_lead_out_of_the_folder_are_not_listed(page):
    assert page.call("GET", "/api/files")[1]["files"] == ["secret.txt"]


def test_a_body_that_is_too_long_is_refused_unread(page):
    status, answer = page.call("POST", "/api/save", b" " * 10, Content_Length=str(LARGEST_BODY + 1))
    assert status == 413
    assert "1,048,576" in answer["says"]


def test_bodies_are_tables_in_json(page):
    assert page.send("POST", "/api/save", b"{}", Content_Type="text/plain")[0] == 415
    assert page.send("POST", "/api/save", b"{}", Content_Type="application/x-www-form-urlencoded")[0] == 415
    assert page.send("POST", "/api/save", b"{")[0] == 400
    assert page.send("POST", "/api/save", b"[]")[0] == 400
    assert page.send("POST", "/api/save", b"[" * 100_000)[0] == 400
    assert page.send("POST", "/api/save", b"", Content_Length="x")[0] == 411
    assert page.send("POST", "/api/save", b"2\r\n{}\r\n0\r\n\r\n", Transfer_Encoding="chunked")[0] == 411


def test_other_methods_and_paths_have_no_answer(page):
    assert page.send("POST", "/", {})[0] == 405
    assert page.send("GET", "/api/save")[0] == 405
    assert page.send("GET", "/api/nothing")[0] == 404
    assert page.send("DELETE", "/api/state")[0] == 501


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/files"])
def test_the_policy_lets_the_page_load_from_here_alone(page, path):
    _, _, headers = page.send("GET", path)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


def test_two_hundred_idle_connections_do_not_keep_the_page_waiting(server, page):
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    try:
        idle[0].sendall(b"GET / HTTP/1.1\r\nHost: ")  # and never goes on
        assert page.send("GET", "/")[0] == 200
        assert page.call("GET", "/api/files")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_report_opens_once_in_an_origin_of_its_own(server, page, tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<script>1</script>")
    ticket = server.keys.new_ticket(str(report))
    status, content, headers = page.send("GET", f"/report/{ticket}")
    assert (status, content) == (200, b"<script>1</script>")
    assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in headers["Content-Security-Policy"]
    assert page.send("GET", f"/report/{ticket}")[0] == 404


def test_texts_never_become_markup():
    """The page builds nodes; no module writes markup, runs text, or reaches another machine."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setTimeout\(\s*[\"']|https?://(?!www\.w3\.org)"
    own = [path for path in FILES if path.endswith((".js", ".html", ".css")) and "/vendor/" not in path]
    assert len(own) > 10
    for path in own:
        assert re.findall(forbidden, static_file(path)[0].decode()) == [], path


def test_every_module_that_the_page_imports_is_listed():
    for path in FILES:
        if path.endswith(".js") and "/vendor/" not in path:
            for name in re.findall(r'from "\.(/\w+\.js)"', static_file(path)[0].decode()):
                assert name in FILES, f"{path} imports {name}"


def test_the_palette_is_that_of_the_report_light_and_dark():
    found = palette()
    used = set(re.findall(r"var\(--([a-z-]+)", static_file("/style.css")[0].decode())) - {"grade"}
    assert found.count(":root") == 2
    for name in used:
        assert found.count(f"--{name}:") == 2, name
