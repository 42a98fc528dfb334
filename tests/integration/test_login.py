"""Callers of weftd: the first login, logins, users, roles, tokens, and the audit trail.

Topology: one weftd that requires a login.  Pass: each caller may do what its role allows and
nothing else, also after weftd was killed; a refused call changes nothing, and no secret is in
the log, the database or the audit trail.
"""

import hashlib
import http.client
import json
import re
import sqlite3
import stat
import threading
import time
from pathlib import Path

from weftdactors import Weftd
from weftdlogin import *
from weftdlogin import admin, weftd
from wefttest import eventually, run


def everything_on_disk(w):
    return b"".join(p.read_bytes() for p in [w.log, *w.state.iterdir()]
                    if p.is_file())


# ---- The first login ----


def test_first_login(weftd):
    nobody = Browser(weftd)
    assert nobody.get("/me") == {
        "user": None, "role": None, "via": "none",
        "login_required": True, "setup_required": True}
    url = weftd.state / "setup-url"
    assert stat.S_IMODE(url.stat().st_mode) == 0o600
    assert url.read_text().startswith(weftd.url + "/login.html#setup=")
    token = setup_token(weftd)
    log = weftd.log.read_text()
    assert token not in log and f"weftctl setup NAME --url-file {url}" in log
    body = {"token": token, "user": "root", "password": PASSWORD}
    for wrong, status in [({"token": token[:-1] + "x"}, 403),
                          ({"token": ""}, 403), ({"password": "short"}, 422),
                          ({"password": "\u00fc" * 11}, 422),
                          ({"user": "R"}, 422), ({"user": ""}, 422)]:
        assert nobody.status("POST", "/setup", {**body, **wrong}) == status
    assert nobody.status("GET", "/status") == 401
    status, me = nobody.call("POST", "/setup", body)
    assert status == 201
    assert me.pop("origin_secret") == nobody.origin_secret
    assert re.fullmatch("[0-9a-f]{64}", me.pop("device"))
    assert me == {"user": "root", "role": "admin", "via": "login",
                  "login_required": True, "setup_required": False}
    cookie = nobody.headers["Set-Cookie"]
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert part in cookie
    assert nobody.get("/me") == me
    assert nobody.get("/status")["health"]
    # It works once, and a weftd started again makes no other.
    assert not url.exists()
    assert Browser(weftd).status("POST", "/setup", body) == 403
    weftd.restart()
    assert not url.exists()
    assert Browser(weftd).status("POST", "/setup", body) == 403
    assert nobody.get("/me") == me  # still logged in


