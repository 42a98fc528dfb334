"""Logins on the page: the first one, roles, users, tokens, enrolling a node.

Topology: one weftd that wants a login, without disks.
Pass:     A browser without a login sees the login page alone; the one-time URL makes the first
          administrator, once; a viewer sees everything, and the page says why a viewer may
          change nothing; every end of a login leads back to the login page.
"""

import http.server
import re
import threading

import pytest
from selenium.webdriver.common.by import By

from weftdlogin import code_of, weftd
from wefttest import eventually
from wefttest import http as http_call

PASSWORD = "a long enough password"


@pytest.fixture
def browser(weftd, page):
    # A refusal that the page expects is on Chromium's console nevertheless.
    page.refusals = r" - Failed to load resource: .* status of 4\d\d "
    return lambda at="/": page(weftd.url, at, live=False)


def setup_url(weftd):
    return (weftd.state / "setup-url").read_text().strip()


def first(weftd, browser):
    p = browser("/" + setup_url(weftd).split("/", 3)[3])
    eventually(lambda: "first administrator" in p.text("#login"))
    p.type("user", "ann", within="form")
    p.type("password", PASSWORD, within="form")
    p.type("again", PASSWORD, within="form")
    p.press("Make this login")
    p.await_stream("live")
    return p


def log_in(p, user, password=PASSWORD):
    eventually(lambda: "Log in" in p.text("#login"), what="the login page")
    p.type("user", user, within="form")
    p.type("password", password, within="form")
    p.press("Log in")


def menu(p):
    p.click(p.driver.find_element(By.CSS_SELECTOR, ".menu summary"))


def log_out(p):
    menu(p)
    p.press("Log out")
    eventually(lambda: "Log in" in p.text("#login"), what="the login page")


def add_user(p, name, role):
    p.press("Add a user…")
    p.type("name", name)
    p.choose("role", role)
    p.type("password", PASSWORD)
    p.press("Add", "dialog")
    eventually(lambda: not p.dialog())


def at(p, weftd, name):
    p.driver.get(f"{weftd.url}/{name}")
    eventually(lambda: p.text("#top nav"))


def test_first_login(weftd, browser):
    stranger = browser()
    eventually(lambda: "one-time URL" in stranger.text("#login"),
               what="where the one-time URL is")
    assert "setup-url" in stranger.text("#login")

    p = browser("/" + setup_url(weftd).split("/", 3)[3])
    eventually(lambda: "first administrator" in p.text("#login"))
    p.shot("login-first")
    p.type("user", "ann", within="form")
    p.type("password", "short", within="form")
    p.type("again", "other", within="form")
    p.press("Make this login")
    assert "differ" in p.text("#login")
    p.type("again", "short", within="form")
    p.press("Make this login")
    eventually(lambda: "12" in p.text("#login [role=alert]"),
               what="that it is too short")
    p.type("password", PASSWORD, within="form")
    p.type("again", PASSWORD, within="form")
    p.press("Make this login")
    p.await_stream("live")
    assert "ann" in p.text(".menu summary")
    assert "--no-login" not in p.text("#banner")

    # The one-time URL has done its work.
    stranger.driver.get(weftd.url + "/login.html#setup=" + "0" * 32)
    stranger.driver.refresh()
    log_in(stranger, "ann", "a wrong password")
    eventually(lambda: stranger.text("#login [role=alert]"),
               what="the refusal")
    stranger.shot("login")
    assert stranger.axe() == []
    stranger.type("password", PASSWORD, within="form")
    stranger.press("Log in")
    stranger.await_stream("live")