def test_two_use_the_url_at_once(weftd):
    token, said = setup_token(weftd), []
    threads = [threading.Thread(target=lambda n=n: said.append(
        Browser(weftd).status("POST", "/setup", {
            "token": token, "user": f"u{n}", "password": PASSWORD})))
        for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(said) == [201, 403, 403, 403]


def test_lost_password(weftd, admin):
    """weftd --setup: a user who may start weftd may be an administrator."""
    weftd.stop()
    weftd.extra = ["--setup"]
    weftd.start()
    assert admin.get("/me")["user"] == "root"
    other = Browser(weftd)
    other.call("POST", "/setup", {"token": setup_token(weftd), "user": "root",
                                  "password": "another " + PASSWORD},
               expect=201)
    assert admin.status("GET", "/status") == 401
    assert Browser(weftd).status("POST", "/login", {
        "user": "root", "password": PASSWORD}) == 401
    Browser(weftd).login("root", "another " + PASSWORD)


# ---- Logins ----


def test_login_and_logout(weftd, admin):
    one, two = Browser(weftd).login("root"), Browser(weftd).login("root")
    assert admin.get("/users/root")["logins"] == 3
    assert one.origin_secret != two.origin_secret
    one.call("POST", "/logout", expect=200)
    assert one.cookie == "" and "Max-Age=0" in one.headers["Set-Cookie"]
    old, secret = two.cookie, two.origin_secret
    two.call("POST", "/logout", expect=200)
    two.cookie, two.origin_secret = old, secret
    assert two.status("GET", "/status") == 401
    assert two.get("/me")["role"] is None
    assert admin.get("/users/root")["logins"] == 1


def test_a_cookie_alone_opens_nothing(weftd, admin):
    """Browsers send it to every port of the host.  The origin secret, which no answer
    but that of the login tells, is needed for reads, streams and changes."""
    body = {"name": "v", "role": "viewer", "password": PASSWORD}
    secret, other = admin.origin_secret, Browser(weftd).login("root")
    size = len(trail_of(admin))
    for wrong in (None, "", "0" * 64, secret[:-1], secret + "0", secret.upper(),
                  admin.cookie, hashlib.sha256(admin.cookie.encode()).hexdigest(),
                  hashlib.sha256(f"weft csrf {admin.cookie}".encode()).hexdigest(),
                  other.origin_secret):
        for call in [("GET", "/status"), ("GET", "/users"), ("GET", "/events"),
                     ("GET", "/tokens"), ("POST", "/users", body)]:
            status, reply = admin.call(*call, X_Weft_Origin_Secret=wrong)
            assert (status, reply["code"]) == (401, "login-required"), wrong
        me = admin.call("GET", "/me", X_Weft_Origin_Secret=wrong)[1]
        assert me["user"] is None and secret not in json.dumps(me)
        # Such a logout does not end the login either.
        cookie = admin.cookie
        assert admin.call("POST", "/logout", X_Weft_Origin_Secret=wrong)[0] == 200
        admin.cookie, admin.origin_secret = cookie, secret
    assert secret not in json.dumps([admin.get(p) for p in ("/me", "/users",
                                                            "/audit")])
    assert [u["name"] for u in admin.get("/users")["users"]] == ["root"]
    [line] = trail_of(admin)[:-size]
    assert (line["who"], line["action"], line["times"]) == (None, "POST /users", 10)
    # The secret without the cookie is refused, too.
    assert admin.status("GET", "/status", Cookie=None) == 401
    # A form of another page: another origin, such as another port.
    for origin, status in [("http://evil.example", 403),
                           (f"http://127.0.0.1:{weftd.address[1] + 1}", 403),
                           (f"http://{weftd.listen}", 201)]:
        assert admin.status("POST", "/users", body, Origin=origin) == status


def test_logins_end(weftd, admin):
    """When nobody used them for 12 hours, and after a week."""
    for change in ("used", "expires"):
        b = Browser(weftd).login("root")
        other = Browser(weftd).login("root")
        mine = hashlib.sha256(b.cookie.encode()).hexdigest()
        weftd.stop()
        with sqlite3.connect(weftd.state / "weftd.db") as db:
            [text] = db.execute("SELECT json FROM record WHERE kind='login' "
                                "AND key=?", [mine]).fetchone()
            record = json.loads(text)
            now = int(time.time() * 1000)
            assert abs(record["used"] - now) < 60000
            assert record["expires"] > now + 6 * 24 * 3600 * 1000
            record[change] = now - 12 * 3600 * 1000 - 1
            db.execute("UPDATE record SET json=? WHERE key=?",
                       [json.dumps(record), mine])
        db.close()
        weftd.start()
        assert b.status("GET", "/status") == 401
        assert other.status("GET", "/status") == 200


def test_killed_after_an_answer(weftd, admin):
    """Acknowledged changes survive SIGKILL: deletions, too."""
    viewer = add_user(admin, "v", "viewer")
    token = admin.call("POST", "/tokens", {"name": "t", "role": "viewer"},
                       expect=201)[1]["token"]
    weftd.kill()
    weftd.start()
    assert viewer.status("GET", "/status") == 200
    assert Browser(weftd, token).status("GET", "/status") == 200
    admin.call("DELETE", "/tokens/t", expect=200)
    admin.call("DELETE", "/users/v", expect=200)
    assert viewer.status("GET", "/status") == 401
    weftd.kill()
    weftd.start()
    assert viewer.status("GET", "/status") == 401
    assert Browser(weftd, token).status("GET", "/status") == 401
    assert [a["action"] for a in admin.get("/audit")["audit"]][:2] == \
        ["DELETE /users/{name}", "DELETE /tokens/{name}"]


# ---- Roles ----


def test_roles(weftd, admin):
    """Each route, tried by each role."""
    viewer = add_user(admin, "v", "viewer")
    # With a body, or for what is the viewer's.
    own = {("PATCH", "/users/x"), ("PUT", "/users/x/totp"), ("POST", "/tokens"),
           ("DELETE", "/tokens/x"), ("POST", "/layouts")}
    callers = {None: Browser(weftd), "viewer": viewer}
    anybody = {"/me", "/setup", "/login", "/logout", "/enroll", "/ca.pem",
               "/revocations"}
    admins = {"/users", "/users/x", "/audit", "/audit/log", "/node-tokens"}
    nodes = {f"/sessions/{'0' * 16}/volumes"}
    for line in run("weftd", "--list-routes").stdout.splitlines():
        method, path = line.split()
        for part, value in [("{uuid}", "0" * 8 + "-0000" * 3 + "-" + "0" * 12),
                            ("{id}", "0" * 16), ("{member}", "0"),
                            ("{name}", "x"), ("{node}", "x"), ("{volume}", "x"),
                            ("{job}", "drain-x")]:
            path = path.replace(part, value)
        assert "{" not in path
        if not path.startswith("/api/v1/") or path.endswith("/events"):
            continue
        path = path.removeprefix("/api/v1")
        if path in anybody:
            continue
        status, reply = callers[None].call(method, path)
        assert (status, reply.get("code")) == (401, "login-required"), line
        assert callers[None].headers["WWW-Authenticate"] == "Bearer"
        status, reply = viewer.call(method, path)
        if (method, path) in own:
            assert status in (403, 404, 415), line
        elif method == "GET" and path not in admins | nodes:
            assert status not in (401, 403), line
        else:
            assert (status, reply.get("code")) == (403, "forbidden"), line
    # Files are for everybody: the page that logs in is one of them.
    c = http.client.HTTPConnection(*weftd.address, timeout=60)
    c.request("GET", "/")
    assert c.getresponse().status == 200
    c.close()


def test_users(weftd, admin):
    viewer = add_user(admin, "v", "viewer")
    user = {"name": "w", "role": "viewer", "password": PASSWORD}
    for wrong, field in [({"name": "v"}, "name"), ({"name": "<b>"}, "name"),
                         ({"role": "node"}, "role"), ({"role": ""}, "role"),
                         ({"password": "x" * 11}, "password"),
                         ({"password": "x" * 257}, "password"),
                         ({"password": None}, "password"),
                         ({"more": 1}, "more")]:
        status, reply = admin.call("POST", "/users", {**user, **wrong})
        assert status in (409, 422) and reply["field"] == field
    assert [(u["name"], u["role"]) for u in admin.get("/users")["users"]] == \
        [("root", "admin"), ("v", "viewer")]
    # Nobody is left out.
    for change in [("DELETE", "/users/root", None),
                   ("PATCH", "/users/root", {"role": "viewer"})]:
        status, reply = admin.call(*change)
        assert (status, reply["code"]) == (409, "last-admin")
    assert admin.status("DELETE", "/users/nix") == 404
    assert admin.status("PATCH", "/users/nix", {"role": "viewer"}) == 404
    assert admin.status("PATCH", "/users/v", {}) == 422
    # A user can change the own password only with the current one.
    new = "another " + PASSWORD
    change = {"password": new, "current": PASSWORD}
    for wrong in ({"current": "nix"}, {"current": ""}, {"role": "admin"}):
        assert viewer.status("PATCH", "/users/v", {**change, **wrong}) == 403
    assert viewer.status("PATCH", "/users/root", change) == 403
    second = Browser(weftd).login("v")
    viewer.call("PATCH", "/users/v", change, expect=200)
    assert viewer.status("GET", "/status") == 200
    assert second.status("GET", "/status") == 401
    assert second.status("POST", "/login", {"user": "v", "password": PASSWORD},
                         Cookie=None) == 401
    # An administrator sets it without.
    admin.call("PATCH", "/users/v", {"password": PASSWORD, "role": "admin"},
               expect=200)
    assert viewer.status("GET", "/status") == 401
    viewer.cookie = None
    viewer.login("v")
    assert viewer.get("/me")["role"] == "admin"
    viewer.call("DELETE", "/users/root", expect=200)
    assert admin.status("GET", "/status") == 401
    # A role that is taken back counts at once.
    add_user(viewer, "a", "admin")
    admin.login("a")
    viewer.call("PATCH", "/users/a", {"role": "viewer"}, expect=200)
    assert admin.status("GET", "/users") == 403


def test_viewers_do_not_learn_who_there_is(weftd, admin):
    viewer = add_user(admin, "v", "viewer")
    said = [viewer.call("PATCH", f"/users/{name}", {"password": PASSWORD},
                        expect=403, If_Match='"0123456789abcdef"')[1]
            for name in ("root", "nobody")]
    assert said[0] == said[1]


def test_tokens(weftd, admin):
    reply = admin.call("POST", "/tokens", {"name": "t", "role": "viewer"},
                       expect=201)[1]
    assert sorted(reply) == ["expires_at", "name", "role", "token"]
    assert reply["expires_at"] is None
    script = Browser(weftd, reply["token"])
    assert script.get("/me")["via"] == "token"
    assert script.get("/me")["user"] == "t"
    assert script.status("GET", "/status") == 200
    assert script.status("POST", "/users", {}) == 403
    assert admin.status("POST", "/tokens", {"name": "t", "role": "admin"}) \
        == 409
    short = admin.call("POST", "/tokens", {"name": "s", "role": "admin",
                                           "expires_s": 5}, expect=201)[1]
    # It needs no CSRF: nobody else's page can send it.
    quick = Browser(weftd, short["token"])
    quick.call("POST", "/tokens", {"name": "u", "role": "viewer"}, expect=201)
    listed = admin.get("/tokens")["tokens"]
    assert [(t["name"], t["created_by"]) for t in listed][:2] == \
        [("s", "root"), ("t", "root")]
    assert listed[0]["expires_at"] == short["expires_at"]
    assert "token" not in listed[0]
    eventually(lambda: quick.status("GET", "/status") == 401)
    for wrong in ("Basic cm9vdDpyb290", "Bearer", "Bearer x", "",
                  "Bearer " + "0" * 64, reply["token"],
                  "Bearer " + reply["token"] + " "):
        if wrong.rstrip() != "Bearer " + reply["token"]:
            assert script.status("GET", "/status", Authorization=wrong) == 401
    # A bad token is not made good by a cookie.
    assert admin.status("GET", "/status", Authorization="Bearer x") == 401
    admin.call("DELETE", "/tokens/t", expect=200)
    assert script.status("GET", "/status") == 401
    assert admin.status("DELETE", "/tokens/t") == 404
    assert admin.status("POST", "/tokens", {"name": "x", "role": "viewer",
                                            "expires_s": 0}) == 422


def test_own_tokens(weftd, admin):
    """Anybody who is logged in may make some, for no more than the own role;
    they go with their user."""
    def new(caller, name, role="viewer", expect=201):
        reply = caller.call("POST", "/tokens", {"name": name, "role": role},
                            expect=expect)[1]
        return Browser(weftd, reply.get("token"))
    viewer = add_user(admin, "v", "viewer")
    other = add_user(admin, "w", "viewer")
    mine, theirs = new(viewer, "a"), new(other, "b")
    new(viewer, "c", "admin", 403)
    child = new(mine, "d")
    assert [t["name"] for t in viewer.get("/tokens")["tokens"]] == ["a", "d"]
    assert [t["name"] for t in child.get("/tokens")["tokens"]] == ["a", "d"]
    assert viewer.status("DELETE", "/tokens/b") == 404
    assert mine.status("DELETE", "/tokens/a") == 200  # itself
    assert mine.status("GET", "/status") == 401
    admin.call("DELETE", "/users/w", expect=200)
    assert theirs.status("GET", "/status") == 401
    # A token may not do more than its user.
    admin.call("PATCH", "/users/v", {"role": "admin"}, expect=200)
    strong = new(viewer, "e", "admin")
    assert strong.status("GET", "/users") == 200
    admin.call("PATCH", "/users/v", {"role": "viewer"}, expect=200)
    assert strong.status("GET", "/users") == 403
    assert strong.status("GET", "/status") == 200
    weftd.restart()
    assert strong.status("GET", "/users") == 403
    admin.call("DELETE", "/users/v", expect=200)
    assert [t.status("GET", "/status") for t in (strong, child)] == [401, 401]
    assert admin.get("/tokens")["tokens"] == []


def test_tokens_of_one_user(weftd, admin):
    """One user can't take the places for tokens of others, nor all users those of
    administrators."""
    def fill(caller, name, count):
        for i in range(count):
            caller.call("POST", "/tokens", {"name": f"{name}-{i}", "role": "viewer"},
                        expect=201)

    def refused(caller):
        reply = caller.call("POST", "/tokens", {"name": "more", "role": "viewer"},
                            expect=409)[1]
        assert reply["code"] == "too-many"
        return reply["detail"]
    viewers = [add_user(admin, f"v{i}", "viewer") for i in range(6)]
    fill(viewers[0], "v0", 100)
    assert "user v0 has 100 tokens already" in refused(viewers[0])
    script = admin.call("POST", "/tokens", {"name": "of-root", "role": "viewer"},
                        expect=201)[1]
    viewers[0].call("DELETE", "/tokens/v0-7", expect=200)
    fill(viewers[0], "again", 1)
    for i in range(1, 5):
        fill(viewers[i], f"v{i}", 100)
    assert "500 is the most for all of them" in refused(viewers[5])
    # An administrator finds room, but not by a token that has a viewer's rights.
    assert "500 is the most" in refused(Browser(weftd, script["token"]))
    fill(admin, "root", 99)
    assert "user root has 100 tokens already" in refused(admin)
    # An administrator makes room.
    admin.call("DELETE", "/tokens/v3-0", expect=200)
    fill(viewers[5], "v5", 1)


def test_a_token_is_not_above_itself(weftd, admin):
    """A script makes, sees and deletes no token that may do more or lasts longer
    than its own, though both are of one administrator."""
    def new(caller, name, role="viewer", expect=201, **more):
        reply = caller.call("POST", "/tokens", {"name": name, "role": role,
                                                **more}, expect=expect)[1]
        return reply if expect != 201 else Browser(weftd, reply["token"])

    def ends(name):
        return {t["name"]: t["expires_at"]
                for t in admin.get("/tokens")["tokens"]}[name]
    new(admin, "strong", "admin")
    new(admin, "endless")
    short = new(admin, "short", expires_s=3600)
    new(admin, "shorter", expires_s=600)
    # A stronger token is hidden from it, and a longer-lived one it may not delete.
    assert [t["name"] for t in short.get("/tokens")["tokens"]] == [
        "endless", "short", "shorter"]
    assert short.status("DELETE", "/tokens/strong") == 404
    assert short.status("DELETE", "/tokens/endless") == 403
    assert short.status("DELETE", "/tokens/shorter") == 200
    assert new(short, "x", "admin", 403)["field"] == "role"
    assert new(short, "x", expect=403, expires_s=7200)["field"] == "expires_s"
    child = new(short, "child")
    assert ends("child") == ends("short")
    new(short, "young", expires_s=60)
    assert ends("young") < ends("short")
    grandchild = new(child, "grandchild")
    assert ends("grandchild") == ends("short")
    # An administrator's is held to the same, though it sees all.
    ruler = new(admin, "ruler", "admin", expires_s=3600)
    assert "endless" in [t["name"] for t in ruler.get("/tokens")["tokens"]]
    assert ruler.status("DELETE", "/tokens/endless") == 403
    new(ruler, "heir", "admin")
    assert ends("heir") == ends("ruler")
    until = ruler.call("POST", "/node-tokens", {"ttl_s": 24 * 3600},
                       expect=201)[1]["expires_at"]
    assert until == ends("ruler")
    # weftctl's login is one, though it is kept as a token; a script makes none.
    login = new(admin, "weftctl", "admin", expires_s=600, login=True)
    new(login, "monitoring")
    assert ends("monitoring") is None
    assert login.status("DELETE", "/tokens/endless") == 200
    for caller in (ruler, login):
        assert new(caller, "y", expect=403, login=True)["field"] == "login"
    weftd.restart()
    assert login.status("DELETE", "/tokens/strong") == 200
    assert ruler.status("DELETE", "/tokens/monitoring") == 403
    assert grandchild.status("DELETE", "/tokens/grandchild") == 200


def test_a_database_of_before(weftd, admin):
    """An older database does not say whether a token is a login's, and its logins have no
    origin secret: their users log in again."""
    token = admin.call("POST", "/tokens", {"name": "old", "role": "admin",
                                           "expires_s": 600}, expect=201)[1]
    weftd.stop()
    with sqlite3.connect(weftd.state / "weftd.db") as db:
        for kind, field, value in [
                ("token", "login", False),
                ("login", "origin", hashlib.sha256(
                    admin.origin_secret.encode()).hexdigest())]:
            [[key, text]] = db.execute("SELECT key, json FROM record "
                                       "WHERE kind=?", [kind])
            record = json.loads(text)
            assert record.pop(field) == value
            db.execute("UPDATE record SET json=? WHERE key=?",
                       [json.dumps(record), key])
    db.close()
    weftd.start()
    for secret in (admin.origin_secret, "", "0" * 64, None):
        assert admin.status("GET", "/status", X_Weft_Origin_Secret=secret) == 401
    assert admin.login("root").status("GET", "/status") == 200
    old = Browser(weftd, token["token"])
    assert old.get("/tokens")["tokens"][0]["login"] is False
    assert old.call("POST", "/tokens", {"name": "n", "role": "viewer"},
                    expect=201)[1]["expires_at"] == token["expires_at"]


def test_tokens_and_a_new_password(weftd, admin):
    """Another's new password ends the tokens; one's own leaves them."""
    def new(caller, name):
        return Browser(weftd, caller.call("POST", "/tokens", {
            "name": name, "role": "viewer"}, expect=201)[1]["token"])
    viewer = add_user(admin, "v", "viewer")
    mine, others = new(viewer, "a"), new(admin, "b")
    second = "another " + PASSWORD
    user = viewer.call("PATCH", "/users/v", {
        "password": second, "current": PASSWORD}, expect=200)[1]
    assert (user["logins"], user["tokens"]) == (1, 1)
    assert mine.status("GET", "/status") == 200
    admin.call("PATCH", "/users/v", {"role": "admin"}, expect=200)
    assert mine.status("GET", "/status") == 200
    user = admin.call("PATCH", "/users/v", {"password": PASSWORD},
                      expect=200)[1]
    assert (user["logins"], user["tokens"]) == (0, 0)
    assert mine.status("GET", "/status") == 401
    # A script that has an administrator's token is of that administrator.
    strong = Browser(weftd, admin.call("POST", "/tokens", {
        "name": "c", "role": "admin"}, expect=201)[1]["token"])
    assert strong.call("PATCH", "/users/root", {"password": second},
                       expect=200)[1]["tokens"] == 2
    assert strong.status("GET", "/users") == 200
    # An administrator who lost the password sets up again.
    weftd.stop()
    weftd.extra.append("--setup")
    weftd.start()
    assert others.status("GET", "/status") == 200
    first_login(weftd)
    assert [t.status("GET", "/status") for t in (others, strong)] == [401, 401]


def test_events_end_with_the_login(weftd, admin):
    viewer = add_user(admin, "v", "viewer")
    c = http.client.HTTPConnection(*weftd.address, timeout=30)
    c.request("GET", "/api/v1/events", headers=viewer.login_headers())
    r = c.getresponse()
    assert r.status == 200
    assert r.readline().startswith(b"retry:")
    admin.call("DELETE", "/users/v", expect=200)
    r.read()  # ends
    c.close()


# ---- Passwords are not guessed ----


def at_once(weftd, users):
    """A wrong password for each of the users, all at the same time; returns the
    statuses, sorted."""
    said = []
    threads = [threading.Thread(target=lambda u=u: said.append(
        Browser(weftd).status("POST", "/login", {"user": u,
                                                 "password": "wrong"})))
        for u in users]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sorted(said)


def test_rate_limit(weftd, admin):
    add_user(admin, "alice", "viewer")
    add_user(admin, "bob", "viewer")
    assert at_once(weftd, ["alice"] * 12) == [401] * 5 + [429] * 7
    nobody = Browser(weftd)
    status, reply = nobody.call("POST", "/login", {"user": "alice",
                                                   "password": PASSWORD})
    assert (status, reply["code"]) == (429, "too-many-tries")
    assert 1 <= int(nobody.headers["Retry-After"]) <= 30
    # Nobody else is kept out.
    for _ in range(6):
        Browser(weftd).login("bob")
    # The answer does not reveal which users exist.
    assert at_once(weftd, ["nobody"] * 12) == [401] * 5 + [429] * 7
    # A caller that tries all users is stopped, too.
    said = [at_once(weftd, [f"user{i}{j}" for j in range(20)])
            for i in range(3)]
    assert 429 not in said[0] and 429 in said[2]
    log = weftd.log.read_text()
    assert log.count("too many tries") == 1
    failed = [a for a in admin.get("/audit?limit=1000")["audit"]
              if a["action"] == "POST /login" and a["status"] == 401]
    assert len(failed) == 1 and failed[0]["subject"] == "alice"


def login_from(weftd, address, user, password, device=None, said=None):
    """The status of the answer, and where `said` is given the answer in it."""
    c = http.client.HTTPConnection(*weftd.address, timeout=60,
                                   source_address=(address, 0))
    c.request("POST", "/api/v1/login",
              json.dumps({"user": user, "password": password,
                          **({"device": device} if device else {})}),
              {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read()
    c.close()
    if said is not None:
        said.update(json.loads(text))
    return r.status


def test_a_known_device_is_not_kept_out(weftd, admin):
    """Where the user logged in before, nobody else's tries count, also from the same
    address and after a restart of weftd (tests/unit/test-origins: from many)."""
    add_user(admin, "alice", "viewer")
    add_user(admin, "bob", "viewer")
    here, said = "127.0.9.1", {}
    assert login_from(weftd, here, "alice", PASSWORD, said=said) == 200
    device = said["device"]
    assert [login_from(weftd, here, "alice", "wrong") for _ in range(6)] == \
        [401] * 5 + [429]
    # An invented one, or another user's, does not count.
    bobs = {}
    assert login_from(weftd, "127.0.9.2", "bob", PASSWORD, said=bobs) == 200
    for other in (None, "0" * 64, bobs["device"], admin.origin_secret):
        assert login_from(weftd, here, "alice", PASSWORD, other) == 429
    weftd.kill()
    weftd.start()
    assert [login_from(weftd, here, "alice", "wrong") for _ in range(6)] == \
        [401] * 5 + [429]
    assert login_from(weftd, here, "alice", PASSWORD, device, said) == 200
    assert said["device"] == device
    # Tries with it are bounded nevertheless, by a count of their own.
    assert [login_from(weftd, here, "alice", "wrong", device)
            for _ in range(6)] == [401] * 5 + [429]
    # It becomes invalid when another user sets the password, and it admits to nothing.
    old = bobs["device"]
    assert Browser(weftd, old).status("GET", "/status") == 401
    admin.call("PATCH", "/users/bob", {"password": PASSWORD}, expect=200)
    assert login_from(weftd, "127.0.9.2", "bob", PASSWORD, old, bobs) == 200
    assert bobs["device"] != old
    # A user has 20 at most: the one that was used longest ago goes.
    for _ in range(20):
        assert login_from(weftd, "127.0.9.2", "bob", PASSWORD) == 200
    old = bobs["device"]
    assert login_from(weftd, "127.0.9.2", "bob", PASSWORD, old, bobs) == 200
    assert bobs["device"] != old


def test_a_try_that_was_sent_away_is_none(weftd, admin):
    """While too many hosts have passwords tried, nobody's tries are used up."""
    threads = [threading.Thread(target=login_from, args=(
        weftd, f"127.0.3.{i + 1}", f"u{i}", "wrong")) for i in range(120)]
    for t in threads:
        t.start()
    said = [login_from(weftd, "127.0.8.8", "root", PASSWORD)
            for _ in range(8)]
    assert set(said) <= {200, 429}
    for t in threads:
        t.join()
    assert login_from(weftd, "127.0.8.8", "root", PASSWORD) == 200


def test_who_is_in_goes_on_while_strangers_try(weftd, admin):
    """A logged-in user does not wait for a stranger's password check."""
    stop, said = threading.Event(), []

    def flood(i):
        while not stop.is_set():
            said.append(login_from(weftd, f"127.0.4.{i + 1}", f"u{i}{len(said)}",
                                   "wrong"))
            stop.wait(0.1)  # leaves some of the processor to others
    threads = [threading.Thread(target=flood, args=(i,)) for i in range(60)]
    for t in threads:
        t.start()
    try:
        eventually(lambda: 429 in said, 60, what="strangers to be sent away")
        for i in range(5):
            admin.call("POST", "/users", {"name": f"v{i}", "role": "viewer",
                                          "password": PASSWORD}, expect=201)
        admin.call("PATCH", "/users/root", {
            "current": PASSWORD, "password": PASSWORD + "!"}, expect=200)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert set(said) <= {401, 429}


def test_many_logins_at_once(weftd, admin):
    """Hashing is slow and large; weftd goes on meanwhile."""
    said = []
    threads = [threading.Thread(target=lambda i=i: said.append(
        Browser(weftd).status("POST", "/login", {"user": f"u{i}",
                                                 "password": "wrong"})))
        for i in range(100)]
    for t in threads:
        t.start()
    assert admin.status("GET", "/status") == 200
    for t in threads:
        t.join()
    assert set(said) == {401, 429}
    proc = Path(f"/proc/{weftd.process.pid}")
    [peak] = re.findall(r"VmHWM:\s+(\d+) kB", (proc / "status").read_text())
    if "san.so" not in (proc / "maps").read_text():  # they take some more
        assert int(peak) < 400 << 10


# ---- The second factor ----


def test_second_factor(weftd, admin):
    """A password alone does not do, nor a code that was used, also after weftd was killed;
    a wrong code costs as much as a wrong password, and a missing one tells nothing of it."""
    add_user(admin, "kim", "admin")
    kim = Browser(weftd).login("kim")
    script = Browser(weftd, kim.call("POST", "/tokens", {
        "name": "ci", "role": "admin"}, expect=201)[1]["token"])

    def log_in(code=None, password=PASSWORD, b=None):
        status, said = (b or Browser(weftd)).call("POST", "/login", {
            "user": "kim", "password": password, **({"code": code} if code else {})})
        return said["code"] if status != 200 else status

    made = kim.call("PUT", "/users/kim/totp", {"on": True}, expect=200)[1]
    secret = made["secret"]
    add_user(admin, "viewer", "viewer").call("PUT", "/users/kim/totp", {"on": False},
                                             expect=403)
    assert made["uri"] == f"otpauth://totp/Weft:kim?secret={secret}&issuer=Weft"
    assert admin.get("/users/kim")["totp"] and not admin.get("/users/root")["totp"]
    assert script.get("/status")  # a machine needs none
    assert log_in() == log_in(password="x" * 12) == "code-required"
    wrong = wrong_code(secret)
    assert log_in(wrong) == "login-failed"
    assert log_in(code_of(secret), password="x" * 12) == "login-failed"
    assert log_in(code_of(secret, 10)) == "clock-wrong"
    # The tries of this user from here are used up, so even the right ones wait.
    assert "too-many-tries" in [log_in(code_of(secret, 10)) for _ in range(4)]

    weftd.restart(kill=True)
    first = code_of(secret)
    assert log_in(first) == 200
    assert log_in(first) == "login-failed"
    weftd.restart(kill=True)
    assert log_in(first) == "login-failed"

    # An intruder at an open login can't turn it off, and a script of the user's can't either.
    weftd.restart(kill=True)
    for b in (kim, script):
        assert b.call("PUT", "/users/kim/totp", {"on": False},
                      expect=403)[1]["code"] == "code-required"
    assert kim.call("PUT", "/users/kim/totp", {"on": False, "code": wrong},
                    expect=403)[1]["code"] == "login-failed"
    admin.call("PUT", "/users/kim/totp", {"on": False}, expect=200)
    assert log_in() == 200
    secret = kim.call("PUT", "/users/kim/totp", {"on": True}, expect=200)[1]["secret"]
    kim.call("PUT", "/users/kim/totp", {"on": False, "code": code_of(secret)}, expect=200)
    lines = [(a["who"], a["subject"], a["status"]) for a in trail_of(admin)
             if a["action"] == "PUT /users/{name}/totp"]
    assert sorted(lines) == sorted([
        ("kim", "kim on", 200), ("kim", "kim on", 200), ("root", "kim off", 200),
        ("kim", "kim off", 403), ("kim", "kim off", 403), ("ci", "kim off", 403),
        ("kim", "kim off", 200), ("viewer", "kim off", 403)])
    # The app is lost, and there is nobody else.
    admin.call("PUT", "/users/root/totp", {"on": True}, expect=200)
    weftd.extra = ["--setup"]
    weftd.restart()
    Browser(weftd).call("POST", "/setup", {"token": setup_token(weftd), "user": "root",
                                           "password": PASSWORD}, expect=201)
    Browser(weftd).login("root")


# ---- The audit trail ----


def test_audit(weftd, admin):
    token = admin.call("POST", "/tokens", {"name": "ci", "role": "admin"},
                       expect=201)[1]["token"]
    script = Browser(weftd, token)
    script.call("DELETE", "/arrays/nix", expect=404)
    script.call("GET", "/arrays/nix", expect=404)
    script.call("POST", "/layouts", {"disks": ["0" * 8 + "-0000" * 3 + "-" +
                                               "0" * 12]}, expect=422)
    [first, *_] = trail = admin.get("/audit")["audit"]
    assert {k: first[k] for k in first if k not in ("at", "id")} == {
        "who": "ci", "via": "token", "address": "127.0.0.1",
        "action": "DELETE /arrays/{name}", "subject": "nix", "status": 404,
        "times": 1, "last_at": first["at"]}
    assert [a["action"] for a in trail] == [
        "DELETE /arrays/{name}", "POST /tokens", "POST /setup"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", first["at"])
    one = admin.get("/audit?limit=1")
    assert one["audit"] == [first]
    rest = admin.get("/audit?cursor=" + one["next"])
    assert rest == {"audit": trail[1:], "next": None}
    weftd.restart()
    assert admin.get("/audit")["audit"] == trail


def summary(lines):
    return [(a["who"], a["via"], a["address"], a["action"], a["subject"],
             a["status"], a["times"]) for a in lines]


def trail_of(admin):
    return admin.get("/audit?limit=1000")["audit"]


def test_audit_of_what_is_refused_at_the_door(weftd, admin):
    """Refused before the body is read.  Each try of an administrator has a line; repeated
    tries of others are counted in one line, so that lines of real changes stay; reads have no
    line."""
    viewer = add_user(admin, "v", "viewer")
    before = len(trail_of(admin))
    for _ in range(20):
        assert viewer.status("DELETE", "/users/root") == 403
        assert viewer.status("GET", "/users") == 403
        assert Browser(weftd).status("POST", "/users", {}) == 401
        assert Browser(weftd, "f" * 64).status("DELETE", "/arrays/a") == 401
        assert admin.status("DELETE", "/arrays/a") == 404
    trail = trail_of(admin)
    trail = trail[:len(trail) - before]
    here = "127.0.0.1"
    of_admin = ("root", "login", here, "DELETE /arrays/{name}", "a", 404, 1)
    lines = summary(trail)
    assert lines.count(of_admin) == 20
    assert [a for a in lines if a != of_admin] == [
        (None, "none", here, "DELETE /arrays/{name}", "a", 401, 20),
        (None, "none", here, "POST /users", None, 401, 20),
        ("v", "login", here, "DELETE /users/{name}", "root", 403, 20)]
    for a in trail:
        assert (a["last_at"] > a["at"]) == (a["times"] > 1)
    # Counts are stored when weftd ends; a kill may lose a minute's, and no line.
    weftd.restart()
    assert trail_of(admin)[:len(trail)] == trail
    assert viewer.status("DELETE", "/users/root") == 403
    weftd.kill()
    weftd.start()
    assert trail_of(admin)[1:len(trail) + 1] == trail


def test_audit_of_what_viewers_do(weftd, admin):
    """Repeated calls are counted in one line, and displace no other.  A logout without a login
    does nothing."""
    viewer = add_user(admin, "v", "viewer")
    token = viewer.call("POST", "/tokens", {"name": "t", "role": "viewer"},
                        expect=201)[1]["token"]
    before = len(trail_of(admin))
    for i in range(50):
        assert Browser(weftd).status("POST", "/logout") == 200
        assert Browser(weftd, token).status("POST", "/logout") == 200
        viewer.call("POST", "/tokens", {"name": f"x{i}", "role": "viewer"}, expect=201)
        assert viewer.status("DELETE", f"/tokens/x{i}") == 200
    trail = trail_of(admin)
    lines = summary(trail[:len(trail) - before])
    for action, status in (("DELETE /tokens/{name}", 200), ("POST /tokens", 201)):
        of = [a for a in lines if a[3] == action]
        assert {(a[0], a[1], a[5]) for a in of} == {("v", "login", status)}
        assert len(of) in (19, 20)
        assert sum(a[6] for a in of) == 50
    assert {a[3] for a in lines} == {"DELETE /tokens/{name}", "POST /tokens"}
    # A real one has its line, and so has all that an administrator does.
    assert viewer.status("POST", "/logout") == 200
    admin.call("POST", "/tokens", {"name": "y", "role": "viewer"}, expect=201)
    assert [a[:2] + a[3:] for a in summary(trail_of(admin)[:2])] == [
        ("root", "login", "POST /tokens", "y", 201, 1),
        ("v", "login", "POST /logout", None, 200, 1)]


def refused_from(weftd, address, count=1, path="/arrays/a"):
    c = http.client.HTTPConnection(*weftd.address, timeout=60,
                                   source_address=(address, 0))
    for _ in range(count):
        c.request("DELETE", "/api/v1" + path)
        r = c.getresponse()
        assert r.status == 401
        r.read()
    c.close()


def test_audit_of_very_many_who_try(weftd, admin):
    """From more addresses than the trail has lines: later tries are counted together, and no
    change and no administrator's try is left out."""
    viewer = add_user(admin, "v", "viewer")
    before = len(trail_of(admin))
    count = 1500
    for i in range(count):
        refused_from(weftd, f"127.1.{i >> 8}.{i & 255}")
    admin.call("POST", "/tokens", {"name": "t", "role": "viewer"}, expect=201)
    assert admin.status("DELETE", "/tokens/nix") == 404
    assert admin.status("DELETE", "/arrays/a") == 404
    assert viewer.status("DELETE", "/users/root") == 403
    refused_from(weftd, "127.2.0.1", path="/users/x")
    # The log shows other refusals, too.
    assert Browser(weftd).status("GET", "/me", Host="evil.example") == 403
    assert weftd.log.read_text().count("a Host header that names another host") == 1
    trail = trail_of(admin)
    lines = summary(trail[:len(trail) - before])
    assert lines[:5] == [
        (None, "none", None, "DELETE /users/{name}", None, 401, 1),
        ("v", "login", "127.0.0.1", "DELETE /users/{name}", "root", 403, 1),
        ("root", "login", "127.0.0.1", "DELETE /arrays/{name}", "a", 404, 1),
        ("root", "login", "127.0.0.1", "DELETE /tokens/{name}", "nix", 404, 1),
        ("root", "login", "127.0.0.1", "POST /tokens", "t", 201, 1)]
    # Each try is in it once.
    rest = lines[5:]
    assert 100 < len(rest) < 400 and sum(a[6] for a in rest) == count
    assert [a[2] for a in rest].count(None) == 1
    # They are kept, and what a database had before them has no count.
    weftd.stop()
    with sqlite3.connect(weftd.state / "weftd.db") as db:
        [[key, text]] = db.execute("SELECT key, json FROM record "
                                   "WHERE kind='audit' ORDER BY key LIMIT 1")
        assert "times" not in json.loads(text)
    db.close()
    weftd.start()
    assert trail_of(admin) == trail
    # Other callers' tries displace no line of a real change.
    assert admin.get("/audit?limit=2")["audit"] == trail[:2]
    pages, cursor = [], ""
    while cursor is not None:
        page = admin.get("/audit?limit=7" + (cursor and f"&cursor={cursor}"))
        pages += page["audit"]
        cursor = page["next"]
    assert pages == trail


def test_no_secret_is_kept(weftd, admin):
    other = add_user(admin, "v", "viewer")
    token = admin.call("POST", "/tokens", {"name": "t", "role": "viewer"},
                       expect=201)[1]["token"]
    Browser(weftd).call("POST", "/login", {"user": "v", "password": "a wrong!"})
    admin.call("PATCH", "/users/v", {"password": "and another one"})
    weftd.stop()
    kept = everything_on_disk(weftd)
    for secret in (PASSWORD, "a wrong!", "and another one", token,
                   admin.origin_secret, admin.cookie, other.cookie):
        assert secret.encode() not in kept, secret
    for name in weftd.state.iterdir():
        assert stat.S_IMODE(name.stat().st_mode) & 0o077 == 0, name


def test_no_login(tmp_path):
    w = Weftd(tmp_path).start()
    assert w.get("/me") == {"user": None, "role": "admin", "via": "none",
                            "login_required": False, "setup_required": True}
    assert not (w.state / "setup-url").exists()
    w.end()
    for address in ("0.0.0.0:0", "[::]:0", "10.0.0.1:0"):
        p = run("weftd", "--state", tmp_path / "other", "--no-login",
                "--listen", address, check=False)
        assert p.returncode == 1 and "TLS" in p.stderr