def test_roles(weftd, browser):
    p = first(weftd, browser)
    at(p, weftd, "access.html")
    # With a second factor, of which the login page asks the code.
    p.press_row("users", "ann", "Second factor…")
    p.press("Turn it on", "dialog")
    secret = re.search(r"secret=([A-Z2-7]{32})", eventually(
        lambda: p.text("dialog") if "otpauth" in p.text("dialog") else None,
        what="the secret"))[1]
    p.shot("second-factor")
    p.press("Done", "dialog")
    eventually(lambda: p.row("users", "ann")["Second factor"] == "yes")
    assert secret not in p.text("body")
    log_out(p)
    log_in(p, "ann")
    eventually(lambda: "your app shows" in p.text("#login"), what="the field of the code")
    p.type("code", code_of(secret), within="form")
    p.press("Log in")
    p.await_stream("live")
    at(p, weftd, "access.html")
    add_user(p, "bob", "viewer")
    eventually(lambda: [r["Name"] for r in p.rows("users")] == ["ann", "bob"])
    eventually(lambda: any("/users" in r["Did"] for r in p.rows("audit")),
               what="the audit trail")
    assert PASSWORD not in p.text("body")
    p.shot("access")
    log_out(p)

    log_in(p, "bob")
    p.await_stream("live")
    assert "viewer" in p.text("#banner")
    for label in ("Create an array…", "Enroll a node…"):
        button = p.button(label)
        assert button.get_attribute("aria-disabled") == "true"
        assert "only an admin" in button.get_attribute("title")
    p.press("Enroll a node…")
    assert not p.dialog()
    p.shot("viewer")
    at(p, weftd, "access.html")
    eventually(lambda: p.text("#users .quiet"), what="why he sees no users")
    assert not p.rows("users")


def test_a_login_ends(weftd, browser):
    """Where it was ended elsewhere, the open page leads to the login page."""
    p = first(weftd, browser)
    at(p, weftd, "access.html")
    add_user(p, "bob", "admin")
    bob = browser()
    log_in(bob, "bob")
    bob.await_stream("live")
    p.click(p.driver.find_elements(
        By.XPATH, "//button[text()='Remove…']")[1])
    eventually(lambda: "Type bob" in p.dialog())
    p.confirm("Remove user bob", "bob")
    eventually(lambda: [r["Name"] for r in p.rows("users")] == ["ann"])
    eventually(lambda: "Log in" in bob.text("#login"), 60,
               what="the login page")


def test_own_password(weftd, browser):
    p = first(weftd, browser)
    menu(p)
    p.press("Password…")
    p.type("current", "a wrong password")
    p.type("password", PASSWORD + "2")
    p.type("again", PASSWORD + "2")
    p.press("Change it", "dialog")
    eventually(lambda: p.text("dialog [role=alert]"), what="the refusal")
    p.type("current", PASSWORD)
    p.press("Change it", "dialog")
    eventually(lambda: not p.dialog())
    log_out(p)
    log_in(p, "ann", PASSWORD + "2")
    p.await_stream("live")


def test_tokens(weftd, browser):
    p = first(weftd, browser)
    at(p, weftd, "access.html")
    p.press("Make a token…")
    p.type("name", "grafana")
    p.press("Make it", "dialog")
    token = eventually(lambda: p.text("dialog .command").strip()
                       if "not shown again" in p.dialog() else None)
    p.press("Done", "dialog")
    eventually(lambda: [r["Name"] for r in p.rows("tokens")] == ["grafana"])
    assert token not in p.text("body")
    status = weftd.url + "/api/v1/status"
    bearer = {"Authorization": "Bearer " + token}
    assert http_call("GET", status, headers=bearer)[0] == 200
    p.press("Revoke…", "#tokens")
    p.confirm("Revoke token grafana", "grafana")
    eventually(lambda: not p.rows("tokens"))
    assert http_call("GET", status, headers=bearer)[0] == 401


def test_enroll(weftd, browser):
    p = first(weftd, browser)
    p.press("Enroll a node…")
    p.type("node", "Not A Name")
    p.press("Make the token", "dialog")
    eventually(lambda: p.text("dialog [role=alert]"), what="the refusal")
    p.type("node", "n7")
    p.press("Make the token", "dialog")
    said = eventually(lambda: p.text("dialog .command")
                      if "weft-enroll" in p.text("dialog .command") else None,
                      what="the command")
    assert re.search(r"--token-file - --ca-fingerprint sha256:[0-9a-f]{64} "
                     r"--disk /dev/sdX .*\b[0-9a-f]{64}$", said, re.S), said
    p.shot("enroll")
    token = p.js("return document.querySelectorAll('dialog .command')[1]"
                 ".textContent")
    p.press("Done", "dialog")
    # It can be taken back as long as nobody has used it.
    at(p, weftd, "access.html")
    eventually(lambda: p.row("node-tokens", "n7")["Made by"] == "ann",
               what="the token in the list")
    assert token not in p.text("body")
    p.press("Cancel", "#node-tokens")
    eventually(lambda: not p.rows("node-tokens"), what="no token")
    eventually(lambda: any("node-tokens" in r["Did"] and r["Answer"] == "200"
                           for r in p.rows("audit")), what="the audit trail")


def test_somebody_else_was_faster(weftd, browser):
    """The role that another admin has just set is not written over."""
    p = first(weftd, browser)
    at(p, weftd, "access.html")
    add_user(p, "bob", "viewer")
    other = browser()
    log_in(other, "ann")
    other.await_stream("live")
    at(other, weftd, "access.html")
    for one in (p, other):
        one.press_row("users", "bob", "Role…")
        one.choose("role", "admin" if one is p else "viewer")
    p.press("Change it", "dialog")
    eventually(lambda: p.row("users", "bob")["Role"] == "admin")
    other.press("Change it", "dialog")
    eventually(lambda: "Somebody else has changed this" in other.dialog())


class Cookies(http.server.BaseHTTPRequestHandler):
    """Another user's web server on weftd's host: all that it is sent is `got`."""

    def do_GET(self):
        self.server.got.append(self.headers["Cookie"])
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        # A page of the same site: it is sent cookies that are SameSite=Strict.
        self.wfile.write(b"<script>if (!location.hash) {"
                         b"location.hash = 'x'; location.reload(); }</script>")

    def log_message(self, *_):
        pass


def test_another_port_gets_the_cookie_alone(weftd, browser):
    """Browsers send a cookie to every port of its host.  It opens nothing by itself: the
    origin secret, which no page of another port can read, is needed, too."""
    p = first(weftd, browser)
    cookie, = p.driver.get_cookies()
    assert cookie["httpOnly"] and p.js("return document.cookie") == ""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cookies) as other:
        other.got = []
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            p.driver.get(f"http://127.0.0.1:{other.server_port}/")
            sent = eventually(lambda: [c for c in other.got if c],
                              what="the cookie at the other port")[0]
            assert p.js("return localStorage.length") == 0
        finally:
            other.shutdown()
            thread.join()
    assert sent == f"weft={cookie['value']}"
    for path in ("me", "status", "users", "events"):
        status, text = http_call("GET", f"{weftd.url}/api/v1/{path}",
                                    headers={"Cookie": sent})
        assert status == (200 if path == "me" else 401)
        assert "ann" not in str(text)
    # The page itself is logged in as before; by the name that stands for ::1, too, where
    # another user may have the same port, it is the page of weftd's own address.
    p.driver.get(weftd.url.replace("127.0.0.1", "localhost") + "/index.html")
    p.await_stream("live")
    assert p.driver.current_url == weftd.url + "/index.html"


def test_tabs(weftd, browser):
    """A new tab is logged in; a log out in one ends the other."""
    p = first(weftd, browser)
    tab = p.driver.current_window_handle
    p.driver.switch_to.new_window("tab")
    p.driver.get(weftd.url)
    p.await_stream("live")
    assert "ann" in p.text(".menu summary")
    log_out(p)
    assert p.js("return localStorage.getItem('weft-origin-secret')") is None
    p.driver.close()
    p.driver.switch_to.window(tab)
    eventually(lambda: "Log in" in p.text("#login"), 60,
               what="the login page in the first tab")
    log_in(p, "ann")
    p.await_stream("live")
    # The page's stored secret is no longer valid: the login page appears, once.
    p.js("localStorage.setItem('weft-origin-secret', '0'.repeat(64))")
    p.driver.get(weftd.url)
    eventually(lambda: "Log in" in p.text("#login"), what="the login page")
    log_in(p, "ann")
    p.await_stream("live")
